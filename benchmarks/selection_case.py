"""Clients that differ in what they are worth: wrong labels, unequal amounts, unequal speeds.

The case in which there is something to learn about whom to ask. Of the clients 30 % have random labels; how
much each holds is log-normal, half of it of one class; how slow it is follows a Pareto law; and what counts
is accuracy by simulated time. A data set's training rows are cut into three parts that share none: on the
clients of "learn" a network learns, by those of "choose" it is chosen, and "test" is for the test.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

import unknot
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Engine, Update, evaluate_all
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY
from unknot.core.selection import Ids, Selector
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.data import Dataset, DominantClass, federate, load
from unknot.engine import StackedEngine
from unknot.federation import Clock, Federation, Pareto, Synchronous
from unknot.federation.cohort import run_together
from unknot.models import build

PARTS = {"learn": (0.0, 0.4), "choose": (0.4, 0.65), "test": (0.65, 1.0)}
"""Which share of a data set's training rows each part has, in an order that a fixed key draws."""


@dataclass(frozen=True)
class Case:
    """What the clients are like, and what they are asked to do."""

    clients: int = 100
    """How many there are."""
    seats: int = 10
    """How many are asked a round."""
    wrong: float = 0.3
    """The share of clients with random labels."""
    typical: float = 40.0
    """The median number of samples a client."""
    spread: float = 0.8
    """The standard deviation of its logarithm."""
    least: int = 8
    """Nobody holds fewer."""
    most: int = 120
    """Nobody holds more."""
    share: float = 0.5
    """The share of a client's samples that is of one class."""
    clock: Clock = field(default_factory=lambda: Clock(Pareto(1.0, 10.0), latency=1.0))
    """How long clients take."""
    recipe: Recipe = field(default_factory=lambda: Recipe(SGD(0.1), epochs=2, batch_size=16))
    """How they train."""
    hidden: tuple[int, ...] = (32,)
    """The hidden layers of the network that they train."""
    seconds: float = 60.0
    """How long a training is, in simulated seconds."""
    held_out: int = 500
    """Validation rows at the server."""


SMALL = Case(
    clients=20,
    seats=4,
    typical=10.0,
    least=5,
    most=20,
    clock=Clock(Pareto(1.0, 10.0), seconds_per_sample=0.02, latency=0.5),
    seconds=8.0,
    held_out=60,
)
"""One for the digits, in seconds."""


@dataclass(frozen=True)
class Ground:
    """A part of a data set, with every row twice: as it is, and with a random label."""

    name: str
    dataset: Dataset
    rows: int
    """How many rows there are of each kind."""
    train: Samples
    case: Case

    @staticmethod
    def of(name: str, part: str, case: Case, tested: int | None = None) -> Ground:
        """A `part` of the data set of this name; `tested`: how many test rows are measured on."""
        whole = load(name)
        order = Key.root(0).child("selection", name).order(np.arange(len(whole.train)))
        low, high = (round(len(order) * share) for share in PARTS[part])
        train = whole.train.subset(np.sort(order[low:high]))
        test = whole.test if tested is None else whole.test.subset(np.arange(min(tested, len(whole.test))))
        dataset = replace(whole, train=train, test=test, train_owner=None, test_owner=None)
        wrong = train.random_targets(train.y, Key.root(0).child("selection", "wrong", name).generator())
        return Ground(name, dataset, len(train), train.extended(replace(train, y=wrong)), case)

    def federation(self, seed: int) -> World:
        """Clients of this seed. Those of all seeds lie in the same samples: an engine trains them at once."""
        case, key = self.case, Key.root(seed).child("selection")
        partition = DominantClass(case.clients, share=case.share, samples=case.most)
        data = federate(self.dataset, partition, key=key, validation=case.held_out)
        everybody = np.arange(case.clients)
        draws = key.child("sizes").generator().standard_normal(case.clients)
        sizes = np.clip(np.exp(np.log(case.typical) + case.spread * draws), case.least, case.most).astype(int)
        wrong = set(key.child("wrong").smallest(everybody, round(case.wrong * case.clients)).tolist())
        shards = {}
        for client in everybody.tolist():
            kept = key.child("kept", client).smallest(data[client].rows, int(sizes[client]))
            shards[client] = Shard.of(kept + self.rows * (client in wrong))
        return World(self, seed, data.replaced(train=self.train, shards=shards), frozenset(wrong))

    def engine(self, device: str = "cpu") -> Engine:
        shape, classes = tuple(self.train.x.shape[1:]), self.train.classes
        return StackedEngine(build("mlp", shape, classes, hidden=self.case.hidden), device=device)


@dataclass(frozen=True)
class World:
    """One federation of the case."""

    ground: Ground
    seed: int
    data: FederatedData
    wrong: frozenset[int]
    """Who has random labels."""

    def seconds(self) -> NDArray[np.float64]:
        """How long each client takes a round."""
        case, key = self.ground.case, Key.root(self.seed).child("slowness")
        read = [case.recipe.samples_seen(len(self.data[client])) for client in self.data.clients]
        times = [
            case.clock.duration(client, n, key) for client, n in zip(self.data.clients, read, strict=True)
        ]
        return np.asarray(times) / 1e9

    def good(self) -> Ids:
        """Those with right labels of whom the fastest third is left: what nobody can know."""
        right = np.asarray(
            [client for client in self.data.clients if client not in self.wrong], dtype=np.int64
        )
        return np.sort(
            right[np.argsort(self.seconds()[right])[: max(self.ground.case.seats, len(right) // 3)]]
        )

    def train(self, select: Selector, on: str, engine: Engine, seats: int | None = None) -> Course:
        """A training of the case's length, measured every round."""
        case = self.ground.case
        shape, classes = tuple(self.data.train.x.shape[1:]), self.data.train.classes
        fed = unknot.simulate(
            partial(build, "mlp", shape, classes, hidden=case.hidden),
            self.data,
            "rfs",
            case.recipe,
            engine=engine,
            pace=Synchronous(case.seats if seats is None else seats),
            clock=case.clock,
            select=select,
            seed=self.seed,
            evaluate_on=(on,),
        )
        first = evaluate_all(engine, [fed.model], getattr(self.data, on))[0].accuracy
        rounds = [r for r in fed.run(seconds=case.seconds).rounds if r.time <= case.seconds]
        times = np.asarray([0.0, *(r.time for r in rounds)])
        accuracies = np.asarray([first, *(r.scores[on].accuracy for r in rounds)])
        return Course(times, accuracies, case.seconds, fed)


@dataclass(frozen=True, eq=False)
class Course:
    """How accurate the model was from which simulated second on."""

    times: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    seconds: float
    federation: Federation

    @property
    def rounds(self) -> int:
        return len(self.times) - 1

    def asked(self, some: Collection[int]) -> float:
        """The share of all seats that these clients had."""
        seats = [client for record in self.federation.history.rounds for client in record.clients]
        return sum(client in some for client in seats) / max(1, len(seats))

    @property
    def final(self) -> float:
        return float(self.accuracies[-1])

    @property
    def over_time(self) -> float:
        """The mean accuracy over the whole time, the time of getting to know clients included."""
        return self.to_go(0.0)

    def to_go(self, start: float) -> float:
        """What is still to come of the mean accuracy from a second on."""
        times = np.clip(np.append(self.times, self.seconds), start, self.seconds)
        return float(np.diff(times) @ self.accuracies) / self.seconds

    def at(self, second: float) -> float:
        """The accuracy of that second."""
        return float(self.accuracies[np.searchsorted(self.times, second, side="right") - 1])


@dataclass
class Knowing:
    """Draws from those whom it was told of: a measure of what could be known, and no selector for a run."""

    some: Ids
    lineage, curious, learns = NOBODY, False, False

    def fresh(self) -> Knowing:
        return self

    def meet(self, model: Weights, updates: Sequence[Update], key: Key) -> None:
        """It was told."""

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        return key.smallest(np.intersect1d(idle, self.some), k)

    def observe(self, model: Weights, updates: Sequence[Update], merit: float, key: Key) -> None:
        """It was told."""


def together(
    ground: Ground, runs: Sequence[tuple[World, Selector, int | None]], on: str, device: str = "cpu"
) -> list[Course]:
    """Trainings side by side: (world, selector, seats, or None for the case's own) each."""

    def run(world: World, select: Selector, seats: int | None) -> Callable[[Engine], Course]:
        return lambda engine: world.train(select, on, engine, seats)

    return run_together(ground.engine(device), [run(*some) for some in runs])


def origin() -> dict[str, object]:
    """The commit, whether the tree is as committed, and the machine."""

    def git(*words: str) -> str:
        found = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        return found.stdout.strip()

    return {
        "commit": git("rev-parse", "HEAD"),
        "clean": not git("status", "--porcelain"),
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
