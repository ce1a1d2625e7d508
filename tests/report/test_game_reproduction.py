"""What a reproduction that plays games shows: tables of utilities, verdicts by draws, the figure."""

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.report.reproduction import markdown
from unknot.report.utilities import tables


def stat(mean, std=1.0):
    return {"mean": mean, "std": std, "n": 4, "asked": 4}


def line(name, label, beside, level):
    return {
        "name": name,
        "label": label,
        "draws": 4,
        "curve": {"at": [1, 2], "mean": [5, level], "low": [4, level - 1], "high": [6, level + 1]},
        "cells": [stat(5.04), stat(level, 12.3)],
        "mean": stat(level),
        "settled": 1.5,
        "falls": 1,
        "rises": 3,
        "beside": beside,
        "note": "",
    }


def found(over="periods"):
    lines = [line("evolutionary", "the game", None, 914.4), line("greedy", "greedy (a)", [1, 2, 1], -140.8)]
    panel = {"name": "p", "title": "total", "over": over, "places": [1, 2], "lines": lines}
    verdict = {"says": "It is best", "measure": "p", "panel": "against greedy", "outcome": "does not hold"}
    return {
        "name": "game-figx",
        "title": "A title",
        "paper": "A paper",
        "figure": "Figure X",
        "claim": "The paper finds a thing.",
        "scale": "small",
        "axis": "game",
        "panels": [{**panel, "reason": None, "note": ""}],
        "verdicts": [
            {
                **verdict,
                "why": "in 1 of 40 draws",
                "seeds": 40,
                "detail": "914.4 against −140.8",
                "comparisons": [],
                "earlier": False,
                "ours": False,
                "by": "",
                "published": "",
            }
        ],
        "machines": ["a machine"],
        "commits": ["abc"],
        "doubts": [],
    }


def call(*args, code=0):
    result = CliRunner().invoke(app, ["reproduce", *map(str, args)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def test_over_periods_a_table_says_how_often_the_game_is_above():
    (header, rows), (counts, against) = tables(found()["panels"][0])
    assert header == ["period", "1", "2", "all", "settled", "n"]
    assert rows[0] == ["the game", "5.0 ± 1.0", "914 ± 12", "914 ± 1", "1.5", "4"]
    assert rows[1][2] == "−141 ± 12"
    assert counts == ["the game against", "above", "level", "below"]
    assert against == [["greedy (a)", "1", "2", "1"]]


def test_what_only_the_last_period_is_like_has_not_settled():
    panel = found()["panels"][0]
    panel["lines"][0]["settled"] = 2.0
    (_, rows), _ = tables(panel)
    assert [row[4] for row in rows] == ["not by 2", "1.5"]


def test_over_rates_and_clients_a_table_says_how_often_it_falls_and_rises():
    ((header, rows),) = tables(found("rates")["panels"][0])
    assert header == ["learning rate δ", "1", "2", "falls", "rises", "n"]
    assert rows[0][3:] == ["1", "3", "4"]
    assert tables(found("clients")["panels"][0])[0][0][0] == "clients"


def test_the_page_counts_draws_not_seeds():
    page = markdown(found(), "unknot reproduce game-figx", "game-figx-small.png")
    verdict = "does not hold: in 1 of 40 draws"
    assert f"| It is best | against greedy | {verdict} | 914.4 against −140.8 |" in page
    assert "![A title](game-figx-small.png)" in page
    assert "A claim *holds* if it is so in more than half" in " ".join(page.split())
    assert "seeds" not in page


def test_the_page_says_nothing_of_the_papers_ranges_as_others_may_be_set():
    page = " ".join(markdown(found(), "unknot reproduce game-figx --set draw.psi=[1,2]", "x.png").split())
    assert "paper's ranges" not in page
    assert "from the ranges in `[draw]`" in page


@pytest.mark.parametrize("over", ["periods", "rates", "settling", "clients"])
def test_a_figure_is_drawn_the_same_every_time(tmp_path, over):
    pytest.importorskip("matplotlib")
    from unknot.report.game_plots import draw

    files = [tmp_path / name for name in ("a.svg", "b.svg", "a.png")]
    for file in files:
        assert draw(found(over), file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[2].read_bytes().startswith(b"\x89PNG")
    text = files[0].read_text()
    assert text.count("<svg") == 1


def test_nothing_to_draw_is_no_figure(tmp_path):
    pytest.importorskip("matplotlib")
    from unknot.report.game_plots import draw

    empty = found()
    empty["panels"][0] |= {"lines": [], "reason": "not run yet"}
    assert not draw(empty, tmp_path / "a.svg")
    assert tables(empty["panels"][0]) == []
    assert "not run yet" in markdown(empty, "x", None)


def test_the_command_plays_shows_and_writes(tmp_path):
    output = call("incentive-fig4c", "--seeds", "0,1", "--out", tmp_path)
    assert "2 of 2 draws" in output
    assert "not shown: in 2 of 2 draws | The average utility falls as clients become more" in output
    assert "--seeds 0,1" in (tmp_path / "incentive-fig4c-small.md").read_text()
    assert "2 of 2 draws\n" not in call("incentive-fig4c", "--seeds", "0,1", "--out", tmp_path)
    assert "without --only" in call("incentive-fig4c", "--only", "greedy", "--out", tmp_path, code=2)


def test_the_list_names_them():
    output = call()
    for part in ("incentive-fig4a", "incentive-fig4b", "incentive-fig4c", "Figure 4a"):
        assert part in output
