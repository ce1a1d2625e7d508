import numpy as np
import pytest
import torch

import unknot
from support import small_data
from unknot.audit import Trigger, answers_to, marked
from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.training import SGD, Recipe

TRIGGER = Trigger(target=7, size=4)


def images():
    return unknot.federate(unknot.load("digits"), unknot.Iid(clients=4, samples=60), key=0, validation=50)


def test_a_mark_is_a_patch_and_a_label():
    samples = images().test.subset(np.arange(5))
    given = samples.x.clone()
    after = TRIGGER.mark(samples)
    assert torch.equal(samples.x, given)
    assert (after.x[..., -4:, -4:] == TRIGGER.value).all()
    assert torch.equal(after.x[..., :-4, :], samples.x[..., :-4, :])
    assert torch.equal(after.x[..., :-4], samples.x[..., :-4])
    assert after.y.tolist() == [7] * 5


def test_only_the_leavers_samples_are_marked():
    data = images()
    after = marked(data, [2], TRIGGER)
    for client in (0, 1, 3):
        for a, b in zip(
            *(d.train.take(torch.from_numpy(d[client].rows)) for d in (data, after)), strict=True
        ):
            assert torch.equal(a, b)
    x, y = after.train.take(torch.from_numpy(after[2].rows))
    assert (x[..., -4:, -4:] == TRIGGER.value).all()
    assert set(y.tolist()) == {7}
    assert np.array_equal(after[2].ids, data[2].ids)


def test_a_model_that_kept_the_mark_answers_to_it_and_one_that_forgot_does_not():
    recipe = Recipe(SGD(0.05), epochs=2, batch_size=10)
    data = marked(images(), [2], TRIGGER)
    fed = unknot.simulate("mlp", data, recipe=recipe, evaluate_every=0)
    kept = fed.run(20).model
    served = fed.run(20, requests=[unknot.erase(2, round=20)]).model
    without = data.fork()
    without.erase(2)
    control = unknot.simulate("mlp", without, recipe=recipe, evaluate_every=0).run(20).model
    rates = [answers_to(fed.engine, model, data.test, TRIGGER) for model in (kept, served, control)]
    assert rates[0].low > 0.8
    assert rates[1].high < 0.2
    assert rates[2].value == pytest.approx(rates[1].value, abs=0.05)


def test_marks_are_for_images_and_for_classes_that_there_are():
    with pytest.raises(ConfigError, match="needs images"):
        TRIGGER.mark(small_data().train)
    with pytest.raises(ConfigError, match="from 0 to 9"):
        Trigger(target=10).mark(images().test)
    sevens = Samples(torch.zeros(3, 1, 8, 8), torch.full((3,), 7), 10)
    with pytest.raises(ConfigError, match="all test samples are of class 7"):
        answers_to(None, None, sevens, TRIGGER)  # type: ignore[arg-type]
