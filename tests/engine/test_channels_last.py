"""Images whose channels lie side by side: for models that do not mind, and with the same result."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unknot.core.weights import Weights
from unknot.engine.layers.program import Single
from unknot.engine.ways.kinds import channels_last
from unknot.engine.ways.traits import Traits
from unknot.models import build


class Viewing(nn.Module):
    """A network as many are written: `view` asks for the order of axes that it knows."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 30 * 30, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.convolution(x).view(len(x), -1))


def traits(model: nn.Module) -> Traits:
    return Traits.of(model, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize("norm", ["none", "group"])
def test_a_network_gives_the_same_for_images_that_lie_otherwise(norm: str) -> None:
    torch.manual_seed(0)
    model = build("vgg16", (3, 32, 32), classes=10, width=8, groups=4, norm=norm).double()
    assert channels_last(traits(model))
    weights = Weights.of(model)
    parameters = {name: p.unsqueeze(0) for name, p in weights.layout.split(weights.vector).items()}
    x = torch.randn(1, 5, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(
        Single(model, channels_last=True)(parameters, x), Single(model)(parameters, x), rtol=1e-9, atol=1e-12
    )


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 30 * 30, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def test_a_network_that_views_its_images_gets_them_as_it_knows_them() -> None:
    assert channels_last(traits(Plain()))
    assert not channels_last(traits(Viewing()))
    x = torch.randn(1, 2, 3, 32, 32)
    with pytest.raises(RuntimeError, match="view"):
        Viewing()(x[0].contiguous(memory_format=torch.channels_last))


def test_a_network_that_cannot_be_read_gets_its_images_as_it_knows_them() -> None:
    class Unread(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.body(x if x.sum() > 0 else -x)

    assert not channels_last(traits(Unread()))
