import copy

import pytest
from rich.console import Console
from typer.testing import CliRunner

from unknot.cli import app
from unknot.report import plots
from unknot.report.cells import count, percent
from unknot.report.reproduction import differences, markdown, tables, verdict, verdict_rows, write


def stat(mean, std=None, n=1, asked=None):
    return {"mean": mean, "std": std, "n": n, "asked": n if asked is None else asked}


def compared(what, mean, low, high, so, favour=None):
    found = {"mean": mean, "low": low, "high": high, "n": 3}
    favour = mean if favour is None else favour
    return {"what": what, "difference": found, "so": so, "contrary": "", "level": "", "favour": favour}


def line(name, label, rounds, level):
    return {
        "name": name,
        "label": label,
        "guarantee": "exact",
        "seeds": [0, 1],
        "after": [
            {
                "request": "leave 1",
                "kind": "erase",
                "round": 2,
                "at": 2,
                "before": stat(0.8, 0.01, 2),
                "first": stat(0.1, 0.0, 2),
                "recovering": stat(level, 0.02, 2),
                "end": stat(0.7, 0.0, 2),
                "rounds": [rounds],
            }
        ],
        "curve": {
            "at": [1, 2, 2, 3, 4],
            "mean": [0.4, 0.8, 0.1, level, 0.7],
            "low": [0.3, 0.7, 0.1, level - 0.1, 0.7],
            "high": [0.5, 0.9, 0.1, level + 0.1, 0.7],
        },
        "costs": {"client_epochs": 0.95, "seconds": 1.0, "bytes_sent": 0.95, "bytes_stored": 1.0},
        "seconds": stat(12.0, 1.0, 2),
        "measures": {"recovering": stat(level, 0.02, 2), "ids": stat(3.25)},
        "choices": {},
        "lanes": False,
        "note": "",
    }


FOUND = {
    "name": "exact-figx",
    "title": "A title",
    "paper": "A paper",
    "figure": "Figure X",
    "claim": "The paper finds a thing.",
    "scale": "small",
    "axis": "rounds",
    "baseline": None,
    "bars": ["recovering", "ids"],
    "curves": True,
    "counted": True,
    "panels": [
        {
            "name": "digits",
            "title": "digits",
            "trained": "mlp on digits",
            "thresholds": [0.75],
            "metric": "accuracy",
            "split": "test",
            "lines": [line("rfs", "RFS", stat(26.0, 2.0, 2), 0.5), line("mmt", "MMT", None, 0.6)],
            "published": {"rfs": "51", "mmt": "16", "fats": "never"},
            "published_for": "",
            "labels": {"rfs": "RFS", "mmt": "MMT", "fats": "FATS"},
            "reason": None,
            "until": None,
            "note": "A note.",
        },
        {
            "name": "cifar100",
            "title": "CIFAR-100",
            "trained": "",
            "thresholds": [0.4],
            "metric": "accuracy",
            "split": "test",
            "lines": [],
            "published": {"rfs": "54"},
            "published_for": "",
            "labels": {"rfs": "RFS"},
            "reason": "cifar100 is not here.",
            "earlier": "",
            "until": None,
            "note": "",
        },
    ],
    "verdicts": [
        {
            "says": "MMT does better than RFS",
            "panel": "digits",
            "outcome": "holds in part",
            "why": "MMT level with RFS",
            "seeds": 2,
            "detail": "MMT 60.0 %, RFS 50.0 %",
            "earlier": False,
            "published": "",
            "comparisons": [compared("MMT − RFS", 10.0, -1.25, 21.25, 0)],
        }
    ],
    "machines": ["A chip, 2 cores"],
    "commits": ["abc"],
    "doubts": [],
}


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


def test_the_title_says_what_is_trained_on_what_each_model_once():
    made = [
        {"trained": text} for text in ("mlp on digits", "mlp on mnist", "gpt on shakespeare", "mlp on mnist")
    ]
    assert plots._trained(made) == "mlp on digits, mnist; gpt on shakespeare"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([(True, 3), (True, 1)], "worst to best cluster"),
        ([(False, 3)], "worst to best seed"),
        ([(True, 1), (False, 2)], "worst to best cluster, or seed"),
        ([(False, 1)], ""),
    ],
)
def test_the_legend_says_what_a_band_is(lines, words):
    assert plots._band([{"lanes": lanes, "seeds": range(seeds)} for lanes, seeds in lines]) == words


@pytest.fixture
def curves():
    """The axes of the first panel, with what is changed in it or in its first line."""
    pytest.importorskip("matplotlib")

    def draw(lanes=False, **panel):
        figure_of, style = plots.load_matplotlib()
        shown = copy.deepcopy(FOUND["panels"][0]) | panel
        shown["lines"][0]["lanes"] = lanes
        with style:
            axes = figure_of().subplots()
            plots._curves(axes, shown, plots.looks_of(["rfs", "mmt"]), over_time=False)
        return axes

    return draw


@pytest.mark.parametrize(("until", "ends"), [(3.0, True), (100.0, False)])
def test_an_axis_is_no_longer_than_what_is_drawn(curves, until, ends):
    right = curves(until=until).get_xlim()[1]
    assert right == until if ends else 4 <= right < 5


def test_a_band_of_clusters_has_edges_in_the_colour_of_its_line(curves):
    seeds, clusters = curves().get_lines(), curves(lanes=True).get_lines()
    assert len(clusters) == len(seeds) + 2
    line, low, high = clusters[:3]
    assert low.get_color() == high.get_color() == line.get_color()
    assert list(low.get_ydata()) == pytest.approx([30, 70, 10, 40, 70])


def test_a_figure_is_drawn_the_same_every_time(tmp_path):
    pytest.importorskip("matplotlib")
    page, png, svg = write(FOUND, tmp_path, "unknot reproduce exact-figx")
    assert page.read_text().count("exact-figx-small.png") == 1
    assert png.read_bytes().startswith(b"\x89PNG")
    text = svg.read_text()
    assert "<svg" in text
    first = (png.read_bytes(), text)
    write(FOUND, tmp_path, "unknot reproduce exact-figx")
    assert (png.read_bytes(), svg.read_text()) == first


def test_nothing_to_draw_is_no_figure(tmp_path):
    empty = copy.deepcopy(FOUND)
    empty["panels"] = empty["panels"][1:]
    (page,) = write(empty, tmp_path, "unknot reproduce exact-figx")
    assert "![" not in page.read_text()


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


def test_the_list_names_them():
    short = call("reproduce", "--list")
    assert all(part in short for part in ("exact-table1", "Figure 3c", "Against SISA", "--long"))
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


@pytest.mark.parametrize(
    ("seeds", "outcome", "why", "words"),
    [
        (3, "holds", "", "holds"),
        (3, "holds in part", "a level with b", "holds in part: a level with b"),
        (3, "does not hold", "b before a", "does not hold: b before a"),
        (1, "holds", "", "one seed, as published"),
        (1, "does not hold", "b before a", "one seed, not as published: b before a"),
        (1, "not shown", "a level with b", "one seed, not shown: a level with b"),
        (0, "not shown", "p and q: no seed in common", "not shown: p and q: no seed in common"),
        (1, "holds in part", "a level with b", "one seed, in part as published: a level with b"),
        (1, "at chance", "chance is 10 %", "at chance: chance is 10 %"),
    ],
)
def test_a_verdict_is_one_line(seeds, outcome, why, words):
    found = {"outcome": outcome, "why": why, "seeds": seeds}
    assert verdict({**found, "earlier": False}) == words
    assert verdict({**found, "earlier": True}) == f"earlier configuration, {words}"


def test_the_least_clear_differences_stand_beside_a_verdict():
    several = [compared(f"a − {i}", 10.0 * i, 10.0 * i - 5, 10.0 * i + 5, 1) for i in range(1, 6)]
    reversed_ = compared("a − z", -8.0, -9.0, -7.0, -1)
    told = differences({"seeds": 3, "comparisons": [*several, reversed_]})
    assert told == "a − z −8.0 [−9.0, −7.0]; a − 1 +10.0 [+5.0, +15.0]; a − 2 +20.0 [+15.0, +25.0]; " + (
        "a − 3 +30.0 [+25.0, +35.0]"
    )
    tie, close = compared("a − b", 0.0, 0.0, 0.0, 0), compared("a − c", 0.5, 0.04, 0.96, 1)
    told = differences({"seeds": 3, "comparisons": [close, tie]})
    assert told == "a − b 0 in every seed; a − c +0.50 [+0.04, +0.96]"
    # Of lines said to be alike, within 3: the one nearest to the bound, not the one nearest to 0.
    near, far = compared("a − b", -0.2, -1.7, 1.3, 1, 2.8), compared("a − c", 2.0, -10.0, 14.0, 0, 1.0)
    assert differences({"seeds": 3, "comparisons": [near, far]}, 1) == "a − c +2.0 [−10.0, +14.0]"
    level, against = compared("a − b", 5.0, -5.0, 15.0, 0), compared("a − c", -4.0, -9.0, 1.0, 0)
    assert differences({"seeds": 3, "comparisons": [level, against]}, 1) == "a − c −4.0 [−9.0, +1.0]"
    assert differences({"seeds": 1, "comparisons": several}) == ""
    gone = compared("a − b", 9e30, -4e30, 2e31, 0)
    assert differences({"seeds": 3, "comparisons": [gone]}) == "a − b +9e+30 [−4e+30, +2e+31]"
    assert differences({"seeds": 3, "comparisons": [{**reversed_, "difference": None}]}) == ""


def test_a_difference_that_is_the_same_in_each_seed_may_be_the_least_clear():
    one, many = compared("a − b", -1.0, -1.0, -1.0, 1, 1.0), compared("b − c", -20.0, -22.5, -17.5, 1, 20.0)
    far = compared("a − c", -21.0, -21.0, -21.0, 1, 21.0)
    told = differences({"seeds": 3, "comparisons": [far, many, one]})
    assert told == "a − b −1.0 in every seed; b − c −20.0 [−22.5, −17.5]; a − c −21.0 in every seed"
    assert differences({"seeds": 3, "comparisons": [far, one]}, 1) == "a − b −1.0 in every seed"
    # The contrary is told before what is level, however far that is from being the claim's.
    wrong, level = compared("a − b", -1.0, -1.0, -1.0, -1), compared("a − c", -4.0, -9.0, 1.0, 0)
    assert differences({"seeds": 3, "comparisons": [level, wrong]}, 1) == "a − b −1.0 in every seed"


def test_published_figures_have_a_column_beside_a_verdict_where_there_are_any():
    item = FOUND["verdicts"][0]
    assert verdict_rows([item])[0] == ["the paper says", "where", "verdict", "figures", "differences"]
    header, rows = verdict_rows([item, {**item, "published": "about 200 % more", "seeds": 1}])
    assert header == ["the paper says", "where", "verdict", "published", "figures", "differences"]
    assert [row[3] for row in rows] == ["", "about 200 % more"]


def test_one_request_has_one_mark_though_lines_are_a_round_apart():
    panel = copy.deepcopy(FOUND["panels"][0])
    panel["lines"][1]["after"][0]["at"] = 3
    assert plots._asked(panel, over_time=False) == [(2, "erase")]
    panel["lines"][1]["after"][0]["round"] = 3
    assert plots._asked(panel, over_time=False) == [(2, "erase"), (3, "erase")]


def test_a_panel_of_an_earlier_configuration_says_so_in_its_title():
    panel = FOUND["panels"][0]
    assert plots._title(panel) == "digits"
    assert plots._title({**panel, "earlier": "batch"}) == "digits (earlier configuration, 2 seeds)"
    alone = {**panel, "lines": [{**panel["lines"][0], "seeds": [0]}], "earlier": "batch"}
    assert plots._title(alone) == "digits (earlier configuration, one seed)"


@pytest.mark.parametrize(("values", "top"), [([9.0, 60.0, 1e22], 300.0), ([9.0, 60.0, 5000.0], 1e4)])
def test_a_line_that_diverges_leaves_the_figure_so_that_the_others_can_be_read(values, top):
    figure_of, style = plots.load_matplotlib()
    with style:
        axes = figure_of().subplots()
        axes.plot(values)
        plots._logarithmic(axes)
    assert axes.get_ylim()[1] < top
    assert axes.get_ylim()[1] > 60.0


def test_it_does_so_beside_a_threshold_however_far_it_diverges():
    figure_of, style = plots.load_matplotlib()
    with style:
        axes = figure_of().subplots()
        for values in ([440.0, 5.4e4], [456.0, 2.7e43]):
            axes.plot(values)
        axes.axhline(560.0)
        plots._logarithmic(axes)
    low, high = axes.get_ylim()
    assert low == pytest.approx(0.9 * 440.0)
    assert 1e3 < high < 1e5


def test_an_axis_of_less_than_a_decade_has_several_ticks():
    figure_of, style = plots.load_matplotlib()
    with style:
        axes = figure_of().subplots()
        axes.plot([56.0, 105.0])
        plots._logarithmic(axes)
    low, high = axes.get_ylim()
    assert sum(low <= tick <= high for tick in axes.get_yticks()) >= 3
