"""What comes with unknot passes the checks that others' things are put through."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unknot
from unknot.core.data import FederatedData, Samples, Shard
from unknot.data import PARTITIONS
from unknot.federation import AGGREGATES
from unknot.models import names
from unknot.select import SELECTORS
from unknot.testing import (
    check_aggregator,
    check_data,
    check_loss,
    check_method,
    check_metric,
    check_model,
    check_optimizer,
    check_partition,
    check_selector,
    small_data,
    small_dataset,
)
from unknot.unlearn import (
    BMT,
    FATS,
    KNOT,
    METHODS,
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

NEVER_HAD = {
    "rfs": RFS(),
    "standalone": Standalone(),
    "exact-fun": ExactFun(),
    "fats": FATS(rho_client=5, rounds=20, local_steps=3, clients=8),
}
ISOLATED = {
    "fedcio": FedCIO(2),
    "knot, random": KNOT(3, by="random"),
    "knot, random, goes back": KNOT(3, by="random", restart="before"),
}
OTHERS = {
    "rapid": Rapid(),
    "bmt": BMT(),
    "mmt": MMT(),
    "sisa": SISA(),
    "federaser": FedEraser(interval=1),
    "pga": PGA(epochs=1),
    "distillation": Distillation(epochs=1),
    "knot, random, mmt": KNOT(2, by="random", retrain=MMT()),
}
ALL = {**NEVER_HAD, **ISOLATED, **OTHERS}
OTHER_NODES = {*ISOLATED, "knot, random, mmt", "mmt"}
"""Of these the nodes themselves would be others without the client."""
VARIANTS = {"knot, random, goes back", "knot, random, mmt"}
"""Other forms of a method that is checked as it comes."""


def test_every_method_is_checked():
    """One that is new has to be added to one of the tables above."""
    assert {ALL[name].name for name in ALL.keys() - VARIANTS} == set(METHODS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in VARIANTS else name for name in ALL]
)
def test_methods(name):
    report = check_method(ALL[name], never_had=name in NEVER_HAD, isolated=name in ISOLATED)
    assert report.notes.get("as if never there", False) == (name in NEVER_HAD)
    assert ("never there" in report.notes) == (name in OTHER_NODES)
    assert ("depends on what was erased" in report.notes) == (not ALL[name].exact)
    assert str(report).startswith(f"method {type(ALL[name]).__name__}")


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ALL if n != "fats"])
def test_methods_on_a_real_engine(name):
    model = lambda: unknot.models.build("mlp", (8,), 3, hidden=(5,))  # noqa: E731
    recipe = unknot.Recipe(unknot.SGD(0.1), batch_size=4)
    check_method(ALL[name], model=model, recipe=recipe, never_had=name in NEVER_HAD)


@pytest.mark.parametrize("name", unknot.registry.optimizers.ours)
def test_optimisers(name):
    check_optimizer(name)


@pytest.mark.parametrize("name", unknot.registry.losses.ours)
def test_losses(name):
    report = check_loss(name)
    assert report.notes["ways, with Adam"]["batched"] == "yes"


@pytest.mark.parametrize("name", unknot.registry.metrics.ours)
def test_metrics(name):
    check_metric(name)


def one_value():
    """Data with one value a sample, as ``[n]``."""
    data = small_data(kind="values", classes=1)
    parts = {name: getattr(data, name) for name in ("train", "test", "validation")}
    return data.replaced(**{name: replace(part, y=part.y[:, 0]) for name, part in parts.items()})


@pytest.mark.parametrize(
    "loss",
    [
        "squared-error",
        pytest.param("huber", marks=pytest.mark.slow),
        "torch.nn:HuberLoss",
        torch.nn.L1Loss(),
    ],
)
def test_losses_of_one_value(loss):
    check_loss(loss, one_value())


def test_a_loss_of_several_outputs_is_refused_for_one_value_in_words():
    with pytest.raises(AssertionError, match=r"soft-targets.*one number a sample"):
        check_loss("soft-targets", one_value())


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregators(name):
    needed = {"norm-clipping": {"bound": 0.5}}
    check_aggregator(unknot.registry.aggregators.make(name, needed.get(name)))


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors(name):
    check_selector(name)


DEALS = [
    unknot.Iid(5),
    unknot.Iid(5, samples=20, overlap=True),
    unknot.Dirichlet(5, 0.5),
    unknot.Dirichlet(5, 5.0, samples=20),
    unknot.DominantClass(5),
    unknot.MajorityClass(5, 0.5),
    unknot.Labels(5, 2),
    unknot.ByOwner(),
]


def test_every_partition_is_checked():
    assert {type(partition) for partition in DEALS} == set(PARTITIONS.values())


@pytest.mark.parametrize("partition", DEALS, ids=str)
def test_partitions(partition):
    check_partition(partition)


def test_data():
    report = check_data(small_dataset)
    assert report.notes["rows that several clients hold"] == 0
    check_data(small_data())
    check_data(unknot.federate(small_dataset(), unknot.ByOwner()))


@pytest.mark.slow
def test_the_built_in_data():
    check_data("digits")


def images(side: int) -> FederatedData:
    rng = np.random.default_rng(0)

    def samples(n):
        x = torch.from_numpy(rng.standard_normal((n, 1, side, side), dtype=np.float32))
        return Samples(x, torch.from_numpy(rng.integers(0, 3, n)), 3)

    return FederatedData(samples(9), {0: Shard.of(range(4)), 1: Shard.of(range(4, 9))}, samples(2))


def words() -> FederatedData:
    rng = np.random.default_rng(0)
    text = torch.from_numpy(rng.integers(0, 9, (9, 7)))
    samples = Samples(text[:, :-1].contiguous(), text[:, 1:].contiguous(), 9)
    return FederatedData(samples, {0: Shard.of(range(4)), 1: Shard.of(range(4, 9))}, samples)


def test_a_model():
    report = check_model("mlp")
    assert report.notes["ways, with SGD"] == {"fused": "yes", "batched": "yes", "vmap": "yes"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in names() if n not in ("mlp", "vgg16", "pretrained")])
def test_models(name):
    if name in ("gpt", "gpt2"):
        check_model(lambda: unknot.models.build(name, (6,), 9, layers=1, heads=2, width=8), words())
    else:
        check_model(name, images(28))


def test_partitions_by_name_with_options():
    assert str(check_partition("dirichlet", clients=4, alpha=1.0)).startswith("partition Dirichlet")
    with pytest.raises(unknot.ConfigError, match=r"partition 'iid' has no option 'client'"):
        check_partition("iid", client=4)
    with pytest.raises(unknot.ConfigError, match="given by name"):
        check_partition(unknot.Iid(4), clients=4)
