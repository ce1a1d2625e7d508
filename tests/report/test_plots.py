import copy

import pytest
from rich.console import Console
from typer.testing import CliRunner

from unknot.cli import app
from unknot.report import plots
from unknot.report.cells import count, percent
from unknot.report.reproduction import (
    catalogue_list,
    differences,
    markdown,
    tables,
    verdict,
    verdict_rows,
    write,
)
from unknot.reproduce import overview


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


def test_the_title_says_what_is_trained_on_what_by_names_that_people_use_each_model_once():
    made = [
        {"trained": text} for text in ("mlp on digits", "mlp on mnist", "gpt on shakespeare", "mlp on mnist")
    ]
    assert plots._trained(made) == "MLP on digits, MNIST; small GPT on Shakespeare"


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


def test_a_line_that_goes_on_beyond_the_axis_is_marked_where_it_leaves_it(curves):
    def marks(axes):
        found = [line for line in axes.get_lines() if line.get_marker() == plots.BEYOND["marker"]]
        return [(*line.get_xdata(), *line.get_ydata()) for line in found]

    assert marks(curves(until=3.5)) == [(3.5, 50.0), (3.5, 60.0)]
    assert marks(curves(until=4.0)) == marks(curves()) == []


def test_lines_that_are_the_same_are_wider_the_deeper_they_lie(curves):
    def widths(*levels):
        lines = [line(f"l{i}", "", None, level) for i, level in enumerate(levels)]
        return plots._hiding(lines)

    assert widths(0.5, 0.5, 0.5) == {"l0": 2, "l1": 1, "l2": 0}
    assert widths(0.5, 0.6, 0.5) == {"l0": 1, "l1": 0, "l2": 0}
    one, other = line("a", "", None, 0.5), line("b", "", None, 0.5)
    other["curve"]["at"] = [1, 2, 2, 3, 5]
    assert not any(plots._hiding([one, other]).values())


def test_the_legend_explains_what_is_wide_and_what_goes_on(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    made = copy.deepcopy(FOUND)
    made["panels"][0]["until"] = 3.5
    made["panels"][0]["lines"][1]["curve"] = made["panels"][0]["lines"][0]["curve"]
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        plots.draw(made, tmp_path / "a.svg")
        plots.draw(FOUND, tmp_path / "b.svg")
    for words in (plots.GOES_ON, plots.HIDDEN):
        assert f">{words}<" in (tmp_path / "a.svg").read_text()
        assert f">{words}<" not in (tmp_path / "b.svg").read_text()


def test_dots_that_are_far_from_all_others_are_left_out_of_the_axis():
    near = [(82.9, 0.6), (82.8, 0.4), (81.0, 0.4)]
    assert plots._far([*near, (9.4, 4.0)]) == {3: plots.DOWN}
    assert plots._far([(200.0, 1.0), *near]) == {0: plots.UP}
    assert plots._far([*near, (70.0, 0.0)]) == {}, "who is not that far leaves the others room"
    assert plots._far([(82.0, 0.0), (81.9, 0.0), (80.0, 0.0)]) == {}, "a point or two is not far"
    assert plots._far([(80.0, 1.0), (10.0, 1.0)]) == plots._far([(80.0, 1.0)]) == plots._far([]) == {}


def far_apart():
    made = copy.deepcopy(FOUND)
    made["bars"], panel = ["first"], made["panels"][0]
    levels = {"rfs": 0.094, "bmt": 0.81, "mmt": 0.828, "fats": 0.829}
    panel["lines"] = [line(name, name, None, 0.5) for name in levels]
    for found, level in zip(panel["lines"], levels.values(), strict=True):
        found["measures"] = {"first": stat(level, 0.005, 2)}
    return made


def test_what_is_left_out_of_the_axis_has_its_value_at_the_edge(tmp_path):
    pytest.importorskip("matplotlib")
    figure_of, style = plots.load_matplotlib()
    made = far_apart()
    with style:
        axes = figure_of().subplots()
        signs = plots._bars(axes, made["panels"][:1], "first", plots.looks_of(["rfs", "bmt", "mmt", "fats"]))
    assert signs == {"far"}
    assert [text.get_text() for text in axes.texts] == ["9.4"]
    assert axes.get_ylim()[0] > 75.0


def test_bars_of_some_seeds_are_empty_and_say_of_how_many():
    pytest.importorskip("matplotlib")
    figure_of, style = plots.load_matplotlib()
    panel = copy.deepcopy(FOUND["panels"][0])
    for found, n in zip(panel["lines"], (1, 5), strict=True):
        found["measures"] = {"seconds": stat(50.0, None, n, 5)}
    with style:
        axes = figure_of().subplots()
        signs = plots._bars(axes, [panel], "seconds", plots.looks_of(["rfs", "mmt"]))
    some, every = axes.patches
    assert some.get_facecolor()[3] == 0.0
    assert every.get_facecolor()[3] == 1.0
    assert signs == {"some"}
    assert [text.get_text() for text in axes.texts] == ["1 of 5"]


def test_labels_of_many_panels_stand_upright_and_have_as_many_lines_as_there_is_room_for():
    labels = ["CIFAR-10", "Tiny Shakespeare, GPT-2 of distilled size from scratch"]
    room = plots._upright(labels, 3 * plots.LINE)
    assert plots._lines(labels, room) == 3 < plots._lines(labels, room - 1)
    assert plots._upright(labels, 0.1) == len(labels[1])


@pytest.mark.parametrize(
    ("labels", "turned"),
    [(["b = 2", "b = 3", "b = 5", "b = 10", "b = 1 (RFS)"], 0), ([f"{n} clusters" for n in range(6)], 90)],
)
def test_labels_stand_upright_only_where_they_would_meet_side_by_side(labels, turned):
    pytest.importorskip("matplotlib")
    figure_of, style = plots.load_matplotlib()
    panel = {**FOUND["panels"][0], "lines": [line(name, name, None, 0.5) for name in labels]}
    with style:
        axes = figure_of().subplots()
        plots._bars(axes, [panel], "recovering", plots.looks_of(labels))
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {turned}


def test_what_is_trained_on_what_is_not_broken_where_there_is_room():
    text = "GPT-2 on Shakespeare; pretrained model on Shakespeare"
    assert plots._whole(text, 50) == ["GPT-2 on Shakespeare;", "pretrained model on Shakespeare"]
    assert plots._whole(text, 60) == [text]
    assert max(map(len, plots._whole(text, 16))) <= 16


@pytest.mark.parametrize("title", ["A title", "A title that has " + "many words " * 8])
def test_a_title_is_never_broken_within_what_it_is_of(title):
    lines = plots.headline({"title": title, "figure": "Figure 4e", "scale": "paper"}, 5.12)
    assert lines[-1].endswith("(Figure 4e, paper scale)")
    assert max(map(len, lines)) <= 12.5 * 5.12


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


def test_every_title_is_another_one_and_whole_in_a_list_at_the_width_of_a_pipe():
    entries = [entry.to_dict() for entry in overview()]
    titles = [entry["title"] for entry in entries]
    assert len(set(titles)) == len(titles)
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(catalogue_list(entries))
    lines = console.export_text().splitlines()
    assert len(lines) == len(titles) + 1, "a line each"
    assert [text for text in titles if not any(text in row for row in lines)] == []
    narrow = Console(width=60, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    narrow.print(catalogue_list(entries))
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
