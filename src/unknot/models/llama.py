"""Llama (Touvron et al. 2023), with Hugging Face's names: SmolLM2, Llama 2 and 3, stories260K."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from unknot.models.causal import LanguageModel
from unknot.models.transformer import GatedMLP, RMSNorm, RotaryAttention


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama."""

    vocabulary: int
    width: int
    """Numbers a token."""
    layers: int
    heads: int
    kv_heads: int
    """Heads of keys and values, each shared by as many heads of queries."""
    hidden: int
    """Numbers a token within a gated layer."""
    head_width: int
    rope_base: float = 10000.0
    rope_scaling: tuple[float, float, float, int] | None = None
    eps: float = 1e-5
    tied: bool = True
    """Whether the head has the embedding's weights."""
    context: int = 2048
    """Tokens of the longest text that it was trained on."""


class Block(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, eps = config.width, config.eps
        self.input_layernorm = RMSNorm(width, eps)
        self.self_attn = RotaryAttention(
            width, config.heads, config.kv_heads, config.head_width, config.rope_base, config.rope_scaling
        )
        self.post_attention_layernorm = RMSNorm(width, eps)
        self.mlp = GatedMLP(width, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        x = x + self.mlp(self.post_attention_layernorm(x))
        return x


class Decoder(nn.Module):
    """Token numbers ``[B, T]`` to ``[B, T, width]``."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.eps)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.norm(x)
        return out


class Llama(LanguageModel):
    """Token numbers ``[B, T]`` to logits of the next token, or of answers (see `LanguageModel`)."""

    trunk: ClassVar[str] = "model"

    def __init__(self, config: LlamaConfig) -> None:
        decoder = Decoder(config)
        super().__init__(decoder, decoder.embed_tokens, config.tied)
        self.config = config
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
