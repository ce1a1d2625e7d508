"""What a model asks of its shape and options, said in words when it is not met."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from unknot.core.errors import ConfigError, nearest

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


def whole(model: str, name: str, value: object) -> int:
    """A whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"model {model!r}: {name} must be a whole number above 0, not {value!r}")
    return value


def wholes(model: str, name: str, values: object) -> tuple[int, ...]:
    """A tuple (or a list, as a file has it) of whole numbers above 0."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(
            f"model {model!r}: {name} must be a list of whole numbers such as [80], not {values!r}"
        )
    return tuple(whole(model, f"{name}[{i}]", value) for i, value in enumerate(values))


def word(model: str, name: str, value: object, known: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in known:
        raise ConfigError(
            f"model {model!r}: {name} = {value!r} is not one that there is.{nearest(str(value), known)}"
        )
    return value


def image(model: str, shape: tuple[int, ...], smallest: int, instead: str) -> tuple[int, int, int]:
    """(channels, height, width) with sides of at least `smallest`; `instead` says what to do."""
    if len(shape) != 3 or min(shape[1:]) < smallest:
        raise ConfigError(
            f"model {model!r} takes images of shape (channels, height, width), at least "
            f"{smallest}×{smallest}, not samples of shape {shape}: {instead}"
        )
    return shape[0], shape[1], shape[2]


def text(model: str, shape: tuple[int, ...]) -> int:
    """(tokens,): how long the texts are."""
    if len(shape) != 1:
        raise ConfigError(
            f"model {model!r} takes texts of shape (tokens,), not samples of shape {shape}: "
            f"use model 'mlp' or a convolutional one for images"
        )
    return shape[0]


def transformer(
    model: str, shape: tuple[int, ...], layers: int, heads: int, width: int, context: int | None
) -> int:
    """The sizes of a transformer for texts of this shape; gives how many positions it has."""
    tokens = text(model, shape)
    for name, value in (("layers", layers), ("heads", heads), ("width", width)):
        whole(model, name, value)
    context = tokens if context is None else whole(model, "context", context)
    if width % heads:
        raise ConfigError(
            f"model {model!r}: width {width} cannot be parted into {heads} heads; give heads that divide it"
        )
    if tokens > context:
        raise ConfigError(
            f"model {model!r}: texts of {tokens} tokens do not fit a context of {context}; "
            f"set context to at least {tokens}"
        )
    return context
