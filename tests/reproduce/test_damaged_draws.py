"""A damaged record of a draw is named with its file and with what takes it out, whatever is wrong with it."""

import re
import tomllib

import pytest

from small_reproductions import GAMES
from unknot.core.errors import DataError
from unknot.reproduce import findings, reproduce
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.played import read_draws
from unknot.reproduce.record_file import keep, kept

SETTLING = """
[[panel]]
name = "s"
title = "settled"
over = "settling"
values = [0.001, 0.002]
"""


@pytest.fixture(scope="module")
def plan():
    table = tomllib.loads(GAMES)
    table["panel"] += tomllib.loads(SETTLING)["panel"]
    return GameReproduction.of(table, "tiny")


@pytest.fixture(scope="module")
def done(tmp_path_factory, plan):
    return kept(reproduce(plan, out=tmp_path_factory.mktemp("done"), seeds=[0]))["draw 0"]


@pytest.fixture
def read(tmp_path, plan, done):
    def read(change):
        keep(tmp_path / "tiny-small.json.gz", {**done, **change})
        return read_draws(plan, tmp_path / "tiny-small.json.gz")

    return read


def numbers(done, **change):
    return {"numbers": {**done["numbers"], **change}}


def values(done, panel, **change):
    changed = {**done["values"][panel], **change}
    left = {name: row for name, row in changed.items() if row is not None}
    return {"values": {**done["values"], panel: left}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: values(d, "p", evolutionary=[1.0, 2.0]), "values.p.evolutionary has 2 of 6 values"),
        (lambda d: values(d, "p", evolutionary=[]), "values.p.evolutionary has 0 of 6 values"),
        (lambda d: values(d, "p", greedy="high"), "values.p.greedy must be a list of numbers"),
        (lambda d: values(d, "p", greedy=["high"]), "values.p.greedy[0] must be a number"),
        (lambda d: values(d, "p", greedy=[float("inf")]), "values has what is not finite"),
        (lambda d: values(d, "p", greedy=None), "it has no values.p.greedy"),
        (lambda d: values(d, "p", random=[1.0]), "it has values.p.random, which is no part of a record"),
        (lambda d: values(d, "s", greedy=[1.0]), "it has values.s.greedy, which is no part of a record"),
        (lambda d: {"values": {"p": d["values"]["p"]}}, "it has no values.s"),
        (lambda d: {"values": {**d["values"], "s": [1.0]}}, "values.s must be a table"),
        (lambda d: numbers(d, psi=3.0), "numbers.psi must be a list of numbers"),
        (lambda d: numbers(d, psi=[100.0, 200.0]), "numbers.psi has 2 of 3 values"),
        (lambda d: numbers(d, chi=[1.0] * 3), "it has numbers.chi, which is no part of a record"),
        (lambda d: {"numbers": {"psi": d["numbers"]["psi"]}}, "it has no numbers.zeta"),
        (lambda d: {"machine": {"cores": 2, "numpy": "2"}}, "it has no machine.cpu"),
        (lambda d: {"machine": {**d["machine"], "cpu": ["a"]}}, "machine.cpu must be"),
        (lambda d: {"config": {**d["config"], "draw": "0"}}, "config.draw must be a whole number"),
        (lambda d: {"config": {}}, "it has no config.draw"),
    ],
)
def test_a_draw_that_is_not_what_its_configuration_leaves_is_damaged(read, done, change, message):
    where = r"tiny-small\.json\.gz: the record draw 0 is damaged"
    with pytest.raises(DataError, match=rf"{where} \({re.escape(message)}"):
        read(change(done))


def test_every_place_may_be_one_number(read, done):
    assert list(read(values(done, "p", evolutionary=[5.0]))) == ["draw 0"]
    assert list(read({})) == ["draw 0"]


def test_of_a_draw_of_another_configuration_nothing_is_asked(read, done):
    game = {**done["config"], "game": {"periods": 2}}
    assert list(read({"config": game, "values": {"p": {"evolutionary": [1.0, 2.0]}}})) == ["draw 0"]


def test_findings_name_the_damaged_draw_and_what_takes_it_out(tmp_path, plan, done):
    keep(tmp_path / "tiny-small.json.gz", {**done, **values(done, "p", greedy=None)})
    with pytest.raises(DataError, match=r"once it is taken out: python -c .*drop.*draw 0"):
        findings(plan, "small", tmp_path / "tiny-small.json.gz")
