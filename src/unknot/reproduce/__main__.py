"""``python -m unknot.reproduce``: for machines that have torch and numpy alone.

Runs what is to be run and leaves the records; ``unknot reproduce`` draws them.
"""

from __future__ import annotations

import argparse
import sys

from unknot.core.errors import UnknotError
from unknot.experiments.seeds import parse_seeds
from unknot.federation import Event, Served
from unknot.reproduce.parts import SCALES
from unknot.reproduce.reproduction import load, names
from unknot.reproduce.runner import reproduce


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m unknot.reproduce", description=__doc__)
    parser.add_argument("name", nargs="?", help=f"one of {', '.join(names())}, or a TOML file")
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--seeds", metavar="0,1,2")
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rows", type=int, help="models in one stack")
    parser.add_argument("--together", type=int, default=1, help="lines of a panel side by side")
    parser.add_argument("--out", default="runs")
    parser.add_argument("--only", action="append", default=[], metavar="LINE")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="SECTION.KEY=VALUE")
    given = vars(parser.parse_args(arguments))
    name, scale = given.pop("name"), given.pop("scale")
    if name is None:
        sys.stdout.write("\n".join(names()) + "\n")
        return 0
    try:
        given["seeds"] = None if given["seeds"] is None else parse_seeds(given["seeds"])
        file = reproduce(load(name), scale, tell=_say, observers=[_follow], **given)
    except UnknotError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{file}\n")
    return 0


def _follow(event: Event) -> None:
    """A line now and then: a run at the paper's size can take an hour."""
    if isinstance(event, Served):
        _say(f"  {event.time:.0f} s: {event.request}")
    elif event.round % 10 == 0:
        found = ", ".join(f"{split} {score.name} {score.value:.3f}" for split, score in event.scores.items())
        _say(f"  {event.time:.0f} s: round {event.round} of {event.lane}, {found}")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
