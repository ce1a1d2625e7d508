"""Tokenizers by name, and from the files that models come with."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from unknot.core.errors import DataError, nearest
from unknot.text.alphabet import Bytes, Characters, Tokenizer
from unknot.text.borrowed import Borrowed
from unknot.text.bytepair import BytePair, Pair
from unknot.text.patterns import DIGIT, GPT2, LLAMA3, PRE
from unknot.text.scored import Scored, llama2c

__all__ = ["Tokenizer", "tokenizer"]

NAMES = ("characters", "bytes")
END_OF_TEXT = "<|endoftext|>"
PAIRS = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
"""GPT-2's two files, as OpenAI and as Hugging Face call them."""


def tokenizer(source: str | Path) -> Tokenizer:
    """A tokenizer: "characters", "bytes", or one from a file or folder.

    `source`: its name or path. Read are a GGUF file; a folder with `tokenizer.json`, or with GPT-2's files
    (`encoder.json` and `vocab.bpe`, or `vocab.json` and `merges.txt`); llama2.c's `tok512.bin`, also by the
    model that it lies next to (`stories260K.bin`). Other folders are read by `transformers`, where that is
    installed.
    """
    if source == "characters":
        return Characters()
    if source == "bytes":
        return Bytes()
    path = Path(source)
    try:
        if path.is_dir():
            return _folder(path)
        if not path.exists():
            raise DataError(
                f"there is no tokenizer {str(source)!r}: it is no file or folder (in {Path.cwd()}), and no "
                f"known name.{nearest(str(source), NAMES)}"
            )
        if path.suffix.lower() == ".gguf":
            return _gguf(path)
        if path.suffix.lower() == ".bin":
            return _llama2c(path)
    except OSError as error:
        raise DataError(f"{path}: the tokenizer cannot be read: {error.strerror or error}") from error
    raise DataError(
        f"{path}: expected a tokenizer's folder, a .gguf file, or llama2.c's .bin; found another kind of file"
    )


def _folder(path: Path) -> Tokenizer:
    if (path / "tokenizer.json").exists():
        return _tokenizer_json(path)
    for vocabulary, merges in PAIRS:
        if (path / vocabulary).exists() and (path / merges).exists():
            made_for = str(_settings(path).get("tokenizer_class") or "GPT2Tokenizer")
            if not made_for.startswith("GPT2"):
                return Borrowed(path, f"its tokenizer is a {made_for}, no GPT-2's")
            return _gpt2(path, vocabulary, merges)
    if (path / "tokenizer_config.json").exists():
        return Borrowed(path, "its tokenizer is neither tokenizer.json nor GPT-2's two files")
    raise DataError(
        f"{path}: there is no tokenizer in this folder; expected tokenizer.json, or encoder.json and "
        "vocab.bpe, or vocab.json and merges.txt"
    )


def _gpt2(path: Path, vocabulary: str, merges: str) -> BytePair:
    tokens = _vocabulary(path / vocabulary, _json(path / vocabulary))
    lines = _text(path / merges).split("\n")
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    settings = _settings(path)
    special = [tokens[word] for word in {END_OF_TEXT, *_named(settings).values()} if word in tokens]
    pad = _pad(path, tokens, settings)
    pairs = _pairs(path / merges, (line for line in lines if line.strip()))
    return BytePair(path.name, tokens, pairs, pad=pad, special=special)


def _tokenizer_json(path: Path) -> Tokenizer:
    """The file of Hugging Face's tokenizers, where it is byte-level and cuts words as we know how to."""
    file = path / "tokenizer.json"
    content = _json(file)
    model = content.get("model")
    if not isinstance(model, dict):
        raise DataError(f"{file}: expected a tokenizer's settings, found no model in it")
    patterns = _patterns(content.get("pre_tokenizer"))
    odd = next((key for key in ("continuing_subword_prefix", "end_of_word_suffix") if model.get(key)), None)
    if model.get("type", "BPE") != "BPE" or "merges" not in model or odd or model.get("byte_fallback"):
        return Borrowed(path, f"its tokenizer is no byte-level byte-pair encoding ({model.get('type', '?')})")
    if patterns is None or content.get("normalizer"):
        return Borrowed(path, "how its tokenizer cuts a text into words is not known here")
    tokens = _vocabulary(file, model.get("vocab"))
    added = _listed(file, "added_tokens", content.get("added_tokens") or [], dict)
    tokens = tokens | _vocabulary(file, {str(one.get("content")): one.get("id") for one in added})
    settings = _settings(path)
    names = [str(one.get("content")) for one in added]
    return BytePair(
        path.name,
        tokens,
        _pairs(file, _listed(file, "merges", model["merges"], str | list)),
        pad=_pad(path, tokens, settings, names),
        special=[tokens[name] for name in names],
        patterns=patterns,
        whole_words=bool(model.get("ignore_merges")),
    )


def _patterns(said: Any) -> tuple[str, ...] | None:
    """How `tokenizer.json` says that words are cut, as patterns; nothing where we do not know that way."""
    several = isinstance(said, dict) and said.get("type") == "Sequence"
    steps = said.get("pretokenizers") if several else [said]
    if not isinstance(steps, list):
        return None
    found: list[str] = []
    for step in steps:
        match step:
            case {"type": "Digits", "individual_digits": one_by_one}:
                found.append(DIGIT if one_by_one else DIGIT + "+")
            case {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated"} if not step.get(
                "invert"
            ):
                if regex not in (GPT2, LLAMA3, DIGIT):
                    return None
                found.append(regex)
            case {"type": "ByteLevel"} if not step.get("add_prefix_space") and step is steps[-1]:
                if step.get("use_regex", True):
                    found.append(GPT2)
                return tuple(found)
            case _:
                return None
    return None


def _gguf(path: Path) -> BytePair:
    from unknot.text.gguf import Gguf

    about = Gguf.open(path).metadata
    kind, pre = about.get("tokenizer.ggml.model"), about.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2":
        raise DataError(
            f"{path}: its tokenizer is of kind {kind!r}; of GGUF files those of kind 'gpt2' (byte pairs) are "
            "read"
        )
    if not isinstance(pre, str) or pre not in PRE:
        raise DataError(f"{path}: how it cuts words, {pre!r}, is not known here.{nearest(str(pre), PRE)}")
    tokens, merges, types = (
        _listed(path, f"tokenizer.ggml.{name}", about.get(f"tokenizer.ggml.{name}", []), kind)
        for name, kind in (("tokens", str), ("merges", str), ("token_type", int))
    )
    if not tokens or "tokenizer.ggml.merges" not in about:
        raise DataError(f"{path}: there are no tokens or no merges of a tokenizer in it")
    if types and len(types) != len(tokens):
        raise DataError(f"{path}: there are {len(tokens):,} tokens, but {len(types):,} in token_type")
    pad = about.get("tokenizer.ggml.padding_token_id", about.get("tokenizer.ggml.eos_token_id"))
    if not isinstance(pad, int) or not 0 <= pad < len(tokens):
        raise DataError(f"{path}: it names no token that fills up or ends a text (found {pad!r})")
    return BytePair(
        path.name,
        {token: number for number, token in enumerate(tokens)},
        _pairs(path, merges),
        pad=pad,
        special=[number for number, kind in enumerate(types) if kind != 1],
        patterns=PRE[pre],
        whole_words=pre == "llama-bpe",
    )


def _llama2c(path: Path) -> Scored:
    """The tokenizer itself, or the one next to a model that is named after the size of its vocabulary."""
    if path.name.startswith("tok"):
        return llama2c(path)
    with path.open("rb") as stream:
        head = stream.read(28)
    if len(head) < 28:
        raise DataError(f"{path}: expected llama2.c's model or tokenizer, found {len(head)} bytes")
    size = abs(struct.unpack("<7i", head)[5])
    beside = path.with_name(f"tok{size}.bin")
    if not beside.exists():
        raise DataError(
            f"{path}: expected its tokenizer next to it, {beside.name}; put it there, or name its file"
        )
    return llama2c(beside)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected text in UTF-8: {error}") from error


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected JSON: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: expected JSON with names, found {type(found).__name__}")
    return found


def _vocabulary(path: Path, found: Any) -> dict[str, int]:
    if not isinstance(found, dict) or not all(
        isinstance(word, str) and type(number) is int and number >= 0 for word, number in found.items()
    ):
        raise DataError(f"{path}: expected tokens with a number each")
    return found


def _listed(path: Path, name: str, found: Any, kind: Any) -> list[Any]:
    """A list in a file, all of it of a kind."""
    if not isinstance(found, list) or not all(isinstance(one, kind) for one in found):
        wanted = {str: "texts", int: "whole numbers", dict: "settings by name"}.get(kind, "pairs")
        raise DataError(f"{path}: {name} should be a list of {wanted}")
    return found


def _pairs(path: Path, lines: Iterable[str | list[str]]) -> list[Pair]:
    pairs = []
    for line in lines:
        parts = line.split(" ") if isinstance(line, str) else line
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise DataError(f"{path}: expected two tokens that are merged, found {line!r}")
        pairs.append((parts[0], parts[1]))
    return pairs


def _settings(path: Path) -> dict[str, Any]:
    file = path / "tokenizer_config.json"
    return _json(file) if file.exists() else {}


def _named(settings: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that the settings name, by what they are for."""
    found = {}
    for role in ("pad_token", "eos_token", "bos_token", "unk_token"):
        said = settings.get(role)
        word = said.get("content") if isinstance(said, dict) else said
        if isinstance(word, str):
            found[role] = word
    return found


def _pad(
    path: Path, tokens: Mapping[str, int], settings: Mapping[str, Any], added: Iterable[str] = ()
) -> int:
    """What fills up: the token that is there for it, or the one that ends a text."""
    roles = _named(settings)
    for word in (roles.get("pad_token"), roles.get("eos_token"), END_OF_TEXT, *added):
        if word is not None and word in tokens:
            return tokens[word]
    raise DataError(
        f"{path}: there is no token to fill up short texts with; name one in tokenizer_config.json, pad_token"
    )
