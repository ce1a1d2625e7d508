import io
import json

import numpy as np
import pytest
from rich.console import Console

from unknot.audit import Curve, Divergence, Figures
from unknot.core.keys import Key
from unknot.report import audit as report

LOW, HIGH = np.linspace(0, 1, 200), np.linspace(1, 2, 50)


def figures(members, cut=None):
    return Figures.of(Curve.of(members, LOW), cut, Key.root(0)).to_dict()


def made(verdict="flagged", same=False):
    alike, apart = figures(LOW[::4], 0.5), figures(HIGH, 0.5)
    served = apart if verdict == "flagged" else alike
    kept = alike if verdict == "no power" else apart
    finding = {"attack": "LiRA", "served": served, "control": alike, "kept": kept, "verdict": verdict}
    finding["flagged"] = ["AUC", "TPR at 1 %"] if verdict == "flagged" else []
    near = Divergence(0.9, 0.0, 0.9, None, 0.0, 1.0).to_dict()
    far = Divergence(1.0, 0.1, 0.9, 1.25, 0.5, 0.8).to_dict()
    return {
        "experiment": "e",
        "erased": "client 2",
        "members": 50,
        "others": 200,
        "shadows": 16,
        "same": same,
        "verdict": verdict,
        "divergence": {"kept": far, "served": far, "control": near},
        "findings": [finding, {**finding, "attack": "RMIA"}],
    }


def text(audit):
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(report.tables(audit))
    return console.export_text()


def test_the_table_has_every_figure_with_its_interval():
    shown = text(made())
    assert "client 2 erased, 50 samples; 200 others; 16 shadow models" in shown
    rows = [line.split("│") for line in shown.splitlines() if "│" in line]
    lira = {row[2].strip(): [cell.strip() for cell in row] for row in rows if len(row) == 9}
    assert lira["served"][3] == "1.000 [1.000, 1.000]"
    assert lira["served"][4] == "1.000 [0.899, 1.000]"  # all 50: from 0.005^(1/50)
    assert lira["served"][5] == "too few others"
    assert lira["served"][7] == "flagged"
    assert lira["kept"][7] == lira["control"][7] == ""
    assert "+10.0 points" in shown
    assert "1.250" in shown


def test_the_conclusion_says_no_more_than_was_found():
    def said(*args, **options):
        return " ".join(report.conclusion(made(*args, **options)).plain.split())

    assert said() == "flagged: the erased data shows, by LiRA (AUC, TPR at 1 %); RMIA (AUC, TPR at 1 %)."
    assert "LiRA, RMIA would have" in said("passed")
    assert "bit for bit" in said("passed", same=True)
    assert "bit for bit" not in said("passed")
    assert "This shows nothing" in said("no power")


def test_json_holds_everything():
    assert json.loads(report.to_json(made())) == json.loads(json.dumps(made()))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture_is_the_same_each_time(tmp_path, ending):
    pytest.importorskip("matplotlib")
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    report.draw(made(), first)
    report.draw(made(), second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    report.draw(made("passed"), second)
    assert first.read_bytes() != second.read_bytes()


def test_panels_and_axes(monkeypatch, tmp_path):
    """Five attacks: six places, the legend in the one that is free; both axes logarithmic."""
    pytest.importorskip("matplotlib")
    seen = []

    def watching():
        figure_of, style = load()
        return (lambda **options: seen.append(figure_of(**options)) or seen[-1]), style

    load = report.load_matplotlib
    monkeypatch.setattr(report, "load_matplotlib", watching)
    audit = made()
    report.draw({**audit, "findings": audit["findings"][:1] * 5}, tmp_path / "five.png")
    (figure,) = seen
    assert len(figure.axes) == 6
    *panels, free = figure.axes
    assert free.get_legend() is not None
    assert not free.axison
    for axes in panels:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_title() == "LiRA: flagged"
        assert axes.get_xlim()[0] == pytest.approx(1 / 200)
