"""Reproductions that play games: what a file means, what is kept, what is said of the claims."""

import sys
import tomllib

import numpy as np
import pytest

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.incentive import READINGS, Crowd, compare, drawn
from unknot.reproduce import GameReproduction, findings, load, names, overview, reproduce
from unknot.reproduce.__main__ import main
from unknot.reproduce.game_findings import _settled, _unique
from unknot.reproduce.record_file import keep, kept

FIGURES = ("incentive-fig4a", "incentive-fig4b", "incentive-fig4c")
TINY = """
kind = "game"
title = "Tiny"
figure = "Figure 0"
claim = "It is tiny."
game = { periods = 6, clients = 4 }
draw = { psi = [100, 300], zeta = [10, 20], f_u = [80, 120], f_c = [30, 40], data = [80, 120] }
scale = { small = { draws = 3 }, paper = { draws = 5 } }

[[panel]]
name = "p"
title = "total utility"
over = "periods"

[[panel]]
name = "r"
title = "by rate"
over = "rates"
values = [0.001, 0.002]
period = 3

[[line]]
name = "evolutionary"
label = "game"

[[line]]
name = "greedy"
label = "greedy"
"""


def tiny(change=lambda table: None) -> GameReproduction:
    table = tomllib.loads(TINY)
    change(table)
    return GameReproduction.of(table, "tiny")


def runs(file):
    return kept(file)


def with_values(tmp_path, claims, curves):
    """Findings of a file whose records have these values: by line, a curve a draw."""

    def change(table):
        table["claims"] = claims
        table["scale"] = {"small": {"draws": len(curves["evolutionary"])}}
        table["panel"] = table["panel"][:1]

    plan = tiny(change)
    file = reproduce(plan, out=tmp_path)
    for i, item in enumerate(kept(file).values()):
        keep(file, {**item, "values": {"p": {name: several[i] for name, several in curves.items()}}})
    return findings(plan, "small", file)


# The files that come with unknot ----------------------------------------------------------------


def test_figures_4a_to_c_are_there_with_the_papers_setting():
    for name in FIGURES:
        assert name in names()
        plan = load(name)
        assert isinstance(plan, GameReproduction)
        assert (plan.draw.psi, plan.draw.zeta) == ((100, 300), (10, 20))
        assert (plan.draw.f_u, plan.draw.f_c, plan.draw.data) == ((80, 120), (30, 40), (80, 120))
        setting = plan.setting
        assert setting.periods == 300
        assert setting.clients == (30, 30, 30)
        assert (float(setting.game.phi), float(setting.game.delta)) == (0.5, 0.001)
        assert setting.game.computation.tolist() == setting.game.storage.tolist() == [0.1] * 3
        assert len(plan.draws_at("paper")) == 100
        assert {line.name for line in plan.lines} == {"evolutionary", *READINGS}


def test_a_game_needs_no_data():
    entries = {entry.name: entry for entry in overview()}
    for name in FIGURES:
        assert all(size.data == {} and size.takes for size in entries[name].scales)


def test_the_findings_of_figure_4a_in_its_first_ten_draws(tmp_path):
    """Held against random, round-robin and the highest offer; not against greedy, nor is it unique."""
    plan = load("incentive-fig4a")
    found = findings(plan, "small", reproduce(plan, out=tmp_path))
    said = {(v.says, v.panel): (v.outcome, v.why) for v in found.verdicts}
    best = "The game has the highest total utility"
    for other in ("random", "round-robin", "greedy (highest offer)"):
        assert said[best, f"against {other}"] == ("holds", "in 10 of 10 draws")
    assert said[best, "against greedy (one by one)"][0] != "holds"
    assert said["The equilibrium is unique (section 4.3)", "evolutionary game"] == (
        "does not hold",
        "in 0 of 10 draws",
    )


# What is kept -----------------------------------------------------------------------------------


def test_a_draw_is_the_same_game_alone_among_others_and_from_the_formulas(tmp_path):
    plan = tiny()
    many = runs(reproduce(plan, "paper", out=tmp_path / "many"))
    (alone,) = runs(reproduce(plan, "paper", seeds=[3], out=tmp_path / "one")).values()
    assert many["draw 3"]["values"] == alone["values"]
    assert many["draw 3"]["numbers"] == alone["numbers"] != many["draw 2"]["numbers"]
    key = Key.root(0).child("draw", 3)
    game = drawn([key])
    totals = compare(game, Crowd.of(game, 4, [key]), 6)
    assert alone["values"]["p"]["evolutionary"] == pytest.approx(totals["evolutionary"].utilities[:, 0])
    assert alone["values"]["p"]["greedy"] == pytest.approx(totals["greedy"].utilities[:1, 0])  # never changes


def test_what_is_there_is_not_played_again_unless_it_would_be_another_game(tmp_path):
    told = []
    file = reproduce(tiny(), out=tmp_path, tell=told.append)
    first = file.read_bytes()
    reproduce(tiny(), out=tmp_path, tell=told.append)
    assert told == ["3 of 3 draws"]
    assert file.read_bytes() == first
    reproduce(tiny(), out=tmp_path, seeds=[2, 3, 3], tell=told.append)
    assert told[1:] == ["1 of 2 draws"]
    assert list(runs(file)) == ["draw 0", "draw 1", "draw 2", "draw 3"]
    changed = ["game.phi=0.25"]
    reproduce(tiny(), out=tmp_path, overrides=changed, tell=told.append)
    assert "3 draws replace records" in told[2]
    assert told[3:] == ["3 of 3 draws"]
    assert runs(file)["draw 0"]["config"]["game"]["phi"] == 0.25
    assert findings(tiny(), "small", file).panels[0].reason == "not run yet"
    assert findings(tiny(), "small", file, overrides=changed).panels[0].lines[0].draws == 3


def test_it_runs_with_torch_and_numpy_alone(tmp_path, capsys, monkeypatch):
    for name in ("scipy", "scipy.integrate", "scipy.optimize", "matplotlib", "rich"):
        monkeypatch.setitem(sys.modules, name, None)
    file = tmp_path / "mine.toml"
    file.write_text(TINY)
    assert main([str(file), "--seeds", "0,1", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "mine-small.json.gz")
    assert list(runs(tmp_path / "mine-small.json.gz")) == ["draw 0", "draw 1"]
    assert main([str(file), "--only", "greedy", "--out", str(tmp_path)]) == 2
    assert "without --only" in capsys.readouterr().err


# What is said of it -----------------------------------------------------------------------------


def test_above_level_and_below_are_told_apart(tmp_path):
    """Level is within 0.001; what of a few draws is so decides nothing."""
    claim = {"says": "best", "panel": "p", "best": "evolutionary", "than": ["greedy"]}
    curves = {
        "evolutionary": [[1, 1, 1, 1, 1, last] for last in (5.0, 5.0005, 4.0, 6.0)],
        "greedy": [[5.0], [5.0], [5.0], [5.0]],
    }
    (verdict,) = with_values(tmp_path, [claim], curves).verdicts
    assert (verdict.outcome, verdict.why) == ("not shown", "in 1 of 4 draws")
    assert verdict.panel == "against greedy"
    assert verdict.detail == "5.0 against 5.0; above in 1, level in 2, below in 1"


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [((6,) * 5, "holds"), ((6, 6, 6), "not shown"), ((6, 4) * 4, "not shown"), ((4,) * 5, "does not hold")],
)
def test_more_than_half_of_the_draws_decide_by_the_interval_of_their_share(tmp_path, ends, outcome):
    claim = {"says": "best", "panel": "p", "best": "evolutionary", "than": [["greedy"]]}
    curves = {"evolutionary": [[1, 1, 1, 1, 1, end] for end in ends], "greedy": [[5.0]] * len(ends)}
    (verdict,) = with_values(tmp_path, [claim], curves).verdicts
    assert verdict.outcome == outcome


def test_settling_and_trends_are_counted_draw_by_draw(tmp_path):
    lines = ["evolutionary", "greedy"]
    claims = [
        {"says": "settles", "panel": "p", "settle": 3, "lines": lines},
        {"says": "falls", "panel": "p", "trend": "falls", "lines": lines},
    ]
    # Within 1 % of the last from period 3, from period 5; the second falls throughout.
    curves = {"evolutionary": [[50, 90, 100, 100, 100, 100], [9, 8, 7, 6, 5.03, 5]], "greedy": [[5.0], [5.0]]}
    found = with_values(tmp_path, claims, curves)
    assert [(v.says, v.panel, int(v.why.split()[1])) for v in found.verdicts] == [
        ("settles", "game", 1),
        ("settles", "greedy", 2),
        ("falls", "game", 1),
        ("falls", "greedy", 0),
    ]
    assert found.verdicts[0].detail == "median period 4"
    assert _settled(np.array([[1.0, 9.0, 1.0, 9.0]] * 3), 2, "x") == ("x", [False] * 3, "not by 4")
    assert found.verdicts[1].detail == "at once"
    assert found.verdicts[2].detail.endswith("; falls throughout in 1, rises throughout in 0")
    assert found.verdicts[3].detail == "5.00, the same all along in every draw"
    game, greedy = found.panels[0].lines
    assert (game.settled, greedy.settled) == (4, 1)
    assert (game.falls, game.rises, game.beside, greedy.beside) == (1, 0, None, (1, 1, 0))
    assert game.curve.mean[0] == 29.5
    assert (game.curve.low[0], game.curve.high[0]) == (19.25, 39.75)  # a quarter of the way from 9 to 50
    assert np.shape(game.curve.at) == (6,)


@pytest.mark.parametrize(
    ("stable", "held_in", "figures"),
    [
        ((0, 0), 0, "no stable all-or-nothing equilibrium in any draw"),
        ((0, 1, 0), 1, "at least 0 to 1 stable equilibrium in each draw, all or nothing; none in 2"),
        ((1, 1), 2, "at least 1 stable equilibrium in each draw, all or nothing"),
        ((1, 3), 1, "at least 1 to 3 stable equilibria in each draw, all or nothing"),
        ((6, 6), 0, "at least 6 stable equilibria in each draw, all or nothing"),
    ],
)
def test_only_a_single_stable_equilibrium_is_unique(stable, held_in, figures):
    label, holds, detail = _unique(stable, "game")
    assert (label, sum(holds), detail) == ("game", held_in, figures)


def claiming(**claim):
    """A change to the file: this is its only claim."""
    return lambda t: t.update(claims=[{"says": "x", "panel": "p", **claim}])


@pytest.mark.parametrize("settle", [-1, 0, 6, 1000])
def test_a_game_of_six_periods_settles_in_the_first_five_or_not_at_all(settle):
    tiny(claiming(settle=5, lines=["greedy"]))
    with pytest.raises(ConfigError, match=rf"claims.settle is {settle}, but tiny plays 6 periods"):
        tiny(claiming(settle=settle, lines=["greedy"]))


def test_periods_are_not_set_to_end_before_a_claim_of_settling():
    plan = load("incentive-fig4a")
    assert plan.changed(["game.periods=101"]).setting.periods == 101
    for periods in (40, 100):
        with pytest.raises(ConfigError, match=f"settle is 100, but incentive-fig4a plays {periods} periods"):
            plan.changed([f"game.periods={periods}"])


def test_a_single_value_has_no_trend():
    claim = claiming(panel="r", trend="falls", lines=["greedy"])

    def single(table):
        claim(table)
        table["panel"][1]["values"] = [0.001]

    tiny(claim)
    with pytest.raises(ConfigError, match="about two values or more, and panel 'r' has one"):
        tiny(single)
    with pytest.raises(ConfigError, match="panel 'p' has one"):
        tiny(claiming(trend="falls", lines=["greedy"])).changed(["game.periods=1"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(panel=3), "panel must be a list of sections, not 3: [[panel]]"),
        (lambda t: t.update(panel=[3]), "panel[0] must be a section, not 3"),
        (lambda t: t.update(line=3), "line must be a list of sections"),
        (lambda t: t.update(claims=3), "claims must be a list of sections"),
        (lambda t: t.update(claims=["x"]), "claims[0] must be a section"),
        (lambda t: t.update(draw=3), "tiny.draw must be a section"),
        (lambda t: t.update(game=3), "tiny.game must be a section"),
        (lambda t: t.update(scale=3), "scale must be a section"),
        (lambda t: t.update(scale={"small": 3}), "scale.small must be a section"),
        (lambda t: t["panel"][1].update(over="clients", values=[float("inf")]), "above 0 and finite"),
        (lambda t: t["panel"][1].update(values=[float("nan")]), "above 0 and finite"),
        (claiming(best="evolutionary", than=[[]]), "a list without a line"),
        (claiming(best="evolutionary", than=["greedy", []]), "a list without a line"),
        (lambda t: t["draw"].pop("psi"), "tiny.draw.psi is missing"),
        (lambda t: t["draw"].update(psy=[1, 2]), "unknown key tiny.draw.psy. Did you mean 'psi'?"),
        (lambda t: t["game"].update(phi=1), "phi is"),
        (lambda t: t["game"].update(psi=[1, 2, 3]), "unknown key tiny.game.psi"),
        (lambda t: t["panel"][0].update(over="period"), "Did you mean 'periods'?"),
        (lambda t: t["panel"][1].pop("values"), "give values for all but periods"),
        (lambda t: t["panel"][1].update(values=[0, 1]), "its values are above 0"),
        (lambda t: t["panel"][1].update(over="clients", values=[9.5]), "clients are whole numbers"),
        (lambda t: t["panel"][1].update(name="p"), "every panel needs a name of its own"),
        (lambda t: t["line"][1].update(name="greed"), "Did you mean 'greedy'?"),
        (lambda t: t["scale"]["small"].update(draws=0), "scale.small.draws is 0"),
        (lambda t: t["scale"].update(smal={"draws": 1}), "Did you mean 'small'?"),
        (lambda t: t.update(claims=[{"says": "x", "panel": "p"}]), "one of best, settle, trend and unique"),
        (lambda t: t.update(claims=[{"says": "x", "panel": "p", "unique": True}]), "or lines"),
        (
            lambda t: t.update(claims=[{"says": "x", "panel": "r", "settle": 3, "lines": ["greedy"]}]),
            "a panel over periods",
        ),
        (
            lambda t: t.update(claims=[{"says": "x", "panel": "p", "trend": "sinks", "lines": ["greedy"]}]),
            "claims.trend = 'sinks'",
        ),
        (lambda t: t.update(titel="x"), "unknown key tiny.titel. Did you mean 'title'?"),
        (lambda t: t["draw"].update(psi=[300, 100]), "tiny.draw.psi = [300, 100] is no range"),
        (lambda t: t["draw"].update(zeta=[1, float("inf")]), "tiny.draw.zeta = [1, inf] is no range"),
        (lambda t: t["game"].update(phi=2), "phi is 2.0: it must be"),
        (lambda t: t.update(like="incentive-fig4a"), "games cannot be taken over by like"),
    ],
)
def test_a_wrong_file_says_what_to_change(change, message):
    with pytest.raises(ConfigError) as said:
        tiny(change)
    assert message in str(said.value)


def test_a_kind_or_setting_that_there_is_not(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(TINY.replace('"game"', '"gam"', 1))
    with pytest.raises(ConfigError, match="Did you mean 'game'"):
        load(str(file))
    with pytest.raises(ConfigError, match="unknown key 'train' in --set for tiny"):
        tiny().changed(["train.lr=0.1"])
    for section in ("game", "draw"):
        with pytest.raises(ConfigError, match=f"tiny.{section} must be a section, not 3"):
            tiny().changed([f"{section}=3"])
    with pytest.raises(ConfigError, match="no scale 'large'"):
        reproduce(tiny(), "large", out=tmp_path)
