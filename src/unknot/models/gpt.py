"""A small decoder-only transformer for text."""

from __future__ import annotations

import math

from torch import Tensor, nn

from unknot.models.checks import transformer
from unknot.models.transformer import CausalSelfAttention, PositionEmbedding


class Block(nn.Module):
    """Attention and a GELU layer of four times the width, each on a normalised residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = CausalSelfAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class GPT(nn.Module):
    """Token numbers ``[B, T]`` to logits of the next token ``[B, T, vocabulary]``."""

    def __init__(self, vocabulary: int, context: int, layers: int, heads: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = PositionEmbedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        begin(self, layers, ("attention.out.weight", "mlp.2.weight"))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.positions(self.tokens(tokens))
        x = self.blocks(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def begin(model: nn.Module, layers: int, residual: tuple[str, ...]) -> None:
    """GPT-2's start: small draws; smaller the more layers add to the residual stream, for those that do."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for name, parameter in model.named_parameters():
        if name.endswith(residual):
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers))


def gpt(
    shape: tuple[int, ...],
    classes: int,
    *,
    layers: int = 4,
    heads: int = 4,
    width: int = 128,
    context: int | None = None,
) -> nn.Module:
    """A GPT-2-like language model of a size that a CPU trains.

    `classes` is the vocabulary. Learnt positions, layer normalisation before each part, GELU, no dropout, and
    an output layer of its own (GPT-2 shares it with the token embedding). KNOT's distilled GPT-2 is
    ``layers=6, heads=12, width=768, context=1024`` with a vocabulary of 50257.

    `layers`: how many blocks. `heads`: attention heads a block, which divide the width. `width`: numbers a
    token. `context`: tokens of the longest text; left out: those of the data.
    """
    context = transformer("gpt", shape, layers, heads, width, context)
    return GPT(classes, context, layers, heads, width)
