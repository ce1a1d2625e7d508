import numpy as np
import torch

from support import small_data, toy_weights
from unknot.audit import gap, interference, variants
from unknot.core.data import Samples
from unknot.core.requests import Target
from unknot.core.weights import Weights


def held(data, client):
    return data.train.take(torch.from_numpy(data[client].rows))


def test_variants_differ_in_the_erased_data_alone():
    data = small_data()
    changed = variants(data, [Target(3)])
    assert set(changed) == {"other samples", "random labels", "no samples"}
    for variant in changed.values():
        for client in set(data) - {3}:
            for mine, yours in zip(held(data, client), held(variant, client), strict=True):
                assert torch.equal(mine, yours)
    x, y = held(data, 3)
    other_x, same_y = held(changed["other samples"], 3)
    same_x, other_y = held(changed["random labels"], 3)
    assert not torch.equal(x, other_x)
    assert torch.equal(y, same_y)
    assert torch.equal(x, same_x)
    assert not torch.equal(y, other_y)
    assert len(changed["no samples"][3]) == 0


def test_only_the_named_samples_change():
    data = small_data()
    changed = variants(data, [Target(1, (0, 5))])
    assert set(changed) == {"other samples", "random labels"}
    x, _ = held(data, 1)
    other, _ = held(changed["other samples"], 1)
    same = [bool(torch.equal(a, b)) for a, b in zip(x, other, strict=True)]
    assert same == [False, True, True, True, True, False, True, True]
    assert np.array_equal(changed["other samples"][1].ids, data[1].ids)


def test_text_stays_text():
    data = small_data()
    tokens = data.train.x.round().long().clamp(0, 4)
    words = {part: getattr(data, part) for part in ("test", "validation")}
    words = {part: Samples(of.x.round().long().clamp(0, 4), of.y, of.classes) for part, of in words.items()}
    data = data.replaced(train=Samples(tokens, data.train.y, data.train.classes), public=None, **words)
    other = variants(data, [Target(0)])["other samples"].train.x
    assert other.dtype == torch.long
    assert 0 <= int(other.min()) <= int(other.max()) <= 4


def test_a_gap_is_zero_only_for_equal_bits():
    a = toy_weights()
    assert gap(a, a) == 0
    assert gap(a, a * 2) == 1
    zero = a * 0.0
    assert gap(zero, Weights(-zero.vector, a.layout)) != 0


def test_a_run_that_uses_the_erased_data_is_found_out():
    data = small_data()

    def run(variant):
        return toy_weights() * float(held(variant, 3)[0].sum())

    report = interference(run, data, [Target(3)])
    assert not report.none
    assert report.gaps["other samples"] > 0
    assert report.gaps["random labels"] == 0
    assert report.gaps["no samples"] > 0


OWNER = np.array([3, -1, 0, 3, 2, -1, 0, 3, 1, 1, 2, -1])


def owned():
    shares = {k: np.flatnonzero(np.equal(OWNER, k)) for k in range(6)}
    return small_data().replaced(validation_owner=OWNER, test_owner=OWNER, test_rows=shares)


def test_variants_change_the_held_out_rows_of_the_erased_client_and_no_others():
    data = owned()
    changed = variants(data, [Target(3)])
    mine = np.equal(OWNER, 3)
    for part in ("validation", "test"):
        base = getattr(data, part)
        other, labels = (getattr(changed[name], part) for name in ("other samples", "random labels"))
        assert (other.x != base.x).any(1).tolist() == mine.tolist()
        assert torch.equal(other.y, base.y)
        assert torch.equal(labels.x, base.x)
        assert (labels.y != base.y).any()
        assert not (labels.y != base.y)[~mine].any()
        none = getattr(changed["no samples"], part)
        assert torch.equal(none.x, base.x[~mine])
    for variant in changed.values():
        assert len(variant.test_rows[0]) == 2
        assert torch.equal(variant.test.x[variant.test_rows[0]], data.test.x[data.test_rows[0]])
        variant.erase(3)
        assert variant.validation.x.shape == (9, 8)
    assert data.validation_clients == {0, 1, 2, 3}


def test_held_out_rows_stay_as_they_are_where_samples_are_erased():
    data = owned()
    for variant in variants(data, [Target(3, (0, 1))]).values():
        assert variant.validation is data.validation
        assert variant.test is data.test


def test_a_run_that_uses_an_erased_clients_held_out_rows_is_found_out():
    """Serving what does best on validation data in which the erased client's rows still are."""

    def run(variant):
        return toy_weights() * float(variant.validation.x.sum())

    def forgetful(variant):
        rest = variant.fork()
        rest.erase(3)
        return run(rest)

    report = interference(run, owned(), [Target(3)])
    assert report.gaps["other samples"] > 0
    assert report.gaps["no samples"] > 0
    assert interference(forgetful, owned(), [Target(3)]).none
