"""Tiny Shakespeare by speaker, from small texts in the same layout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from data_toys import write_shakespeare

from unknot.core.errors import ConfigError, DataError
from unknot.data import Dataset, load
from unknot.data.readers.speech import VOCABULARY, speeches

TEXT = """First Citizen:
Before we proceed any further, hear me speak:
thus.

All:
Speak, speak.


First Citizen:
You are all resolved.

and he went on
"""


def _decode(data: Dataset, tokens: torch.Tensor) -> str:
    assert data.vocabulary is not None
    return "".join(data.vocabulary[token] for token in tokens.reshape(-1).tolist())


def test_a_block_belongs_to_the_name_in_its_first_line() -> None:
    assert speeches(TEXT) == {
        "First Citizen": (
            "Before we proceed any further, hear me speak:\nthus.\n\nYou are all resolved.\n\nand he went on"
        ),
        "All": "Speak, speak.",
    }


def test_targets_are_the_inputs_moved_on_by_one_character(tmp_path: Path) -> None:
    write_shakespeare(tmp_path, TEXT)
    data = load("shakespeare", tmp_path, context=4)
    said = speeches(TEXT)
    assert data.train_owner is not None
    mine = torch.from_numpy(data.train_owner == data.owner_names.index("First Citizen"))
    inputs, targets = _decode(data, data.train.x[mine]), _decode(data, data.train.y[mine])
    assert said["First Citizen"].startswith(inputs)
    assert said["First Citizen"][1:].startswith(targets)
    assert data.train.x.shape[1:] == data.train.y.shape[1:] == (4,)
    assert not data.labelled


def test_a_speakers_test_part_follows_its_training_part(tmp_path: Path) -> None:
    # 41 characters are 10 windows of 4 (and one to predict last); a fifth of them are two.
    words = "abcdefghijklmnopqrstuvwxyzabcdefghijklmno"
    write_shakespeare(tmp_path, f"A:\n{words}\n")
    data = load("shakespeare", tmp_path, context=4, test_share=0.2)
    assert _decode(data, data.train.x) == words[:32]
    assert _decode(data, data.test.x) == words[32:40]
    assert _decode(data, data.test.y) == words[33:41]


def test_whoever_has_two_windows_has_one_to_test_with_and_one_has_none(tmp_path: Path) -> None:
    write_shakespeare(tmp_path, "TWO:\nabcdefghi\n\nONE:\nabcdefgh\n\nNONE:\nabcd\n")
    data = load("shakespeare", tmp_path, context=4)
    assert data.owner_names == ("TWO", "ONE")
    assert data.train_owner is not None
    assert data.test_owner is not None
    assert data.train_owner.tolist() == [0, 1]
    assert data.test_owner.tolist() == [0]


def test_vocabulary_does_not_depend_on_the_text(tmp_path: Path) -> None:
    write_shakespeare(tmp_path, "A:\naaaaaaaaaaaa\n")
    data = load("shakespeare", tmp_path, context=4)
    assert data.vocabulary == VOCABULARY
    assert data.classes == len(VOCABULARY) == 65
    assert set(data.train.x.reshape(-1).tolist()) == {VOCABULARY.index("a")}


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    write_shakespeare(tmp_path / "unix", TEXT)
    path = write_shakespeare(tmp_path / "dos", "")
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    unix, dos = (load("shakespeare", tmp_path / name, context=4) for name in ("unix", "dos"))
    assert torch.equal(unix.train.x, dos.train.x)


@pytest.mark.parametrize(
    "raw",
    [b"A:\nall is w\xffll\n", "A:\nna\u00efve and long enough\n".encode(), b"A:\n10 pounds and no more\n"],
)
def test_another_text_is_refused(tmp_path: Path, raw: bytes) -> None:
    write_shakespeare(tmp_path, "").write_bytes(raw)
    with pytest.raises(DataError, match="tinyshakespeare"):
        load("shakespeare", tmp_path, context=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 0}, "context must be a whole number of at least 1"),
        ({"context": 2.5}, "context must be a whole number"),
        ({"context": 1000}, "1001"),
        ({"test_share": 1.0}, "test_share must lie between 0 and 1"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    write_shakespeare(tmp_path, TEXT)
    with pytest.raises(ConfigError, match=message):
        load("shakespeare", tmp_path, **options)


def test_another_tokenizer_makes_windows_of_its_tokens_by_speaker(tmp_path: Path) -> None:
    write_shakespeare(tmp_path, TEXT.replace("thus", "thús"))
    data = load("shakespeare", tmp_path, context=4, tokenizer="bytes")
    assert data.tokenizer is not None
    assert (data.classes, data.vocabulary, data.owner_names) == (257, None, ("First Citizen", "All"))
    assert data.train_owner is not None
    mine = torch.from_numpy(data.train_owner == 0)
    said = speeches(TEXT.replace("thus", "thús"))["First Citizen"].encode()
    assert said.startswith(bytes(data.train.x[mine].reshape(-1).tolist()))
    assert said[1:].startswith(bytes(data.train.y[mine].reshape(-1).tolist()))
    with pytest.raises(ConfigError, match="501"):
        load("shakespeare", tmp_path, context=500, tokenizer="bytes")


def test_characters_by_name_are_the_65_as_by_default(tmp_path: Path) -> None:
    write_shakespeare(tmp_path, TEXT)
    usual = load("shakespeare", tmp_path, context=4)
    named = load("shakespeare", tmp_path, context=4, tokenizer="characters")
    assert torch.equal(named.train.x, usual.train.x)
    assert named.vocabulary == usual.vocabulary == VOCABULARY
