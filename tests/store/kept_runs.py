"""Small runs that are kept, for tests that interrupt, damage and search them."""

import copy
import os
import shutil
import tempfile
from pathlib import Path

from store_crashes import killed as dies  # noqa: F401

from support import ToyEngine, small_data, toy_federation
from unknot.core.requests import erase, join
from unknot.core.training import Recipe
from unknot.federation import Buffered, Clock, Federation, Pareto, Synchronous
from unknot.select import DQN, Balanced, DQNSettings, KCenter
from unknot.store.folder import is_kept
from unknot.store.keeper import RunKeeper
from unknot.unlearn import (
    BMT,
    FATS,
    KNOT,
    MMT,
    PGA,
    RFS,
    SISA,
    Distillation,
    ExactFun,
    FedCIO,
    FedEraser,
    Rapid,
    Standalone,
)

SIZES = (5, 8, 3, 6, 7, 4, 9, 2)
NAMES = {client: f"Hospital {client} of Graz" for client in range(len(SIZES))}
METHODS = {
    "rfs": RFS,
    "rapid": Rapid,
    "bmt": BMT,
    "mmt": MMT,
    "sisa": SISA,
    "fedcio": lambda: FedCIO(clusters=2),
    "knot": lambda: KNOT(clusters=2),
    "knot back": lambda: KNOT(clusters=2, by="random", restart="before"),
    "knot mmt": lambda: KNOT(clusters=2, by="random", retrain=MMT()),
    "fats": lambda: FATS(rho_client=5, rounds=20, local_steps=3, clients=8),
    "exact-fun": lambda: ExactFun(alpha=0.1),
    "standalone": Standalone,
    "federaser": lambda: FedEraser(interval=1),
    "pga": PGA,
    "distillation": Distillation,
}
SELECTORS = {
    None: lambda: None,
    "k-center": lambda: KCenter(3),
    "dqn": lambda: DQN(DQNSettings(batch=2, renew=2, hidden=(8,))),
    "balanced": Balanced,
}
SYNCHRONOUS = ("fats", "exact-fun")
"""Methods that go back to a round, and refuse another pace; they set their own."""
REQUESTS = (erase({3: [1, 2]}, round=1), join([7], round=2), erase(1, round=3))
ROUNDS = 4


def build(
    name: str = "rfs",
    pace: str = "buffered",
    selector: str | None = None,
    data=None,
    engine=None,
    at_once: int = 4,
    per_sample: float = 0.1,
    observers=(),
) -> Federation:
    """A federation, always the same."""
    method = METHODS[name]()
    options: dict = {"recipe": Recipe(batch_size=2), "clock": Clock(Pareto(alpha=1.5, cap=5.0), per_sample)}
    if name not in SYNCHRONOUS:
        options["pace"] = (
            Buffered(at_once, 2, staleness_bound=3) if pace == "buffered" else Synchronous(at_once)
        )
    if selector is not None:
        options["select"] = SELECTORS[selector]()
    data = small_data(SIZES).replaced(names=NAMES) if data is None else data
    return toy_federation(method, data, engine or ToyEngine(), observers=observers, **options)


def story(history) -> dict:
    """All that is to be the same: the model, what happened, what it cost; not how long that took.

    A run in memory still says where clients were that were erased, a kept one does not.
    """
    history = copy.copy(history)
    history.leave_out({client for served in history.served for client in served.leavers})
    told = history.to_dict()
    for name in ("seconds", "environment", "experiment"):
        told.pop(name, None)
    return {"model": history.model.digest(), "lineage": history.model.lineage.describe(), **told}


def go(fed: Federation, folder: Path, every: float = 0.0, requests=REQUESTS, rounds: int = ROUNDS):
    """Run a federation that is kept from wherever it is to its end; what it was."""
    if is_kept(folder):
        keeper = RunKeeper.go_on(fed, folder, every=every)
    else:
        keeper = RunKeeper.create(fed, folder, every=every)
    try:
        return story(fed.run(rounds, requests=requests) if fed.stint is None else fed.resume())
    finally:
        keeper.close()


def is_kept_by(fed: Federation) -> bool:
    """Whether something keeps it in a folder."""
    return any(isinstance(watcher, RunKeeper) for watcher in fed.watchers)


def fast_folder() -> Path:
    """A folder on a file system without a disk, where there is one: tests that write much are faster."""
    shm = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=shm if os.access(shm, os.W_OK) else None))


def remove_tree(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
