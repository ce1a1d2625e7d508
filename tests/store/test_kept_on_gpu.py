"""A run on a GPU that is killed goes on from its folder to the bits of one that never was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

pytest.importorskip("cryptography")

import unknot
from unknot.experiments.kept import keep
from unknot.federation import Buffered, Federation, Observer, Synchronous

DEVICE = os.environ.get("UNKNOT_KEPT_DEVICE", "cuda")
pytestmark = pytest.mark.skipif(
    DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no GPU here"
)

ROUNDS = 8
METHODS = {
    "rfs": lambda: unknot.RFS(),
    "mmt": lambda: unknot.MMT(),
    "federaser": lambda: unknot.FedEraser(interval=1),
    "knot": lambda: unknot.KNOT(clusters=2),
}


def federation(name: str, store: Path | None = None, observers: Sequence[Observer] = ()) -> Federation:
    data = unknot.federate(unknot.load("digits"), unknot.Dirichlet(12, alpha=0.5), key=0)
    pace = Buffered(6, 3, staleness_bound=3) if name == "knot" else Synchronous(6)
    parts = {"pace": pace, "seed": 3, "observers": observers}
    fed = unknot.simulate("lenet5", data, METHODS[name](), device=DEVICE, **parts)
    if store is not None:
        keep(fed, store, every=0.0)
    return fed


def go(fed: Federation) -> None:
    fed.run(ROUNDS, requests=[unknot.erase(3, round=3), unknot.erase(5, round=6)])


def child(name: str, store: str) -> None:
    """Run it, with a word at each step, so that whoever listens can kill it there."""
    go(federation(name, Path(store), [lambda event: os.write(1, b"an event\n")]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("after", [2, 7])
def test_a_killed_run_on_a_gpu_goes_on_to_the_same_bits(tmp_path: Path, method: str, after: int) -> None:
    whole = federation(method)
    go(whole)
    here = Path(__file__)
    command = [
        sys.executable,
        "-c",
        f"import {here.stem} as t; t.child({method!r}, {str(tmp_path / 'run')!r})",
    ]
    paths = os.pathsep.join([str(here.parent), *sys.path])
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    ) as running:
        assert running.stdout is not None
        for _ in range(after):
            assert running.stdout.readline()
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL
    fed = federation(method, tmp_path / "run")
    assert 0 < len(fed.history.rounds) < len(whole.history.rounds)
    fed.resume()
    assert torch.equal(fed.model.vector, whole.model.vector)
    assert [r.scores for r in fed.history.rounds] == [r.scores for r in whole.history.rounds]
    assert fed.history.costs == whole.history.costs
