"""Whether a claim held, from a line's values by seed."""

from types import SimpleNamespace

import pytest

from unknot.core.errors import ConfigError
from unknot.experiments.seeds import Stat
from unknot.reproduce.claims import judge
from unknot.reproduce.parts import Claim


def judged(claim: Claim, values: dict[str, list[float | None]], metric="accuracy", **other) -> list:
    """The verdicts on a claim, with a line's values by seed in place of runs."""

    def panel(title, values):
        lines = [
            SimpleNamespace(
                name=name,
                label=name,
                seeds=tuple(range(len(found))),
                measures={claim.measure: Stat.of(found)} if Stat.of(found) else {},
                by_seed={claim.measure: dict(enumerate(found))},
            )
            for name, found in values.items()
        ]
        shown = {"name": title, "title": title, "lines": lines, "metric": metric}
        return SimpleNamespace(**shown, thresholds=(0.5,), without=())

    return judge(claim, [panel("p", values), *(panel(title, v) for title, v in other.items())])


def test_whether_an_order_held_is_computed():
    claim = Claim("a, then b, then c", order=(("a",), ("b",), ("c",)))
    (clear,) = judged(claim, {"a": [0.9, 0.92], "b": [0.7, 0.72], "c": [0.1, 0.1]})
    assert (clear.held, clear.held_in, clear.seeds) == (True, 2, 2)
    assert clear.detail == "a 91.0 %, b 71.0 %, c 10.0 %"
    (close,) = judged(claim, {"a": [0.9, 0.5], "b": [0.69, 0.7], "c": [0.1, 0.1]})
    assert (close.held, close.held_in) == (True, 1)  # by the means, 0.7 and 0.695; not with seed 1
    (wrong,) = judged(claim, {"a": [0.6, 0.6], "b": [0.7, 0.7], "c": [0.1, 0.1]})
    assert (wrong.held, wrong.held_in) == (False, 0)
    assert judged(claim, {"a": [0.9], "b": [0.7]}) == []  # a line that was not run: no verdict


def test_never_is_later_than_any_round():
    claim = Claim("a, then b and c", measure="rounds", order=(("a",), ("b", "c")))
    (held,) = judged(claim, {"a": [3.0, 4.0], "b": [None, None], "c": [9.0, None]})
    assert (held.held, held.held_in) == (True, 2)
    assert held.detail == "a 3.5, b never, c 9.0 (in 1 of 2 seeds)"
    (not_held,) = judged(claim, {"a": [None], "b": [3.0], "c": [None]})
    assert not not_held.held
    (nobody,) = judged(claim, {"a": [None], "b": [None], "c": [None]})
    assert not nobody.held


LESS = Claim("at least 45 % less", measure="seconds", less=0.45, lines=("a",), than="base")


def test_less_is_a_share_of_what_the_other_takes():
    # 30.1 of 108.2 is 72.2 % less; seed by seed 30/100 and 30.2/116.4.
    (saved,) = judged(LESS, {"base": [100.0, 116.4], "a": [30.0, 30.2]})
    assert (saved.held, saved.held_in, saved.seeds) == (True, 2, 2)
    assert saved.detail == "base 108.2, a 30.1 (72 % less)"
    (exactly,) = judged(LESS, {"base": [100.0], "a": [55.0]})
    assert exactly.held
    # By the means 56 of 100; with the first seed alone 52 of 100.
    (short,) = judged(LESS, {"base": [100.0, 100.0], "a": [52.0, 60.0]})
    assert (short.held, short.held_in) == (False, 1)
    assert short.detail == "base 100.0, a 56.0 (44 % less)"
    (longer,) = judged(LESS, {"base": [50.0], "a": [56.0]})
    assert (longer.held, longer.detail) == (False, "base 50.0, a 56.0 (12 % more)")


def test_less_than_one_who_never_arrives():
    (alone,) = judged(LESS, {"base": [None, None], "a": [30.0, 32.0]})
    assert (alone.held, alone.held_in, alone.detail) == (True, 2, "base never, a 31.0")
    (never,) = judged(LESS, {"base": [100.0], "a": [None]})
    assert (never.held, never.held_in, never.detail) == (False, 0, "base 100.0, a never")
    assert not judged(LESS, {"base": [None], "a": [None]})[0].held
    # Who misses a seed has missed the mean; the others are judged one by one.
    (part,) = judged(LESS, {"base": [100.0, 100.0], "a": [10.0, None]})
    assert (part.held, part.held_in) == (False, 1)
    assert part.detail == "base 100.0, a 10.0 (in 1 of 2 seeds)"
    # There is nothing to save from who is there at once.
    assert not judged(LESS, {"base": [0.0], "a": [0.0]})[0].held
    assert judged(LESS, {"a": [1.0]}) == []


def test_time_is_better_when_it_is_less_and_so_is_perplexity():
    order = Claim("a before b", measure="total", order=(("a",), ("b",)))
    assert judged(order, {"a": [170.0], "b": [208.0]})[0].held
    assert not judged(order, {"a": [170.0], "b": [130.0]})[0].held
    end = Claim("a ends better than b", measure="end", order=(("a",), ("b",)))
    (verdict,) = judged(end, {"a": [80.0], "b": [95.5]}, metric="perplexity")
    assert (verdict.held, verdict.detail) == (True, "a 80.0, b 95.5")
    assert not judged(end, {"a": [0.5], "b": [0.8]})[0].held
    faster = Claim("a is twice as fast", measure="speedup", above=2.0, lines=("a",))
    (verdict,) = judged(faster, {"a": [2.5, 2.1]}, metric="perplexity")
    assert (verdict.held, verdict.detail) == (True, "a 2.30 ×")
    never = Claim("a never keeps it", measure="kept", never=True, lines=("a",))
    assert judged(never, {"a": [None]})[0].held


@pytest.mark.parametrize(
    "measure", [f"{figure}_{of}" for figure in ("f1", "auc", "tpr") for of in ("before", "after", "control")]
)
def test_a_model_is_better_when_an_attack_does_worse_on_it(measure):
    order = Claim("a shows less than b", measure=measure, order=(("a",), ("b",)))
    (verdict,) = judged(order, {"a": [0.25, 0.6], "b": [0.5, 0.5]})
    assert (verdict.held, verdict.held_in, verdict.detail) == (True, 1, "a 0.42, b 0.50")
    assert not judged(order, {"a": [0.6], "b": [0.5]})[0].held
    high = Claim("a shows much", measure=measure, above=0.5, lines=("a",))
    assert [judged(high, {"a": [value]})[0].held for value in (0.6, 0.4)] == [True, False]


@pytest.mark.parametrize("measure", ["sees", "flagged", "over_forgotten"])
def test_a_model_is_better_when_it_is_not_told_from_its_controls(measure):
    order = Claim("a before b", measure=measure, order=(("a",), ("b",)))
    assert judged(order, {"a": [0.0], "b": [1.0]})[0].held
    assert not judged(order, {"a": [1.0], "b": [0.0]})[0].held


@pytest.mark.parametrize("measure", ["p_before", "p_after"])
def test_a_model_is_better_the_likelier_it_is_by_chance_alone(measure):
    order = Claim("a before b", measure=measure, order=(("a",), ("b",)))
    assert judged(order, {"a": [0.6], "b": [0.05]})[0].held
    assert not judged(order, {"a": [0.05], "b": [0.6]})[0].held


def test_the_more_an_f1_falls_the_better():
    order = Claim("a falls more than b", measure="f1_fall", order=(("a",), ("b",)))
    assert judged(order, {"a": [0.5], "b": [0.2]})[0].held
    assert not judged(order, {"a": [0.2], "b": [0.5]})[0].held


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alike": 0.05}, "a claim is about lines"),
        ({"above": 0.45}, "a claim is about lines"),
        ({"never": True, "measure": "rounds"}, "a claim is about lines"),
        ({"order": ((),)}, "a claim is about lines"),
        ({"order": (("a",), ())}, "leave no group empty"),
        ({"less": 0.4, "lines": ("a",)}, "the one that they take less than"),
        ({"less": 0.4, "than": "b"}, "names lines"),
        ({"less": 0.4, "than": "b", "lines": ("a",), "measure": "end"}, "about what takes time"),
        ({"never": True, "lines": ("a",), "measure": "end"}, "claim.never is about"),
        ({"order": (("a",), ("b",)), "than": "b"}, "the one that they take less than"),
    ],
)
def test_a_claim_that_cannot_be_put_to_the_question(options, message):
    with pytest.raises(ConfigError, match=message):
        Claim("it says", **{"measure": "seconds", **options})


def test_bounds_and_gaps():
    never = Claim("they never do", measure="rounds", never=True, lines=("a", "b"))
    assert judged(never, {"a": [None, None], "b": [None, None]})[0].held
    assert not judged(never, {"a": [None, None], "b": [None, 9.0]})[0].held
    above = Claim("it rises", measure="rise", above=0.0, lines=("a", "b"))
    assert judged(above, {"a": [0.1], "b": [0.02]})[0].held
    assert not judged(above, {"a": [0.1], "b": [-0.02]})[0].held
    gap = Claim("the gap shrinks", gap=("a", "b"))
    (shrinks,) = judged(gap, {"a": [0.9], "b": [0.5]}, q={"a": [0.9], "b": [0.8]})
    assert shrinks.held
    assert shrinks.detail == "p +40.0, q +10.0"
    (grows,) = judged(gap, {"a": [0.9], "b": [0.8]}, q={"a": [0.9], "b": [0.5]})
    assert (grows.held, grows.held_in, grows.seeds) == (False, 0, 1)
    assert judged(gap, {"a": [0.9], "b": [0.8]}) == []


def test_lines_are_alike_within_a_bound():
    claim = Claim("alike", measure="f1_after", alike=0.05, lines=("a", "b", "c"))
    (held,) = judged(claim, {"a": [0.30, 0.3], "b": [0.34, 0.3], "c": [0.32, 0.4]})
    assert (held.held, held.held_in) == (False, 1)  # means 0.30, 0.32, 0.36
    assert held.detail == "a 0.30, b 0.32, c 0.36"
    assert judged(claim, {"a": [0.3], "b": [0.34], "c": [0.32]})[0].held


def test_how_far_an_f1_falls_is_judged_where_it_was_measured():
    claim = Claim("falls by 45 %", measure="f1_fall", above=0.45, lines=("a", "b"))
    (held,) = judged(claim, {"a": [0.5], "b": [0.6], "c": [None]})
    assert held.held
    assert held.detail == "a 50 %, b 60 %"
    assert not judged(claim, {"a": [0.5], "b": [0.4]})[0].held
    assert judged(claim, {"a": [0.5], "b": [None]}) == []  # a run without an audit
