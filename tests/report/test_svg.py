"""Charts in pages: where things lie, and that they stay small."""

import math

import pytest

from unknot.report import svg
from unknot.report.svg import Axis, Band, Chart, Dot, Line, Mark, legend


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 100, ["0", "20", "40", "60", "80", "100"]),
        (0.1, 0.42, ["0.1", "0.2", "0.3", "0.4"]),
        (0, 2500, ["0", "500", "1,000", "1,500", "2,000", "2,500"]),
        (-3, 3, ["-3", "-2", "-1", "0", "1", "2", "3"]),
        (7.3, 7.9, ["7.4", "7.6", "7.8"]),
    ],
)
def test_ticks_are_round_values_within_the_axis(low, high, expected):
    ticks = Axis("", low, high).ticks()
    assert [text for _, text in ticks] == expected
    assert [value for value, _ in ticks] == pytest.approx([float(t.replace(",", "")) for t in expected])


@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (5, 5), (1e-12, 3e-12), (1e9, 4e9), (0, 1e300), (-1e-5, 1e-5)]
)
def test_any_span_has_ticks_that_can_be_told_apart(low, high):
    texts = [text for _, text in Axis("", low, high).ticks()]
    assert texts
    assert len(set(texts)) == len(texts)


def test_an_axis_holds_its_values_and_no_more_than_there_can_be():
    axis = Axis.over("accuracy (%)", [12.0, 97.0, math.nan], most=100.0)
    assert axis.low == pytest.approx(12 - 0.06 * 85)
    assert axis.high == 100.0
    assert 0 < Axis.over("", []).share(0.5) < 1
    assert Axis.over("", [3.0, 4.0], zero=True).low == 0
    assert Axis.over("", [2.0, 2.0]).high > 2


def test_what_spans_many_sizes_goes_by_its_logarithm():
    axis = Axis.over("loss", [0.1, 1e6])
    assert axis.log
    assert axis.share(0.1) == 0
    assert axis.share(1e6) == 1
    assert [text for _, text in axis.ticks()] == ["0.1", "10", "1000", "100000"]


def test_a_line_in_steps_stays_until_the_next_value():
    assert svg.path([(0, 9), (5, 4), (7, 4), (9, 2)], steps=True) == "M0 9H5V4H7H9V2"
    assert svg.path([(0, 9), (5, 4)], steps=False) == "M0 9L5 4"


def test_a_line_breaks_where_there_is_no_number():
    drawn = Chart(
        Axis("", 0, 4), Axis("", 0, 1), [Line([(0, 1), (1, math.nan), (2, 0.5), (4, 0)], "red")]
    ).draw()
    assert 'd="M0 0M1000 1000L2000 2000"' in drawn


def test_many_points_at_one_place_keep_their_extremes():
    crowd = [(3, y) for y in (5, 1, 9, 4)]
    assert svg.thinned([(2, 2), *crowd]) == [(2, 2), (3, 5), (3, 1), (3, 9), (3, 4)]
    many = Chart(
        Axis("", 0, 1), Axis("", -1, 1), [Line([(i / 1e5, math.sin(i)) for i in range(100_000)], "red")]
    )
    assert len(many.draw()) < 100_000


def test_marks_that_would_touch_keep_their_lines():
    found = svg.time_marks(Axis("", 0, 100), [Mark(10, "1"), Mark(11, "2"), Mark(60, "3", kind="join")])
    assert sum("<line" in part for part in found) == 3
    assert [part.split(">")[-2][:3] for part in found if "<text" in part] == ["1–2", "3</"]


def test_signs_of_legends_are_those_of_lines_and_dots():
    dashed = svg.legend([("line 7 3", "red", "a")])
    assert 'stroke-dasharray="7 3"' in dashed
    for name in svg.SHAPES:
        dot = Chart(Axis("", 0, 1), Axis("", 0, 1), dots=[Dot(0, 0, "red", shape=name, filled=False)]).draw()
        assert svg.shape(name, "red", filled=False) in dot
        assert svg.shape(name, "red", filled=False) in svg.legend([(f"open {name}", "red", "b")])


def test_whatever_is_written_into_a_chart_is_text():
    nasty = "<script>"
    chart = Chart(
        Axis(nasty, 0, 1),
        Axis(nasty, 0, 1),
        [Line([(0, 0), (1, 1)], "red", nasty)],
        [Band([(0, 0, 1), (1, 0, 1)], "red")],
        [Dot(0.9, 0.5, "red", nasty, (0.1, 0.1))],
        [Mark(0.5, nasty, nasty)],
        about=nasty,
        hints=[(0, 0, nasty)],
    )
    drawn = chart.draw() + legend([(nasty, "red", nasty), ("line", "red", nasty)])
    assert nasty not in drawn
    assert drawn.count("&lt;script&gt;") >= 9
