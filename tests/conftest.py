"""Tests run side by side, a process on one thread unless a test says otherwise, and draw the same always."""

import gc
from functools import cache

import pytest
import torch
import typer.testing
from hypothesis import settings

from unknot.data.files import read_npz
from unknot.data.readers import digits

torch.set_num_threads(1)
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")


@cache
def _stored(file, names):
    return read_npz(file, names)


# The digits are unpacked once; what is made of them, every time.
digits.read_npz = lambda file, names: dict(_stored(file, tuple(names)))
# So are the commands put together once, and not for each that is given: they hold nothing of a call.
typer.testing._get_command = cache(typer.testing._get_command)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Neighbours stay together, and whoever is done first takes of the others': a module is set up once."""
    if config.getvalue("dist") == "load":
        from xdist.scheduler import WorkStealingScheduling

        return WorkStealingScheduling(config, log)
    return None


def pytest_collection_finish():
    """What is there by now stays: looking through it for garbage, again and again, takes long."""
    gc.collect()
    gc.freeze()
