"""``unknot game``: tables, figure, JSON, errors."""

import json
import sys
import xml.etree.ElementTree as xml

import numpy as np
import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.incentive import POLICIES, Setting, describe
from unknot.report import game as report

FILE = """
psi = [150, 200, 250]
zeta = [12, 15, 18]
f_u = [90, 100, 110]
f_c = [32, 35, 38]
data = [85, 100, 115]
periods = 120
"""
VALUES = {"psi": [150, 200], "zeta": [12, 15], "f_u": [90, 100], "f_c": [32, 35], "data": [85, 100]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "game.toml"
    path.write_text(FILE)
    return path


def call(*args, code=0):
    result = CliRunner().invoke(app, ["game", *map(str, args)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def test_json_is_one_object_with_an_entry_for_each_policy(file):
    out = call(file, "--json").stdout
    assert out.count("\n") == 1
    said = json.loads(out)
    assert tuple(said) == POLICIES
    for entry in said.values():
        assert list(entry) == ["shares", "utilities", "residual", "eigenvalues"]
        assert np.shape(entry["shares"]) == (3, 3)
        assert np.abs(np.sum(entry["shares"], axis=1) - 1).max() < 1e-12
        assert len(entry["utilities"]) == 120
        assert len(entry["eigenvalues"]) == 6  # 3 populations, each with 3 − 1 ways to go
        assert entry["residual"] >= 0
    game = Setting.of({**VALUES, "periods": 5}).game
    assert describe(game, game.even).residual > 0


def test_eigenvalues_that_are_not_real_are_pairs(monkeypatch, file):
    setting = Setting.of({**VALUES, "periods": 5})
    monkeypatch.setattr("unknot.incentive.equilibrium.eigenvalues", lambda game, x: (1 + 2j, 1 - 2j, -3 + 0j))
    said = json.loads(report.to_json(setting))
    assert said["greedy"]["eigenvalues"] == [[1, 2], [1, -2], -3]


def test_the_summary_tells_shares_policies_and_equilibria(file):
    output = call(file).output
    assert output.startswith("3 populations at 3 servers, 90 clients; 120 periods, δ = 0.001\n")
    for name in POLICIES:
        assert f" {name}" in output
    assert "equilibrium: stable, residual" in output
    assert "(1 0 0)  (0 1 0)  (0 0 1)" in output
    assert "5 others were found:" in output


def test_start_costs_and_clients_are_read():
    factors = {"tau": 10, "alpha": 0.2, "eta": 0.5, "f": 3, "d": [1, 2]}
    stored = {"tau_s": 4, "s": 0.5, "c_s": 0.25}
    setting = Setting.of(
        {
            **VALUES,
            "computation": factors,
            "storage": stored,
            "start": [0.25, 0.75],
            "clients": [3, 4],
            "phi": 0.75,
        }
    )
    # 10 / 2 × 0.2 × 0.5 × 9 × d = 4.5 d; 4 × 0.5 / 0.25 × 0.25 = 2.
    assert setting.game.computation == pytest.approx([4.5, 9])
    assert setting.game.storage == pytest.approx([2, 2])
    assert setting.start.tolist() == [[0.25, 0.75]] * 2
    assert setting.clients == (3, 4)
    each = Setting.of({**VALUES, "start": [[1, 0], [0.333333, 0.666667]]})
    assert each.start == pytest.approx(np.array([[1, 0], [0.333333, 0.666667]]))
    assert Setting.of(VALUES).start.tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"psii": 3}, "unknown key 'psii' in the game. Did you mean 'psi'?"),
        (
            {"computation": {"tau": 1, "aplha": 2}},
            "unknown key 'aplha' in computation. Did you mean 'alpha'?",
        ),
        ({"storage": {"tau_s": 1, "s": 2}}, "storage.c_s is missing"),
        ({"start": [0.5, 0.6]}, "add up to 1.1, not to 1"),
        ({"start": [0.5, 0.3, 0.2]}, "give a share for each of 2 servers"),
        ({"start": [-1, 2]}, "negative share"),
        ({"psi": 3}, "psi is 3: give a list"),
        ({"periods": 0}, "periods is 0: it must be a whole number, 1 or more"),
        ({"clients": [1, 2, 3]}, "one for each of 2"),
        ({"phi": 1, "storage": {"tau_s": 1, "s": 2, "c_s": 3}}, "below 1"),
        ({"seed": "a"}, "seed is 'a'"),
        ({"data": [1, "x"]}, "data is [1, 'x']"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(change, message):
    with pytest.raises(ValueError) as said:  # noqa: PT011
        Setting.of({**VALUES, **change})
    assert message in str(said.value)


def test_a_missing_key_names_the_file(tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text("psi = [1]\n")
    said = " ".join(call(path, code=2).output.split())
    assert "empty.toml: zeta is missing" in said


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_figure_is_written_and_the_same_each_time(file, tmp_path, ending):
    pytest.importorskip("matplotlib")
    out = tmp_path / f"game.{ending}"
    assert call(file, "--plot", out).output.endswith(f"written: {out}\n")
    first = out.read_bytes()
    json.loads(call(file, "--json", "--plot", out).stdout)
    assert out.read_bytes() == first
    if ending == "svg":
        assert xml.fromstring(first).tag.endswith("svg")


def test_what_figures_4b_and_4c_show():
    setting = Setting.of({**VALUES, "periods": 60})
    deltas, totals = report.rates(setting)
    assert deltas == pytest.approx([0.0005, 0.001, 0.002, 0.004])
    assert totals["evolutionary"][1] == setting.outcomes["evolutionary"].utilities[49]
    assert len(set(totals["greedy"])) == len(set(totals["random"])) == 1  # no learning rate, no effect
    numbers, averages = report.sizes(setting)
    assert numbers == [10, 20, 30, 40, 50, 60, 70]
    for line in averages.values():
        assert (np.diff(line) < 0).all()
    # The game's shares know no number of clients: its average is its total over their number.
    assert averages["evolutionary"] == pytest.approx([totals["evolutionary"][1] / many for many in numbers])


def test_what_cannot_be_drawn_is_said(file, tmp_path, monkeypatch):
    assert "must end in .png, .svg or .pdf" in call(file, "--plot", tmp_path / "a.txt", code=2).output
    missing = tmp_path / "no" / "a.svg"
    assert "cannot write" in call(file, "--plot", missing, code=2).output
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert "pip install -e '.[game]'" in call(file, code=2).output
    json.loads(call(file, "--json").stdout)  # needs no SciPy
