"""Small federations whose results are known: run in a process of its own by `scripts/golden.py`.

usage: python tests/golden/golden_cases.py cpu|cuda OUT.json [CASE ...]

A case is a function that gives a record, a plain dictionary; `federation` makes most of them. What is read of
a federation and its history is read in `Watch` alone. With names of cases, nothing of theirs is shortened.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import unknot
from unknot.core.data import FederatedData
from unknot.federation import Federation, History
from unknot.federation.cohort import Running, run_alone, run_together
from unknot.models import build
from unknot.models.llama import Llama, LlamaConfig

Record = dict[str, Any]


# What is recorded -------------------------------------------------------------------------------------


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def short(text: str) -> str:
    """A text; of a long one how it begins, and a hash of all of it."""
    return text if len(text) <= 60 else f"{text[:48]}… {sha(text)}"


def coarse(number: float | None) -> float | None:
    """To be compared with a tolerance: a boundary of rounding lies close to somebody's number."""
    return None if number is None or not math.isfinite(number) else float(f"{number:.4g}")


def units(model: Any) -> str:
    """Whose data shaped a model, and whom it was let pass: client, or client.revision."""
    lineage = model.lineage
    shaped = [f"{u.client}.{u.revision}" if u.revision else f"{u.client}" for u in sorted(lineage)]
    return " ".join([*shaped, *(f"waived:{client}" for client in sorted(lineage.waived))])


class Watch:
    """An observer that notes what is served after each event: right after an erasure, too."""

    def __init__(self) -> None:
        self.federation: Federation | None = None
        self.digests: list[str] = []
        self.lineages: list[str] = []

    def __call__(self, event: Any) -> None:
        if self.federation is not None and isinstance(event, unknot.Round | unknot.Served):
            model = self.federation.model
            self.digests.append(model.digest())
            self.lineages.append(units(model))

    def record(self, history: History, full: bool = False) -> Record:
        """What is compared: bits, and what holds on any machine. In `full`, nothing is shortened."""
        assert self.federation is not None
        rounds, served, model = history.rounds, history.served, self.federation.model
        told, hashed = (str, str) if full else (short, sha)
        trips = [trip for event in (*rounds, *served) for trip in event.trips] + list(history.apart)
        costs = [
            " ".join(f"{name} {value:.10g}" for name, value in vars(event.costs).items() if value)
            for event in history.events
        ]
        end = history.costs
        found = {
            "digest": model.digest(),
            "digests": hashed(" ".join([*self.digests, *(repr(one.train_loss) for one in rounds)])),
            "lineage": told(units(model)),
            "lineages": hashed("; ".join(self.lineages)),
            "waived": told(", ".join(history.waived)),
            "asked": told("; ".join(",".join(map(str, one.clients)) for one in rounds)),
            "rounds": hashed(
                "; ".join(f"{r.lane} {r.round} {r.version} {r.time!r} {r.used}" for r in rounds)
            ),
            "trips": hashed("; ".join(f"{t.client} {t.lane} {t.launched!r} {t.ended!r}" for t in trips)),
            "served": told(
                "; ".join(
                    f"{s.kind} {','.join(map(str, s.clients))}{list(s.parts.values()) or ''} in {s.round}"
                    for s in served
                )
            ),
            "service": hashed(
                "; ".join(
                    f"{s.time!r} {s.place} {s.restarted} {s.cancelled} {s.purged} "
                    f"{sorted(s.entered.items())} {sorted(s.left.items())}"
                    for s in served
                )
            ),
            "time": history.time,
            "cost": f"{end.jobs} jobs, {end.samples_read} read, {end.bytes_up} up, {end.bytes_stored} stored",
            "costs": hashed("; ".join(costs)),
            "nodes": told(
                "; ".join(
                    " ".join(",".join(map(str, sorted(node.members))) for node in lane.nodes.values())
                    for lane in self.federation.lanes.values()
                )
            ),
            "losses": [coarse(one.train_loss) for one in rounds],
            "after": [coarse(score.loss) for one in served for score in one.after.values()],
            "scores": [coarse(history.scores[split].loss) for split in sorted(history.scores)],
        }
        return {name: value for name, value in found.items() if value != ""}


# What is trained --------------------------------------------------------------------------------------


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    data = unknot.load("digits", normalize="unit").train
    return data.x, data.y


def few(clients: int = 6, public: int = 0) -> FederatedData:
    """Some of the digits: client k has 10 + 2k of them, most of two classes."""
    x, y = digits()
    by_class = [np.flatnonzero(y.numpy() == label) for label in range(10)]
    taken = [0] * 10

    def rows(labels: Sequence[int]) -> torch.Tensor:
        found = []
        for label in labels:
            found.append(int(by_class[label][taken[label]]))
            taken[label] += 1
        return torch.tensor(found)

    def pair(labels: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = rows(labels)
        return x[chosen], y[chosen]

    held = [
        pair([(k if i % 3 else i + k) % 10 if i % 2 else (k + 5) % 10 for i in range(10 + 2 * k)])
        for k in range(clients)
    ]
    validation = pair([i % 10 for i in range(30)])
    nobodys = pair([i % 10 for i in range(public)])[0] if public else None
    return unknot.clients(held, validation=validation, public=nobodys, classes=10)


def texts(clients: int = 4, length: int = 8, vocabulary: int = 20) -> FederatedData:
    """Sequences of tokens in which each predicts the next, by a rule that clients nearly share."""
    held = []
    for k in range(clients + 1):
        steps = torch.arange(length + 1)
        start = torch.arange(6 + 2 * k).unsqueeze(1)
        whole = (start * 7 + steps * (3 + k % 2) + k) % vocabulary
        held.append((whole[:, :-1].contiguous(), whole[:, 1:].contiguous()))
    return unknot.clients(held[:-1], validation=held[-1], classes=vocabulary, tokens=True)


def measured(kind: str) -> FederatedData:
    """Rows of numbers with values to predict, or with several labels each."""
    held = []
    for k in range(5):
        x = torch.linspace(-1, 1, (8 + k) * 6).reshape(-1, 6).roll(k, 1).contiguous()
        value = torch.stack([x.sum(1) + k / 4, x[:, 0] * x[:, 1]], 1)
        held.append((x, value if kind == "values" else (value > 0.2).long()))
    return unknot.clients(held[:-1], validation=held[-1], kind=kind)


def own_network() -> nn.Module:
    """A model that nothing is known of: several outputs of a hidden layer."""
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 2))


def gpt(**adapters: Any) -> nn.Module:
    model = build("gpt", (8,), 20, layers=1, heads=2, width=8)
    return unknot.lora(model, **adapters) if adapters else model


def llama(**adapters: Any) -> nn.Module:
    config = LlamaConfig(vocabulary=20, width=16, layers=2, heads=2, kv_heads=1, hidden=24, head_width=8)
    return unknot.lora(Llama(config), **adapters) if adapters else Llama(config)


def small_mlp() -> nn.Module:
    return build("mlp", (1, 28, 28), 10, hidden=(8,))


def small_convolutions() -> nn.Module:
    return build("cnn-exact", (1, 28, 28), 10, channels=(3, 4), hidden=(6,))


HEAVY = unknot.SGD(0.05, momentum=0.9)
USUAL = unknot.Recipe(HEAVY, batch_size=8)
SPEEDS = unknot.Clock(unknot.Trace((1.0, 1.5, 2.25, 1.25, 3.0, 1.75)), latency=0.125)
BUFFERED: dict[str, Any] = {"pace": unknot.Buffered(4, 2, 3), "aggregate": unknot.FedBuff()}
CLIENT = [unknot.erase(2, round=2)]
SAMPLES = [unknot.erase({1: [0, 3, 4]}, round=2)]
JOIN = [unknot.join(5, round=2)]
BOTH = [unknot.erase({1: [0, 3]}, round=1), unknot.erase(2, round=2)]
ALL_THREE = [unknot.erase({1: [0, 3]}, round=1), unknot.join(5, round=2), unknot.erase(2, round=3)]
AT_TIMES = [unknot.erase({1: [0, 3]}, time=0.5), unknot.join(5, time=0.75), unknot.erase(2, time=1.0)]
PUBLIC = {"public": 20}


def made(
    method: Any = "rfs",
    model: Any = small_mlp,
    recipe: unknot.Recipe = USUAL,
    *,
    data: Callable[[], FederatedData] = few,
    observers: Sequence[Any] = (),
    **parts: Any,
) -> Federation:
    """A federation of few clients, which differ in speed."""
    parts = {"clock": SPEEDS, "seed": 3, "threads": 1, **parts}
    return unknot.simulate(model, data(), method, recipe, observers=observers, **parts)


def running(
    *given: Any, rounds: int | unknot.Length = 3, requests: Any = CLIENT, full: bool = False, **parts: Any
) -> Running[Record]:
    """The record of one that is run."""
    watch = Watch()
    watch.federation = made(*given, observers=[watch], **parts)
    history = yield from watch.federation.running(rounds, requests=requests)
    assert not history.unserved
    return watch.record(history, full)


def federation(*given: Any, **parts: Any) -> Record:
    """The same, by itself."""
    return run_alone(running(*given, **parts))


def kept(
    stop: int, *given: Any, rounds: int = 4, requests: Any = BOTH, full: bool = False, **parts: Any
) -> Record:
    """The record of a run in a folder that is left after so many steps, and gone on with by another one."""
    with tempfile.TemporaryDirectory() as folder:
        store = unknot.Store(Path(folder) / "run", checkpoint=0)
        first = made(*given, store=store, **parts)
        first.begin(rounds, requests=requests)
        for _ in range(stop):
            first.step()
        first.close()
        watch = Watch()
        watch.federation = made(*given, store=store, observers=[watch], **parts)
        history = watch.federation.resume()
        record = watch.record(history, full)
        watch.federation.close()
    whole = federation(*given, rounds=rounds, requests=requests, **parts)
    return record | {"as_unbroken": record["digest"] == whole["digest"]}


def cohort(once: bool, full: bool = False, **parts: Any) -> Record:
    """The record of federations in step, one a method: each is as if it had run alone."""
    engine = unknot.simulate(small_mlp, few(), recipe=USUAL, threads=1).engine

    def runs() -> list[Running[Record]]:
        methods = ["rfs", unknot.FedEraser(), unknot.KNOT(clusters=2), "bmt", "rfs"]
        return [running(method, engine=engine, requests=BOTH, rounds=4, **parts) for method in methods]

    alone = list(map(run_alone, runs()))
    together = run_together(runs(), once=once)
    hashed = {
        name: (str if full else sha)(" ".join(str(one.get(name)) for one in together))
        for name in together[0]
        if name not in ("losses", "after", "scores")
    }
    return {**hashed, "as_alone": together == alone}


# The cases --------------------------------------------------------------------------------------------

METHODS: dict[str, Any] = {
    "bmt": "bmt",
    "distillation": unknot.Distillation(epochs=2),
    "exact-fun": "exact-fun",
    "fats": unknot.FATS(rho_client=3, rho_sample=3, rounds=4, local_steps=2, clients=6, samples=12),
    "fedcio": unknot.FedCIO(clusters=2),
    "federaser": unknot.FedEraser(interval=1),
    "knot": unknot.KNOT(clusters=2),
    "mmt": "mmt",
    "pga": unknot.PGA(epochs=2),
    "rapid": "rapid",
    "rfs": "rfs",
    "sisa": "sisa",
    "standalone": "standalone",
}
ROUNDS_ALONE = {"exact-fun", "fats"}
"""They refuse a pace without rounds."""

CPU: dict[str, Callable[..., Record]] = {}
for name, method in METHODS.items():
    nobodys = {"data": partial(few, **PUBLIC)} if name == "distillation" else {}
    some: dict[str, Any] = {"pace": unknot.Synchronous(4), **nobodys}
    CPU[f"{name}, a client"] = partial(federation, method, requests=CLIENT, **some)
    CPU[f"{name}, samples"] = partial(federation, method, requests=SAMPLES, **some)
    CPU[f"{name}, a join"] = partial(federation, method, requests=JOIN, **some)
    if name not in ROUNDS_ALONE:
        CPU[f"{name}, buffered, all three"] = partial(
            federation, method, rounds=5, requests=ALL_THREE, **BUFFERED, **nobodys
        )
for name in ("rfs", "knot", "mmt"):
    CPU[f"{name}, buffered, at times"] = partial(
        federation, METHODS[name], rounds=unknot.Length(seconds=2), requests=AT_TIMES, **BUFFERED
    )

COMBINED: dict[str, Any] = {
    "knot with federaser": unknot.KNOT(clusters=2, retrain=unknot.FedEraser(interval=1)),
    "knot with mmt": unknot.KNOT(clusters=2, retrain=unknot.MMT()),
    "knot with bmt": unknot.KNOT(clusters=2, by="random", retrain=unknot.BMT()),
    "knot with rapid, best": unknot.KNOT(clusters=2, retrain=unknot.Rapid("adam"), served="best"),
    "knot from before, joint": unknot.KNOT(clusters=2, restart="before", served="joint", joint_rounds=1),
    "knot in several, ensemble": unknot.KNOT(clusters=3, c1=2, served="ensemble"),
    "knot without its profile": unknot.KNOT(clusters=2, by="similar", reassign="without"),
    "mmt rebuilt": unknot.MMT(change="rebuild", reuse=0.5),
    "mmt by shannon-fano": unknot.MMT("shannon-fano", probabilities=(0.1, 0.3, 0.2, 0.1, 0.2, 0.1)),
    "mmt b-ary": unknot.MMT("b-ary", branching=3),
    "mmt within a budget": unknot.MMT("budget", budget=8),
    "mmt as expected": unknot.MMT("greedy", expires=(5.0, 1.0, 3.0, 2.0, 6.0, 4.0)),
    "sisa by the mean": unknot.SISA("mean"),
    "fedcio as an ensemble": unknot.FedCIO(clusters=2, served="ensemble"),
    "federaser by all": unknot.FedEraser(interval=2, calibrate="all", mean="plain"),
    "federaser from the rest": unknot.FedEraser(interval=1, calibrate="selected", start="remaining"),
    "rapid with adagrad": unknot.Rapid("adagrad"),
}
for name, method in COMBINED.items():
    CPU[name] = partial(federation, method, requests=ALL_THREE, rounds=4, pace=unknot.Synchronous(4))

AGGREGATED: dict[str, Any] = {
    "fedadam": unknot.FedAdam(),
    "fedyogi": unknot.FedYogi(),
    "fedadagrad": unknot.FedAdagrad(beta=0.5),
    "median": unknot.Median(),
    "trimmed mean": unknot.TrimmedMean(0.3),
    "norm clipping": unknot.NormClipping(0.25),
}
for name, aggregate in AGGREGATED.items():
    CPU[f"mmt, {name}"] = partial(federation, "mmt", aggregate=aggregate, requests=BOTH)
for name in ("fedadam", "norm clipping"):
    late = {**BUFFERED, "aggregate": AGGREGATED[name]}
    CPU[f"rfs, buffered, {name}"] = partial(federation, "rfs", requests=BOTH, rounds=5, **late)
CPU["rfs, buffered, fedavg"] = partial(
    federation, "rfs", requests=BOTH, rounds=6, pace=BUFFERED["pace"], aggregate=unknot.FedAvg()
)
CPU["pga, the last one alone"] = partial(
    federation, METHODS["pga"], requests=[unknot.erase(0, round=3)], rounds=4, pace=unknot.Synchronous(1)
)

SELECTED: dict[str, Any] = {
    "balanced": {"select": unknot.Balanced()},
    "k-center": {"select": unknot.KCenter(groups=3)},
    "dqn": {"select": unknot.DQN(hidden=(8,), epsilon=0.25, batch=2, renew=2)},
    "dqn by rounds": {"select": unknot.DQN(hidden=(8,), meeting="round", batch=2, components=2)},
    "k-center, when unlearning": {"select": unknot.KCenter(groups=3), "select_when": "unlearning"},
}
for name, chosen in SELECTED.items():
    asked = {"pace": unknot.Synchronous(3), "requests": ALL_THREE, "rounds": 5, **chosen}
    CPU[f"rfs, {name}"] = partial(federation, "rfs", **asked)
for name, method, by in (
    ("knot", METHODS["knot"], "dqn"),
    ("knot from before", unknot.KNOT(clusters=2, by="random", restart="before"), "balanced"),
    ("mmt", "mmt", "dqn"),
    ("bmt", "bmt", "k-center"),
    ("sisa", "sisa", "balanced"),
    ("federaser", METHODS["federaser"], "k-center"),
):
    CPU[f"{name}, {by}"] = partial(
        federation, method, requests=BOTH, rounds=4, pace=unknot.Synchronous(4), **SELECTED[by]
    )

OPTIMIZED: dict[str, unknot.Recipe] = {
    "sgd": unknot.Recipe(unknot.SGD(0.05), batch_size=8),
    "nesterov": unknot.Recipe(unknot.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=0.01), batch_size=8),
    "adam": unknot.Recipe(unknot.Adam(0.01), batch_size=8, epochs=2),
    "adamw": unknot.Recipe(unknot.AdamW(0.01), batch_size=8, clip=1.0),
    "adagrad": unknot.Recipe(unknot.Adagrad(0.05), batch_size=8),
    "rmsprop": unknot.Recipe(unknot.RMSprop(0.01, momentum=0.5, centered=True), batch_size=8),
    "adahessian": unknot.Recipe(unknot.AdaHessian(0.02), batch_size=8),
    "proximal": unknot.Recipe(HEAVY, batch_size=8, proximal=0.1, clip=0.5, max_steps=3),
    "cosine": unknot.Recipe(HEAVY, batch_size=4, schedule=unknot.Cosine(4, floor=0.1, warmup=2)),
    "steps by round": unknot.Recipe(HEAVY, batch_size=8, schedule=unknot.StepDecay(1, 0.5, over="rounds")),
    "warm-up": unknot.Recipe(unknot.Adam(0.01), batch_size=4, schedule=unknot.WarmUp(3)),
    "within a ball": unknot.Recipe(HEAVY, batch_size=8, radius=0.25),
}
for name, recipe in OPTIMIZED.items():
    CPU[f"rfs, {name}"] = partial(federation, "rfs", small_mlp, recipe, requests=BOTH)

ADAM = unknot.Recipe(unknot.Adam(0.01), batch_size=4)
ADAPTED = partial(gpt, rank=2, targets=["qkv", "0"])
LEARNED: dict[str, Any] = {
    "mlp in double precision": (small_mlp, USUAL, {"dtype": "float64"}),
    "lenet5": ("lenet5", USUAL, {}),
    "cnn": (small_convolutions, USUAL, {}),
    "gpt": (gpt, ADAM, {"data": texts}),
    "gpt with adapters": (ADAPTED, ADAM, {"data": texts}),
    "llama with adapters": (partial(llama, rank=2), ADAM, {"data": texts}),
    "own, values": (own_network, USUAL, {"data": partial(measured, "values")}),
    "own, labels": (own_network, USUAL, {"data": partial(measured, "labels")}),
}
for name, (network, recipe, more) in LEARNED.items():
    for engine in ("stacked", "loop"):
        CPU[f"bmt, {name}, {engine}"] = partial(
            federation, "bmt", network, recipe, requests=BOTH, engine=engine, **more
        )
for name in ("adahessian", "adam", "sgd"):
    CPU[f"bmt, {name}, loop"] = partial(
        federation, "bmt", small_mlp, OPTIMIZED[name], requests=BOTH, engine="loop"
    )
CPU["mmt, gpt with adapters, adahessian"] = partial(
    federation,
    "mmt",
    ADAPTED,
    unknot.Recipe(unknot.AdaHessian(0.05), batch_size=4),
    data=texts,
    requests=BOTH,
)
CPU["rfs, huber"] = partial(
    federation, "rfs", own_network, USUAL, data=partial(measured, "values"), loss="huber", requests=BOTH
)

CPU["rfs, writers"] = partial(
    federation,
    "rfs",
    data=lambda: unknot.federate("digits", unknot.ByOwner(clients=6, samples=20), validation=0.1),
    requests=BOTH,
)
CPU["rfs, dirichlet"] = partial(
    federation,
    "rfs",
    data=lambda: unknot.federate("digits", unknot.Dirichlet(6, 0.5, samples=20), validation=40),
    requests=BOTH,
)

for once in (False, True):
    CPU[f"cohort, {'shared' if once else 'apart'}"] = partial(cohort, once)
CPU["cohort, shared, buffered"] = partial(cohort, True, **BUFFERED)
CPU["kept, rfs, fedadam"] = partial(kept, 3, "rfs", aggregate=unknot.FedAdam())
CPU["kept, federaser, buffered"] = partial(kept, 4, METHODS["federaser"], **BUFFERED)
CPU["kept, knot with mmt"] = partial(kept, 5, COMBINED["knot with mmt"])

CUDA: dict[str, Callable[..., Record]] = {}
for name, network, recipe, more in (
    ("mlp", small_mlp, USUAL, {}),
    ("mlp, adam", "mlp", OPTIMIZED["adam"], {}),
    ("mlp, adahessian", small_mlp, OPTIMIZED["adahessian"], {}),
    ("lenet5", "lenet5", USUAL, {}),
    ("lenet5, sgd", "lenet5", OPTIMIZED["sgd"], {}),
    ("cnn", small_convolutions, USUAL, {}),
    ("gpt", gpt, ADAM, {"data": texts}),
    ("llama with adapters", partial(llama, rank=4), ADAM, {"data": texts}),
):
    CUDA[f"bmt, {name}"] = partial(
        federation, "bmt", network, recipe, requests=BOTH, device="cuda:0", threads=None, **more
    )
for name in ("federaser", "knot", "mmt"):
    CUDA[f"{name}, lenet5, buffered"] = partial(
        federation,
        METHODS[name],
        "lenet5",
        requests=ALL_THREE,
        rounds=5,
        device="cuda:0",
        threads=None,
        **BUFFERED,
    )

CASES = {"cpu": CPU, "cuda": CUDA}


# The process ------------------------------------------------------------------------------------------


def environment(device: str) -> dict[str, str]:
    """What bits depend on."""
    found = {
        "machine": platform.machine(),
        "python": ".".join(platform.python_version_tuple()[:2]),  # how it adds numbers up has changed
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "mkl": str(torch.backends.mkl.is_available()),
    }
    if device == "cuda":
        found |= {
            "device": torch.cuda.get_device_name(0),
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
        }
    return found


def main(device: str, out: str, *names: str) -> None:
    torch.set_num_threads(1)
    cases = CASES[device]
    chosen = {name: partial(cases[name], full=True) for name in names} if names else cases
    Path(out).write_text(
        json.dumps(
            {"environment": environment(device), "cases": {name: run() for name, run in chosen.items()}}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
