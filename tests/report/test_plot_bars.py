import copy

import pytest
from reproduction_findings import FOUND, line, stat

from unknot.report import plot_bars
from unknot.report.canvas import load_matplotlib
from unknot.report.colours import looks
from unknot.reproduce.parts import MEASURES


def test_dots_that_are_far_from_all_others_are_left_out_of_the_axis():
    near = [(82.9, 0.6), (82.8, 0.4), (81.0, 0.4)]
    assert plot_bars._far([*near, (9.4, 4.0)]) == {3: plot_bars.DOWN}
    assert plot_bars._far([(200.0, 1.0), *near]) == {0: plot_bars.UP}
    assert plot_bars._far([*near, (70.0, 0.0)]) == {}, "who is not that far leaves the others room"
    assert plot_bars._far([(82.0, 0.0), (81.9, 0.0), (80.0, 0.0)]) == {}, "a point or two is not far"
    assert (
        plot_bars._far([(80.0, 1.0), (10.0, 1.0)])
        == plot_bars._far([(80.0, 1.0)])
        == plot_bars._far([])
        == {}
    )


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
    figure_of, style = load_matplotlib()
    made = far_apart()
    with style:
        axes = figure_of().subplots()
        signs = plot_bars.bars_of(axes, made["panels"][:1], "first", looks(["rfs", "bmt", "mmt", "fats"]))
    assert signs == {"far"}
    assert [text.get_text() for text in axes.texts] == ["9.4"]
    assert axes.get_ylim()[0] > 75.0


def test_bars_of_some_seeds_are_empty_and_say_of_how_many():
    pytest.importorskip("matplotlib")
    figure_of, style = load_matplotlib()
    panel = copy.deepcopy(FOUND["panels"][0])
    for found, n in zip(panel["lines"], (1, 5), strict=True):
        found["measures"] = {"seconds": stat(50.0, None, n, 5)}
    with style:
        axes = figure_of().subplots()
        signs = plot_bars.bars_of(axes, [panel], "seconds", looks(["rfs", "mmt"]))
    some, every = axes.patches
    assert some.get_facecolor()[3] == 0.0
    assert every.get_facecolor()[3] == 1.0
    assert signs == {"some"}
    assert [text.get_text() for text in axes.texts] == ["1 of 5"]


def test_labels_of_many_panels_stand_upright_and_have_as_many_lines_as_there_is_room_for():
    labels = ["CIFAR-10", "Tiny Shakespeare, GPT-2 of distilled size from scratch"]
    room = plot_bars._upright(labels, 3.5 * plot_bars.LINE)
    assert plot_bars._lines(labels, room) == 3 < plot_bars._lines(labels, room - 1)
    assert plot_bars._upright(labels, 0.1) == len(labels[1])


@pytest.mark.parametrize(
    ("labels", "turned"),
    [(["b = 2", "b = 3", "b = 5", "b = 10", "b = 1 (RFS)"], 0), ([f"{n} clusters" for n in range(6)], 90)],
)
def test_labels_stand_upright_only_where_they_would_meet_side_by_side(labels, turned):
    pytest.importorskip("matplotlib")
    figure_of, style = load_matplotlib()
    panel = {**FOUND["panels"][0], "lines": [line(name, name, None, 0.5) for name in labels]}
    with style:
        axes = figure_of().subplots()
        plot_bars.bars_of(axes, [panel], "recovering", looks(labels))
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {turned}


def test_upright_labels_leave_half_a_line_to_the_next_ones():
    labels = ["Fashion-MNIST, everybody trains", "CIFAR-10, everybody trains"]
    assert plot_bars._lines(labels, plot_bars._upright(labels, 3.2 * plot_bars.LINE)) == 2


@pytest.mark.parametrize(("before", "signs"), [((0.4, 0.4), 1), ((0.4, 0.6), 2)])
def test_what_was_so_of_all_lines_before_the_request_has_one_sign(before, signs):
    pytest.importorskip("matplotlib")
    figure_of, style = load_matplotlib()
    panel = copy.deepcopy(FOUND["panels"][0])
    for found, value in zip(panel["lines"], before, strict=True):
        found["measures"] = {"f1_after": stat(0.5, 0.0, 2), "f1_before": stat(value, 0.0, 2)}
    with style:
        axes = figure_of().subplots()
        plot_bars.bars_of(axes, [panel], "f1_after", looks(["rfs", "mmt"]))
    assert len([drawn for drawn in axes.lines if drawn.get_marker() == "D"]) == signs


def test_each_measure_that_bars_may_be_of_has_a_title():
    assert set(plot_bars.MEASURES) == set(MEASURES)
