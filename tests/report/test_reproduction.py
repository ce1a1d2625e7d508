import copy

import pytest
from reproduction_findings import FOUND, line, stat
from rich.console import Console
from typer.testing import CliRunner

from unknot.cli import app
from unknot.report.catalogue import by_paper
from unknot.report.cells import count, percent
from unknot.report.reproduction import (
    markdown,
    tables,
)
from unknot.reproduce import overview


def test_cells():
    assert percent(stat(0.834, 0.006)) == "83.4 ± 0.6"
    assert percent(None) == "–"
    assert count(stat(16.0)) == "16"
    assert count(stat(16.5, 2.0, 2, 3)) == "16.5 ± 2.0 (2 of 3 seeds)"
    assert count(None) == "never"


def test_the_page_has_published_figures_beside_ours():
    page = markdown(FOUND, "unknot reproduce exact-figx", "exact-figx-small.png")
    accuracies = "80.0 ± 1.0 | 10.0 ± 0.0 | 50.0 ± 2.0 | 70.0 ± 0.0"
    assert f"| RFS | leave 1 (2) | 51 | 26.0 ± 2.0 | {accuracies} | 3.25 | 2 |" in page
    assert "| MMT | leave 1 (2) | 16 | never |" in page
    assert "| FATS | not run | never |" in page
    assert "Figure X of *A paper*, at small scale. The paper finds a thing." in page
    assert "| RFS | not run | 54 |" in page
    assert "| MMT does better than RFS | digits | holds in part: MMT level with RFS |" in page
    for text in (
        "$ unknot reproduce exact-figx",
        "- commit abc",
        "- A chip, 2 cores",
        "A note.",
        "is not here",
    ):
        assert text in page
    widths = {
        text.count("|")
        for text in page.split("## CIFAR-100")[0].split("## digits")[1].split("\n\n")[3].split("\n")
    }
    assert len(widths) == 1


def test_the_terminal_shows_the_same():
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tables(FOUND))
    text = console.export_text()
    for part in (
        "A title (Figure X), small scale",
        "26.0±2.0",
        "51",
        "cifar100 is not here",
        "holds in part: MMT level with RFS",
    ):
        assert part in text


def shown(findings, width):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tables(findings))
    return console.export_text()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_number_of_a_table_is_broken(width):
    made = copy.deepcopy(FOUND)
    for found, rounds in zip(made["panels"][0]["lines"], (stat(1476.25, 229.25, 2, 3), None), strict=True):
        found["after"][0]["rounds"] = [rounds] * 4
    made["panels"][0]["thresholds"] = [0.75, 0.8, 0.85, 0.9]
    lines = shown(made, width).splitlines()
    first = [text.split() for text in lines if text.startswith("RFS")]
    numbers = [word for text in lines for word in text.split() if word == "1476.2±229.2"]
    assert len(numbers) == 4
    assert {"80.0±1.0", "10.0±0.0", "50.0±2.0", "70.0±0.0", "0.95", "12.0±1.0"} <= {
        w for t in first for w in t
    }
    assert sum(text.count("(2 of 3 seeds)") for text in lines) == 4
    assert max(map(len, lines)) <= width


def test_a_guarantee_is_a_word_in_the_table_and_told_once_below_all_of_them():
    made = copy.deepcopy(FOUND)
    told = "exact, but for how many rounds came before"
    made["panels"][1]["lines"] = [{**line("rfs", "RFS", None, 0.5), "after": []}]
    for found in (found for panel in made["panels"] for found in panel["lines"]):
        found["guarantee"] = told
    text = shown(made, 80)
    assert text.count(told) == 1
    assert f"* RFS; MMT: {told}" in text
    assert text.count("exact*") == 3
    assert told in markdown(made, "c", None).split("## CIFAR-100")[0]
    assert "* RFS" not in shown(FOUND, 80), "a word says all of it"


FILE = """
title = "Tiny"
figure = "Figure 0"
claim = "It is tiny."
base.data = { partition = "iid", clients = 3, samples = 10, validation = 0, test_samples = 5 }
base.federation = { evaluate_on = ["test"] }
base.phases = 2
base.request = [{ erase = 1, phase = 1 }]
scale.small.phase = 2
panel = [{ name = "p", title = "a panel", thresholds = [0.01], published = { rfs = 4 } }]
line = [{ name = "rfs", label = "RFS", method = { name = "rfs" } }]
"""


def call(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*args], env={"COLUMNS": "140"})
    assert result.exit_code == code, result.output
    return result.output


def test_the_command_runs_shows_and_writes(tmp_path):
    file = tmp_path / "tiny.toml"
    file.write_text(FILE)
    output = call("reproduce", str(file), "--out", str(tmp_path), "--seeds", "0,1", "--threads", "1")
    assert "leave 1 (2)" in output
    assert "1 of 2: p/rfs/0" in output
    assert "--seeds 0,1" in (tmp_path / "tiny-small.md").read_text()
    again = call("reproduce", str(file), "--out", str(tmp_path), "--seeds", "0,1")
    assert "p/rfs/0" not in again  # everything is there: it is only drawn
    assert "whole numbers" in call("reproduce", str(file), "--seeds", "x", code=2)
    assert "no scale" in call("reproduce", str(file), "--scale", "paper", code=2)


def test_every_title_is_another_one_and_whole_in_a_list_at_the_width_of_a_pipe():
    entries = [entry.to_dict() for entry in overview()]
    titles = [entry["title"] for entry in entries]
    assert len(set(titles)) == len(titles)
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(by_paper(entries))
    papers = {entry["paper"] for entry in entries}
    lines = [row for row in console.export_text().splitlines() if row and row not in papers]
    assert len(lines) == len(titles) + 1, "a line each"
    assert [text for text in titles if not any(text in row for row in lines)] == []
    narrow = Console(width=60, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    narrow.print(by_paper(entries))
    (row,) = (text for text in narrow.export_text().splitlines() if text.startswith("incentive-fig5b"))
    assert row.endswith("Random, K-Center or DQN …"), "cut after a word"


def test_what_takes_long_is_said_of_data_that_a_reproduction_has():
    takes = {
        entry.name: scale.takes for entry in overview() for scale in entry.scales if scale.name == "paper"
    }
    assert "writers" in takes["knot-fig5"]
    assert "writers" not in takes["knot-fig6b"]


def test_the_list_names_them():
    short = call("reproduce", "--list")
    assert all(part in short for part in ("exact-table1", "Figure 3c", "Against SISA", "--long"))
    assert short.startswith("Achieving Exact Federated Unlearning with Improved")
    output = call("reproduce", "--list", "--long")
    for part in ("exact-table1", "exact-fig8", "Figure 3c", "digits", "small", "paper"):
        assert part in output


def test_a_run_with_thresholds_shows_them(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(
        '[data]\npartition = "iid"\nclients = 3\nsamples = 20\nvalidation = 50\n[federation]\nrounds = 4\n'
        "[[request]]\nerase = 1\nround = 2\n[scenario]\nthresholds = [0.01, 1.0]\n"
    )
    output = call("run", str(file))
    assert "validation accuracy" in output
    assert "0 rounds, 0.0 s" in output
    assert "not reached" in output
    assert '"scenario": {"split": "validation"' in call("run", str(file), "--json")


def test_how_it_was_made_explains_what_the_page_has():
    whole = markdown({**FOUND, "counted": True}, "c", None)
    assert "*To 75 %*" in whole
    assert "*Models*" in whole
    panels = [{**panel, "thresholds": []} for panel in FOUND["panels"]]
    plain = markdown({**FOUND, "counted": False, "panels": panels}, "c", None)
    assert "*To 75 %*" not in plain
    assert "*Models*" not in plain
    ours = [{**item, "ours": True} for item in FOUND["verdicts"]]
    assert "*(ours)*: the paper's text" in " ".join(markdown({**FOUND, "verdicts": ours}, "c", None).split())
    assert "(ours)" not in whole
