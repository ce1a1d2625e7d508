"""Small convolutional networks: 5×5 convolutions, each with ReLU and a 2×2 max pool, then a head."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from unknot.core.errors import ConfigError
from unknot.models.checks import image, wholes
from unknot.models.mlp import fully_connected


def _five_by_five(
    image_shape: tuple[int, int, int],
    classes: int,
    channels: Sequence[int],
    hidden: Sequence[int],
    paddings: Sequence[int],
) -> nn.Sequential:
    """Convolutions of `channels` with `paddings`, then linear layers of `hidden` units."""
    before, height, width = image_shape
    layers: list[nn.Module] = []
    for after, padding in zip(channels, paddings, strict=True):
        layers += [nn.Conv2d(before, after, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
        before, height, width = after, (height - 4 + 2 * padding) // 2, (width - 4 + 2 * padding) // 2
    head = fully_connected([before * height * width, *hidden, classes])
    return nn.Sequential(*layers, nn.Flatten(), *head)


def _smallest_side(paddings: Sequence[int]) -> int:
    """The least side that leaves one pixel: each stage maps s to ⌊(s − 4 + 2·padding)/2⌋."""
    side = 1
    for padding in reversed(paddings):
        side = 2 * side + 4 - 2 * padding
    return side


def _paddings(model: str, channels: tuple[int, ...], padding: int) -> tuple[int, ...]:
    if not channels or padding not in (0, 1, 2):
        raise ConfigError(
            f"model {model!r}: channels names one convolution at least, and padding is 0, 1 or 2 for 5×5 "
            f"kernels; found {channels} and {padding!r}"
        )
    return (padding,) * len(channels)


def lenet5(shape: tuple[int, ...], classes: int) -> nn.Module:
    """LeNet-5 as it is written today: ReLU, max pooling, a fully connected third stage.

    6 and 16 channels, then 120 and 84 units (LeCun et al. 1998), as KNOT uses it. The network is
    made for 32×32; smaller images (MNIST's 28×28) are padded by 2 in the first convolution.
    """
    advice = "use model 'mlp', which takes any shape"
    channels, height, width = image("lenet5", shape, _smallest_side((2, 0)), advice)
    paddings = (2, 0) if min(height, width) < 32 else (0, 0)
    return _five_by_five((channels, height, width), classes, (6, 16), (120, 84), paddings)


def cnn_exact(
    shape: tuple[int, ...],
    classes: int,
    *,
    channels: Sequence[int] = (32, 64),
    hidden: Sequence[int] = (32, 32),
    padding: int = 0,
) -> nn.Module:
    """The CIFAR-10 network of the paper on exact federated unlearning (BMT and MMT).

    The paper says: 5×5 convolutional layers followed by 2×2 max pools, and two fully connected
    layers with 32 hidden units and ReLU. It says neither how many convolutions nor how many
    channels: the default takes two with 32 and 64, as the 5×5 network of McMahan et al. (2017),
    with ReLU before each pool and no padding. "Two layers with 32 hidden units" is read as two
    layers of 32 before the output; ``hidden=(32,)`` is the other reading.

    `channels`: a number for each convolution. `hidden`: widths of the linear layers before the output.
    `padding`: pixels around each convolution's input, 0 to 2.
    """
    channels = wholes("cnn-exact", "channels", channels)
    hidden = wholes("cnn-exact", "hidden", hidden)
    paddings = _paddings("cnn-exact", channels, padding)
    advice = "name fewer channels, set padding = 2, or use model 'mlp'"
    taken = image("cnn-exact", shape, _smallest_side(paddings), advice)
    return _five_by_five(taken, classes, channels, hidden, paddings)


def cnn_incentive(
    shape: tuple[int, ...],
    classes: int,
    *,
    channels: Sequence[int] | None = None,
    hidden: Sequence[int] | None = None,
    padding: int = 0,
) -> nn.Module:
    """The networks of the paper on incentives and dynamic client selection.

    The paper refers to FedEraser (Liu et al. 2021) and to Favor (Wang et al. 2020) for them, and the
    public code of both has the same two. One channel (MNIST): 20 and 50 channels, 500 hidden units.
    Three channels (CIFAR-10): 6 and 16 channels, 120 and 84 hidden units. Fashion-MNIST is not in
    FedEraser, and Favor's network for it has batch normalisation, so the one for MNIST is used.

    `channels`: a number for each convolution; left out: by the images' channels. `hidden`: widths of the
    linear layers before the output; left out: likewise. `padding`: pixels around each convolution's input, 0
    to 2.
    """
    one = bool(shape) and shape[0] == 1
    channels = wholes("cnn-incentive", "channels", channels or ((20, 50) if one else (6, 16)))
    hidden = wholes("cnn-incentive", "hidden", ((500,) if one else (120, 84)) if hidden is None else hidden)
    paddings = _paddings("cnn-incentive", channels, padding)
    advice = "set padding = 2, or use model 'mlp'"
    taken = image("cnn-incentive", shape, _smallest_side(paddings), advice)
    return _five_by_five(taken, classes, channels, hidden, paddings)
