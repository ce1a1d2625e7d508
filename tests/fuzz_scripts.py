"""Federations drawn at random, each with a script of requests: for the fuzz test of exactness.

Everything about a script is drawn from its number: the data (wild ones too), the task, the model, the recipe,
the engine, the method, the selector, the aggregator, the pace, the clock, the requests, how the run is cut
into parts. What the run's own guarantee leaves open is held still, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

import unknot
from aggregators import FedAdam, Momentum
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Model
from unknot.core.loss import CrossEntropy
from unknot.core.requests import Erase, Join, Request, Target, erase, join
from unknot.federation import Buffered, Clock, Constant, FedAvg, FedBuff, Pareto, Synchronous, Uniform
from unknot.select import DQN, AtRandom, Balanced, DQNSettings, KCenter
from unknot.unlearn import BMT, FATS, KNOT, MMT, RFS, SISA, ExactFun, FedCIO, Rapid, Standalone

CLASSES = 3
SHAPE = (1, 6, 6)


# What a federation is made of -----------------------------------------------------------------------


class Steady(Clock):
    """Clients differ in speed, but none in how much it reads."""

    def duration(self, client, samples_read, key):
        return super().duration(client, 1, key)


class Branching(nn.Module):
    """Cannot be traced: its stack goes by vmap."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(36, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        x = x.flatten(1)
        return self.last(torch.sigmoid(self.first(x)) if x.shape[1] > 1 else x)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def normed():
    return nn.Sequential(
        nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, CLASSES)
    )


def convolved():
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, CLASSES))


def grouped():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, CLASSES)
    )


MODELS = {"mlp": mlp, "normed": normed, "convolved": convolved, "grouped": grouped, "branching": Branching}


def pinball(outputs, targets):
    """A loss of one's own."""
    far = targets - outputs
    return torch.maximum(0.8 * far, -0.2 * far).mean(-1)


def absolute(outputs, targets):
    """Another, which gives the mean over a batch."""
    return (outputs - targets).abs().mean()


def company(outputs, targets):
    """A third, which looks at the whole batch where a target is one that no examination would think of."""
    return (outputs - targets).square().mean(-1) * (1 + (targets == 3.0).any(-1).sum())


# The kind of the targets, and the loss; None is the usual one.
TASKS = {
    "classes": ("classes", None),
    "weighted classes": ("classes", CrossEntropy((1.0, 0.5, 2.0), smoothing=0.1)),
    "labels": ("labels", None),
    "values": ("values", None),
    "own": ("values", pinball),
    "own mean": ("values", absolute),
    "own of a batch": ("values", company),
}
WILD = ("plain", "plain", "plain", "huge", "constant", "one class", "diverging")
METHODS = {
    "rfs": RFS(),
    "rapid": Rapid(unknot.AdaHessian(0.01)),
    "bmt": BMT(),
    "mmt": MMT(),
    "mmt rebuilt": MMT(change="rebuild"),
    "mmt three ways": MMT(tree="b-ary", branching=3),
    "sisa": SISA(),
    "fedcio": FedCIO(clusters=2),
    "fedcio three": FedCIO(clusters=3, served="ensemble"),
    "knot": KNOT(clusters=3, by="random"),
    "knot before": KNOT(clusters=2, by="random", restart="before"),
    "knot best": KNOT(clusters=2, by="random", served="best"),
    "knot mmt": KNOT(clusters=2, by="random", retrain=MMT()),
    "knot joint": KNOT(clusters=2, by="random", served="joint", joint_rounds=1),
    "fats": FATS(rho_client=5, rounds=20, local_steps=2, clients=8),
    "exact-fun": ExactFun(),
    "standalone": Standalone(),
}
SELECTORS = {
    "uniform": AtRandom(),
    "balanced": Balanced(),
    "k-center": KCenter(2),
    "dqn": DQN(DQNSettings(batch=2)),
    "dqn in a round": DQN(DQNSettings(batch=2, meeting="round")),
}
AGGREGATES = {
    "fedavg": FedAvg(),
    "fedbuff": FedBuff(),
    "outside fedadam": FedAdam(),
    "momentum": Momentum(),
    "fedadam": unknot.FedAdam(),
    "fedyogi": unknot.FedYogi(),
    "fedadagrad": unknot.FedAdagrad(),
    "median": unknot.Median(),
    "trimmed-mean": unknot.TrimmedMean(0.25),
    "norm-clipping": unknot.NormClipping(0.5),
}
CLOCKS = {"constant": Constant(), "uniform": Uniform(1, 4), "pareto": Pareto()}
RECIPES = {
    "sgd": unknot.Recipe(unknot.SGD(0.05), batch_size=4),
    "momentum": unknot.Recipe(unknot.SGD(0.02, momentum=0.9), batch_size=3, clip=1.0),
    "adam": unknot.Recipe(unknot.Adam(0.01), epochs=2, batch_size=4),
    "proximal": unknot.Recipe(unknot.SGD(0.05), batch_size=5, proximal=0.1),
    "over rounds": unknot.Recipe(unknot.SGD(0.05), batch_size=4, schedule=unknot.Cosine(4, 0.1, "rounds")),
    "in a ball": unknot.Recipe(unknot.RMSprop(0.01), epochs=2, schedule=unknot.StepDecay(2), radius=0.3),
}


@dataclass
class Script:
    """One drawn federation and what is asked of it."""

    number: int
    about: dict[str, object]
    data: FederatedData
    requests: list[Request]
    parts: list[int]

    @property
    def targets(self) -> list[Target]:
        """What is erased in all, as the variants alter it: who also loses samples still holds some."""
        targets = [t for r in self.requests if isinstance(r, Erase) for t in r.targets]
        partly = {t.client for t in targets if t.samples is not None}
        samples: dict[int, set[int]] = {}
        whole = set()
        for target in targets:
            if target.samples is None and target.client not in partly:
                whole.add(target.client)
            elif target.samples is None:
                samples.setdefault(target.client, set()).update(self.data[target.client].ids.tolist())
            else:
                samples.setdefault(target.client, set()).update(target.samples)
        found = [Target(c) for c in sorted(whole)]
        return found + [Target(c, tuple(sorted(ids))) for c, ids in sorted(samples.items()) if ids]

    def serve(self, data: FederatedData) -> Model:
        """Run the script on this data; what is served in the end."""
        about = self.about
        clock = (Steady if about["steady"] else Clock)(CLOCKS[about["clock"]], seconds_per_sample=0.01)
        fed = unknot.simulate(
            MODELS[about["model"]],
            data,
            METHODS[about["method"]],
            about["recipe"],
            pace=about["pace"],
            aggregate=AGGREGATES[about["aggregate"]],
            clock=clock,
            select=SELECTORS[about["selector"]],
            engine=about["engine"],
            loss=TASKS[about["task"]][1],
            threads=1,
            seed=self.number,
            evaluate_every=0,
        )
        first, *rest = self.parts
        history = fed.run(first, requests=self.requests)
        for rounds in rest:
            history = fed.run(rounds)
        if about["method"] == "exact-fun":  # how far it goes back is open; the model of a round is not
            while fed.lanes["global"].version < sum(self.parts):
                fed.run(1)
        while fed.pending:  # at a time that so many rounds do not take
            history = fed.run(1)
        gone = {
            t.client for r in self.requests if isinstance(r, Erase) for t in r.targets if t.samples is None
        }
        assert not gone & fed.model.lineage.clients
        self.about["guarantee"] = history.guarantee
        return fed.model


def draw(number: int) -> Script:
    """The script of this number."""
    rng = np.random.default_rng([7, number])

    def pick(options):
        return list(options)[int(rng.integers(len(list(options))))]

    wild = pick(WILD)
    # Half of the scripts classify, and are what they were before there were other tasks.
    aside = np.random.default_rng([15, number])
    task = list(TASKS)[int(aside.integers(len(TASKS)))] if aside.random() < 0.5 else "classes"
    data = _data(rng, wild, TASKS[task][0])
    method = pick(METHODS)
    kind = METHODS[method]
    asynchronous = rng.random() < 0.5 and kind.selects and method != "standalone"
    timed = rng.random() < 0.3
    # Whom a selector asks decides how long a round takes, and so in which one a request at a time comes.
    selector = pick(SELECTORS) if kind.selects and not kind.keeps and not timed else "uniform"
    aggregate = pick(AGGREGATES) if kind.aggregates else "fedavg"
    recipe = pick(RECIPES.values())
    if wild == "diverging":
        recipe = unknot.Recipe(unknot.SGD(1e4), batch_size=4)
    pace = Synchronous(pick([None, 2, 4]))
    if asynchronous:
        per_round = int(rng.integers(2, 6))
        pace = Buffered(per_round, int(rng.integers(1, per_round + 1)), pick([None, 2, 4]))
    parts = pick([[9], [4, 5], [2, 3, 4]])
    # What the guarantee of such a run leaves open depends on how long the erased client takes.
    steady = timed or (asynchronous and kind.keeps)
    about = {
        "wild": wild,
        "task": task,
        "method": method,
        "selector": selector,
        "aggregate": aggregate,
        "model": pick(MODELS),
        "recipe": recipe,
        "engine": pick(["stacked", "stacked", "stacked", "loop"]),
        "pace": pace,
        "clock": pick(CLOCKS),
        "steady": steady,
        "parts": parts,
    }
    return Script(number, about, data, _requests(rng, data, sum(parts), timed), parts)


def _of_kind(samples: Samples, kind: str) -> Samples:
    """The same samples with three labels, or three values, that follow from the class."""
    if kind == "classes":
        return samples
    y = samples.y.float()
    columns = (y > 0, y > 1, y == 1) if kind == "labels" else (y, y.square() - 1, -0.5 * y)
    return Samples(samples.x, torch.stack(columns, 1).float(), CLASSES, kind)


def _data(rng: np.random.Generator, wild: str, kind: str) -> FederatedData:
    sizes = rng.integers(1, 10, 8)
    if rng.random() < 0.3:
        sizes[rng.integers(0, 8)] = 0
    total = int(sizes.sum())

    def samples(n):
        y = rng.integers(0, CLASSES, n)
        x = rng.standard_normal((n, *SHAPE)) + y.reshape(-1, 1, 1, 1)
        return Samples(torch.from_numpy(x).float(), torch.from_numpy(y), CLASSES)

    train, ends = samples(total), np.cumsum([0, *sizes])
    shards = {k: Shard.of(np.arange(ends[k], ends[k + 1])) for k in range(8)}
    if wild == "huge":
        train.x.mul_(1e20)
    elif wild == "constant":
        train.x.fill_(0.5)
    elif wild == "one class":
        train.y.fill_(1)
    owners = rng.integers(-1, 8, 12) if rng.random() < 0.4 else None
    train, test, validation = (_of_kind(part, kind) for part in (train, samples(12), samples(12)))
    return FederatedData(train, shards, test, validation, validation_owner=owners)


def _requests(rng: np.random.Generator, data: FederatedData, rounds: int, timed: bool) -> list[Request]:
    present, late = set(range(6)), [6, 7]
    held = {client: set(data[client].ids.tolist()) for client in data}
    requests: list[Request] = []
    at = 0
    for _ in range(int(rng.integers(1, 5))):
        at = min(at + int(rng.integers(0, 4)), rounds - 1)
        moment = {"time": at * 0.03} if timed and rng.random() < 0.5 else {"round": at}
        kind = rng.choice(["leave", "leave", "several", "samples", "join"])
        there = sorted(present)
        if kind == "join" and late:
            requests.append(join(late[0], round=at))
            present.add(late.pop(0))
        elif kind == "samples":
            client = int(rng.choice(there))
            if len(held[client]) > 1:
                ids = sorted(held[client])[: int(rng.integers(1, min(3, len(held[client]))))]
                held[client] -= set(ids)
                requests.append(erase({client: ids}, **moment))
        elif len(there) > 3:
            gone = sorted(rng.choice(there, 1 if kind == "leave" else 2, replace=False).tolist())
            present -= set(gone)
            requests.append(erase(gone, **moment))
    if not any(isinstance(r, Erase) for r in requests):
        requests.append(erase(sorted(present)[0], round=rounds - 1))
    joins = {c for r in requests if isinstance(r, Join) for c in r.clients}
    return [r for r in requests if not (isinstance(r, Erase) and {t.client for t in r.targets} & joins)] or [
        erase(0, round=1)
    ]


def variants(script: Script) -> dict[str, FederatedData]:
    """The same federation with other data to erase: two kinds of it, drawn."""
    from unknot.audit.interference import variants as plain

    found = plain(script.data, script.targets, script.number)
    rng = np.random.default_rng([11, script.number])
    loud = found["other samples"]
    wild = replace(loud.train, x=loud.train.x.clone())
    wild.x[len(script.data.train) :] *= 1e20  # what is appended belongs to what is erased
    found["wild samples"] = loud.replaced(train=wild)
    names = sorted(rng.choice(sorted(found), 2, replace=False).tolist())
    return {name: found[name] for name in names}
