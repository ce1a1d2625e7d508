import copy

import pytest
from reproduction_findings import FOUND, line

from unknot.report import plot_curves
from unknot.report.canvas import load_matplotlib
from unknot.report.colours import looks


@pytest.fixture
def curves():
    """The axes of the first panel, with what is changed in it or in its first line."""
    pytest.importorskip("matplotlib")

    def draw(lanes=False, **panel):
        figure_of, style = load_matplotlib()
        shown = copy.deepcopy(FOUND["panels"][0]) | panel
        shown["lines"][0]["lanes"] = lanes
        with style:
            axes = figure_of().subplots()
            plot_curves.curves_of(axes, shown, looks(["rfs", "mmt"]), over_time=False)
        return axes

    return draw


@pytest.mark.parametrize(("until", "ends"), [(3.0, True), (100.0, False)])
def test_an_axis_is_no_longer_than_what_is_drawn(curves, until, ends):
    right = curves(until=until).get_xlim()[1]
    assert right == until if ends else 4 <= right < 5


def test_a_line_that_goes_on_beyond_the_axis_is_marked_where_it_leaves_it(curves):
    def marks(axes):
        found = [line for line in axes.get_lines() if line.get_marker() == plot_curves.BEYOND["marker"]]
        return [(*line.get_xdata(), *line.get_ydata()) for line in found]

    assert marks(curves(until=3.5)) == [(3.5, 50.0), (3.5, 60.0)]
    assert marks(curves(until=4.0)) == marks(curves()) == []


def test_lines_that_are_the_same_are_wider_the_deeper_they_lie(curves):
    def widths(*levels):
        lines = [line(f"l{i}", "", None, level) for i, level in enumerate(levels)]
        return plot_curves.hiding(lines)

    assert widths(0.5, 0.5, 0.5) == {"l0": 2, "l1": 1, "l2": 0}
    assert widths(0.5, 0.6, 0.5) == {"l0": 1, "l1": 0, "l2": 0}
    one, other = line("a", "", None, 0.5), line("b", "", None, 0.5)
    other["curve"]["at"] = [1, 2, 2, 3, 5]
    assert not any(plot_curves.hiding([one, other]).values())


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
    assert plot_curves.band_of([{"lanes": lanes, "seeds": range(seeds)} for lanes, seeds in lines]) == words


def test_a_band_of_clusters_has_edges_in_the_colour_of_its_line(curves):
    seeds, clusters = curves().get_lines(), curves(lanes=True).get_lines()
    assert len(clusters) == len(seeds) + 2
    line, low, high = clusters[:3]
    assert low.get_color() == high.get_color() == line.get_color()
    assert list(low.get_ydata()) == pytest.approx([30, 70, 10, 40, 70])


def test_one_request_has_one_mark_though_lines_are_a_round_apart():
    panel = copy.deepcopy(FOUND["panels"][0])
    panel["lines"][1]["after"][0]["at"] = 3
    assert plot_curves._asked(panel, over_time=False) == [(2, "erase")]
    panel["lines"][1]["after"][0]["round"] = 3
    assert plot_curves._asked(panel, over_time=False) == [(2, "erase"), (3, "erase")]


def test_a_panel_of_an_earlier_configuration_says_so_in_its_title():
    panel = FOUND["panels"][0]
    assert plot_curves._title(panel) == "digits"
    assert plot_curves._title({**panel, "earlier": "batch"}) == "digits (earlier configuration, 2 seeds)"
    alone = {**panel, "lines": [{**panel["lines"][0], "seeds": [0]}], "earlier": "batch"}
    assert plot_curves._title(alone) == "digits (earlier configuration, one seed)"


@pytest.mark.parametrize(("values", "top"), [([9.0, 60.0, 1e22], 300.0), ([9.0, 60.0, 5000.0], 1e4)])
def test_a_line_that_diverges_leaves_the_figure_so_that_the_others_can_be_read(values, top):
    figure_of, style = load_matplotlib()
    with style:
        axes = figure_of().subplots()
        axes.plot(values)
        plot_curves._logarithmic(axes)
    assert axes.get_ylim()[1] < top
    assert axes.get_ylim()[1] > 60.0


def test_it_does_so_beside_a_threshold_however_far_it_diverges():
    figure_of, style = load_matplotlib()
    with style:
        axes = figure_of().subplots()
        for values in ([440.0, 5.4e4], [456.0, 2.7e43]):
            axes.plot(values)
        axes.axhline(560.0)
        plot_curves._logarithmic(axes)
    low, high = axes.get_ylim()
    assert low == pytest.approx(0.9 * 440.0)
    assert 1e3 < high < 1e5


def test_an_axis_of_less_than_a_decade_has_several_ticks():
    figure_of, style = load_matplotlib()
    with style:
        axes = figure_of().subplots()
        axes.plot([56.0, 105.0])
        plot_curves._logarithmic(axes)
    low, high = axes.get_ylim()
    assert sum(low <= tick <= high for tick in axes.get_yticks()) >= 3
