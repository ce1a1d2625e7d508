"""Tokenizers by name and by file; what is no tokenizer is refused in words."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_files import write_gguf, write_gpt2, write_json, write_llama2c

import unknot
from unknot.core.errors import ConfigError, DataError
from unknot.core.places import folders
from unknot.data.tables import csv_columns
from unknot.text.alphabet import CHARACTERS
from unknot.text.bytepair import BytePair
from unknot.text.patterns import LLAMA3, PRE
from unknot.text.scored import FIRST_PIECE
from unknot.text.tokenizer import tokenizer

ANY = settings(deadline=None, max_examples=60)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
PIECES = [(" ", -9.0), ("a", -9.0), ("b", -9.0), ("ab", -2.0), (" a", -1.0), ("bb", -3.0), (" abb", -4.0)]


def test_characters_have_a_token_each_and_all_others_one() -> None:
    found = tokenizer("characters")
    assert (found.size, found.pad) == (len(CHARACTERS) + 2, len(CHARACTERS) + 1)
    assert found.encode("\tab~é€") == [0, 67, 68, 96, 97, 97]
    assert found.decode(found.encode("né")) == "n\ufffd"
    assert found.pad not in found.encode("é\x00")


@ANY
@given(TEXTS)
def test_bytes_give_every_text_back(text: str) -> None:
    found = tokenizer("bytes")
    assert found.encode(text) == list(text.encode())
    assert found.decode([*found.encode(text), found.pad]) == text


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> unknot.Tokenizer:
    return tokenizer(write_llama2c(tmp_path_factory.mktemp("llama2c") / "tok266.bin", PIECES))


def test_the_best_score_is_merged_first(scored: unknot.Tokenizer) -> None:
    # " abb": " a" has the best score; then " a"+"b" is no piece, "bb" is; then " a"+"bb" is the whole.
    number = {piece: FIRST_PIECE + i for i, (piece, _) in enumerate(PIECES)}
    assert scored.encode("abb") == [number[" abb"]]
    assert scored.encode("bab") == [number[" "], number["b"], number["ab"]]
    assert scored.encode("") == []


def plainly(text: str) -> list[str]:
    """The loop of llama2.c's `run.c`: of all neighbours the best sum is merged, the first of equals."""
    scores = dict(PIECES)
    found = list(f" {text}" if text else "")
    while True:
        pairs = [(scores[a + b], -i) for i, (a, b) in enumerate(pairwise(found)) if a + b in scores]
        if not pairs:
            return found
        i = -max(pairs)[1]
        found[i : i + 2] = [found[i] + found[i + 1]]


@ANY
@given(st.text("ab ", max_size=20))
def test_merging_by_score_equals_the_plain_loop(scored: unknot.Tokenizer, text: str) -> None:
    assert [PIECES[token - FIRST_PIECE][0] for token in scored.encode(text)] == plainly(text)


def test_what_is_no_piece_becomes_bytes(scored: unknot.Tokenizer) -> None:
    assert scored.encode("é")[1:] == [3 + 0xC3, 3 + 0xA9]


@ANY
@given(st.text(st.one_of(st.sampled_from("ab "), st.characters(exclude_categories=["Cs"])), max_size=30))
def test_pieces_give_every_text_back_and_none_is_special(scored: unknot.Tokenizer, text: str) -> None:
    tokens = scored.encode(text)
    assert scored.decode(tokens) == text
    assert not {0, 1, 2} & set(tokens)


def test_a_model_of_llama2c_names_the_tokenizer_next_to_it(tmp_path: Path) -> None:
    write_llama2c(tmp_path / "tok266.bin", PIECES)
    model = tmp_path / "model.bin"
    model.write_bytes(struct.pack("<7i", 8, 16, 1, 2, 2, 266, 32) + bytes(64))
    assert tokenizer(model).name == "tok266.bin"
    model.write_bytes(struct.pack("<7i", 8, 16, 1, 2, 2, 512, 32))
    with pytest.raises(DataError, match=r"expected its tokenizer next to it, tok512\.bin"):
        tokenizer(model)


def test_a_word_opens_with_the_first_token_that_is_no_space(tmp_path: Path, scored: unknot.Tokenizer) -> None:
    toy = tokenizer(write_gpt2(tmp_path))
    assert toy.decode([toy.opening("hello")]) == " hello"
    assert toy.decode([toy.opening("world")]) == "w"
    assert tokenizer("bytes").opening("Dutch") == ord("D")
    assert tokenizer("characters").opening(" Dutch") == CHARACTERS.index("D")
    assert scored.opening("abb") == scored.encode("abb")[0]
    with pytest.raises(DataError, match="' ' has no token that it begins with"):
        toy.opening(" ")


@pytest.mark.parametrize("name", ["characters", "bytes"])
def test_a_number_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=rf"{name}: there is no token 300; they go from 0 to"):
        tokenizer(name).decode([300])


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False}


def _written(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name if name.endswith((".bin", ".txt", ".gguf")) else folder

    return write


def _one_of_gpt2s(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        write_gpt2(folder)
        (folder / name).write_bytes(content)
        return folder

    return write


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda folder: folder / "nowhere", "there is no tokenizer '.*nowhere': it is no file or folder"),
        (lambda folder: folder, "there is no tokenizer in this folder; expected tokenizer.json, or"),
        (_written("notes.txt", b"x"), "found another kind of file"),
        (_written("tok9.bin", b"\x07\0\0\0\0"), "it breaks off at byte 4"),
        (_written("tok9.bin", b""), "expected llama2.c's tokenizer"),
        (_written("model.bin", b"123"), "expected llama2.c's model or tokenizer, found 3 bytes"),
        (_written("toy.gguf", b"GGML"), "is no GGUF file"),
        (_written("tokenizer.json", b"{"), "tokenizer.json: expected JSON: "),
        (_written("tokenizer.json", b"[]"), "expected JSON with names, found list"),
        (_written("tokenizer.json", b"{}"), "expected a tokenizer's settings, found no model in it"),
        (_one_of_gpt2s("encoder.json", b'{"a": "b"}'), "expected tokens with a number each"),
        (_one_of_gpt2s("encoder.json", b'{"a": 0}'), "there is no token to fill up short texts with"),
        (_one_of_gpt2s("encoder.json", b"\xff"), "expected text in UTF-8"),
        (_one_of_gpt2s("vocab.bpe", b"a b c"), "expected two tokens that are merged, found 'a b c'"),
        (lambda f: write_gguf(f / "a.gguf", model="llama"), "its tokenizer is of kind 'llama'"),
        (lambda f: write_gguf(f / "a.gguf", pre="qwen2"), "how it cuts words, 'qwen2', is not known here"),
        (lambda f: write_gguf(f / "a.gguf", merges=None), "there are no tokens or no merges"),
        (lambda f: write_gguf(f / "a.gguf", eos_token_id=None), "it names no token that fills up"),
        (lambda f: write_gguf(f / "a.gguf", pre=["a"]), r"how it cuts words, \['a'\], is not known here"),
        (lambda f: write_gguf(f / "a.gguf", merges=[1, 2]), "ggml.merges should be a list of texts"),
        (lambda f: write_gguf(f / "a.gguf", merges="a b"), "ggml.merges should be a list of texts"),
        (lambda f: write_gguf(f / "a.gguf", tokens=[1, 2]), "ggml.tokens should be a list of texts"),
        (lambda f: write_gguf(f / "a.gguf", token_type=[1]), "264 tokens, but 1 in token_type"),
        (
            lambda f: write_gguf(f / "a.gguf", token_type=["a"]),
            "token_type should be a list of whole numbers",
        ),
        (lambda f: write_json(f, BYTE_LEVEL, merges=3), "merges should be a list of pairs"),
        (lambda f: write_json(f, BYTE_LEVEL, merges=[3]), "merges should be a list of pairs"),
        (lambda f: write_json(f, BYTE_LEVEL, merges=[["a", 3]]), "expected two tokens that are merged"),
        (_written("tokenizer.json", b"[" * 10**5), "tokenizer.json: expected JSON: "),
    ],
)
def test_what_is_no_tokenizer_is_refused_in_words(
    tmp_path: Path, write: Callable[[Path], Path], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        tokenizer(write(tmp_path))


def test_a_name_that_is_nearly_right_is_found() -> None:
    with pytest.raises(DataError, match="Did you mean 'characters'"):
        tokenizer("character")


@pytest.mark.parametrize(
    "change", [{"byte_fallback": True}, {"type": "Unigram"}, {"end_of_word_suffix": "</w>"}]
)
def test_other_makes_are_left_to_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    folder = write_json(tmp_path, BYTE_LEVEL, **change)
    with pytest.raises(ConfigError, match=r"no byte-level byte-pair encoding.*pip install -e '\.\[text\]'"):
        tokenizer(folder)


def test_a_way_to_cut_words_that_is_not_known_is_left_to_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    for pre in (None, {"type": "Whitespace"}, {"type": "ByteLevel", "add_prefix_space": True}):
        with pytest.raises(ConfigError, match="how its tokenizer cuts a text into words is not known here"):
            tokenizer(write_json(tmp_path, pre))


def test_a_tokenizer_of_transformers_does_as_the_others_do(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers  # comes with transformers

    theirs = Tokenizer(models.WordLevel({"hello": 0, "you": 1, "<e>": 2, "<u>": 3}, unk_token="<u>"))
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs.save(str(tmp_path / "tokenizer.json"))
    settings = '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<e>", "unk_token": "<u>"}'
    (tmp_path / "tokenizer_config.json").write_text(settings)
    found = tokenizer(tmp_path)
    assert (found.size, found.pad) == (4, 2)
    assert found.encode("hello you") == [0, 1]
    assert found.decode([0, 1, 2]) == "hello you"


def test_a_tokenizer_of_transformers_is_kept_from_remembering_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    theirs = Tokenizer(models.BPE({**dict(zip("abcdefgh", range(8), strict=True)), "<e>": 8}, []))
    theirs.normalizer = normalizers.NFC()
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs.save(str(tmp_path / "tokenizer.json"))
    settings = '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<e>"}'
    (tmp_path / "tokenizer_config.json").write_text(settings)
    sizes = []
    real = models.BPE._resize_cache
    monkeypatch.setattr(
        models.BPE, "_resize_cache", lambda model, size: sizes.append(size) or real(model, size)
    )
    assert tokenizer(tmp_path).encode("bad egg" * 3)[:3] == [1, 0, 3]
    assert sizes == [0]


class Theirs:
    """A tokenizer of `transformers` as far as it is asked for."""

    pad_token_id, unk_token_id, all_special_ids = 0, None, (0,)

    def __init__(self) -> None:
        self.cache: dict[str, str] = {}

    def __len__(self) -> int:
        return 2

    def encode(self, text: str, **_: object) -> list[int]:
        self.cache[text] = text
        return [1]


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Theirs:
    made = Theirs()
    module = SimpleNamespace(AutoTokenizer=SimpleNamespace(from_pretrained=lambda *_, **__: made))
    monkeypatch.setitem(sys.modules, "transformers", module)
    return made


def test_a_borrowed_tokenizer_whose_memory_cannot_be_turned_off_is_refused(
    tmp_path: Path, theirs: Theirs
) -> None:
    theirs.backend_tokenizer = SimpleNamespace(model=type("BPE", (), {})())  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="remembers the words that it has read; take a newer one"):
        tokenizer(write_json(tmp_path, {"type": "Whitespace"}))


def test_what_a_borrowed_tokenizer_remembers_is_taken_from_it(tmp_path: Path, theirs: Theirs) -> None:
    found = tokenizer(write_json(tmp_path, {"type": "Whitespace"}))
    assert found.encode("my words") == [1]
    assert theirs.cache == {}
    with pytest.raises(RuntimeError, match="StopIteration"):
        found.encode_all(next(iter(())) if i else "my words" for i in range(2))
    assert theirs.cache == {}


GOLDEN = {
    # tokenizers 0.23 (Hugging Face): BPE(encoder.json, vocab.bpe), pre-tokenizer ByteLevel without a prefix.
    "gpt2-bpe": {
        "Once upon a time, in 2024…  été!": [
            7454,
            2402,
            257,
            640,
            11,
            287,
            48609,
            1399,
            220,
            220,
            25125,
            2634,
            0,
        ],
        "Ik hou van 北京\n\n": [40, 74, 289, 280, 5719, 10263, 234, 245, 12859, 105, 628],
    },
}


@pytest.mark.parametrize(("file", "text"), [(file, text) for file, cases in GOLDEN.items() for text in cases])
def test_real_files_give_what_others_made_of_them(file: str, text: str) -> None:
    place = next((root / file for root in folders() if (root / file).exists()), None)
    if place is None:
        pytest.skip(f"{file} is not in UNKNOT_DATA")
    found = tokenizer(place)
    assert found.encode(text) == GOLDEN[file][text]
    assert found.decode(found.encode(text)) == text


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe"])
def test_real_texts_get_the_tokens_of_hugging_faces_tokenizers(pre: str) -> None:
    """In many languages, by GPT-2's pairs, with each way to cut a text into words."""
    tokenizers = pytest.importorskip("tokenizers")
    steps = tokenizers.pre_tokenizers
    place = next((root for root in folders() if (root / "gpt2-bpe").exists()), None)
    if place is None or not (place / "langid").exists():
        pytest.skip("gpt2-bpe or langid is not in UNKNOT_DATA")
    vocabulary = json.loads((place / "gpt2-bpe" / "encoder.json").read_text())
    lines = (place / "gpt2-bpe" / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:]
    merges = [(left, right) for left, _, right in (line.partition(" ") for line in lines if line)]
    ours = BytePair(pre, vocabulary, merges, pad=50256, patterns=PRE[pre])
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    first = {
        "gpt-2": [],
        "smollm": [steps.Digits(True)],
        "llama-bpe": [steps.Split(tokenizers.Regex(LLAMA3), "isolated")],
    }[pre]
    last = steps.ByteLevel(add_prefix_space=False, use_regex=pre != "llama-bpe")
    theirs.pre_tokenizer = steps.Sequence([*first, last])
    rows = csv_columns((place / "langid" / "test.csv").read_text(), "test.csv", ("text",)).rows[::5]
    texts = [text for (text,) in rows]
    assert ours.encode_all(texts) == [one.ids for one in theirs.encode_batch(texts)]
