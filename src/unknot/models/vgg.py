"""VGG-16 for small images, without batch statistics."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from unknot.core.errors import ConfigError
from unknot.models.checks import image, whole, wholes, word
from unknot.models.mlp import fully_connected

# Convolutions of each stage and their channels, in units of the first stage's (configuration D).
STAGES = ((2, 1), (2, 2), (3, 4), (3, 8), (3, 8))


def vgg16(
    shape: tuple[int, ...],
    classes: int,
    *,
    norm: str = "group",
    groups: int = 32,
    width: int = 64,
    hidden: Sequence[int] = (),
) -> nn.Module:
    """VGG-16 (Simonyan and Zisserman 2014), as KNOT uses it for CIFAR-10 and BMT/MMT for CIFAR-100.

    13 convolutions of 3×3 in five stages, each ended by a 2×2 max pool, then one linear layer
    instead of two of 4096 units, as is usual for 32×32 images. Batch normalisation would carry
    statistics from client to client and from sample to sample, so group normalisation (Wu and He
    2018) stands in its place.

    `norm`: "group", or "none" for the network of 2014. `groups`: how many groups of channels are normalised.
    `width`: the first stage's channels; 64 is VGG-16, less is quicker. `hidden`: widths of further linear
    layers before the last.
    """
    norm = word("vgg16", "norm", norm, ("group", "none"))
    groups, width = whole("vgg16", "groups", groups), whole("vgg16", "width", width)
    if norm == "group" and width % groups:
        raise ConfigError(
            f"model 'vgg16': width {width} cannot be parted into {groups} groups; "
            f"give groups that divide the width"
        )
    hidden = wholes("vgg16", "hidden", hidden)
    advice = "enlarge the images, or use model 'lenet5' or 'mlp'"
    before, height, breadth = image("vgg16", shape, 2 ** len(STAGES), advice)
    layers: list[nn.Module] = []
    for convolutions, factor in STAGES:
        for _ in range(convolutions):
            layers.append(nn.Conv2d(before, factor * width, 3, padding=1))
            before = factor * width
            if norm == "group":
                layers.append(nn.GroupNorm(groups, before))
            layers.append(nn.ReLU())
        layers.append(nn.MaxPool2d(2))
        height, breadth = height // 2, breadth // 2
    head = fully_connected([before * height * breadth, *hidden, classes])
    network = nn.Sequential(*layers, nn.Flatten(), *head)
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            # PyTorch's own start shrinks the signal at each layer: 13 of them and nothing is left.
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    return network
