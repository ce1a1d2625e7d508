"""The papers' language tasks, with small files in the place of the real ones."""

import tomllib
from importlib.resources import files
from typing import Any

import pytest

from small_language_model import write_langid, write_model, write_sentiments, write_shakespeare
from unknot.reproduce import findings, load, reproduce
from unknot.reproduce.record_file import kept
from unknot.reproduce.reproduction import Reproduction
from unknot.reproduce.runner import missing_data

SMOLLM2 = "lm/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Small stand-ins for all that the runs read."""
    monkeypatch.setenv("UNKNOT_DATA", str(tmp_path / "data"))
    write_model(tmp_path / "data" / SMOLLM2)
    write_langid(tmp_path / "data", 30)
    write_sentiments(tmp_path / "data", 12)
    write_shakespeare(tmp_path / "data", 60)
    return tmp_path


def written(name: str) -> dict[str, Any]:
    path = files("unknot") / "reproduce" / "papers" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def small(name: str, *panels: str) -> Reproduction:
    """These panels of a paper's figure and no claims, with few texts and a round to a phase."""
    table = written(name)
    table["panel"] = [panel for panel in table["panel"] if panel["name"] in panels]
    table["claims"] = []
    for panel in table["panel"]:
        panel["phase"] = 1
        panel["data"] |= {"samples": 9, "test_samples": 3}
        panel["model"]["dtype"] = "float32"
        panel["engine"] = {"threads": 1}
    return Reproduction.of(table, name)


def test_a_language_task_runs_and_is_shown_beside_the_published_figures(here):
    plan = small("exact-table1", "smollm2-language", "gpt2-language")
    told = []
    file = reproduce(plan, "paper", out=here, seeds=[0], only=["rfs", "bmt"], tell=told.append)
    assert [text[:6] for text in told] == ["left o", "1 of 2", "2 of 2"]
    there, absent = findings(plan, "paper", file, [0]).panels
    assert [line.name for line in there.lines] == ["rfs", "bmt"]
    assert [after.request for after in there.lines[0].after] == ["leave 1", "leave 3", "leave 5"]
    assert there.published["bmt"] == "11; 6"
    assert absent.reason == "not run yet: it needs lm/gpt2", "the other panel had the data set"


def test_of_sentiments_the_languages_are_the_clients(here):
    file = reproduce(
        small("exact-fig1", "smollm2-sentiment"), "paper", out=here, seeds=[0], only=["exact-fun"]
    )
    (record,) = kept(file).values()
    assert [request["request"] for request in record["history"]["requests"]] == [
        "erase English",
        "erase German",
        "erase Italian",
    ]


@pytest.mark.parametrize(
    ("panel", "model"),
    [
        ("shakespeare-smollm2", {"dtype": "float32"}),
        ("shakespeare-gpt2", {"layers": 1, "heads": 2, "width": 16}),
    ],
)
def test_text_by_byte_pairs_is_trained_in_clusters(here, panel, model):
    """Four of six clients are in flight, two leave, and what is served is measured by perplexity."""
    table = written("knot-fig6a")
    (chosen,) = (one for one in table["panel"] if one["name"] == panel)
    chosen["model"] |= model
    chosen["data"] |= {"clients": 6, "samples": 4, "validation": 4, "test_samples": 1, "tokenizer": SMOLLM2}
    chosen["federation"] = {"per_round": 4, "minimum": 2, "seconds": 60.0}
    chosen["request"] = [{"erase": [1, 4], "time": 30}]
    chosen["lines"] = {"random": {"method": {"clusters": 2}}}
    chosen["clock"] = {"seconds_per_sample": 2.0}
    chosen["engine"] = {"threads": 1}
    table["panel"] = [chosen]
    table["claims"] = []
    plan = Reproduction.of(table, "knot-fig6a")
    file = reproduce(plan, "paper", out=here, seeds=[0], only=["random"])
    (found,) = findings(plan, "paper", file, [0]).panels
    assert found.metric == "perplexity"
    assert found.lines[0].after[0].request == "leave 1, 4"
    assert found.published["knot"] == "33 % less"


def test_table_2_takes_the_runs_of_figure_6a():
    figure, table = (
        {run.key: {**run.table, "name": ""} for run in load(name).runs("paper")}
        for name in ("knot-fig6a", "knot-table2")
    )
    texts = [key for key in table if key.startswith("shakespeare") and "federaser" not in key]
    assert len(texts) == (5 + 1) * 3  # seeds of either panel, lines
    assert all(table[key] == figure[key] for key in texts)
    assert "knot-fig6a" in load("knot-table2").uses


def test_of_text_four_clients_of_fifty_are_erased_at_once():
    runs = [run for run in load("knot-fig6c").runs("paper", [0]) if run.panel.name.startswith("shakespeare")]
    assert {run.experiment.data.partition.clients for run in runs} == {50}
    assert {len(run.experiment.requests[0].targets) for run in runs} == {4}
    paces = {run.line.name: run.experiment.setup.pace for run in runs}
    assert (paces["knot"].per_round, paces["knot"].minimum) == (30, 25)


def test_table_1_takes_the_runs_of_figure_1():
    figure, table = (
        {run.key: {**run.table, "name": ""} for run in load(name).runs("paper")}
        for name in ("exact-fig1", "exact-table1")
    )
    texts = [key for key in table if key.startswith(("smollm2", "gpt2", "llama3"))]
    assert len(texts) == 5 * 6 + 3 * (6 + 2 * 5 + 2 * 4)  # seeds, and panels with their lines
    assert all(table[key] == figure[key] for key in texts)
    assert "exact-fig1" in load("exact-table1").uses


def test_a_model_that_is_not_here_is_named(here, monkeypatch):
    runs = [run for run in load("exact-fig1").runs("paper", [0]) if "language" in run.panel.name]
    absent = missing_data(runs)
    assert set(absent) == {"gpt2-language", "llama3-language"}
    assert "lm/Llama-3.2-3B is not here" in absent["llama3-language"]
    assert str(here) not in str(absent)  # pages are the same wherever they are made
    (scratch,) = (
        run for run in load("knot-fig6a").runs("paper", [0]) if run.key == "shakespeare-gpt2/knot/0"
    )
    assert "gpt2-bpe is not here" in missing_data([scratch])["shakespeare-gpt2"]
    monkeypatch.delenv("UNKNOT_DATA")
    assert "langid is not here" in missing_data(runs)["smollm2-language"]
