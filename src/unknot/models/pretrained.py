"""A language model that others have trained, from its file or folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from unknot.core.errors import ConfigError, DataError
from unknot.core.places import located
from unknot.core.wording import Wording
from unknot.models.borrowed import Others
from unknot.models.checks import text
from unknot.models.files.checkpoint import Checkpoint
from unknot.models.files.find import checkpoint
from unknot.text.tokenizer import NAMES, Tokenizer
from unknot.text.tokenizer import tokenizer as read_tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def pretrained(
    path: str | Path,
    *,
    answers: Sequence[str] = (),
    classes: int | None = None,
    dtype: str = "float32",
    tokenizer: str | Path | None = None,
) -> nn.Module:
    """A language model from the file or folder at `path`: token numbers ``[B, T]`` to logits.

    Read are GGUF files of Llamas and GPT-2, folders of Hugging Face's with either (`config.json` and
    `model.safetensors`), llama2.c's .bin, and other folders by the package `transformers`, where that is
    installed. Nothing is downloaded.

    It predicts the next token, ``[B, T, vocabulary]``; with `answers`, one word a class in the order of the
    classes, it tells these by how likely each word is to come next, ``[B, classes]``; with `classes`, by a
    layer of its own for so many: that of a folder for classification, or a new one called ``score``, drawn
    from PyTorch's generator.

    `dtype`: "float32", or "bfloat16" for a base of half the size. `tokenizer`: where its tokenizer lies; left
    out: with the model. Paths go from the working directory, or else from the folders in $UNKNOT_DATA.
    """
    found, tells = checkpoint(located(path)), bool(answers or classes)
    words = _words(found.path, tokenizer, needed=tells)
    return _made(found, words, tells, tuple(answers), classes, dtype)


def named(
    shape: tuple[int, ...],
    classes: int,
    *,
    path: Path,
    answers: tuple[str, ...] = (),
    dtype: str = "float32",
    tokenizer: Path | None = None,
) -> nn.Module:
    """A language model that others have trained: a GGUF file, a folder of Hugging Face's, llama2.c's .bin.

    Where the data's classes are the tokens, it predicts the next one. Else it tells classes, by words or by a
    layer for so many: that of a folder for classification, or a new one called ``score``.

    `path`: its file or folder, from the working directory or else from a folder in $UNKNOT_DATA. `answers`:
    one word a class, in the order of the classes; how likely each is to come next tells the class; left out:
    a layer does. `dtype`: "float32", or "bfloat16" for a base of half the size. `tokenizer`: where its
    tokenizer lies; left out: with the model.
    """
    tokens, found = text("pretrained", shape), _read(path)
    if found.context is not None and tokens > found.context:
        raise ConfigError(
            f"pretrained: texts of {tokens} tokens do not fit the {found.context} positions of {path}; "
            f"set data.context to at most {found.context}"
        )
    predicts = not answers and classes == found.vocabulary
    words = _words(found.path, tokenizer, needed=not predicts)
    # Some models have room for more tokens than their tokenizers have.
    tells = not predicts and (bool(answers) or words is None or classes != words.size)
    return _made(found, words, tells, answers, classes, dtype)


def own_tokenizer(path: Path, tokenizer: Path | None = None) -> Path:
    """Where the tokenizer of a model with these options lies; a path that leads to no model is refused."""
    _read(path)
    return located(path) if tokenizer is None else _place(tokenizer)


def _read(path: Path) -> Checkpoint | Others:
    try:
        return checkpoint(located(path))
    except DataError as error:
        raise DataError(f"model.path: {error}") from error


def _place(tokenizer: str | Path) -> Path:
    return Path(tokenizer) if str(tokenizer) in NAMES else located(tokenizer)


def _words(path: Path, tokenizer: str | Path | None, needed: bool) -> Tokenizer | None:
    """The model's tokenizer, or the one that is named instead; it may be missing where none is needed."""
    if tokenizer is not None:
        return read_tokenizer(str(_place(tokenizer)))
    try:
        return read_tokenizer(path)
    except (ConfigError, DataError):
        if needed:
            raise
        return None


def _made(
    found: Checkpoint | Others,
    words: Tokenizer | None,
    tells: bool,
    answers: tuple[str, ...],
    classes: int | None,
    dtype: str,
) -> nn.Module:
    """The model, and what it knows of the texts that it reads: it `tells` classes, or predicts tokens."""
    if dtype not in DTYPES:
        raise ConfigError(f"pretrained: dtype is 'float32' or 'bfloat16', not {dtype!r}")
    if answers and classes is not None and len(answers) != classes:
        raise ConfigError(f"pretrained: answers has {len(answers)} words, and there are {classes} classes")
    known = Wording("") if words is None else words.wording(answers)
    known = replace(known, pad=known.pad if tells else None, context=found.context)
    tokens = _first_tokens(answers, words) if tells and words is not None else []
    scored = classes if tells and not tokens else None
    if tells and words is not None and max([words.pad, *tokens]) >= found.vocabulary:
        raise ConfigError(
            f"pretrained: the tokenizer {words.name} has {words.size} tokens, and {found.path} knows "
            f"{found.vocabulary}: name the model's own"
        )
    model = found.model(DTYPES[dtype], known.pad, tokens, scored)
    model.wording = known
    return model


def _first_tokens(answers: Sequence[str], words: Tokenizer) -> list[int]:
    """The token that each answer begins with, where a space stands before it."""
    first: dict[int, str] = {}
    for answer in answers:
        if not isinstance(answer, str) or not answer.strip():
            raise ConfigError(f"pretrained: answers must be words, not {answer!r}")
        token = words.opening(answer)
        if token in first:
            raise ConfigError(
                f"pretrained: answers {first[token]!r} and {answer!r} begin with the same token, "
                f"{words.decode([token])!r}: choose other words"
            )
        first[token] = answer
    return list(first)
