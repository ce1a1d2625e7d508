"""Gone means gone: after a request, nothing of the erased client is left in live objects."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import torch

import unknot
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.weights import Weights
from unknot.select import DQN, Balanced, KCenter, Policy
from unknot.unlearn import (
    BMT,
    FATS,
    KNOT,
    MMT,
    PGA,
    RFS,
    SISA,
    Distillation,
    ExactFun,
    FedCIO,
    FedEraser,
    Rapid,
    Standalone,
)

MARKERS = 1000
SIZES = (6, 6, 10, 6, 6, 6)
GONE = 2
METHODS = {
    "rfs": RFS(),
    "rapid": Rapid(unknot.AdaHessian(0.01)),
    "federaser": FedEraser(interval=1),
    "bmt": BMT(),
    "mmt": MMT(),
    "sisa": SISA(),
    "fedcio": FedCIO(2),
    "knot": KNOT(2),
    "knot, mmt, joint": KNOT(2, by="random", retrain=MMT(), served="joint", joint_rounds=1),
    "fats": FATS(rho_client=20, rounds=20, local_steps=2, clients=6),
    "exact-fun": ExactFun(),
    "standalone": Standalone(),
    "pga": PGA(),
    "distillation": Distillation(),
}


def marked() -> FederatedData:
    """The leaver's ten rows of 100 features are 1,000 numbers that nobody else has."""
    rng = np.random.default_rng(3)
    total = sum(SIZES)
    x = rng.standard_normal((total, 100)).astype(np.float32)
    ends = np.cumsum([0, *SIZES])
    x[ends[GONE] : ends[GONE + 1]] = markers().reshape(10, 100)
    y = rng.integers(0, 3, total)
    shards = {k: Shard.of(np.arange(ends[k], ends[k + 1])) for k in range(len(SIZES))}

    def held_out(n):
        rows = rng.standard_normal((n, 100)).astype(np.float32)
        return Samples(torch.from_numpy(rows), torch.from_numpy(rng.integers(0, 3, n)), 3)

    train = Samples(torch.from_numpy(x), torch.from_numpy(y), 3)
    return FederatedData(train, shards, held_out(8), held_out(8), public=held_out(8).x)


def markers() -> np.ndarray:
    """Numbers of one in a thousandth of the range around 0.7, told apart by their last bits."""
    return (0.7 + np.arange(MARKERS, dtype=np.float64) * 2.0**-22).astype(np.float32)


def arrays() -> list[np.ndarray]:
    """Every tensor and array that is alive, as numbers."""
    gc.collect()
    found = []
    warnings.simplefilter("ignore", FutureWarning)  # looking at a deprecated object is no use of it
    for thing in gc.get_objects():
        try:
            if isinstance(thing, torch.Tensor) and thing.layout == torch.strided:
                found.append(thing.detach().cpu().numpy().ravel())
            elif isinstance(thing, np.ndarray) and thing.dtype.kind == "f":
                found.append(thing.ravel())
        except (RuntimeError, TypeError, ReferenceError):
            continue  # a tensor without storage, a dead proxy
    return found


def found_alive(wanted: np.ndarray) -> int:
    """How many of these numbers are in any live tensor or array, other than this one."""
    hits: set[float] = set()
    least, most = wanted.min(), wanted.max()
    for array in arrays():
        if array.size and array.dtype in (np.float32, np.float64) and not np.shares_memory(array, wanted):
            numbers = array.astype(np.float32, copy=False)
            near = numbers[(numbers >= least) & (numbers <= most)]
            hits.update(np.intersect1d(near, wanted).tolist())
    return len(hits)


FEW = ("rfs", "federaser", "mmt", "sisa", "knot, mmt, joint", "fats", "exact-fun", "pga", "distillation")
SOME = [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]


@pytest.mark.parametrize("engine", ["stacked", pytest.param("loop", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SOME)
def test_no_sample_of_an_erased_client_is_left_in_any_live_object(name, engine):
    fed = unknot.simulate("mlp", marked(), METHODS[name], engine=engine, dtype="float32")
    fed.run(3)
    wanted = markers()
    assert found_alive(wanted) == MARKERS  # the search finds what is there
    fed.run(2, requests=[unknot.erase(GONE, round=3)])
    assert found_alive(wanted) == 0


def test_what_the_caller_holds_is_the_callers():
    mine = marked()
    fed = unknot.simulate("mlp", mine, RFS())
    fed.run(3, requests=[unknot.erase(GONE, round=1)])
    rows = torch.from_numpy(mine[GONE].rows)
    assert torch.equal(mine.train.x[rows].flatten(), torch.from_numpy(markers()))
    assert not fed.data.train.x[rows].any()
    other = unknot.simulate("mlp", mine, RFS())
    other.run(1)
    assert len(other.data[GONE]) == 10


@pytest.mark.parametrize("name", SOME)
def test_no_model_that_the_client_shaped_is_left_either(name):
    """Every vector that carried the client while it was there: models, updates, what is kept."""
    if not METHODS[name].exact:
        pytest.skip("it keeps what the client had a part in: on record, as waived")
    others = weights_alive()  # of tests that ran before
    fed = unknot.simulate("mlp", marked(), METHODS[name])
    fed.run(3)
    shaped = [w.vector[:200].clone().numpy() for w in weights_alive(others) if GONE in w.lineage.clients]
    assert shaped
    fed.run(2, requests=[unknot.erase(GONE, round=3)])
    old = np.unique(np.concatenate(shaped))
    # Some numbers are in any model: biases that are still zero, weights whose gradient is zero.
    common = np.unique(np.concatenate([fed.initial.vector.numpy(), [0.0]]).astype(np.float32))
    old = np.setdiff1d(old, common)
    old = old[np.abs(100 * old - np.round(100 * old)) > 1e-3]  # those that Exact-Fun rounds to, too
    for weights in weights_alive(others):
        assert GONE not in weights.lineage.clients
        both = np.intersect1d(weights.vector.numpy(), old)
        assert len(both) < 0.05 * len(old), len(both)


def weights_alive(but: Sequence[Weights] = ()) -> list[Weights]:
    gc.collect()
    known = set(map(id, but))
    return [o for o in gc.get_objects() if type(o) is Weights and id(o) not in known]


@pytest.mark.parametrize("select", [DQN(), KCenter(2), Balanced()], ids=["dqn", "k-center", "balanced"])
def test_a_given_policy_and_what_selectors_knew_are_dropped(select):
    first = unknot.simulate("mlp", marked(), select=DQN())
    first.run(3)
    policy = first.lanes["global"].selector.policy
    given = DQN(policy=policy) if isinstance(select, DQN) else select
    fed = unknot.simulate("mlp", marked(), select=given)
    fed.run(2)
    fed.run(2, requests=[unknot.erase(GONE, round=2)])
    mine = [o for o in gc.get_objects() if type(o) is Policy and o is not policy]
    reachable = [fed.state.select, *(lane.selector for lane in fed.lanes.values())]
    for selector in reachable:
        assert GONE not in selector.lineage.clients
    if isinstance(select, DQN):
        assert fed.state.select.policy is None
        kept = fed.lanes["global"].selector.policy
        assert kept in mine
        assert GONE not in kept.clients
