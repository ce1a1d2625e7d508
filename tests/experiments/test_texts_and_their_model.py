"""Texts and the model that reads them: token numbers, classes and positions mean the same to both."""

from __future__ import annotations

from pathlib import Path

import pytest

import language_files as files
import unknot
from unknot.core.errors import ConfigError, DataError, UnknotError
from unknot.experiments import Experiment, prepare

WORDS = ["good one", "bad one", "nice two", "poor two", "fine", "sad"]
ROWS = [f"{word} {i},{'two' if i % 2 else 'one'}" for i in range(4) for word in WORDS]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNKNOT_DATA", raising=False)
    files.write_llama_gguf(tmp_path / "a.gguf", files.llama())
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *ROWS, ""]))
    return tmp_path


TABLE = {
    "data": {
        "name": "texts",
        "path": "t.csv",
        "label": "label",
        "context": 12,
        "partition": "iid",
        "clients": 2,
        "validation": 0,
    },
    "model": {"name": "pretrained", "path": "a.gguf", "answers": ["one", "two"]},
    "federation": {"rounds": 1, "evaluate_every": 0},
}
NEXT = {**TABLE, "data": {key: value for key, value in TABLE["data"].items() if key != "label"}}
NEXT["model"] = {"name": "pretrained", "path": "a.gguf"}


def refused(*overrides: str, table: dict = TABLE) -> str:
    with pytest.raises(UnknotError) as error:
        prepare(Experiment.of(table, overrides))
    assert isinstance(error.value, ConfigError | DataError)
    return str(error.value)


def test_a_file_that_names_no_tokenizer_takes_the_models_own(place):
    data = prepare(Experiment.of(TABLE)).data
    assert data.wording.tokenizer == "a.gguf"
    assert data.wording.classes == ("one", "two")
    assert data.train.x.max() == files.PAD
    assert prepare(Experiment.of(NEXT)).data.train.classes == files.VOCABULARY
    named = prepare(Experiment.of(TABLE, ["data.tokenizer=a.gguf"])).data
    assert named.train.x.equal(data.train.x)


@pytest.mark.parametrize("table", [TABLE, NEXT], ids=["classes", "next tokens"])
@pytest.mark.parametrize("other", ["bytes", "characters"])
def test_texts_of_another_tokenizer_are_refused(other, table, place):
    said = refused(f"data.tokenizer={other}", table=table)
    assert f"the texts were made by the tokenizer '{other}', and the model reads those of 'a.gguf'" in said
    assert "let data.tokenizer be the model's own" in said


def test_in_python_too_the_two_are_compared(place):
    texts, labels = zip(*(row.split(",") for row in ROWS), strict=True)

    def start(tokenizer, model, labels=labels, context=12):
        made = unknot.texts(texts, labels, tokenizer=tokenizer, context=context)
        return unknot.simulate(model, unknot.federate(made, unknot.Iid(2)), evaluate_every=0)

    model = unknot.pretrained("a.gguf", answers=["one", "two"])
    start("a.gguf", model)
    with pytest.raises(ConfigError, match="made by the tokenizer 'bytes'"):
        start("bytes", unknot.lora(model, 2, targets=["q_proj"]))
    with pytest.raises(ConfigError, match="made by the tokenizer 'bytes'"):
        start("bytes", unknot.pretrained("a.gguf"), labels=None)
    with pytest.raises(ConfigError, match="the texts have no labels"):
        start("a.gguf", unknot.pretrained("a.gguf", classes=2), labels=None)
    with pytest.raises(ConfigError, match="40 tokens are longer than the 32 positions"):
        start("a.gguf", unknot.pretrained("a.gguf", classes=2), context=40)


def test_the_same_tokenizer_from_another_file_will_do(place):
    files.write_folder(place / "folder", files.llama())
    assert prepare(Experiment.of(TABLE, ["data.tokenizer=folder"])).data.wording.tokenizer == "folder"


def test_texts_longer_than_a_model_was_trained_on_are_refused(place):
    wanted = "texts of 33 tokens do not fit the 32 positions"
    files.write_folder(place / "folder", files.llama())
    files.write_llama2c(place / "a.bin", files.llama())
    for path in ("a.gguf", "folder", "a.bin"):
        said = refused("data.context=33", f"model.path={path}", "model.tokenizer=a.gguf")
        assert wanted in said
        assert "set data.context to at most 32" in said


def test_answers_are_in_the_order_of_the_classes(place):
    assert refused("model.answers=['two', 'One']").startswith(
        "model.answers has 'two' for class 0, and that is what class 1 is called; write them in the order of "
        "the classes: one, two"
    )
    prepare(Experiment.of(TABLE, ["model.answers=['One', 'cow']"]))
    prepare(Experiment.of(TABLE, ["model.answers=['two', 'one']", "data.classes=['two', 'one']"]))
    prepare(Experiment.of(TABLE, ["model.answers=[]"]))


@pytest.mark.parametrize("more", [(), ("data.tokenizer=bytes",)])
def test_answers_are_for_texts_with_labels(more, place):
    said = refused("model.answers=['one', 'two']", *more, table=NEXT)
    assert said.startswith("model.answers tell the classes of texts, and these have no labels")


@pytest.mark.parametrize("more", [(), ("data.tokenizer=a.gguf",)])
def test_a_path_that_leads_to_no_model_is_told_by_its_key(more, place, monkeypatch):
    monkeypatch.setenv("UNKNOT_DATA", "/some/folder")
    said = refused("model.path=b.gguf", *more)
    assert said.startswith("model.path: there is no language model 'b.gguf'")
    assert str(place) in said
    assert "/some/folder" in said
    (place / "empty").mkdir()
    said = refused("model.path=empty", *more)
    assert said.startswith("model.path: ")
    assert "empty holds no language model" in said
    (place / "c.gguf").write_text("this is some text that is called so")
    said = refused("model.path=c.gguf", *more)
    assert said.startswith("model.path: ")
    assert "it should be a GGUF file" in said
