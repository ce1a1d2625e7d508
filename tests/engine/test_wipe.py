"""After `wipe` an engine holds nothing of any client, and gives the same bits as before."""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import partial
from types import ModuleType

import numpy as np
import pytest
import torch

from engine_worlds import RECIPES, make_data, make_jobs, make_model, same
from unknot.core.ensemble import Ensemble
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine

MARKER = 1234.5
ENGINES = {
    "loop": LoopEngine,
    **{path: partial(StackedEngine, path=path) for path in ("fused", "batched", "vmap")},
    "one at a time": partial(StackedEngine, path="loop"),
}


def held_by(root: object) -> list[np.ndarray]:
    """The numbers of every tensor and array that can be reached from an object."""
    found, seen, todo = [], set(), [root]
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, type | ModuleType):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            found.append(value.detach().double().numpy().ravel())
            todo += [value.grad] if value.is_leaf else []
        elif isinstance(value, np.ndarray):
            found.append(value.ravel())
        elif callable(value) and hasattr(value, "__globals__"):
            todo += [cell.cell_contents for cell in value.__closure__ or ()]
        else:
            todo += gc.get_referents(value)
    return found


def alive() -> list[torch.Tensor]:
    """Every tensor of numbers of this process that Python can reach."""
    gc.collect()
    tensors = [value for value in gc.get_objects() if issubclass(type(value), torch.Tensor)]
    return [t for t in tensors if t.dtype.is_floating_point and t.layout is torch.strided]


def since(there: list[torch.Tensor]) -> list[np.ndarray]:
    """The numbers of those that came since: other tests may keep what they trained."""
    old = {id(tensor) for tensor in there}
    return [t.detach().double().numpy().ravel() for t in alive() if id(t) not in old]


def residue(arrays: list[np.ndarray], traces: list[float]) -> int:
    return sum(int(np.isin(array, traces).sum()) for array in arrays)


def train_and_judge(engine, network) -> list[float]:
    """Train on features that are all the marker; gives the numbers that would be a residue."""
    data = make_data("mlp")
    x = data.train.x.clone()
    x[torch.from_numpy(data[2].rows)] = MARKER
    data = data.replaced(train=replace(data.train, x=x))
    updates = engine.train(make_jobs(network, RECIPES["sgd"], [0, 2, 5]), data)
    ensemble = Ensemble(tuple((1.0, update.weights) for update in updates))
    for model in (updates[0].weights, ensemble):
        engine.evaluate(model, data.train)
        engine.predict(model, data.train)
    started = set(Weights.of(network).vector.double().tolist())
    trained = {number for update in updates for number in update.weights.vector.double().tolist()}
    return [MARKER, *sorted(trained - started - {0.0})]


@pytest.mark.parametrize("name", ENGINES)
def test_a_wiped_engine_holds_neither_samples_nor_trained_weights(name):
    there, network = alive(), make_model("mlp")
    # In double precision, so that the engine has copies of the samples of its own.
    engine = ENGINES[name](network, dtype=torch.float64, threads=2)
    data = make_data("mlp")
    traces = train_and_judge(engine, network)
    assert len(traces) > 100
    assert residue(held_by(engine), traces) > 0  # the search finds what is there
    engine.wipe()
    assert residue(held_by(engine), traces) == 0
    assert residue(since(there), traces) == 0
    engine.evaluate(Weights.of(network), data.train)  # and it works on


def test_a_wiped_engine_has_no_buffers_in_which_images_were_computed():
    network, data = make_model("lenet"), make_data("lenet")
    data.train.x.fill_(MARKER)
    engine = StackedEngine(network, threads=1)
    engine.train(make_jobs(network, replace(RECIPES["sgd"], batch_size=16), [0, 1]), data)
    assert residue(held_by(engine), [MARKER]) > 0  # the search finds what is there
    engine.wipe()
    assert residue(held_by(engine), [MARKER]) == 0


@pytest.mark.parametrize("name", ["loop", "fused"])
def test_a_wiped_engine_does_not_know_whose_samples_were_bad(name):
    """Client 2 has a label that is no class; the engine found its row, and had better forget it."""
    network, data = make_model("mlp"), make_data("mlp")
    row = int(data[2].rows[0])
    y = data.train.y.clone()
    y[row] = 3
    data.train = replace(data.train, y=y)  # past the checks of the data itself
    engine = ENGINES[name](network, threads=1)
    engine.train(make_jobs(network, RECIPES["sgd"], [0, 5]), data)
    assert any(array.tolist() == [row] for array in held_by(engine))  # the search finds what is there
    engine.wipe()
    assert not any(array.tolist() == [row] for array in held_by(engine))


@pytest.mark.parametrize("name", ENGINES)
def test_samples_that_are_still_in_use_are_not_held_by_a_wiped_engine(name):
    network, data = make_model("mlp"), make_data("mlp")
    data.train.x.fill_(MARKER)
    engine = ENGINES[name](network, dtype=torch.float64, threads=2)
    engine.train(make_jobs(network, RECIPES["sgd"], [0, 1]), data)
    engine.wipe()
    assert residue(held_by(engine), [MARKER]) == 0
    assert (data.train.x == MARKER).all()  # they are the caller's


@pytest.mark.parametrize("name", ENGINES)
def test_results_after_wiping_have_the_same_bits(name):
    network, data = make_model("mlp"), make_data("mlp")
    engine = ENGINES[name](network, threads=2)
    jobs = make_jobs(network, RECIPES["sgd"], data.clients)
    before = engine.train(jobs, data), engine.predict(jobs[0].start, data.test)
    described = engine.describe()
    engine.wipe()
    assert all(map(same, before[0], engine.train(jobs, data)))
    assert torch.equal(before[1], engine.predict(jobs[0].start, data.test))
    assert engine.describe() == described


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_does_not_hold_the_weights_that_it_was_made_from(name):
    network = make_model("mlp")
    engine = ENGINES[name](network)
    with torch.no_grad():
        numbers = Weights.of(network).vector.double().tolist()
        for parameter in network.parameters():
            parameter.zero_()  # the caller's module, which the engine may know
    assert residue(held_by(engine), [number for number in numbers if number]) == 0
