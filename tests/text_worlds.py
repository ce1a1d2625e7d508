"""Speakers who say nothing that could be learned but by heart, and a method that forgets nothing."""

from __future__ import annotations

import random
import tomllib
from dataclasses import replace
from pathlib import Path

from unknot.experiments import Experiment

FILE = """
name = "speakers"
[data]
name = "shakespeare"
partition = "by-owner"
context = 8
test_share = 0.4
validation = 0
[model]
name = "gpt"
layers = 1
heads = 2
width = 16
[train]
optimizer = "adam"
lr = 0.02
epochs = 3
batch_size = 16
[federation]
rounds = 4
[[request]]
erase = 1
round = 3
"""


def speeches(root: Path, speakers: int = 4, length: int = 120) -> Path:
    """A folder with a play in which everybody speaks at random."""
    draw = random.Random(0)
    path = root / "shakespeare" / "tinyshakespeare.txt"
    path.parent.mkdir()
    said = ("".join(draw.choices("abcdefgh", k=length)) for _ in range(speakers))
    path.write_text("\n\n".join(f"S{who}:\n{words}" for who, words in enumerate(said)) + "\n")
    return root


def spoken(root: Path, *overrides: str, **changes: object) -> Experiment:
    """The experiment on the speeches in this folder."""
    table = tomllib.loads(FILE)
    table["data"]["root"] = str(root)
    return replace(Experiment.of(table, overrides), **changes)  # type: ignore[arg-type]
