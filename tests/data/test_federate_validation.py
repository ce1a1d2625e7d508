"""The server's validation samples: how many, of which classes, and whose they are not."""

from __future__ import annotations

import pytest
import torch
from data_toys import balanced, labelled, owned, rows_of

from unknot.core.errors import ConfigError
from unknot.data import ByOwner, Dirichlet, Iid, federate


@pytest.mark.parametrize(("validation", "size"), [(0.1, 40), (25, 25), (1, 1), (0.5, 200)])
def test_validation_is_a_share_or_a_number(validation: float, size: int) -> None:
    data = federate(balanced(classes=4, train=100), Iid(5), validation=validation)
    assert data.validation is not None
    assert len(data.validation) == size
    assert sum(map(len, rows_of(data).values())) == 400 - size


def test_public_samples_are_held_out_and_nobody_has_them() -> None:
    dataset = balanced(classes=4, train=100)
    plain, data = (federate(dataset, Iid(5), validation=40, public=public) for public in (0, 30))
    assert plain.public is None
    assert data.public is not None
    assert len(data.public) == 30
    assert sum(map(len, rows_of(data).values())) == 400 - 40 - 30
    assert torch.equal(data.validation.x, plain.validation.x)  # what was held out before stays so
    held = torch.cat([dataset.train.x[torch.from_numpy(data[client].rows)] for client in data])
    rows = {tuple(row.flatten().tolist()) for row in dataset.train.x}
    if len(rows) == 400:  # all samples differ
        assert not {tuple(r.flatten().tolist()) for r in data.public} & {
            tuple(r.flatten().tolist()) for r in held
        }
    other = federate(dataset, Iid(7), validation=40, public=30)
    assert torch.equal(other.public, data.public)  # they do not depend on the clients


def test_impossible_public_samples_are_refused() -> None:
    dataset = balanced(classes=4, train=100)
    for public in (-1, 360, True, 0.5):
        with pytest.raises(ConfigError, match="public must be a number of samples"):
            federate(dataset, Iid(5), validation=40, public=public)
    with pytest.raises(ConfigError, match="every sample is somebody's"):
        federate(owned([0] * 9, [0]), ByOwner(), public=3)


@pytest.mark.parametrize("nothing", [0, 0.0])
def test_no_validation_leaves_everything_to_clients(nothing: float) -> None:
    data = federate(balanced(classes=4, train=100), Iid(5), validation=nothing)
    assert data.validation is None
    assert sum(map(len, rows_of(data).values())) == 400


def test_validation_has_every_class_by_its_frequency() -> None:
    data = federate(labelled([0] * 300 + [1] * 100, [0, 1]), Iid(5), validation=0.1)
    assert data.validation is not None
    assert torch.bincount(data.validation.y).tolist() == [30, 10]


def test_validation_rows_are_drawn_not_the_first_ones() -> None:
    drawn = federate(balanced(classes=2, train=500), Iid(5), validation=100).validation
    assert drawn is not None
    # 100 of 1000 rows: the mean row is 499.5, its deviation 27.
    assert abs(drawn.x.mean().item() - 499.5) < 6 * 27


def test_a_clients_draw_does_not_depend_on_validation() -> None:
    """Which labels a client gets is drawn from its own key; only which rows carry them may change."""
    whole = balanced(train=500)
    tables = []
    for validation in (0.0, 0.2):
        data = federate(whole, Dirichlet(8, 0.5, 40), validation=validation)
        tables.append([torch.bincount(whole.train.y[data[c].rows], minlength=10).tolist() for c in data])
    assert tables[0] == tables[1]


def test_federation_has_the_sets_name_and_its_test_samples() -> None:
    whole = balanced()
    data = federate(whole, Iid(5))
    assert data.name == "toy"
    assert data.test is whole.test
    assert data.train is whole.train
