"""Texts of one's own: in memory, and in tables; samples, owners, what is held out, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_toys import steady
from hypothesis import given
from hypothesis import strategies as st

import unknot
from unknot.core.errors import ConfigError, DataError
from unknot.core.samples import IGNORED
from unknot.data import Dataset
from unknot.data.text import Prompt
from unknot.experiments.tables import from_anywhere
from unknot.models import build
from unknot.text.alphabet import Bytes
from unknot.text.tokenizer import tokenizer

ROWS = [
    ("ana", "good", "pos"),
    ("ana", "bad, really", "neg"),
    ("ben", 'so "so"', "pos"),
    ("ben", "two\nlines", "neg"),
    ("ana", "fine", "pos"),
]
TEXTS = [text for _, text, _ in ROWS]
LABELS = [label for _, _, label in ROWS]
OWNERS = [owner for owner, _, _ in ROWS]
PAD = Bytes.pad


def write_csv(path: Path, rows: Sequence[Sequence[str]] = ROWS, head: str = "user,text,label") -> Path:
    def cell(it: str) -> str:
        return '"' + it.replace('"', '""') + '"' if set(it) & set(',"\n') else it

    path.write_text("\n".join([head, *(",".join(map(cell, row)) for row in rows)]) + "\n")
    return path


def write_jsonl(path: Path) -> Path:
    lines = [json.dumps({"user": user, "text": text, "label": label}) for user, text, label in ROWS]
    path.write_text("\n".join(lines) + "\n\n")
    return path


def together(data: Dataset) -> list[tuple[str, str, str]]:
    """Owner, text and label of every row, training part first."""
    assert data.tokenizer is not None
    assert data.train_owner is not None
    assert data.test_owner is not None
    found = []
    for samples, owner in ((data.train, data.train_owner), (data.test, data.test_owner)):
        for x, y, who in zip(samples.x.tolist(), samples.y.tolist(), owner.tolist(), strict=True):
            found.append((data.owner_names[who], data.tokenizer.decode(x), data.labels[y]))
    return found


def test_a_table_gives_texts_labels_and_owners(tmp_path: Path) -> None:
    for path in (write_csv(tmp_path / "r.csv"), write_jsonl(tmp_path / "r.jsonl")):
        data = unknot.load("texts", path=path, label="label", client="user", context=16)
        assert sorted(together(data)) == sorted(ROWS)
        assert (data.labels, data.owner_names, data.name) == (("neg", "pos"), ("ana", "ben"), "r")


def test_a_table_and_lists_in_memory_give_the_same(tmp_path: Path) -> None:
    table = unknot.load("texts", path=write_csv(tmp_path / "r.csv"), label="label", client="user", seed=3)
    mine = unknot.texts(TEXTS, LABELS, OWNERS, seed=3)
    for part in ("train", "test"):
        assert torch.equal(getattr(table, part).x, getattr(mine, part).x)
        assert torch.equal(getattr(table, part).y, getattr(mine, part).y)


def test_short_texts_are_filled_up_on_the_right() -> None:
    rows = Prompt(Bytes(), 6, "<{text}>").inputs(["ab", "abcdef", ""])
    assert rows.tolist() == [[*b"<ab>", PAD, PAD], [*b"<abcd>"], [*b"<>", PAD, PAD, PAD, PAD]]


@steady
@given(
    st.text("ab é€😀\n{}", max_size=40),
    st.integers(8, 30),
    st.sampled_from(["{text}", "{text}\nL:", "T: {text} =>"]),
)
def test_the_prompts_ends_are_never_cut(text: str, context: int, prompt: str) -> None:
    before, _, after = prompt.partition("{text}")
    row = Prompt(Bytes(), context, prompt).inputs([text])[0].tolist()
    real = [token for token in row if token != PAD]
    assert row == real + [PAD] * (context - len(real))
    raw = bytes(real)
    assert raw.startswith(before.encode())
    assert raw.endswith(after.encode())
    middle = raw[len(before.encode()) : len(raw) - len(after.encode())]
    assert text.encode("utf-8", "replace").startswith(middle)
    assert len(real) == context or middle == text.encode("utf-8", "replace")


def test_a_prompt_without_room_for_a_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"context = 10 leaves no room.*takes 10 tokens by itself"):
        Prompt(Bytes(), 10, "{text}\nLanguage:")
    for prompt in ("Language:", "{text} {text}", "{txt}"):
        with pytest.raises(ConfigError, match=r"prompt must have \{text\} in it, once"):
            Prompt(Bytes(), 64, prompt)


@pytest.mark.parametrize("field", ["{label}", "{}", "{Text}"])
def test_a_prompt_has_no_other_field_than_the_text(field: str) -> None:
    with pytest.raises(ConfigError, match="prompt"):
        Prompt(Bytes(), 64, f"{{text}} is {field}:")
    Prompt(Bytes(), 64, '{"text": {text}}')


def test_without_labels_each_token_predicts_the_next() -> None:
    data = unknot.texts(["abcdefg", "xyz"], owners=["a", "b"], context=4, tokenizer="bytes")
    assert data.classes == 257
    assert not data.labelled
    first = data.train.x[0].tolist(), data.train.y[0].tolist()
    last = data.train.x[1].tolist(), data.train.y[1].tolist()
    assert first == ([*b"abcd"], [*b"bcde"])
    assert last == ([*b"ef", PAD, PAD], [*b"fg", IGNORED, IGNORED])


def test_a_text_is_wholly_in_one_part() -> None:
    words = ["".join(chr(97 + i) * 30) for i in range(10)]
    data = unknot.texts(words, context=4, test_share=0.3)
    train, test = (set(part.x.reshape(-1).tolist()) - {PAD} for part in (data.train, data.test))
    assert not train & test
    assert len(test) == 3


def test_what_is_held_out_of_one_owner_does_not_depend_on_the_others() -> None:
    many = [f"{who} {i}" for who in "abc" for i in range(20)]
    owners = [text[0] for text in many]
    both = unknot.texts(many, owners=owners, context=8, test_share=0.25)
    alone = unknot.texts(many[20:], owners=owners[20:], context=8, test_share=0.25)
    assert both.test_owner is not None
    assert np.bincount(both.test_owner).tolist() == [5, 5, 5]
    assert torch.equal(both.test.x[5:], alone.test.x)


def test_owners_are_clients_by_name_and_can_be_erased_so() -> None:
    many = [f"{who} says {i}" for who in ("ana", "ben", "eva") for i in range(8)]
    data = unknot.federate(
        unknot.texts(many, owners=[text[:3] for text in many], context=12), unknot.ByOwner(), validation=0
    )
    assert set(data.names.values()) == {"ana", "ben", "eva"}
    assert len(data["ana"]) == 7
    fed = unknot.simulate(lambda: build("gpt", (12,), 257, layers=1, heads=1, width=8), data)
    history = fed.run(2, requests=[unknot.erase("ben", round=1)])
    assert history.to_dict()["lineage"] == ["ana", "eva"]


def test_classes_can_be_given_and_numbers_sort_as_numbers() -> None:
    assert unknot.texts(["a", "b", "c"], [10, 9, 2]).labels == ("2", "9", "10")
    data = unknot.texts(TEXTS, LABELS, classes=("pos", "neg", "mixed"))
    assert (data.labels, data.classes) == (("pos", "neg", "mixed"), 3)


LABELLED = {"label": "label"}


@pytest.mark.parametrize(
    ("name", "content", "options", "named"),
    [
        ("r.csv", b"", {}, "r.csv"),
        ("r.csv", b"text,label\n", {}, "r.csv"),
        ("r.csv", b"texts,label\na,b\n", {}, "line 2.*'text'.*Did you mean 'texts'"),
        ("r.csv", b"text,user\na,b\n", LABELLED, "line 2.*'label'"),
        ("r.csv", b"text,text\na,b\n", {}, "'text'"),
        ("r.csv", b"text,label\na\n", LABELLED, "line 2.*'label'"),
        ("r.csv", b"text,label\na,b\na,b,c\n", LABELLED, "line 3"),
        ("r.csv", b'text,label\na,b\n"c"d,e\n', {}, "line 3"),
        ("r.csv", b'text\na\n"b\n', {}, "line 3"),
        ("r.csv", b"text\na\nb\xff\n", {}, "utf-8.*0xff"),
        ("r.csv", b"text;label\na;b\n", {}, "line 2.*'text'.*text;label"),
        ("r.csv", b"text,label\na,x\n ,y\n", LABELLED, "line 3: the text"),
        ("r.csv", b"text,label\na,x\nb,\n", LABELLED, "line 3: the label"),
        ("r.csv", b"text,user\na,\n", {"client": "user"}, "line 2: the client"),
        (
            "r.csv",
            b'text,label\n"a\nb",x\nc,good\n',
            {**LABELLED, "classes": ("x", "y")},
            "line 4: 'good'",
        ),
        ("r.csv", b"text\na\n", {}, "r: there are no training samples"),
        ("r.csv", b"text\nab\n", {"tokenizer": "nowhere.gguf"}, "'nowhere.gguf'"),
        ("r.jsonl", b'{"text": "a b"}\n{"text": \n', {}, "line 2"),
        ("r.jsonl", b'{"text": "a b"}\n\n["a"]\n', {}, "line 3"),
        ("r.jsonl", b'{"texts": "a b"}\n', {}, r"line 1.*'text'.*Did you mean 'texts'"),
        ("r.jsonl", b'{"text": null}\n', {}, "line 1.*'text'"),
        ("r.jsonl", b'{"text": ""}\n', {}, "line 1: the text"),
        ("r.jsonl", b"\n\n", {}, "r.jsonl"),
    ],
)
def test_a_bad_table_says_where(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], named: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=named):
        unknot.load("texts", path=tmp_path / name, **options)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"r\.csv"):
        unknot.load("texts", path=tmp_path / "r.csv")


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"labels": ["x"]}, DataError, "5 texts.*1"),
        ({"owners": []}, DataError, "5 texts.*0"),
        ({"context": 0}, ConfigError, "context"),
        ({"test_share": 0}, ConfigError, "test_share"),
        ({"prompt": "{text}?"}, ConfigError, "prompt"),
        ({"classes": ("a",)}, ConfigError, "classes"),
        ({"labels": [None] * 5}, DataError, "text 0.*'label'"),
    ],
)
def test_lists_that_do_not_fit_are_refused(
    options: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        unknot.texts(TEXTS, **options)
    with pytest.raises(DataError, match=r"text 1: .*'text'"):
        unknot.texts(["a", 1.5])  # type: ignore[list-item]


def test_a_tokenizer_is_found_where_the_data_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unknot.data.text import tokenizer_of

    vocabulary = {chr(i): i for i in range(33, 127)} | {"<|endoftext|>": 127}
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "tiny" / "merges.txt").write_text("")
    monkeypatch.delenv("UNKNOT_DATA", raising=False)
    with pytest.raises(DataError, match="there is no tokenizer 'tiny'"):
        tokenizer_of("tiny")
    assert tokenizer_of("tiny", tmp_path).size == 128
    monkeypatch.setenv("UNKNOT_DATA", str(tmp_path))
    made = tokenizer_of("tiny")
    assert made.encode("ab") == [97, 98]
    assert tokenizer_of(made) is made
    assert tokenizer_of("bytes").name == tokenizer("bytes").name


TABLE = """
[data]
name = "texts"
path = "{path}"
label = "label"
client = "user"
"""


def test_a_file_with_a_column_of_clients_is_dealt_out_by_it(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(TABLE.format(path=write_csv(tmp_path / "r.csv")))
    experiment = unknot.Experiment.read(path)
    assert experiment.data.partition == unknot.ByOwner()
    path.write_text(
        TABLE.format(path="r.csv").replace('client = "user"\n', 'partition = "iid"\nclients = 2\n')
    )
    assert unknot.Experiment.read(path).data.partition == unknot.Iid(2)


def test_a_saved_configuration_has_paths_whole_and_names_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tok.bin").touch()
    data = {"name": "texts", "path": "r.csv", "tokenizer": "tok.bin"}
    assert from_anywhere({"data": data})["data"] == {
        **data,
        "path": str(tmp_path / "r.csv"),
        "tokenizer": str(tmp_path / "tok.bin"),
    }
    for name in ("bytes", "gpt2-bpe"):
        assert from_anywhere({"data": {**data, "tokenizer": name}})["data"]["tokenizer"] == name


def test_labels_and_owners_are_written_in_one_way(tmp_path: Path) -> None:
    accents = ("caf\u00e9", " cafe\u0301 ")
    rows = [("ana", "a", "x"), ("ana ", "b", " x "), *((one, "c", one) for one in accents)]
    path = write_csv(tmp_path / "r.csv", [*rows, *rows])
    for data in (
        unknot.load("texts", path=path, label="label", client="user"),
        unknot.load("texts", path=path, label="label", client="user", classes=("caf\u00e9", "x ")),
        unknot.texts(["a"] * 8, labels=[row[2] for row in rows * 2], owners=[row[0] for row in rows * 2]),
    ):
        assert set(data.labels) == {"caf\u00e9", "x"}
        assert data.owner_names == ("ana", "caf\u00e9")


def test_a_text_of_any_length_is_read_from_a_table(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "r.csv", [("ana", "word " * 40_000, "x"), *ROWS])
    assert sum(map(len, unknot.load("texts", path=path, context=8_192).train.x)) > 190_000
