import numpy as np
import torch

from support import small_data, toy_weights
from unknot.audit import gap, interference, variants
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
    data = data.replaced(train=type(data.train)(tokens, data.train.y, data.train.classes))
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
