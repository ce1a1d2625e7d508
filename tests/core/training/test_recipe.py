import re

import pytest

from unknot.core.errors import ConfigError
from unknot.core.training import SGD, Adagrad, AdaHessian, Adam, AdamW, ConstantRate, NAdam, Recipe, RMSprop


def test_steps_and_samples_by_hand():
    """10 samples in batches of 4: 3 steps an epoch (4 + 4 + 2)."""
    recipe = Recipe(epochs=2, batch_size=4)
    assert recipe.steps(10) == 6
    assert recipe.samples_seen(10) == 20
    short = Recipe(epochs=2, batch_size=4, max_steps=4)
    assert short.steps(10) == 4
    assert short.samples_seen(10) == 14
    assert recipe.steps(0) == 0
    assert recipe.samples_seen(0) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: SGD(lr=0),
        lambda: SGD(lr=float("nan")),
        lambda: SGD(momentum=-0.1),
        lambda: SGD(nesterov=True),
        lambda: Adam(betas=(0.9, 1.0)),
        lambda: AdamW(weight_decay=-1),
        lambda: AdaHessian(hessian_power=2),
        lambda: NAdam(momentum_decay=-1),
        lambda: Adagrad(lr_decay=-1),
        lambda: Adagrad(initial_accumulator_value=-1),
        lambda: RMSprop(alpha=1.0),
        lambda: RMSprop(momentum=-0.1),
        lambda: Recipe(radius=0.0),
        lambda: Recipe(epochs=0),
        lambda: Recipe(batch_size=0),
        lambda: Recipe(clip=0.0),
        lambda: Recipe(proximal=-1.0),
        lambda: Recipe(max_steps=0),
    ],
)
def test_impossible_numbers_are_refused(make):
    with pytest.raises(ConfigError):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SGD(lr=float("inf")), "SGD: lr must be a finite number, not inf"),
        (lambda: SGD(lr=1e39), "SGD: lr must be a finite number, not 1e+39"),
        (lambda: SGD("0.1"), "SGD: lr must be a finite number, not '0.1'"),
        (lambda: SGD(momentum=None), "SGD: momentum must be a finite number, not None"),
        (lambda: Adam(betas=("a", 0.9)), "Adam: betas"),
        (lambda: Adam(betas=0.9), "Adam: betas must be two numbers"),
        (lambda: RMSprop(alpha="x"), "RMSprop: alpha must be a finite number"),
        (lambda: Recipe(proximal=float("inf")), "Recipe: proximal must be a finite number, not inf"),
        (lambda: Recipe(clip=float("inf")), "Recipe: clip must be a finite number, not inf"),
        (lambda: Recipe(batch_size=1.5), "Recipe: batch_size must be a whole number, not 1.5"),
        (lambda: Recipe(epochs=1.5), "Recipe: epochs must be a whole number, not 1.5"),
        (lambda: Recipe(max_steps="3"), "Recipe: max_steps must be a whole number, not '3'"),
    ],
)
def test_what_is_no_finite_or_no_whole_number_is_refused_in_words(make, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        make()


def test_optimisers_and_schedules_can_be_given_by_name():
    assert Recipe("adam", schedule="constant") == Recipe(Adam(), schedule=ConstantRate())
    with pytest.raises(ConfigError, match=r"Recipe: optimizer = 'adm'.*Did you mean 'adam'"):
        Recipe("adm")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Recipe(Adam), r"Recipe: optimizer is a class: give one of it, Adam\(...\)"),
        (
            lambda: Recipe(0.1),
            "Recipe: optimizer must be of the kind optimiser, or the name of one .*'sgd'.*0.1",
        ),
        (
            lambda: Recipe(schedule=3),
            "Recipe: schedule must be of the kind schedule, or the name of one .*'constant'",
        ),
    ],
)
def test_what_is_no_optimiser_or_schedule_is_refused_with_what_to_write(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
