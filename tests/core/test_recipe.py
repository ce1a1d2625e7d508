import pytest

from unknot.core.errors import ConfigError
from unknot.core.recipe import SGD, AdaHessian, Adam, AdamW, Recipe


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
