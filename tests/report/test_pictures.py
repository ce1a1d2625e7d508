"""Figures: small, crisp, the same every time, and with the digest of what they show."""

import copy

import pytest

from unknot.report.canvas import load_matplotlib
from unknot.report.colours import COLOURS
from unknot.report.pictures import PALETTE, digest, drawn_from, save


@pytest.fixture
def figure():
    pytest.importorskip("matplotlib")
    figure_of, style = load_matplotlib()
    with style:
        made = figure_of(figsize=(3, 2))
        axes = made.subplots()
        for i, colour in enumerate(COLOURS):
            axes.plot([0, 1], [i, i + 1], color=colour)
            axes.fill_between([0, 1], [i - 1, i], [i + 1, i + 2], color=colour, alpha=0.15)
        axes.set_title("a title")
    return made


def test_a_picture_has_few_colours_but_those_of_its_lines_and_white_paper(figure, tmp_path):
    from PIL import Image

    save(figure, [tmp_path / "a.png"], "abc")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.mode == "P"
        found = {colour for _, colour in picture.convert("RGB").getcolors()}
    assert len(found) <= PALETTE
    assert {tuple(bytes.fromhex(colour[1:])) for colour in COLOURS} | {(255, 255, 255)} <= found


def test_a_picture_is_the_same_every_time_and_says_what_it_shows(figure, tmp_path):
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    save(figure, [first, second, tmp_path / "a.svg"], "abc")
    assert first.read_bytes() == second.read_bytes()
    assert drawn_from(first) == "abc"
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_where_there_is_no_digest_none_is_found(tmp_path):
    pytest.importorskip("PIL")
    assert drawn_from(tmp_path / "nowhere.png") is None
    for content in (b"", b"\x89PNG\r\n\x1a\n", b"no picture at all, but some text"):
        (tmp_path / "a.png").write_bytes(content)
        assert drawn_from(tmp_path / "a.png") is None


def test_a_damaged_picture_is_as_good_as_none(figure, tmp_path):
    file = tmp_path / "a.png"
    save(figure, [file], "abc")
    whole, middle = file.read_bytes(), file.stat().st_size // 2
    damaged = (
        whole[:2000],
        whole[:-12],
        whole[:middle] + bytes(40) + whole[middle + 40 :],
        b"GIF8" + whole[4:],
    )
    for content in damaged:
        file.write_bytes(content)
        assert drawn_from(file) is None
    file.write_bytes(whole)
    assert drawn_from(file) == "abc"


def test_the_digest_is_of_what_a_figure_shows():
    found = {"title": "a", "panels": [{"lines": [{"mean": 1 / 3, "by_seed": {0: 1.0}}]}], "commits": ["a"]}
    other = copy.deepcopy(found)
    other["commits"] = ["b"]
    other["panels"].append({"lines": [], "reason": "not run yet"})
    other["panels"][0]["lines"][0]["mean"] += 1e-12  # another machine's last bits
    assert digest(other) == digest(found)
    other["panels"][0]["lines"][0]["mean"] += 1e-3
    assert digest(other) != digest(found)


def test_a_line_below_another_one_has_its_colour_in_the_legend(tmp_path):
    """A few dots of it, among many shades, are in the picture as they are."""
    pytest.importorskip("matplotlib")
    from PIL import Image

    figure_of, style = load_matplotlib()
    with style:
        made = figure_of(figsize=(3, 2))
        axes = made.subplots()
        axes.imshow([[i / 99 for i in range(100)]] * 100, cmap="hsv", aspect="auto")
        axes.plot([10, 12], [50, 50], color=COLOURS[2], linewidth=1.5)
    save(made, [tmp_path / "a.png"], "abc")
    with Image.open(tmp_path / "a.png") as picture:
        found = {colour for _, colour in picture.convert("RGB").getcolors()}
    assert tuple(bytes.fromhex(COLOURS[2][1:])) in found


@pytest.mark.parametrize("width", [9.0, 9.6, 10.2])
def test_the_layout_is_settled_when_a_picture_is_written(tmp_path, width):
    """Ticks go by the length of an axis, which goes by their labels: a last one must not be cut off."""
    pytest.importorskip("matplotlib")
    figure_of, style = load_matplotlib()
    with style:
        figure = figure_of(figsize=(width, 6.0), layout="constrained")
        for place, axes in enumerate(figure.subplots(2, 3).flat):
            axes.plot([0, 1200 if place == 2 else 400], [10, 60])
        save(figure, [tmp_path / "picture.png"], "digest")
        ticks = [list(axes.get_xticks()) for axes in figure.axes]
        ends = [axes.get_position().x1 for axes in figure.axes]
        figure.draw_without_rendering()
    assert [list(axes.get_xticks()) for axes in figure.axes] == ticks
    assert [axes.get_position().x1 for axes in figure.axes] == pytest.approx(ends, abs=1e-4)
