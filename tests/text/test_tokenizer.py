"""Tokenizers by name and by file; what is no tokenizer is refused in words."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_files import END, MERGES, vocabulary, write_gguf, write_gpt2, write_json, write_llama2c
from tokenizers import Tokenizer, models, pre_tokenizers

import unknot
from unknot.core.errors import ConfigError, DataError
from unknot.core.places import folders
from unknot.text.alphabet import CHARACTERS
from unknot.text.tokenizer import LLAMA3, PIECES, tokenizer

ANY = settings(deadline=None, max_examples=60)
TEXTS = st.text(
    st.one_of(st.sampled_from("hello ab12'\n"), st.characters(exclude_categories=["Cs"])), max_size=30
)
SCORED = [(" ", -9.0), ("a", -9.0), ("b", -9.0), ("ab", -2.0), (" a", -1.0), ("bb", -3.0), (" abb", -4.0)]
WORDS = vocabulary()
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
DIGITS = {"type": "Digits", "individual_digits": True}
SPLIT = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}


def steps(*several: dict[str, object]) -> dict[str, object]:
    return {"type": "Sequence", "pretokenizers": list(several)}


FILES: dict[str, Callable[[Path], Path]] = {
    "openai's": write_gpt2,
    "hugging face's": lambda folder: write_gpt2(folder, ("vocab.json", "merges.txt")),
    "json": lambda folder: write_json(folder, BYTE_LEVEL),
    "pairs": lambda folder: write_json(folder, BYTE_LEVEL, merges=[list(pair) for pair in MERGES]),
    "gguf": lambda folder: write_gguf(folder / "a.gguf", pre="gpt-2"),
    "json digits": lambda folder: write_json(folder, steps(DIGITS, BYTE_LEVEL)),
    "gguf digits": lambda folder: write_gguf(folder / "a.gguf", pre="smollm"),
    "json llama": lambda folder: write_json(
        folder, steps(SPLIT, {**BYTE_LEVEL, "use_regex": False}), ignore_merges=True
    ),
    "gguf llama": lambda folder: write_gguf(folder / "a.gguf", pre="llama-bpe"),
    "pieces": lambda folder: write_llama2c(folder / "tok266.bin", SCORED),
}
"""By what it is called in `tokens.json`, after how the file is made."""
TOKENS = json.loads((Path(__file__).parent / "tokens.json").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, unknot.Tokenizer]:
    return {name: tokenizer(write(tmp_path_factory.mktemp("made"))) for name, write in FILES.items()}


@pytest.mark.parametrize("name", FILES)
def test_tokens_are_those_on_record(name: str, made: dict[str, unknot.Tokenizer]) -> None:
    """Those that models on record were trained with, whoever reads the file."""
    recorded = next((kind for kind in ("toy digits", "toy llama", "toy pieces") if kind[4:] in name), "toy")
    assert made[name].encode_all(TOKENS["texts"]) == TOKENS[recorded]
    if recorded != "toy pieces":
        assert (made[name].size, made[name].pad) == (len(WORDS), WORDS[END])


@pytest.mark.parametrize("file", ["gpt2-bpe", "lm/tok512.bin"])
def test_of_real_files_they_are_too(file: str) -> None:
    place = next((root / file for root in folders() if (root / file).exists()), None)
    if place is None:
        pytest.skip(f"{file} is not in UNKNOT_DATA")
    found = tokenizer(place)
    assert found.encode_all(TOKENS["texts"]) == TOKENS[file]
    for text in TOKENS["texts"]:
        assert found.decode(found.encode(text)) == text.replace("\ud800", "?")


@ANY
@given(TEXTS)
def test_a_text_comes_back_and_names_no_special_token(made: dict[str, unknot.Tokenizer], text: str) -> None:
    for found in made.values():
        for said in (text, f"{text}{END} <s>"):
            tokens = found.encode(said)
            assert found.decode([*tokens, found.pad]) == said
            assert found.pad not in tokens


def test_pairs_are_merged_in_the_order_in_which_they_were_learned(made: dict[str, unknot.Tokenizer]) -> None:
    # " hello": Ġ h e l l o -> Ġ he l l o -> Ġ he ll o -> Ġ hell o -> Ġ hello -> Ġhello
    assert made["json"].encode("hello hello") == [WORDS["hello"], WORDS["Ġhello"]]
    assert made["json"].encode("hel") == [WORDS["he"], WORDS["l"]]


def test_llama_3_takes_a_word_that_is_a_token_whole(tmp_path: Path) -> None:
    for pre, wanted in (("llama-bpe", ["hello"]), ("gpt-2", ["he", "l", "l", "o"])):
        found = tokenizer(write_gguf(tmp_path / f"{pre}.gguf", pre=pre, merges=["h e"]))
        assert found.encode("hello") == [WORDS[word] for word in wanted]


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


def test_the_best_score_is_merged_first(made: dict[str, unknot.Tokenizer]) -> None:
    # " abb": " a" has the best score; then " a"+"b" is no piece, "bb" is; then " a"+"bb" is the whole.
    number = {piece: PIECES + i for i, (piece, _) in enumerate(SCORED)}
    scored = made["pieces"]
    assert scored.encode("abb") == [number[" abb"]]
    assert scored.encode("bab") == [number[" "], number["b"], number["ab"]]
    assert scored.encode_all(["ab"], goes_on=True) == [[number["ab"]]]
    assert scored.encode("é")[1:] == [3 + 0xC3, 3 + 0xA9]


def plainly(text: str) -> list[str]:
    """The loop of llama2.c's `run.c`: of all neighbours the best sum is merged, the first of equals."""
    scores = dict(SCORED)
    found = list(f" {text}" if text else "")
    while True:
        pairs = [(scores[a + b], -i) for i, (a, b) in enumerate(pairwise(found)) if a + b in scores]
        if not pairs:
            return found
        i = -max(pairs)[1]
        found[i : i + 2] = [found[i] + found[i + 1]]


@ANY
@given(st.text("ab ", max_size=20))
def test_merging_by_score_equals_the_plain_loop(made: dict[str, unknot.Tokenizer], text: str) -> None:
    assert [SCORED[token - PIECES][0] for token in made["pieces"].encode(text)] == plainly(text)


def test_a_model_of_llama2c_names_the_tokenizer_next_to_it(tmp_path: Path) -> None:
    write_llama2c(tmp_path / "tok266.bin", SCORED)
    model = tmp_path / "model.bin"
    model.write_bytes(struct.pack("<7i", 8, 16, 1, 2, 2, 266, 32) + bytes(64))
    assert tokenizer(model).name == "tok266.bin"
    model.write_bytes(struct.pack("<7i", 8, 16, 1, 2, 2, 512, 32))
    with pytest.raises(DataError, match=r"tok512\.bin"):
        tokenizer(model)


def test_a_word_opens_with_the_first_token_that_is_no_space(made: dict[str, unknot.Tokenizer]) -> None:
    toy, scored = made["json"], made["pieces"]
    assert toy.decode([toy.opening("hello")]) == " hello"
    assert toy.decode([toy.opening("world")]) == "w"
    assert tokenizer("bytes").opening("Dutch") == ord("D")
    assert tokenizer("characters").opening(" Dutch") == CHARACTERS.index("D")
    assert scored.opening("abb") == scored.encode("abb")[0]
    with pytest.raises(DataError, match="' ' has no token that it begins with"):
        toy.opening(" ")


def test_the_settings_beside_it_say_what_fills_up(tmp_path: Path) -> None:
    write_gpt2(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": {"content": "!"}}')
    assert tokenizer(tmp_path).pad == WORDS["!"]


def test_a_word_that_is_not_known_is_a_token_and_special_ones_are_none(tmp_path: Path) -> None:
    """Other makes than byte pairs, with what a tokenizer of texts that are classified has in its file."""
    theirs = Tokenizer(models.WordLevel({"hello": 0, "you": 1, "<e>": 2, "<u>": 3}, unk_token="<u>"))
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs.add_special_tokens(["<e>", "<u>", "<new>"])
    theirs.enable_truncation(2)
    theirs.enable_padding(pad_id=2, pad_token="<e>", length=9)
    theirs.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<e>", "unk_token": "<u>"}')
    found = tokenizer(tmp_path)
    assert (found.size, found.pad) == (5, 2)
    assert found.encode("hello you <e> they") == [0, 1, 3]
    assert found.decode([0, 1, 2]) == "hello you"


@pytest.mark.parametrize("name", ["characters", "bytes"])
def test_a_number_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=f"{name}: there is no token 300"):
        tokenizer(name).decode([300])


@pytest.mark.parametrize("name", ["openai's", "json", "gguf", "pieces"])
def test_a_library_that_is_not_there_is_named_with_its_extra(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FILES[name](tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[text\]'"):
        tokenizer(file)


def test_the_librarys_memory_of_words_is_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = models.BPE._resize_cache
    monkeypatch.setattr(
        models.BPE, "_resize_cache", lambda model, size: sizes.append(size) or real(model, size)
    )
    for name, write in FILES.items():
        (tmp_path / name).mkdir()
        tokenizer(write(tmp_path / name))
    assert sizes == [0] * len(FILES)


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
    ("write", "named"),
    [
        (lambda folder: folder / "nowhere", "nowhere"),
        (lambda folder: folder, "tokenizer.json"),
        (_written("notes.txt", b"x"), "notes.txt"),
        (_written("tok9.bin", b"\x07\0\0\0\0"), "tok9.bin"),
        (_written("tok9.bin", b""), "tok9.bin"),
        (_written("tok9.bin", struct.pack("<ifI", 7, 0.0, 2**32 - 8)), "tok9.bin"),
        (_written("model.bin", b"123"), "model.bin"),
        (_written("toy.gguf", b"GGML"), "toy.gguf"),
        (_written("tokenizer.json", b"{"), ""),
        (_written("tokenizer.json", b"[]"), ""),
        (_written("tokenizer.json", b"{}"), ""),
        (_one_of_gpt2s("encoder.json", b'{"a": "b"}'), ""),
        (_one_of_gpt2s("encoder.json", b'{"a": 0}'), ""),
        (_one_of_gpt2s("vocab.bpe", b"a b c"), ""),
        (_one_of_gpt2s("tokenizer_config.json", b'{"tokenizer_class": "CLIPTokenizer"}'), "CLIPTokenizer"),
        (lambda f: write_gguf(f / "a.gguf", model="llama"), "'llama'"),
        (lambda f: write_gguf(f / "a.gguf", pre="qwen2"), "'qwen2'"),
        (lambda f: write_gguf(f / "a.gguf", merges=None), "merges"),
        (lambda f: write_gguf(f / "a.gguf", eos_token_id=None), "a.gguf"),
        (lambda f: write_gguf(f / "a.gguf", merges=["a"]), "a.gguf"),
    ],
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, write: Callable[[Path], Path], named: str) -> None:
    with pytest.raises(DataError) as refused:
        tokenizer(write(tmp_path))
    assert str(tmp_path) in str(refused.value)
    assert named in str(refused.value)


def test_a_name_that_is_nearly_right_is_found() -> None:
    with pytest.raises(DataError, match="Did you mean 'characters'"):
        tokenizer("character")
