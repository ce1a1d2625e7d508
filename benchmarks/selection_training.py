"""Have the network of the selector "learned" learn whom to ask.

``python -m benchmarks.selection_training --out FILE [--start FILE] [--device cuda] [--minutes 5]``. Policy
gradients: in each turn some federations of the case (`selection_case`, the part "learn" of each data set) are
trained side by side, each several times over with other draws of whom to ask. Those choices become likelier
that brought more accuracy by simulated time than the other trainings of the same clients did. Now and then
the network as it is by then is tried on the part "choose", and the best of these is kept.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.selection_case import SMALL, Case, Course, Ground, origin, together
from unknot.core.keys import Key
from unknot.core.selection import Ids
from unknot.select.learned import INPUTS, Learned, Scorer

HIDDEN = (24, 24)
EPOCHS, CLIP, ENTROPY = 6, 0.3, 0.0005
"""Passes over a turn's choices; how far a choice's likelihood may move; what variety is worth."""
BATCH = 512
CHOOSING = tuple(range(500, 504))
"""Seeds of the federations by which the network that is kept is chosen."""


@dataclass
class Trainee(Learned):
    """Writes down what it looked at, and whom it took."""

    replica: int = 0
    """Trainings of the same clients differ in this alone."""
    looked: list[np.ndarray] = field(default_factory=list)
    out: list[np.ndarray] = field(default_factory=list)
    took: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        return super().choose(idle, k, key.child("replica", self.replica))

    def _fill(self, known: Ids, seats: int, key: Key) -> list[int]:
        taken = super()._fill(known, seats, key)
        for seat in range(seats):
            gone = np.zeros(len(known), dtype=bool)
            gone[taken[:seat]] = True
            self.out.append(gone)
        self.took += taken
        self.rounds += [self._rounds] * seats
        return taken

    def _inputs(self, own: np.ndarray, rows: Ids, taken: list[int], seats: int) -> np.ndarray:
        inputs = super()._inputs(own, rows, taken, seats)
        self.looked.append(inputs.astype(np.float32))
        return inputs


def network(key: Key) -> nn.Sequential:
    """All candidates alike, to begin with: the last layer is zero."""
    widths = (INPUTS, *HIDDEN, 1)
    layers: list[nn.Module] = []
    with key.torch_seed():
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.Tanh()]
    last = layers[-2]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    return nn.Sequential(*layers[:-1])


def take_over(net: nn.Sequential, scorer: Scorer, sharpen: float) -> None:
    """Go on with what was learned before, its ratings times a number."""
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for layer, (matrix, offset) in zip(linear, scorer.layers, strict=True):
            layer.weight.copy_(torch.from_numpy(matrix.T))
            layer.bias.copy_(torch.from_numpy(offset))
        linear[-1].weight.mul_(sharpen)


def scorer_of(net: nn.Sequential, trained: dict[str, object] | None = None) -> Scorer:
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    layers = [(part.weight.detach().T, part.bias.detach()) for part in linear]
    return Scorer(
        tuple((w.double().cpu().numpy(), b.double().cpu().numpy()) for w, b in layers), trained=trained or {}
    )


@dataclass(frozen=True)
class Choices:
    """What was looked at, whom that led to, and how much better than usual it went from then on."""

    looked: Tensor
    out: Tensor
    took: Tensor
    better: Tensor


def choices(groups: Sequence[Sequence[Course]]) -> Choices:
    """Of trainings in groups, each of the same clients.

    What is still to come is compared with what the others of the group still got from that second on, as far
    as these, and how accurate the model was by then beside theirs, foretell it (least squares over all).
    """
    came, told, places = [], [], []
    for group in groups:
        for course in group:
            others = [other for other in group if other is not course]
            for number, second in enumerate(course.times[:-1]):
                if number == 0:
                    second = max(course.federation.work.apart, key=lambda trip: trip.ended).ended
                left = 1 - second / course.seconds
                usual = np.mean([other.to_go(second) for other in others])
                ahead = course.at(second) - np.mean([other.at(second) for other in others])
                came.append(course.to_go(second) - usual)
                told.append([1.0, left, ahead * left, ahead * left * left, usual])
                places.append((course, number))
    came_, told_ = np.asarray(came), np.asarray(told)
    better = came_ - told_ @ np.linalg.lstsq(told_, came_, rcond=None)[0]
    better = np.clip(better / (better.std() + 1e-9), -4, 4)
    at = {
        (id(course), number): value for (course, number), value in zip(places, better.tolist(), strict=True)
    }
    looked, out, took, worth = [], [], [], []
    for course in (course for group in groups for course in group):
        trainee = course.federation.lanes["global"].selector
        assert isinstance(trainee, Trainee)
        for i, number in enumerate(trainee.rounds):
            if (id(course), number) in at:
                looked.append(trainee.looked[i])
                out.append(trainee.out[i])
                took.append(trainee.took[i])
                worth.append(at[id(course), number])
    return Choices(
        torch.from_numpy(np.stack(looked)),
        torch.from_numpy(np.stack(out)),
        torch.tensor(took),
        torch.tensor(worth, dtype=torch.float32),
    )


def likelihoods(net: nn.Module, looked: Tensor, out: Tensor, took: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of how likely each choice was, and how undecided it was."""
    logs = net(looked).squeeze(-1).masked_fill(out, -math.inf).log_softmax(-1)
    some = logs.masked_fill(out, 0.0)
    return logs.gather(1, took[:, None]).squeeze(1), -(some.exp() * some).masked_fill(out, 0.0).sum(-1)


def improve(net: nn.Module, optimizer: torch.optim.Optimizer, found: Choices, key: Key, device: str) -> float:
    """Several passes over a turn's choices (proximal policy optimisation); gives how undecided it was."""
    parts = [found.looked, found.out, found.took, found.better]
    looked, out, took, better = (part.to(device) for part in parts)
    net.to(device)
    with torch.no_grad():
        before = torch.cat(
            [likelihoods(net, looked[i], out[i], took[i])[0] for i in torch.arange(len(took)).split(BATCH)]
        )
    spread = []
    for epoch in range(EPOCHS):
        order = torch.from_numpy(key.child("order", epoch).order(np.arange(len(took))))
        for some in order.split(BATCH):
            now, undecided = likelihoods(net, looked[some], out[some], took[some])
            ratio, gain = (now - before[some]).exp(), better[some]
            reward = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            optimizer.zero_grad()
            (-reward - ENTROPY * undecided.mean()).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            spread.append(float(undecided.detach().mean()))
    net.to("cpu")
    return float(np.mean(spread))


def tried(grounds: Sequence[Ground], scorer: Scorer, device: str) -> float:
    """The mean accuracy by time on clients that it does not learn from."""
    found = [
        course.over_time
        for ground in grounds
        for course in together(
            ground,
            [(ground.federation(seed), Learned(scorer), None) for seed in CHOOSING],
            "validation",
            device,
        )
    ]
    return float(np.mean(found))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection_training", description=__doc__)
    parser.add_argument("--data", default="mnist,fashion-mnist")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--start", type=Path, help="go on from this file of an earlier training")
    parser.add_argument("--sharpen", type=float, default=1.0, help="what its ratings are multiplied by")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--worlds", type=int, default=2, help="federations a turn, of each data set")
    parser.add_argument("--replicas", type=int, default=8, help="trainings of each")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--every", type=int, default=4, help="turns between two trials")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    names = given.data.split(",")
    case = SMALL if names == ["digits"] else Case()
    learn, choose = ([Ground.of(name, part, case) for name in names] for part in ("learn", "choose"))
    key = Key.root(given.seed).child("learned")
    net = network(key.child("network"))
    earlier: Scorer | None = None if given.start is None else Scorer.load(given.start)
    if earlier is not None:
        take_over(net, earlier, given.sharpen)
    optimizer = torch.optim.Adam(net.parameters(), lr=given.lr)
    started, turn, episodes, best, log = time.monotonic(), 0, 0, -1.0, []
    while True:
        over = time.monotonic() - started > 60 * given.minutes
        if over or turn % given.every == 0:
            scorer = scorer_of(net)
            score = tried(choose, scorer, given.device)
            log.append({"turn": turn, "episodes": episodes, "chosen by": score})
            print(f"turn {turn}, {episodes} trainings: {100 * score:.2f} % on other clients", flush=True)
            if score > best:
                best = score
                trained = record(given, case, turn, episodes, log, earlier)
                scorer_of(net, trained).save(given.out)
        if over:
            return 0
        groups: list[list[Course]] = []
        for ground in learn:
            seeds = [1000 * (1 + given.seed) + turn * given.worlds + i for i in range(given.worlds)]
            runs = [
                (world, Trainee(scorer_of(net), replica=replica), None)
                for world in map(ground.federation, seeds)
                for replica in range(given.replicas)
            ]
            courses = together(ground, runs, "validation", given.device)
            groups += [courses[i : i + given.replicas] for i in range(0, len(courses), given.replicas)]
        episodes += len(groups) * given.replicas
        found = choices(groups)
        undecided = improve(net, optimizer, found, key.child("turn", turn), given.device)
        mean = np.mean([course.over_time for group in groups for course in group])
        spent = time.monotonic() - started
        print(f"  turn {turn}: {100 * mean:.2f} %, undecided {undecided:.3f}, {spent:.0f} s", flush=True)
        turn += 1


def trainings(trained: Mapping[str, Any]) -> int:
    """How many there were, those of what it began with included."""
    before = trained["before"] if trained.get("before") else None
    return int(trained["trainings"]) + (trainings(before) if before else 0)


def record(
    given: argparse.Namespace,
    case: Case,
    turn: int,
    episodes: int,
    log: list[dict[str, object]],
    before: Scorer | None,
) -> dict[str, object]:
    """How it was trained, for the file."""
    options = {name: value for name, value in vars(given).items() if name not in ("out", "start")}
    return {
        "by": "python -m benchmarks.selection_training",
        "options": options,
        "case": repr(case),
        "turns": turn,
        "trainings": episodes,
        "trainings in all": episodes + (0 if before is None else trainings(before.trained)),
        "log": [dict(entry) for entry in log],
        "before": None if before is None else dict(before.trained),
        **origin(),
    }


if __name__ == "__main__":
    sys.exit(main())
