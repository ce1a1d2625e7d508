"""GPT-2 (Radford et al. 2019), with the parameter names of Hugging Face's, so that adapters fit both.

Its `Conv1D` is a linear layer whose matrix is stored the other way round: here it is an `nn.Linear`.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from unknot.models.causal import LanguageModel
from unknot.models.checks import transformer
from unknot.models.gpt import begin
from unknot.models.transformer import CausalSelfAttention, PositionEmbedding


class Attention(CausalSelfAttention):
    """Attention by the names that GPT-2 has for its parts."""

    parts: ClassVar[tuple[str, str]] = ("c_attn", "c_proj")


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, hidden)
        self.act = nn.GELU(approximate="tanh")
        self.c_proj = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.c_proj(self.act(self.c_fc(x)))
        return out


class Block(nn.Module):
    """Attention and a hidden layer, each on a normalised residual."""

    def __init__(self, width: int, heads: int, hidden: int, eps: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width, eps)
        self.mlp = Mlp(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class Trunk(nn.Module):
    """Token numbers ``[B, T]`` to what the last layer gives, ``[B, T, width]``."""

    def __init__(
        self, vocabulary: int, context: int, width: int, layers: int, heads: int, hidden: int, eps: float
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = PositionEmbedding(context, width)
        self.h = nn.Sequential(*(Block(width, heads, hidden, eps) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width, eps)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.ln_f(self.h(self.wpe(self.wte(tokens))))
        return out


class GPT2(LanguageModel):
    """Token numbers ``[B, T]`` to logits of the next token, or of answers (see `LanguageModel`); no dropout.

    Where it is `tied`, the last layer is the table of tokens itself.
    """

    trunk: ClassVar[str] = "transformer"

    def __init__(
        self,
        vocabulary: int,
        context: int,
        width: int,
        layers: int,
        heads: int,
        hidden: int | None = None,
        eps: float = 1e-5,
        tied: bool = True,
    ) -> None:
        trunk = Trunk(vocabulary, context, width, layers, heads, hidden or 4 * width, eps)
        super().__init__(trunk, trunk.wte, tied)
        begin(self, layers, ("c_proj.weight",))


def gpt2(
    shape: tuple[int, ...],
    classes: int,
    *,
    layers: int = 12,
    heads: int = 12,
    width: int = 768,
    context: int | None = None,
) -> nn.Module:
    """GPT-2 from scratch, of the smallest published size: its output layer is the table of tokens.

    `classes` is the vocabulary. The distilled size is ``layers=6``. Published weights come with the model
    "pretrained".

    `layers`: how many blocks. `heads`: attention heads a block, which divide the width. `width`: numbers a
    token. `context`: tokens of the longest text; left out: those of the data.
    """
    context = transformer("gpt2", shape, layers, heads, width, context)
    return GPT2(classes, context, width, layers, heads)
