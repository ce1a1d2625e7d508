"""Language identification and multilingual sentiments, from small files in the same layout."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import unknot
from unknot.core.errors import ConfigError, DataError
from unknot.core.places import folders
from unknot.data import LANGUAGES, Dataset, load, verify
from unknot.data.readers.languages import ALIKE, SPOKEN

ROWS = [("nl", "Ik ken geen druk"), ("en", 'He said "no", and left'), ("fr", "Non"), ("nl", "Nee")]


def write_langid(root: Path, part: str, rows: Sequence[tuple[str, str]] = ROWS) -> Path:
    path = root / "langid" / f"{part}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    quoted = [f'{code},"{text.replace(chr(34), chr(34) * 2)}"' for code, text in rows]
    path.write_text("\n".join(["labels,text", *quoted]) + "\n")
    return path


def sentiment_files() -> dict[str, str]:
    head = "text,label,source\n"
    rows = {"negative": "bad {0}", "neutral": "so so {0}", "positive": "good {0}"}

    def table(language: str, many: int) -> str:
        return head + "".join(
            f"{text.format(language)} {i},{label},s\n" for i in range(many) for label, text in rows.items()
        )

    return {
        "data/french/train.csv": table("fr", 2),
        "data/french/valid.csv": table("no", 1),
        "data/french/test.csv": table("fr", 1),
        "data/japanese/valid.csv": table("ja", 1),
        "data/japanese/test.csv": table("ja", 2),
        "data/all/test.csv": table("all", 1),
    }


def write_sentiments(root: Path, files: dict[str, str], packed: bool) -> Path:
    folder = root / "sentiment"
    folder.mkdir(parents=True, exist_ok=True)
    if not packed:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        return folder
    with tarfile.open(folder / "multilingual-sentiments.tar.xz", "w:xz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return folder


def texts(data: Dataset) -> list[tuple[str, str]]:
    assert data.tokenizer is not None
    return [
        (data.tokenizer.decode(x), data.labels[y])
        for x, y in zip(data.train.x.tolist(), data.train.y.tolist(), strict=True)
    ]


def test_a_language_is_a_class_and_the_prompt_asks_for_it(tmp_path: Path) -> None:
    write_langid(tmp_path, "valid")
    write_langid(tmp_path, "test")
    data = load("langid", tmp_path)
    assert data.labels == tuple(LANGUAGES.values())
    assert texts(data)[:2] == [
        ("Ik ken geen druk\nLanguage:", "Dutch"),
        ('He said "no", and left\nLanguage:', "English"),
    ]


def test_languages_are_chosen_by_name_or_code_and_numbered_in_their_order(tmp_path: Path) -> None:
    write_langid(tmp_path, "valid")
    write_langid(tmp_path, "test")
    data = load("langid", tmp_path, languages=("nl", "english"), prompt="{text}")
    assert data.labels == ("Dutch", "English")
    assert data.train.y.tolist() == [0, 1, 0]


def test_the_training_part_is_trained_on_where_it_is_there(tmp_path: Path) -> None:
    write_langid(tmp_path, "valid")
    write_langid(tmp_path, "test")
    assert [check.file for check in verify("langid", tmp_path)] == ["langid/valid.csv", "langid/test.csv"]
    write_langid(tmp_path, "train", [("en", "trained"), ("nl", "on")])
    data = load("langid", tmp_path, languages=("nl", "en"), prompt="{text}")
    assert texts(data) == [("trained", "English"), ("on", "Dutch")]
    assert len(data.test) == 3


@pytest.mark.parametrize("packed", [True, False])
def test_languages_are_the_clients_of_sentiments_by_name(tmp_path: Path, packed: bool) -> None:
    write_sentiments(tmp_path, sentiment_files(), packed)
    data = load("sentiments", tmp_path, languages=("French", "japanese"))
    assert data.owner_names == ("French", "Japanese")
    assert texts(data)[0] == ("bad fr 0\nSentiment:", "negative")
    assert texts(data)[-1] == ("good ja 0\nSentiment:", "positive")  # of "valid": there is no other
    assert (len(data.train), len(data.test)) == (9, 9)
    held = unknot.federate(data, unknot.ByOwner(), validation=0)
    assert (len(held["French"]), len(held["Japanese"])) == (6, 3)
    [status] = {check.status for check in verify("sentiments", tmp_path)}
    assert status == ("differs" if packed else "unknown")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"languages": ("nl", "Dutsch")}, "there is no language 'Dutsch'. Did you mean 'Dutch'"),
        ({"languages": ("nl", "Dutch")}, "languages names Dutch twice"),
        ({"languages": ("nl",)}, "languages must name 2 at least, not 1"),
        ({"context": 3}, "context = 3 leaves no room"),
        ({"context": "x"}, "context must be a whole number"),
        ({"prompt": "Which?"}, "prompt must have {text} in it"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    write_langid(tmp_path, "valid")
    write_langid(tmp_path, "test")
    with pytest.raises(ConfigError, match=message):
        load("langid", tmp_path, **options)


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    write_langid(tmp_path, "test")
    path = write_langid(tmp_path, "valid", [("xx", "?")])
    with pytest.raises(DataError, match="langid"):
        load("langid", tmp_path)
    path.write_text("lang,text\nnl,ja\n")
    with pytest.raises(DataError, match=r"valid.csv, line 2.*'labels'"):
        load("langid", tmp_path)
    files = sentiment_files()
    write_sentiments(tmp_path, {**files, "data/french/test.csv": "text,label\nx,happy\n"}, packed=True)
    archive = tmp_path / "sentiment" / "multilingual-sentiments.tar.xz"
    for language in ("French", "German"):
        with pytest.raises(DataError, match=archive.name):
            load("sentiments", tmp_path, languages=(language,))
    archive.write_bytes(archive.read_bytes()[:50])
    with pytest.raises(DataError, match=archive.name):
        load("sentiments", tmp_path, languages=("French",))


def real(name: str) -> None:
    if not any((root / name).exists() for root in folders()):
        pytest.skip(f"{name} is not in UNKNOT_DATA")


def test_the_real_languages_have_500_texts_each() -> None:
    real("langid")
    data = load("langid")
    assert data.test.y.bincount().tolist() == [500] * 20
    dealt = unknot.federate(
        load("langid", languages=("nl", "en", "de", "fr")), unknot.MajorityClass(clients=4, ratio=0.5)
    )
    assert len(dealt) == 4


def test_the_real_sentiments_are_balanced_in_eight_languages() -> None:
    real("sentiment")
    data = load("sentiments")
    assert data.owner_names == ALIKE
    assert data.train_owner is not None
    assert data.train.y.bincount().tolist() == [8 * 613] * 3
    assert set(ALIKE) < set(SPOKEN)
