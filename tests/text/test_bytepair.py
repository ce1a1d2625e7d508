"""Byte-pair encoding: as GPT-2 wrote it down, back again, and with nothing special in a text."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_files import END, MERGES, vocabulary, write_gguf, write_gpt2, write_json

from unknot.core.errors import DataError
from unknot.text.bytepair import BYTE_OF, BytePair
from unknot.text.merging import merged
from unknot.text.patterns import DIGIT, GPT2, LLAMA3, PRE, compiled, words
from unknot.text.tokenizer import tokenizer

WORDS = vocabulary()
TOY = BytePair("toy", WORDS, MERGES, pad=WORDS[END])
ANY = settings(deadline=None, max_examples=60)
TEXTS = st.text(
    st.one_of(st.sampled_from("hello 12'\n"), st.characters(exclude_categories=["Cs"])), max_size=30
)


def plainly(symbols: list[str]) -> list[str]:
    """The loop of GPT-2's own encoder: the pair learned first is merged everywhere, again and again."""
    ranks = {pair: rank for rank, pair in enumerate(MERGES)}
    while True:
        pairs = [pair for pair in pairwise(symbols) if pair in ranks]
        if not pairs:
            return symbols
        best = min(pairs, key=ranks.__getitem__)
        found, i = [], 0
        while i < len(symbols):
            if tuple(symbols[i : i + 2]) == best:
                found.append(symbols[i] + symbols[i + 1])
                i += 2
            else:
                found.append(symbols[i])
                i += 1
        symbols = found


def test_pairs_are_merged_in_the_order_in_which_they_were_learned() -> None:
    # " hello": Ġ h e l l o -> Ġ he l l o -> Ġ he ll o -> Ġ hell o -> Ġ hello -> Ġhello
    assert TOY.encode("hello hello") == [WORDS["hello"], WORDS["Ġhello"]]
    assert TOY.encode("hel") == [WORDS["he"], WORDS["l"]]


@ANY
@given(st.text("hello Ġ12", max_size=40))
def test_merging_equals_the_plain_loop(text: str) -> None:
    symbols = [sign for sign in text if sign in WORDS]
    name = {number: word for word, number in WORDS.items()}
    pairs = {(WORDS[a], WORDS[b]): (float(rank), WORDS[a + b]) for rank, (a, b) in enumerate(MERGES)}
    found = merged([WORDS[sign] for sign in symbols], lambda left, right: pairs.get((left, right)))
    assert [name[one] for one in found] == plainly(symbols)


@ANY
@given(TEXTS)
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert TOY.decode(TOY.encode(text)) == text


@ANY
@given(st.lists(TEXTS, max_size=4))
def test_texts_together_are_encoded_as_one_by_one(texts: list[str]) -> None:
    assert TOY.encode_all(texts) == [TOY.encode(text) for text in texts]


@ANY
@given(TEXTS, st.sampled_from(sorted(PRE)))
def test_words_put_together_are_the_text(text: str, pre: str) -> None:
    assert "".join(words(text, PRE[pre])) == text


def test_a_text_cannot_name_a_special_token() -> None:
    tokens = TOY.encode(f"{END} and {END}")
    assert WORDS[END] not in tokens
    assert TOY.decode(tokens) == f"{END} and {END}"


def test_a_word_that_is_a_token_can_be_one_without_merges() -> None:
    taken = BytePair("toy", WORDS, [], pad=WORDS[END], whole_words=True)
    assert taken.encode("hello") == [WORDS["hello"]]
    assert WORDS[END] not in taken.encode(END)


def test_what_fills_up_is_not_decoded() -> None:
    assert TOY.decode([*TOY.encode("hello"), TOY.pad, TOY.pad]) == "hello"


def test_a_byte_without_a_token_is_left_out() -> None:
    few = {word: number for word, number in WORDS.items() if word != "1"}
    assert BytePair("few", few, MERGES[:5], pad=WORDS[END]).encode("1hello1") == [WORDS["hello"]]


def test_half_of_a_surrogate_pair_is_a_question_mark() -> None:
    assert TOY.decode(TOY.encode("a\ud800b")) == "a?b"


def test_a_long_word_takes_no_squared_time() -> None:
    assert len(TOY.encode("hello" * 20_000)) == 20_000


def test_a_merge_of_what_is_no_token_is_refused() -> None:
    with pytest.raises(DataError, match="'h' and 'x' are to be merged, but 'hx' is no token"):
        BytePair("toy", WORDS, [("h", "x")], pad=WORDS[END])


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        # Each as Hugging Face's tokenizers 0.23 cut them.
        ((GPT2,), "I've 2024 e\u0301té!", ["I", "'ve", " 2024", " e", "\u0301", "té", "!"]),
        ((GPT2,), "a  b\n\n c\t", ["a", " ", " b", "\n\n", " c", "\t"]),
        ((GPT2,), "\x1c\u3000x½\u0661", ["\x1c", "\u3000", "x", "½\u0661"]),
        ((DIGIT, GPT2), "in  2024 x½", ["in", "  ", "2", "0", "2", "4", " x", "½"]),
        ((LLAMA3,), "I'VE 20245\n\n(été)", ["I", "'VE", " ", "202", "45", "\n\n", "(été", ")"]),
    ],
)  # fmt: skip
def test_words_are_cut_as_the_models_were_trained(
    pattern: tuple[str, ...], text: str, expected: list[str]
) -> None:
    assert words(text, pattern) == expected


@ANY
@given(st.characters(exclude_categories=["Cs"]))
def test_letters_and_numbers_are_unicodes(sign: str) -> None:
    category = unicodedata.category(sign)[0]
    assert bool(compiled(r"\p{L}").fullmatch(sign)) == (category == "L")
    assert bool(compiled(r"\p{N}").fullmatch(sign)) == (category == "N")


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}
SPLIT = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}


def test_all_formats_of_one_tokenizer_give_the_same_tokens(tmp_path: Path) -> None:
    text = "hello  hello 12 ümlaut"
    found = [
        tokenizer(write_gpt2(tmp_path / "openai")),
        tokenizer(write_gpt2(tmp_path / "hf", ("vocab.json", "merges.txt"))),
        tokenizer(write_json(tmp_path / "json", BYTE_LEVEL)),
        tokenizer(write_json(tmp_path / "pairs", BYTE_LEVEL, merges=[list(pair) for pair in MERGES])),
        tokenizer(write_gguf(tmp_path / "toy.gguf", pre="gpt-2")),
    ]
    assert {tuple(one.encode(text)) for one in found} == {tuple(TOY.encode(text))}
    assert {(one.size, one.pad) for one in found} == {(TOY.size, WORDS[END])}


def test_digits_are_cut_one_by_one_where_the_file_says_so(tmp_path: Path) -> None:
    both = {"type": "Sequence", "pretokenizers": [DIGITS, BYTE_LEVEL]}
    for one in (write_json(tmp_path / "json", both), write_gguf(tmp_path / "toy.gguf", pre="smollm")):
        assert tokenizer(one).encode("12") == [WORDS["1"], WORDS["2"]]
    assert TOY.encode("12") == [WORDS["12"]]


def test_llama_3s_way_is_known(tmp_path: Path) -> None:
    last = {**BYTE_LEVEL, "use_regex": False}
    steps = {"type": "Sequence", "pretokenizers": [SPLIT, last]}
    found = tokenizer(write_json(tmp_path, steps, ignore_merges=True))
    assert found.encode("hello\n") == [
        WORDS["hello"],
        *(WORDS[sign] for sign in BYTE_OF if BYTE_OF[sign] == 10),
    ]


def test_the_settings_beside_it_say_what_fills_up(tmp_path: Path) -> None:
    write_gpt2(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": {"content": "!"}}')
    found = tokenizer(tmp_path)
    assert found.pad == WORDS["!"]
