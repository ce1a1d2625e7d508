"""A comparison on the screen and as a picture: it fits, and says no more than the seeds allow."""

import copy
import io

import pytest
from comparison_records import COMPARISON, stat
from rich.console import Console
from rich.measure import Measurement

from unknot.core.errors import ConfigError
from unknot.report import comparison_plot
from unknot.report.compared import Column, notes, parts, short, title, window, wrong
from unknot.report.comparison import Tables, _table, column_width


def column(comparison, head):
    return next(c for part in parts(comparison) for c in part.columns if c.head == head)


def printed(comparison, width):
    out = io.StringIO()
    Console(width=width, file=out).print(Tables(comparison))
    return out.getvalue()


def changed(**more):
    return {**copy.deepcopy(COMPARISON), **more}


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_screen_and_no_figure_is_cut(width):
    text = printed(COMPARISON, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for part in parts(COMPARISON):
        for one in part.columns:
            assert all(cell in text for cell in one.cells)


def test_figures_are_means_with_their_spread():
    assert column(COMPARISON, "right after").cells == (
        "10.0 ± 2.0",
        "90.0 ± 2.0",
        "93.0 ± 2.0",
        "20.0 ± 10.0",
    )
    assert column(COMPARISON, "rounds").cells == ("14.3 ± 4.0", "5.0 ± 1.0, 2/3", "at once", "never")
    assert column(COMPARISON, "training before").cells[0] == "1 ×"
    assert column(COMPARISON, "stored").cells[0] == "254.4 kB"
    assert column(COMPARISON, "sent").cells[0] == "1.1 GB"
    assert column(COMPARISON, "guarantee").cells == ("exact", "exact*", "exact", "approximate*")


def test_the_best_stands_out_only_where_the_spread_allows_to_say_so():
    """93 ± 2 is not ahead of 90 ± 2; 97 ± 2 is."""
    assert column(COMPARISON, "right after").best is None
    clear = changed()
    clear["methods"][2]["stats"]["after"] = stat(0.97, 0.02)
    assert column(clear, "right after").best == 2
    assert column(COMPARISON, "rounds").best == 2  # who arrives in some seeds only is not compared
    falls = changed(falls=True, share=False)
    assert column(falls, "right after").best is None
    falls["methods"][0]["stats"]["after"] = stat(0.01, 0.02)
    assert column(falls, "right after").best == 0


@pytest.mark.parametrize(("seeds", "std"), [(1, None), (2, 0.0)])
def test_of_one_or_two_seeds_nothing_stands_out(seeds, std):
    one = changed(seeds=[*range(seeds)])
    for item in one["methods"]:
        item["stats"] = {
            name: None if found is None else {**found, "std": std, "n": seeds, "asked": seeds}
            for name, found in item["stats"].items()
        }
    assert "bold" not in " ".join(notes(one))
    assert all(c.best is None for part in parts(one) for c in part.columns)
    assert column(one, "right after").cells[0] == "10.0"


def test_without_plain_training_to_compare_with_there_are_epochs():
    plain = changed()
    for item in plain["methods"]:
        item["stats"]["extra_training"] = None
    assert column(plain, "training before").cells[0] == "400 epochs"


def test_what_went_wrong_comes_first():
    failed = changed()
    failed["methods"][3] |= {"failed": 3, "error": "it needs public samples", "guarantee": None}
    failed["methods"][0]["warnings"] = ["seed 2: 5 of 8 updates were set aside"]
    lines = printed(failed, 100).splitlines()
    assert lines[0] == "rfs: seed 2: 5 of 8 updates were set aside"
    assert lines[1] == "pga: could not run: it needs public samples"
    assert len(wrong(COMPARISON)) == 0


def test_names_are_what_people_gave_and_no_markup():
    odd = changed(experiment="[bold]x[/]")
    odd["methods"][0]["method"] = "[red]rfs"
    text = printed(odd, 100)
    assert "[bold]x[/]" in text
    assert "[red]rfs" in text


def test_without_a_request_there_is_nothing_to_regain():
    plain = changed(erasures=0, requests=[])
    heads = [c.head for part in parts(plain) for c in part.columns]
    assert "right after" not in heads
    assert "rounds" not in heads


def test_a_guarantee_in_a_word():
    assert short("exact") == "exact"
    assert short("exact; so is x") == "exact*"
    assert short(None) == "–"
    assert title(COMPARISON) == "digits, mlp, 20 clients: erase client 3"


def test_the_picture_shows_the_time_until_the_slowest_is_back():
    assert window(COMPARISON) == (-0.3 * 3.0, 3.0)
    assert window(changed(methods=[])) == (None, None)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_comparison_gives_the_same_picture(ending, tmp_path):
    files = [tmp_path / f"{i}.{ending}" for i in range(2)]
    for file in files:
        comparison_plot.draw(COMPARISON, file)
    assert files[0].read_bytes() == files[1].read_bytes()


def uneven():
    """A run that is over in a moment beside long ones, and seeds that differ."""
    found = changed()
    quick = {
        "at": [-0.02, 0.0, 0.03],
        "mean": [0.8, 0.3, 0.8],
        "low": [0.7, 0.1, 0.8],
        "high": [0.9, 0.9, 0.9],
    }
    found["methods"][1]["curve"] = {**quick, "asked": [0.0]}
    found["rows"] = [
        {"method": one["method"], "seed": seed, "after": after, "extra_training": 1.0}
        for one in found["methods"]
        for seed, after in enumerate((0.1, 0.97, 0.99))
    ]
    return found


def test_a_run_that_is_over_in_a_moment_has_a_time_axis_of_its_own(tmp_path):
    quick, long = uneven()["methods"][1], uneven()["methods"][0]
    assert comparison_plot._shown(uneven(), quick) == (-0.02, 0.03)
    assert comparison_plot._shown(uneven(), long) == window(uneven())
    comparison_plot.draw(uneven(), tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert text.count("(own time axis)") == 1
    assert "the run goes on beyond the edge" in text


def test_a_line_is_marked_where_it_is_cut():
    assert comparison_plot._ends([-3.0, 0.0, 9.0], -1.0, 5.0) == [("<", -1.0), (">", 5.0)]
    assert comparison_plot._ends([-1.0, 0.0, 5.0], -1.0, 5.0) == []


def test_bars_go_from_the_least_to_the_greatest_of_the_seeds():
    assert comparison_plot._extent(uneven(), uneven()["methods"][0], "after") == (0.1, 0.99)
    assert comparison_plot._extent(COMPARISON, COMPARISON["methods"][0], "after") == (0.10, 0.10)


def test_what_cannot_be_drawn_is_said(tmp_path):
    with pytest.raises(ConfigError, match="must end in"):
        comparison_plot.draw(COMPARISON, tmp_path / "x.bmp")
    failed = changed()
    for item in failed["methods"]:
        item |= {"curve": None, "failed": 3, "stats": dict.fromkeys(item["stats"]), "guarantee": None}
    with pytest.raises(ConfigError, match="nothing to draw"):
        comparison_plot.draw(failed, tmp_path / "x.svg")
    comparison_plot.draw(changed(erasures=0, requests=[]), tmp_path / "x.svg")


def test_tables_are_as_wide_as_was_counted_when_they_were_packed():
    """Else a table that should fit is squeezed, and the methods' names are broken."""
    methods = Column("method", tuple(found["method"] for found in COMPARISON["methods"]), left=True)
    chosen = parts(COMPARISON)
    counted = column_width(methods) + sum(column_width(column) for part in chosen for column in part.columns)
    table = _table(methods, chosen)
    table.title = None
    assert Measurement.get(Console(width=1000), Console(width=1000).options, table).maximum <= counted


@pytest.mark.parametrize("width", [60, 120])
def test_what_is_measured_on_test_data_is_not_called_validation(width):
    text = printed(COMPARISON, width)
    assert "test (%)" in text
    assert "test accuracy (%), at the end" in text
    assert "test (%)" not in printed({**COMPARISON, "split": "test"}, width)
