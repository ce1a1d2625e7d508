"""What language models of ours have in common: what they give, and how one becomes a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from torch import Tensor, nn

from unknot.core.wording import Wording
from unknot.models.transformer import AnswerTokens, InFull, LastToken


class LanguageModel(nn.Module):
    """Token numbers ``[B, T]`` to logits of the next token ``[B, T, vocabulary]``, in full precision.

    With `answering` it is a classifier: of the last token that is not `pad`, the logits of these tokens.
    With `scoring` it is one by a new layer for that many classes. Either takes the place of the head.
    """

    trunk: ClassVar[str]
    """The name of all but the head."""
    head: ClassVar[str] = "lm_head"
    """Which gets no adapter, unless it is named."""
    fresh: tuple[str, ...] = ()
    """Layers that nobody has trained yet: they are trained beside adapters."""

    wording: Wording | None = None
    """What is known of the texts that it reads."""

    def __init__(self, trunk: nn.Module, table: nn.Embedding, tied: bool) -> None:
        super().__init__()
        self.add_module(self.trunk, trunk)
        self.vocabulary, self.width = table.num_embeddings, table.embedding_dim
        self.lm_head = nn.Linear(self.width, self.vocabulary, bias=False)
        if tied:
            self.lm_head.weight = table.weight
        self.full = InFull()
        self.last: LastToken | None = None
        self.answer: AnswerTokens | None = None
        self.score: nn.Linear | None = None

    def answering(self, tokens: Sequence[int], pad: int) -> Self:
        self.last, self.answer = LastToken(pad), AnswerTokens(self.lm_head, tokens)
        del self.lm_head
        return self

    def scoring(self, classes: int, pad: int) -> Self:
        self.last, self.score = LastToken(pad), nn.Linear(self.width, classes, bias=False)
        nn.init.normal_(self.score.weight, std=0.02)
        self.fresh = ("score",)
        del self.lm_head
        return self

    def forward(self, tokens: Tensor) -> Tensor:
        x = getattr(self, self.trunk)(tokens)
        if self.last is not None:
            x = self.last(x, tokens)
        head = self.answer or self.score or self.lm_head
        out: Tensor = self.full(head(x))
        return out
