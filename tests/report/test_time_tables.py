"""Tables and figures of reproductions over simulated time."""

import copy
from pathlib import Path

import pytest
from rich.console import Console

from unknot.report import times
from unknot.report.cells import against, quality, target
from unknot.report.plot_bars import SIGNS
from unknot.report.plots import draw
from unknot.report.reproduction import markdown, tables
from unknot.report.times import costs_rows, quality_rows, request_rows, start_rows
from unknot.reproduce import findings, load

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def stat(mean, std=None, n=2, asked=2):
    return {"mean": mean, "std": std, "n": n, "asked": asked}


def line(name, label, seconds, *, lanes=False, choices=None, kept=None, stopped=None, level=0.8):
    total = None if seconds is None else stat(140 + seconds["mean"], seconds["std"], seconds["n"])
    measures = {"seconds": seconds, "total": total, "final": stat(level, 0.01)}
    measures["earliest"] = None if seconds is None else stat(90.0, 2.0)
    grid = [0.0, 100.0, 140.0, 200.0, 300.0]
    mean = [0.1, level, level / 2, level, level]
    return {
        "name": name,
        "label": label,
        "guarantee": "exact",
        "seeds": [0, 1],
        "after": [
            {
                "request": "leave 7",
                "kind": "erase",
                "round": 9,
                "at": 9,
                "time": 140.0,
                "before": stat(level, 0.01),
                "first": stat(level / 2, 0.01),
                "recovering": stat(level, 0.01),
                "end": stat(level, 0.01),
                "rounds": [stat(3.0)],
                "seconds": [seconds],
                "total": total,
                "kept": kept,
                "stopped": stopped,
                "finished": stopped and {**stopped, "mean": 140 + stopped["mean"]},
                "aggregated": stopped and stat(level, None, stopped["n"]),
            }
        ],
        "curve": {
            "at": grid,
            "mean": mean,
            "low": [value - 0.05 for value in mean],
            "high": [value + 0.05 for value in mean],
        },
        "costs": {"client_epochs": 0.5, "seconds": 0.4, "bytes_sent": 0.6, "bytes_stored": 5.0},
        "seconds": stat(12.0, 1.0),
        "measures": {key: value for key, value in measures.items() if value},
        "choices": choices or {},
        "lanes": lanes,
        "judged": name != "random",
        "ends": {"total": {0: 291.6, 1: 299.9}},
        "watched": stat(40.0, 2.0),
        "brief": [],
        "spared": [],
        "note": "",
    }


FOUND = {
    "name": "knot-figx",
    "title": "Clusters recover sooner",
    "paper": "A paper",
    "figure": "Figure X",
    "claim": "The paper finds a thing.",
    "scale": "small",
    "axis": "time",
    "baseline": "fedbuff",
    "bars": ["seconds", "total", "final"],
    "curves": True,
    "counted": False,
    "panels": [
        {
            "name": "digits",
            "title": "digits",
            "trained": "mlp on digits",
            "thresholds": [0.75],
            "metric": "accuracy",
            "split": "test",
            "lines": [
                line("fedbuff", "FedBuff", stat(100.0, 10.0), kept=stat(110.0, 5.0)),
                line(
                    "knot",
                    "KNOT",
                    stat(28.0, 2.0),
                    lanes=True,
                    choices={"mean": stat(0.8, 0.01), "best": stat(0.7, 0.01)},
                    kept=stat(40.0, 1.0),
                    stopped=stat(30.0, None, 1),
                ),
                line("random", "random clusters", stat(112.0, 4.0), lanes=True),
                line("similar", "similar clusters", None, lanes=True),
            ],
            "published": {"knot": "85 % less", "sisa": "never"},
            "published_for": "",
            "published_by": ("finished", "total"),
            "labels": {
                "fedbuff": "FedBuff",
                "knot": "KNOT",
                "random": "random clusters",
                "similar": "similar clusters",
                "sisa": "SISA",
            },
            "reason": None,
            "until": None,
            "note": "",
        }
    ],
    "verdicts": [],
    "machines": [],
    "commits": [],
    "doubts": [],
}
PANEL = FOUND["panels"][0]


def changed(**panel):
    made = copy.deepcopy(FOUND)
    made["panels"][0].update(panel)
    return made


def test_cells():
    assert against(stat(28.0), stat(100.0)) == "72 % less"
    assert against(stat(112.0), stat(100.0)) == "12 % more"
    assert against(None, stat(100.0)) == against(stat(1.0), None) == against(stat(1.0), stat(0.0)) == "–"
    assert against(stat(28.0, n=1), stat(100.0)) == "–"  # the mean of other seeds is no comparison
    assert quality(stat(93.44, 1.0), "perplexity") == "93.4 ± 1.0"
    assert [quality(stat(value), "perplexity") for value in (2e6, 9e42)] == ["2e+06", "diverged"]
    assert quality(stat(0.8, 0.01), "accuracy") == "80.0 ± 1.0"
    assert (target(0.75, "accuracy"), target(120.0, "perplexity")) == ("to 75 %", "to perplexity 120")


def test_times_from_the_start_beside_the_published_and_the_baselines():
    header, rows = start_rows(PANEL, "fedbuff")
    beside, rule = "beside FedBuff", "from start to stopping rule"
    assert header == [
        *("", "published"),
        *("from start to 75 %", beside, "first at all", rule, beside, "served then", "last report", "n"),
    ]
    assert rows[0] == ["FedBuff", "–", "240.0 ± 10.0", "", "90.0 ± 2.0", "never", "", "–", "292 to 300", "2"]
    assert rows[1][:4] == ["KNOT", "85 % less", "168.0 ± 2.0", "30 % less"]
    assert rows[1][5:] == ["170 (1 of 2 seeds)", "–", "80.0", "292 to 300", "2"]
    assert rows[2][2:7] == ["252.0 ± 4.0", "5 % more", "90.0 ± 2.0", "–", "–"]  # without validation data
    assert rows[3][2:7] == ["never", "–", "never", "never", "–"]
    assert rows[4] == ["SISA", "never", "not run", *[""] * 7]
    other = start_rows({**PANEL, "published_for": "FEMNIST, to 60 %"}, "fedbuff")[0]
    assert other[1] == "published (FEMNIST, to 60 %)"
    twice = copy.deepcopy(PANEL)
    twice["lines"][0]["after"] *= 2
    assert start_rows(twice, "fedbuff")[0][:3] == ["", "request", "published"]
    assert start_rows(twice, "fedbuff")[1][1][:3] == ["", "leave 7 (140 s)", ""]


def test_times_from_the_request_have_a_table_of_their_own_without_the_published():
    header, rows = request_rows({**PANEL, "published": {"knot": "85 % less"}}, "fedbuff")
    rule = ["5 reports after", "from request to stopping rule"]
    assert header == ["", "request", "from request to 75 %", "beside FedBuff", "for good", *rule]
    when = "leave 7 (140 s)"
    assert rows[0] == ["FedBuff", when, "100.0 ± 10.0", "", "110.0 ± 5.0", "40.0 ± 2.0", "never"]
    assert rows[1] == [
        "KNOT",
        when,
        "28.0 ± 2.0",
        "72 % less",
        "40.0 ± 1.0",
        "40.0 ± 2.0",
        "30 (1 of 2 seeds)",
    ]
    assert rows[2][2:] == ["112.0 ± 4.0", "12 % more", "never", "–", "–"]


def test_without_a_baseline_or_a_threshold_columns_are_left_out():
    rule = "stopping rule"
    assert start_rows(PANEL, None)[0] == [
        *("", "published", "from start to 75 %", "first at all"),
        *(f"from start to {rule}", "served then", "last report", "n"),
    ]
    assert request_rows(PANEL, None)[0] == [
        *("", "request", "from request to 75 %", "for good", "5 reports after", f"from request to {rule}"),
    ]
    ((header, rows),) = times.tables({**PANEL, "thresholds": []}, "fedbuff")
    assert header == ["", "published", "n"]
    assert rows[0] == ["FedBuff", "–", "2"]


def test_what_could_be_served_side_by_side():
    header, rows = quality_rows(PANEL)
    assert header == ["", "request", "before", "right after", "end", "test", "mean", "best"]
    after = ["80.0 ± 1.0", "40.0 ± 1.0", "80.0 ± 1.0", "80.0 ± 1.0"]
    assert rows[0] == ["FedBuff", "leave 7 (140 s)", *after, "–", "–"]
    assert rows[1] == ["KNOT", "leave 7 (140 s)", *after, "80.0 ± 1.0", "70.0 ± 1.0"]
    quiet = copy.deepcopy(PANEL)
    quiet["lines"][0]["after"] = []
    assert quality_rows(quiet)[1][0] == ["FedBuff", "–", "–", "–", "–", "80.0 ± 1.0", "–", "–"]


def test_costs_are_those_of_a_second():
    header, rows = costs_rows(PANEL)
    assert header == ["", "client epochs a second", "sent a second", "stored", "real seconds", "guarantee"]
    # Half the epochs a round, in 0.4 of the time: 1.25 times as many a second.
    assert rows[0] == ["FedBuff", "1.25 ×", "1.50 ×", "5.00 ×", "12.0 ± 1.0", "exact"]
    beside = {**PANEL, "lines": [{**PANEL["lines"][0], "seconds": None}]}
    assert costs_rows(beside)[1][0][4] == "–"


def test_the_page_explains_its_columns():
    page = markdown(FOUND, "unknot reproduce knot-figx", "knot-figx-small.png")
    assert "![accuracy over simulated time](knot-figx-small.png)" in page
    flat = " ".join(page.split())
    assert "what of the time is saved, by the means, beside FedBuff" in flat
    assert "from the worst to the best of them" in flat
    assert "*Round 0*" not in page
    alone = changed(lines=PANEL["lines"][:1])
    assert "from the worst" not in " ".join(markdown(alone, "c", None).split())


def test_the_page_says_where_there_was_nothing_to_unlearn_and_where_the_rule_could_not_be_met():
    first, *others = PANEL["lines"]
    lines = [
        {**first, "brief": [0, 3]},
        *({**other, "spared": [1], "brief": [2], "judged": False} for other in others),
    ]
    page = markdown(changed(lines=lines), "c", None)
    spared = ", ".join(f"{other['label']} (seed 1)" for other in others)
    assert f"\nNothing to unlearn, as no cluster had been trained on the client yet: {spared}.\n" in page
    assert "\nToo few reports after the request for the stopping rule: FedBuff (seeds 0, 3).\n" in page
    assert "Nothing to unlearn" not in markdown(FOUND, "c", None)
    assert "Too few" not in markdown(FOUND, "c", None)


def test_the_page_says_which_column_the_published_figures_are_to_be_compared_with():
    def said(**panel):
        return " ".join(markdown(changed(**panel), "c", None).split())

    both, rule = "both may be compared with them", "it is the *stopping rule* that they are to be"
    assert both in said()
    assert rule in said(published_by=("finished",))
    for other in (said(published_by=("total",)), said(published={})):
        assert both not in other
        assert rule not in other


def test_the_terminal_has_room_for_it():
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tables(FOUND))
    text = console.export_text()
    assert "Simulated seconds to a threshold" in text
    for parts in (
        ("85 % less", "168.0±2.0", "30 % less"),
        ("leave 7 (140 s)", "28.0±2.0", "72 % less", "40.0±1.0"),
    ):
        assert any("KNOT" in row and all(part in row for part in parts) for row in text.splitlines())


@pytest.mark.parametrize("metric", ["accuracy", "perplexity"])
def test_a_figure_with_lines_that_never_arrive(tmp_path, metric):
    pytest.importorskip("matplotlib")
    files = tmp_path / "a.png", tmp_path / "a.svg"
    # As text, so that it can be read.
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert draw(changed(metric=metric), *files)
    svg = files[1].read_text()
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert svg.count(">not reached within the run<") == 1
    for text in ("simulated time (s)", f"test {metric}", "worst to best cluster", "a client is erased"):
        assert text in svg


def test_bars_say_when_there_is_nothing_to_be_seen(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    made = changed()
    made["bars"] = ["seconds", "speedup"]
    lines = made["panels"][0]["lines"]
    lines[1]["measures"]["seconds"] = stat(0.0, 0.0)
    lines[2]["measures"]["seconds"] = stat(50.0, None, 1)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert draw(made, tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text()
    for name, meaning in SIGNS.items():
        there = name != "far"  # which is of dots
        assert svg.count(f">{meaning}<") == there, "in the legend, and nowhere on a bar"
    assert "times as fast as FedBuff" in svg


def test_a_page_over_rounds_is_as_it_was():
    result = findings(load("exact-fig7"), "paper", RESULTS / "exact-fig7-paper.json.gz").to_dict()
    page = markdown(result, "unknot reproduce exact-fig7 --scale paper", "exact-fig7-paper.png")
    assert page == (RESULTS / "exact-fig7-paper.md").read_text()
