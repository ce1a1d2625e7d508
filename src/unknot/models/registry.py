"""Models by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from unknot.core.errors import ConfigError, nearest
from unknot.models.checks import whole, wholes
from unknot.models.cnn import cnn_exact, cnn_incentive, lenet5
from unknot.models.gpt import gpt
from unknot.models.mlp import mlp
from unknot.models.vgg import vgg16

_MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "lenet5": lenet5,
    "cnn-exact": cnn_exact,
    "cnn-incentive": cnn_incentive,
    "vgg16": vgg16,
    "gpt": gpt,
}


def names() -> tuple[str, ...]:
    """The models that `build` knows."""
    return tuple(_MODELS)


def build(name: str, shape: tuple[int, ...], classes: int, **options: Any) -> nn.Module:
    """A new model for samples of `shape`; its start is drawn from PyTorch's generator.

    `shape` is (channels, height, width) of an image, (features,) or (tokens,); `classes` is the
    number of outputs, for text the vocabulary. The options are the keyword arguments of the
    functions in this package.
    """
    if name not in _MODELS:
        raise ConfigError(f"unknown model {name!r}.{nearest(name, _MODELS)}")
    make = _MODELS[name]
    known = [p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            hint = nearest(option, known) if known else " It has no options."
            raise ConfigError(f"model {name!r} has no option {option!r}.{hint}")
    shape = wholes(name, "shape", shape)
    if not shape:
        raise ConfigError(f"model {name!r}: shape () has no dimension; give that of one sample")
    return make(shape, whole(name, "classes", classes), **options)
