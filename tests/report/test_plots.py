import copy

import pytest
from reproduction_findings import FOUND

from unknot.report import plots
from unknot.report.canvas import headline
from unknot.report.plot_curves import GOES_ON, HIDDEN
from unknot.report.reproduction import write


def test_the_title_says_what_is_trained_on_what_by_names_that_people_use_each_model_once():
    made = [
        {"trained": text} for text in ("mlp on digits", "mlp on mnist", "gpt on shakespeare", "mlp on mnist")
    ]
    assert plots._trained(made) == "MLP on digits, MNIST; small GPT on Shakespeare"


def test_the_legend_explains_what_is_wide_and_what_goes_on(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    made = copy.deepcopy(FOUND)
    made["panels"][0]["until"] = 3.5
    made["panels"][0]["lines"][1]["curve"] = made["panels"][0]["lines"][0]["curve"]
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        plots.draw(made, tmp_path / "a.svg")
        plots.draw(FOUND, tmp_path / "b.svg")
    for words in (GOES_ON, HIDDEN):
        assert f">{words}<" in (tmp_path / "a.svg").read_text()
        assert f">{words}<" not in (tmp_path / "b.svg").read_text()


def test_what_is_trained_on_what_is_not_broken_where_there_is_room():
    text = "GPT-2 on Shakespeare; pretrained model on Shakespeare"
    assert plots._whole(text, 50) == ["GPT-2 on Shakespeare;", "pretrained model on Shakespeare"]
    assert plots._whole(text, 60) == [text]
    assert max(map(len, plots._whole(text, 16))) <= 16


@pytest.mark.parametrize("title", ["A title", "A title that has " + "many words " * 8])
def test_a_title_is_never_broken_within_what_it_is_of(title):
    lines = headline({"title": title, "figure": "Figure 4e", "scale": "paper"}, 5.12)
    assert lines[-1].endswith("(Figure 4e, paper scale)")
    assert max(map(len, lines)) <= 12.5 * 5.12


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


def test_a_panel_of_one_seed_says_so_beside_others_of_several():
    panels = [{"title": name, "lines": [{"seeds": seeds}]} for name, seeds in (("a", [0, 1]), ("b", [0]))]
    assert [panel["title"] for panel in plots._titled(panels)] == ["a", "b (one seed)"]
    assert [panel["title"] for panel in plots._titled(panels[1:])] == ["b"]
