"""Models by name."""

from __future__ import annotations

from typing import Any

from torch import nn

from unknot.core.errors import ConfigError
from unknot.core.registry import models
from unknot.models.checks import whole, wholes
from unknot.models.cnn import cnn_exact, cnn_incentive, lenet5
from unknot.models.gpt import gpt
from unknot.models.gpt2 import gpt2
from unknot.models.mlp import mlp
from unknot.models.pretrained import named as pretrained
from unknot.models.vgg import vgg16

MODELS = models.open(
    {
        "mlp": mlp,
        "lenet5": lenet5,
        "cnn-exact": cnn_exact,
        "cnn-incentive": cnn_incentive,
        "vgg16": vgg16,
        "gpt": gpt,
        "gpt2": gpt2,
        "pretrained": pretrained,
    },
    nn.Module,
    given=2,
    reserved=("initial", "lora"),
)


def names() -> tuple[str, ...]:
    """The models that `build` knows."""
    return models.names()


def build(name: str, shape: tuple[int, ...], classes: int, **options: Any) -> nn.Module:
    """A new model for samples of `shape`; its start is drawn from PyTorch's generator.

    `shape` is (channels, height, width) of an image, (features,) or (tokens,); `classes` is the
    number of outputs, for text the vocabulary. The options are the keyword arguments of the
    functions in this package, or of whatever else has that name.
    """
    models.get(name)
    shape = wholes(name, "shape", shape)
    if not shape:
        raise ConfigError(f"model {name!r}: shape () has no dimension; give that of one sample")
    made: nn.Module = models.make(name, options, given=(shape, whole(name, "classes", classes)))
    return made
