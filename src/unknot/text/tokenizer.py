"""Tokenizers by name, and from the files that models come with, by the package `tokenizers`."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, DataError, UnknotError, install, nearest
from unknot.text.alphabet import Bytes, Characters, Tokenizer, utf8
from unknot.text.gguf import Gguf

__all__ = ["Tokenizer", "tokenizer"]

NAMES = ("characters", "bytes")
END_OF_TEXT = "<|endoftext|>"
PAIRS = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
"""GPT-2's two files, as OpenAI and as Hugging Face call them."""
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
"""How Llama 3 cuts a text into words: a GGUF file has only the name of that way."""
BYTES, PIECES = 3, 259
"""Of llama2.c's tokens the first three are special, then there is one for each byte, then one a piece."""


class FromFile(Tokenizer):
    """A tokenizer of the package `tokenizers`.

    No text becomes a `special` token, nor the one that fills up. `before`: what stands before a text.
    """

    def __init__(
        self, name: str, theirs: Any, pad: int, special: Iterable[int] = (), before: str = ""
    ) -> None:
        self.name, self.pad, self._theirs, self._before = name, pad, theirs, before
        self._hidden = {*special, pad}
        self.size = max(*theirs.get_vocab().values(), *self._hidden) + 1
        if hasattr(theirs.model, "_resize_cache"):  # a tokenizer keeps nothing of anybody's words
            theirs.model._resize_cache(0)

    def encode_all(self, texts: Iterable[str], *, goes_on: bool = False) -> list[list[int]]:
        return [self._encoded(text if goes_on or not text else self._before + text) for text in texts]

    def _encoded(self, text: str) -> list[int]:
        found = self._theirs.encode(utf8(text).decode(), add_special_tokens=False).ids
        return [token for token in found if token not in self._hidden]

    def decode(self, tokens: Sequence[int]) -> str:
        self.check(tokens)
        found: str = self._theirs.decode([token for token in tokens if token not in self._hidden])
        return found.removeprefix(self._before)


def tokenizer(source: str | Path) -> Tokenizer:
    """A tokenizer: "characters", "bytes", or one from a file or folder.

    `source`: its name or path. Read are a GGUF file; a folder with `tokenizer.json`, or with GPT-2's files
    (`encoder.json` and `vocab.bpe`, or `vocab.json` and `merges.txt`); llama2.c's `tok512.bin`, also by the
    model that it lies next to (`stories260K.bin`).
    """
    if source == "characters":
        return Characters()
    if source == "bytes":
        return Bytes()
    path = Path(source)
    if not path.exists():
        raise DataError(
            f"there is no tokenizer {str(source)!r}: it is no file or folder (in {Path.cwd()}), and no known "
            f"name.{nearest(str(source), NAMES)}"
        )
    read = _reader(path)
    try:
        import tokenizers
    except ImportError:
        raise ConfigError(
            f"{path}: tokenizers are read by the package tokenizers: {install('text')}"
        ) from None
    try:
        return read(path, tokenizers)
    except UnknotError:
        raise
    except Exception as error:  # of many kinds, by what is wrong with the file
        raise DataError(f"{path}: the tokenizer cannot be read: {error}") from error


def _reader(path: Path) -> Callable[[Path, Any], Tokenizer]:
    if path.suffix.lower() in (".gguf", ".bin"):
        return _gguf if path.suffix.lower() == ".gguf" else _llama2c
    if (path / "tokenizer.json").exists():
        return _tokenizer_json
    if any(all((path / name).exists() for name in pair) for pair in PAIRS):
        return _gpt2
    raise DataError(
        f"{path}: there is no tokenizer; expected a folder with tokenizer.json, or with GPT-2's encoder.json "
        "and vocab.bpe, or vocab.json and merges.txt; a .gguf file; or llama2.c's .bin"
    )


def _gpt2(path: Path, library: Any) -> Tokenizer:
    files = next(pair for pair in PAIRS if (path / pair[0]).exists())
    theirs = _byte_level(library, library.models.BPE.from_file(*(str(path / name) for name in files)))
    tokens, settings = theirs.get_vocab(), _settings(path)
    made_for, roles = str(settings.get("tokenizer_class", "GPT2")), _roles(settings)
    if not made_for.startswith("GPT2"):
        raise DataError(f"{path}: its tokenizer is a {made_for}; save it with tokenizer.json, which is read")
    special = [tokens[word] for word in {END_OF_TEXT, *roles.values()} if word in tokens]
    return FromFile(path.name, theirs, _pad(path, tokens, roles), special)


def _tokenizer_json(path: Path, library: Any) -> Tokenizer:
    content = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))
    added = {one["content"]: one["id"] for one in content.get("added_tokens") or ()}
    # What was added would be found in texts, which are not cut off or filled up here either.
    content |= {"added_tokens": [], "truncation": None, "padding": None, "post_processor": None}
    theirs = library.Tokenizer.from_str(json.dumps(content))
    tokens, model = {**theirs.get_vocab(), **added}, content["model"]
    unknown = {model.get("unk_id"), tokens.get(model.get("unk_token"))}  # which texts may become
    pad = _pad(path, tokens, _roles(_settings(path)), added)
    return FromFile(path.name, theirs, pad, set(added.values()) - unknown)


def _gguf(path: Path, library: Any) -> Tokenizer:
    about = Gguf.open(path).metadata
    kind, pre = about.get("tokenizer.ggml.model"), about.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2":
        raise DataError(
            f"{path}: its tokenizer is of kind {kind!r}; of GGUF files those of kind 'gpt2' (byte pairs) are "
            "read"
        )
    steps = library.pre_tokenizers
    ways: dict[str, tuple[Any, ...]] = {
        "gpt-2": (),
        "default": (),
        "smollm": (steps.Digits(True),),
        "llama-bpe": (steps.Split(library.Regex(LLAMA3), "isolated"),),
    }
    if pre not in ways:
        raise DataError(f"{path}: how it cuts words, {pre!r}, is not known here.{nearest(pre, ways)}")
    tokens = {token: number for number, token in enumerate(about["tokenizer.ggml.tokens"])}
    merges = [tuple(pair.split(" ")) for pair in about["tokenizer.ggml.merges"]]
    pad = about.get("tokenizer.ggml.padding_token_id", about.get("tokenizer.ggml.eos_token_id"))
    if pad not in tokens.values():
        raise DataError(f"{path}: it names no token that fills up or ends a text (found {pad!r})")
    whole = pre == "llama-bpe"
    theirs = _byte_level(
        library, library.models.BPE(tokens, merges, ignore_merges=whole), ways[pre], regex=not whole
    )
    types = about.get("tokenizer.ggml.token_type", ())
    return FromFile(path.name, theirs, pad, [number for number, kind in enumerate(types) if kind != 1])


def _byte_level(library: Any, model: Any, steps: Collection[Any] = (), regex: bool = True) -> Any:
    """Byte pairs as GPT-2 has them; `steps` cut a text first."""
    theirs = library.Tokenizer(model)
    last = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    theirs.pre_tokenizer = library.pre_tokenizers.Sequence([*steps, last])
    theirs.decoder = library.decoders.ByteLevel()
    return theirs


def _llama2c(path: Path, library: Any) -> Tokenizer:
    """llama2.c's pieces with scores: of all neighbours those are merged whose sum has the best score.

    In the file itself, or in the one next to a model, which is called after the size of its vocabulary.
    """
    if not path.name.startswith("tok"):
        with path.open("rb") as stream:
            size = abs(struct.unpack("<7i", stream.read(28))[5])
        if not (beside := path.with_name(f"tok{size}.bin")).exists():
            raise DataError(
                f"{path}: expected its tokenizer next to it, {beside.name}; put it there, or name its file"
            )
        path = beside
    raw, place = path.read_bytes(), 4
    scores: dict[str, float] = {}
    while place < len(raw):
        score, length = struct.unpack_from("<fI", raw, place)
        place += 8 + length
        scores[raw[place - length : place].decode()] = score
    if place > len(raw) or list(scores)[BYTES : BYTES + 1] != ["<0x00>"]:
        raise DataError(f"{path}: expected llama2.c's tokenizer, scores and pieces, of {len(raw):,} bytes")
    pieces = list(scores)[PIECES:]
    known = set(pieces)
    splits = ((piece[:i], piece[i:]) for piece in pieces for i in range(1, len(piece)))
    merges = [pair for pair in splits if known.issuperset(pair)]
    merges.sort(key=lambda pair: -scores[pair[0] + pair[1]])
    tokens = {piece: number for number, piece in enumerate(scores)}
    theirs = library.Tokenizer(library.models.BPE(tokens, merges, byte_fallback=True))
    theirs.decoder = library.decoders.Sequence([library.decoders.ByteFallback(), library.decoders.Fuse()])
    return FromFile(path.name, theirs, pad=2, special=range(BYTES), before=" ")


def _settings(path: Path) -> dict[str, Any]:
    file = path / "tokenizer_config.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def _roles(settings: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that the settings name, by what they are for."""
    found = {}
    for role in ("pad_token", "eos_token", "bos_token", "unk_token"):
        said = settings.get(role)
        word = said.get("content") if isinstance(said, dict) else said
        if isinstance(word, str):
            found[role] = word
    return found


def _pad(path: Path, tokens: Mapping[str, int], roles: Mapping[str, str], added: Iterable[str] = ()) -> int:
    """What fills up: the token that is there for it, or the one that ends a text."""
    for word in (roles.get("pad_token"), roles.get("eos_token"), END_OF_TEXT, *added):
        if word is not None and word in tokens:
            return tokens[word]
    raise DataError(
        f"{path}: there is no token to fill up short texts with; name one in tokenizer_config.json, pad_token"
    )
