"""Walks over the moments at which a kept run can be killed, told apart by point and by phase.

A run comes by a few hundred points, most of them alike. What differs is the kind of write and what the run is
about: a walk takes each such pair at its first and its last time.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from kept_runs import REQUESTS, ROUNDS, build, fast_folder, remove_tree, story
from store_crashes import killed

from unknot.core.requests import erase
from unknot.store import files
from unknot.store.folder import is_kept
from unknot.store.keeper import RunKeeper

PHASES = {
    "create": "first round",
    "go_on": "restart",
    "_finish_scrubbing": "erasure",
    "erasing": "erasure",
    "checkpoint": "checkpoint",
    "ended": "end",
}
"""What a run is about while the keeper is in the method of that name."""
MORE = 2
AGAIN = erase(5, round=ROUNDS + 1)
Case = tuple[str, str, str | None]
Moment = tuple[str, str]
"""A phase and a point."""


class Watch:
    """Tells the phase of a run while it is at work, and the moments that it comes by."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.second = False
        """Whether the run was over once, and goes on."""

    def __enter__(self) -> "Watch":
        self.before = {name: RunKeeper.__dict__[name] for name in PHASES}
        for name, method in self.before.items():
            setattr(RunKeeper, name, self._noting(name, method))
        return self

    def __exit__(self, *_: object) -> None:
        for name, method in self.before.items():
            setattr(RunKeeper, name, method)

    def _noting(self, name: str, method: object) -> object:
        inner = method.__func__ if isinstance(method, staticmethod) else method

        def noting(*args, **options):
            self.inside.append(name)
            try:
                return inner(*args, **options)
            finally:
                self.inside.pop()

        return staticmethod(noting) if isinstance(method, staticmethod) else noting

    def moment(self, point: str) -> Moment:
        """The innermost phase but a restart, which all that it does is part of."""
        if "go_on" in self.inside:
            phase = "restart, erasing" if "_finish_scrubbing" in self.inside else "restart"
        else:
            phase = PHASES[self.inside[-1]] if self.inside else "between"
        return (f"second {phase}" if self.second else phase), point


def go_twice(case: Case, folder: Path, watch: Watch | None = None) -> dict:
    """Run a federation that is kept to its end, wherever it is, and then for two rounds with an erasure."""
    fed = build(*case)
    take = RunKeeper.go_on if is_kept(folder) else RunKeeper.create
    keeper = take(fed, folder, every=0.0)
    try:
        history = fed.run(ROUNDS, requests=REQUESTS) if fed.stint is None else fed.resume()
        if fed.stint.length.rounds != MORE:
            if watch is not None:
                watch.second = True
            history = fed.run(MORE, requests=AGAIN)
        return story(history)
    finally:
        keeper.close()


def moments_of(work: Callable[[Watch], object]) -> list[Moment]:
    """All that `work` comes by, in order."""
    found: list[Moment] = []
    with Watch() as watch:
        files.hook = lambda point: found.append(watch.moment(point))
        try:
            work(watch)
        finally:
            files.hook = None
    return found


def chosen(moments: list[Moment], times: int = 2) -> list[int]:
    """The numbers, from 1, of so many times of each distinct moment, from its first to its last."""
    places: dict[Moment, list[int]] = {}
    for number, moment in enumerate(moments, 1):
        places.setdefault(moment, []).append(number)
    return sorted(
        {found[i * (len(found) - 1) // (times - 1)] for found in places.values() for i in range(times)}
    )


class Walked:
    """How many kills there were, of which moments, and which runs did not end as they should have."""

    def __init__(self) -> None:
        self.kills = 0
        self.moments: set[Moment] = set()
        self.wrong: list[str] = []


def walk(case: Case, times: int = 2, first: int = 0, stride: int = 1) -> Walked:
    """Kill a run at the moments of each phase, and its restart after a kill within an erasure; go on."""
    base, found = fast_folder(), Walked()

    def check(folder: Path, said: str) -> None:
        found.kills += 1
        try:
            ended = go_twice(case, folder)
        except Exception as error:
            found.wrong.append(f"{case} {said}: {error!r}")
        else:
            if ended != expected:
                found.wrong.append(f"{case} {said}: it ended otherwise")
        remove_tree(folder)

    try:
        moments = moments_of(lambda watch: go_twice(case, base / "watched", watch))
        expected = go_twice(case, base / "whole")
        for number in chosen(moments, times)[first::stride]:
            folder = base / str(number)
            assert killed(number, lambda: go_twice(case, folder))  # noqa: B023
            found.moments.add(moments[number - 1])
            check(folder, f"killed at {number}, {moments[number - 1]}")
        for at in _broken_off(moments):
            folder = base / "broken off"
            assert killed(at, lambda: go_twice(case, folder))  # noqa: B023
            shutil.copytree(folder, base / "restarted")
            again = moments_of(lambda watch: go_twice(case, base / "restarted", watch))
            remove_tree(base / "restarted")
            restart = [
                number for number in chosen(again, times) if again[number - 1][0].startswith("restart")
            ]
            for number in restart[first::stride]:
                copy = base / f"{at} {number}"
                shutil.copytree(folder, copy)
                assert killed(number, lambda: go_twice(case, copy))  # noqa: B023
                found.moments.add(again[number - 1])
                check(copy, f"killed at {at} and then at {number}, {again[number - 1]}")
            remove_tree(folder)
    finally:
        remove_tree(base)
    return found


def _broken_off(moments: list[Moment]) -> list[int]:
    """Where a run is killed so that its restart has something to do: within an erasure, and elsewhere."""
    erasing = [number for number, (phase, _) in enumerate(moments, 1) if phase == "erasure"]
    keeping = [number for number, (phase, _) in enumerate(moments, 1) if phase == "checkpoint"]
    return [erasing[len(erasing) // 3], erasing[-len(erasing) // 4], keeping[len(keeping) // 2]]
