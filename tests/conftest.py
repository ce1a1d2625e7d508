"""Tests run side by side, a process on one thread unless a test says otherwise, and draw the same always."""

import gc
import os
from functools import cache

import pytest
import torch
import typer.testing
from hypothesis import settings

from unknot.core.base import frozen
from unknot.data.files import read_npz
from unknot.data.readers import digits
from unknot.engine import stacked
from unknot.engine.bits import probe
from unknot.engine.bits.state import state_of

torch.set_num_threads(1)
# Some virtual machines announce AMX and end a process that uses it, as oneDNN's products of halves would.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")


@cache
def _stored(file, names):
    return read_npz(file, names)


# The digits are unpacked once; what is made of them, every time.
digits.read_npz = lambda file, names: dict(_stored(file, tuple(names)))
# So are the commands put together once, and not for each that is given: they hold nothing of a call.
typer.testing._get_command = cache(typer.testing._get_command)

ABOUT_ENGINES = {"core", "engine", "models", "outside", "testing"}
_found = {}


def _known(template):
    """By what a model of our own and torch's layers is known again; None for another."""
    layers = dict(template.named_modules())
    theirs = {type(layer).__module__.partition(".")[0] for layer in layers.values()} - {"torch", "unknot"}
    if theirs or frozen(template) or any("forward" in vars(layer) for layer in layers.values()):
        return None
    kinds = tuple((name, type(layer)) for name, layer in layers.items())
    shapes = tuple((name, tuple(p.shape), p.dtype, p.device) for name, p in template.named_parameters())
    return kinds, shapes, tuple(state_of(template).items())


def _once(known, case, find):
    """What was found out about a model that is known again, or is found out now."""
    if known is None:
        return find()
    if (known, case) not in _found:
        _found[known, case] = find()
    return _found[known, case]


@pytest.fixture(autouse=True, scope="module")
def _models_are_examined_once(request):
    """Where engines are not what is tested, a model is looked at, and its stacks are tried, once for all."""
    examine, try_widths = probe.examine, stacked.try_widths

    def examined(template, form, loss):
        known = None if loss.own else _known(template)
        return _once(known, (form, loss), lambda: examine(template, form, loss))

    def tried(widths, recipe, maker, setting, train, run):
        engine, (way, case) = train.func.__self__, train.args
        known = None if case.loss.own else _known(engine._template)
        about = way.name, recipe, case.form, case.loss, setting, tuple(widths), engine.precision
        return _once(known, about, lambda: try_widths(widths, recipe, maker, setting, train, run))

    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name not in ABOUT_ENGINES:
            patch.setattr(probe, "examine", examined)
            patch.setattr(stacked, "try_widths", tried)
        yield


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
