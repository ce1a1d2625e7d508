"""A run in a folder: kept, interrupted, gone on with, asked from outside, and forgetting on the disk too."""

import itertools
import re
import signal
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from support import ToyEngine, grid, small_data, toy_federation
from unknot.core.errors import StoreError
from unknot.core.requests import erase, join
from unknot.core.training import Recipe
from unknot.federation import Buffered, Clock, Federation, Pareto, Synchronous
from unknot.federation.observers import Observers
from unknot.store import Database, Keyring, files
from unknot.store import keeper as keeping
from unknot.store.entries import read_plain
from unknot.store.keeper import RunKeeper, keeper_of
from unknot.store.vault import Item, digest_of
from unknot.unlearn import KNOT, MMT, RFS, FedEraser

SIZES = (5, 8, 3, 6, 7, 4, 9, 2)
REQUESTS = [erase({3: [1, 2]}, round=2), join([7], round=3), erase(1, round=4)]
METHODS = {
    "rfs": RFS,
    "mmt": MMT,
    "knot mmt": lambda: KNOT(clusters=2, by="random", retrain=MMT()),
    "federaser": lambda: FedEraser(interval=1),
}


class Crash(BaseException):
    """The process is gone: nobody gets to tidy up."""


def build(name: str = "rfs", pace: str = "buffered", engine=None, **options) -> Federation:
    clock = Clock(Pareto(alpha=1.5, cap=5.0), seconds_per_sample=0.1)
    paces = {"buffered": Buffered(4, 2, staleness_bound=3), "sync": Synchronous(4)}
    options = {"recipe": Recipe(batch_size=2), "clock": clock, "pace": paces[pace], **options}
    return toy_federation(METHODS[name](), small_data(SIZES), engine or ToyEngine(), **options)


def story(history) -> dict:
    told = history.to_dict()
    for name in ("seconds", "environment", "experiment"):
        told.pop(name, None)
    return {"model": history.model.digest(), "lineage": history.model.lineage.describe(), **told}


def dying(fed: Federation, step: int) -> Federation:
    """One that is gone before this step."""

    def watch(event) -> None:
        if fed.steps >= step:
            raise Crash

    fed.work.observers = Observers([watch])
    return fed


@pytest.mark.parametrize(("name", "pace", "every"), grid(METHODS, ["buffered", "sync"], [0.0, 1e9]))
def test_a_run_that_dies_again_and_again_ends_as_one_that_never_did(tmp_path, name, pace, every):
    whole = build(name, pace)
    RunKeeper.create(whole, tmp_path / "whole", every=every).every = every
    expected = story(whole.run(9, requests=REQUESTS))

    parts = dying(build(name, pace), 3)
    keeper = RunKeeper.create(parts, tmp_path / "parts", every=every)
    with pytest.raises(Crash):
        parts.run(9, requests=REQUESTS)
    for step in (5, 8, 100):
        keeper.close()
        parts = dying(build(name, pace), step)
        keeper = RunKeeper.go_on(parts, tmp_path / "parts", every=every)
        if step < 100:
            with pytest.raises(Crash):
                parts.resume()
        else:
            assert story(parts.resume()) == expected
    keeper.close()
    # And a run that is over is as it was.
    again = build(name, pace)
    RunKeeper.go_on(again, tmp_path / "parts")
    assert story(again.resume()) == expected


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"recipe": Recipe(batch_size=3)}, "recipe.batch_size is 3, the run in {} has 2"),
        ({"pace": "sync"}, "pace is 'Synchronous', the run in {} has 'Buffered'"),
        ({"seed": 1}, "seed is 1, the run in {} has 0"),
        (
            {"clock": Clock(Pareto(alpha=2.0, cap=5.0), seconds_per_sample=0.1)},
            "clock.slowness.alpha is 2.0, the run in {} has 1.5",
        ),
        ({"evaluate_every": 2}, "evaluate_every is 2, the run in {} has 1"),
        ({"evaluate_on": ("test",)}, "evaluate_on is ['test'], the run in {} has ['validation']"),
        ({"name": "federaser"}, "method is 'federaser', the run in {} has 'rfs'"),
    ],
)
def test_a_federation_that_was_built_otherwise_does_not_go_on_with_it(tmp_path, other, words):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(2)
    keeper.close()
    with pytest.raises(StoreError, match=re.escape(words.format(tmp_path / "run"))):
        RunKeeper.go_on(build(**other), tmp_path / "run")
    RunKeeper.go_on(build(), tmp_path / "run").close()


@pytest.mark.parametrize(("name", "other"), [("federaser", "rfs"), ("rfs", "federaser"), ("knot mmt", "rfs")])
def test_another_method_is_named_also_where_something_was_erased(tmp_path, name, other):
    fed = build(name)
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(5, requests=REQUESTS)
    keeper.close()
    with pytest.raises(StoreError, match=f"method is '{other}', the run in .* has '{fed.method.name}'"):
        RunKeeper.go_on(build(other), tmp_path / "run")


def test_other_data_of_somebody_who_is_still_there_is_refused_by_its_name(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(2)
    keeper.close()
    other = toy_federation(
        RFS(),
        small_data(SIZES, seed=1),
        ToyEngine(),
        recipe=Recipe(batch_size=2),
        clock=Clock(Pareto(alpha=1.5, cap=5.0), seconds_per_sample=0.1),
        pace=Buffered(4, 2, staleness_bound=3),
    )
    with pytest.raises(StoreError, match="the data of client 0 is not what it was"):
        RunKeeper.go_on(other, tmp_path / "run")


class Elsewhere(ToyEngine):
    """The same on another device."""

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "device": "cuda"}


def test_every_change_of_what_bits_depend_on_is_said_once_and_noted(tmp_path, monkeypatch):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(2)
    keeper.close()
    version, said = torch.__version__, []
    for other, engine in (
        (version, None),
        ("9.9", None),
        ("9.9", None),
        (version, None),
        (version, Elsewhere()),
    ):
        monkeypatch.setattr(torch, "__version__", other)
        keeper = RunKeeper.go_on(build(engine=engine), tmp_path / "run")
        said.append(keeper.said)
        keeper.close()
    after = ": bits may differ from here on"
    assert said == [
        [],
        [f"torch is 9.9, and was {version}{after}"],
        [],
        [f"torch is {version}, and was 9.9{after}"],
        [f"engine is toy, cuda, and was toy{after}"],
    ]
    with Database.open(tmp_path / "run" / "run.db", readonly=True) as db:
        assert [read_plain(entry.body)["said"] for entry in db.entries(kind="resumed")] == said


def test_a_relative_folder_is_the_same_one_wherever_the_program_goes(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    fed = build()
    keeper = RunKeeper.create(fed, "run", keys="apart/keys", every=0.0)
    fed.run(1)
    monkeypatch.chdir(tmp_path / "other")
    another = build()
    RunKeeper.create(another, "run", keys="apart/keys", every=0.0)
    ticket = fed.inbox.put(erase(1))
    fed.run(1)
    assert ticket.state == "served"
    assert keeper.folder == tmp_path / "run"
    assert keeper.db.asked()[0].state == "served"
    assert not keeper_of(another).db.asked()
    assert not Keyring(tmp_path / "apart" / "keys").holds(1)
    assert Keyring("apart/keys").holds(1)
    keeper.close()
    another.close()
    again = build()
    RunKeeper.go_on(again, tmp_path / "run", keys=tmp_path / "apart" / "keys").close()
    assert again.data.erased == {1}


def test_folders_above_a_run_are_made_as_durably_as_its_own_and_are_the_owners_alone(tmp_path, monkeypatch):
    made, one = [], files.make_folder
    monkeypatch.setattr(files, "make_folder", lambda path: (made.append(path), one(path))[1])
    fed = build()
    RunKeeper.create(fed, tmp_path / "a" / "b" / "run").close()
    assert made[:3] == [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "run"]
    assert {path.stat().st_mode & 0o777 for path in made[:3]} == {0o700}


def test_a_checkpoint_comes_every_five_seconds_as_the_page_says(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(keeping.time, "monotonic", lambda: now[0])
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.begin(20)
    fed.step()  # that with which a run begins is behind it
    kept = []
    for seconds in (2.0, 2.9, 0.2, 4.9, 0.2):
        before = keeper.db.last("checkpoint").number
        now[0] += seconds
        fed.step()
        kept.append(keeper.db.last("checkpoint").number > before)
    keeper.close()
    assert kept == [False, False, True, False, True]
    assert "every 5 seconds" in (Path(__file__).parents[2] / "docs" / "runs.md").read_text()


def test_the_last_two_checkpoints_are_kept_and_one_after_an_erasure(tmp_path):
    fed = build(pace="sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.begin(8, requests=erase(1, round=5))
    kept, served = [], []
    while not fed.over:
        fed.step()
        kept.append(len(list((tmp_path / "run" / "state").iterdir())))
        served.append(len(fed.history.served))
    keeper.close()
    at = served.index(1)
    assert set(kept[1:at]) == set(kept[at + 1 :]) == {2}
    assert kept[at] == 1


def test_a_pack_of_which_half_is_needed_no_more_is_written_anew(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    fed.begin(3)
    fed.step()
    kept = [torch.full((1000,), float(number)) for number in range(10)]
    pack = {digest_of(tensor): Item(tensor) for tensor in kept}

    def retained(count):
        """Whether the pack is as it was after a checkpoint that needs so many of its tensors."""
        name = keeper.vault.put(pack)
        wanted = frozenset(list(pack)[:count])
        keeper._open = [(named, digests | wanted) for named, digests in keeper._open]
        keeper.checkpoint(fed)
        keeper._open = [(named, digests - wanted) for named, digests in keeper._open]
        found = (tmp_path / "run" / "weights" / name).exists()
        keeper.vault.retain(frozenset().union(*(digests for _, digests in keeper._open)))
        return found

    assert [retained(count) for count in (9, 6, 5, 1)] == [True, True, False, False]
    keeper.close()


def test_real_time_is_that_of_all_processes(tmp_path, monkeypatch):
    moments = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(moments)))
    spent = []
    for part in range(4):
        fed = build("rfs")
        keep = RunKeeper.go_on if part else RunKeeper.create
        keeper = keep(fed, tmp_path / "run", every=0.0)
        fed.begin(2)
        while not fed.over:
            fed.step()
        spent.append(dict(fed.history.seconds))
        keeper.close()
    for before, after in pairwise(spent):
        assert all(after[what] > before[what] > 0 for what in ("train", "evaluate", "total"))
    assert all(one["total"] >= one["train"] + one["evaluate"] for one in spent)
    fed = build("rfs")
    RunKeeper.go_on(fed, tmp_path / "run")
    seconds = fed.run(1).seconds
    assert seconds["total"] >= seconds["train"] + seconds["evaluate"] > spent[-1]["train"]


def test_what_a_crash_left_half_written_goes_when_a_run_is_gone_on_with(tmp_path):
    folder, fed = tmp_path / "run", build()
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.run(1)
    keeper.close()
    half = (("state", ".state"), ("weights", ".safetensors"))
    left = [folder / inner / f".part-{'0' * 64}{ending}-0123456789abcdef" for inner, ending in half]
    for path in left:
        path.write_bytes(b"half")
    RunKeeper.go_on(build(), folder).close()
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_leaves_the_last_whole_step_and_twice_what_was_kept_before(tmp_path, times, monkeypatch):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")

    class Pressing(ToyEngine):
        def train(self, jobs, data):
            if len(fed.history.rounds) == 3:
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)
            return super().train(jobs, data)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        fed = build(engine=Pressing())
        keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
        with pytest.raises(KeyboardInterrupt):
            fed.run(6, requests=REQUESTS)
        keeper.close()
    finally:
        signal.signal(signal.SIGINT, before)
    again = build()
    RunKeeper.go_on(again, tmp_path / "run")
    assert len(again.history.rounds) == (4 if times == 1 else 2)  # an erasure is kept at once
    assert story(again.resume())["model"] == story(build().run(6, requests=REQUESTS))["model"]
