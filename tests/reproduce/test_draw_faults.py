"""Draws follow from their configuration: played again, a record that comes out otherwise is named."""

import pytest

from small_reproductions import GAMES
from unknot.reproduce import check, draw_faults, load, pages, reproduce
from unknot.reproduce.checking import Stale
from unknot.reproduce.record_file import keep, kept


@pytest.fixture
def asked(tmp_path):
    (tmp_path / "play.toml").write_text(GAMES)
    path = str(tmp_path / "play.toml")
    reproduce(load(path), out=tmp_path)
    (asked,) = pages(tmp_path, path)
    return asked


@pytest.fixture
def items(asked):
    return kept(asked.file)


def scaled(item, line, factor):
    rows = item["values"]["p"]
    return {**item, "values": {"p": {**rows, line: [factor * value for value in rows[line]]}}}


def test_draws_that_come_out_as_they_are_recorded_are_sound(asked, items):
    assert check(asked).faults == ()
    keep(asked.file, *(scaled(item, "greedy", 1 + 1e-9) for item in items.values()))
    assert check(asked).faults == (), "another machine's last bits"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda item: scaled(item, "greedy", 1.001), "played again, it has other values of p (greedy)"),
        (
            lambda item: scaled(scaled(item, "greedy", 2.0), "evolutionary", -1.0),
            "played again, it has other values of p (evolutionary, greedy)",
        ),
        (
            lambda item: {**item, "numbers": {**item["numbers"], "psi": [-1.0] * 3}},
            "its psi are not what is drawn",
        ),
        (lambda item: {**item, "stable": 60}, "played again, it has another number of stable equilibria"),
        (lambda item: {**item, "seconds": -1.0}, "it took -1 seconds"),
        (lambda item: {**item, "made": "yesterday"}, "it was made at 'yesterday', which is no time in UTC"),
    ],
)
def test_a_draw_that_comes_out_otherwise_is_named(asked, items, change, why):
    keep(asked.file, change(items["draw 1"]))
    (fault,) = check(asked).faults
    assert fault.records == ("draw 1",)
    assert fault.why.startswith(why)


def test_draws_that_are_all_the_same_are_at_fault_but_for_the_one_that_it_is(asked, items):
    first = items["draw 0"]
    alike = ({**item, **{n: first[n] for n in ("numbers", "values", "stable")}} for item in items.values())
    keep(asked.file, *alike)
    (fault,) = check(asked).faults
    assert fault == Stale(("draw 1", "draw 2"), fault.why)


def test_of_very_many_draws_some_from_first_to_last_are_played_again(asked, items, monkeypatch):
    monkeypatch.setattr(draw_faults, "MOST", 2)
    keep(asked.file, *({**item, "stable": 60} for item in items.values()))
    (fault,) = check(asked).faults
    assert fault.records == ("draw 0", "draw 2")


def test_a_draw_of_another_configuration_is_not_played_again(asked, items):
    other = {**items["draw 1"]["config"], "game": {"periods": 2}}
    keep(asked.file, {**items["draw 1"], "config": other, "stable": 60})
    found = check(asked)
    assert found.faults == ()
    assert found.stale[0].records == ("draw 1",)
