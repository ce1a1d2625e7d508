"""Longer runs with real training, killed at moments that nobody chose, end as if they had not been."""

import os
import random
import signal
import time

import pytest
from kept_runs import fast_folder, go, remove_tree

import unknot
from unknot.core.requests import erase, join

REQUESTS = (erase({3: [1, 2]}, round=3), join([7], round=5), erase(1, round=8))


def build(method):
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=8, samples=30), validation=50)
    return unknot.simulate("mlp", data, method, engine="stacked", pace=unknot.Buffered(4, 2), seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["knot", "mmt"])
def test_killed_at_random_moments(method):
    base, draw = fast_folder(), random.Random(1)
    try:
        started = time.monotonic()
        expected = go(build(method), base / "whole", 0.05, REQUESTS, 12)
        took = time.monotonic() - started
        killed = 0
        while killed < 25:
            folder = base / str(killed)
            for _ in range(3):
                child = os.fork()
                if not child:
                    go(build(method), folder, 0.05, REQUESTS, 12)
                    os._exit(0)
                time.sleep(draw.uniform(0, took))
                os.kill(child, signal.SIGKILL)
                killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
            assert go(build(method), folder, 0.05, REQUESTS, 12) == expected
    finally:
        remove_tree(base)
