"""What becomes of a claim, from a line's values by seed."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from unknot.core.errors import ConfigError
from unknot.experiments.seeds import Stat
from unknot.reproduce.claims import judge
from unknot.reproduce.intervals import Interval, share, student
from unknot.reproduce.parts import Claim
from unknot.reproduce.verdicts import FAILS, LEVEL, PARTLY, Comparison, why

END = 100.0


def judged(
    claim: Claim,
    values,
    metric="accuracy",
    chance=None,
    ends=None,
    at_end=None,
    brief=None,
    partly=None,
    seeds=None,
    **other,
):
    """The verdicts on a claim, with a line's values by seed (0, 1, ... or `seeds`) in place of runs."""

    def seeds_of(name, found):
        return (seeds or {}).get(name, range(len(found)))

    def panel(title, values, without=()):
        lines = [
            SimpleNamespace(
                name=name,
                label=name,
                seeds=tuple(seeds_of(name, found)),
                measures={claim.measure: Stat.of(found)} if Stat.of(found) else {},
                by_seed={
                    "end": dict.fromkeys(seeds_of(name, found), (at_end or {}).get(name, 0.1)),
                    claim.measure: dict(zip(seeds_of(name, found), found, strict=True)),
                },
                ends={
                    claim.measure: dict(
                        enumerate(np.broadcast_to((ends or {}).get(name, END), len(found)).tolist())
                    )
                },
                partly={claim.measure: (partly or {}).get(name, {})},
                judged=True,
                brief=(brief or {}).get(name, ()),
                central=name == "central",
            )
            for name, found in values.items()
        ]
        shown = {"name": title, "title": title, "lines": lines, "metric": metric, "chance": chance}
        published = {"a": "3"} if "a" in values else {}
        told = {"published": published, "published_for": of, "published_by": by}
        return SimpleNamespace(**shown, **told, thresholds=(0.5,), without=without, earlier="")

    without, of = other.pop("without", ()), other.pop("published_for", "")
    by = other.pop("published_by", ("rounds", "total"))
    return judge(claim, [panel("p", values, without), *(panel(title, v) for title, v in other.items())])


def outcome(claim, values, **options):
    (verdict,) = judged(claim, values, **options)
    return verdict.outcome


ORDER = Claim("a, then b, then c", order=(("a",), ("b",), ("c",)))
PAIR = Claim("a before b", order=(("a",), ("b",)))


def test_an_order_holds_where_every_difference_leaves_the_spread_behind():
    (clear,) = judged(ORDER, {"a": [0.9, 0.92, 0.91], "b": [0.7, 0.73, 0.7], "c": [0.1, 0.1, 0.1]})
    assert (clear.outcome, clear.why, clear.seeds) == ("holds", "", 3)
    assert clear.detail == "a 91.0 %, b 71.0 %, c 10.0 %"
    assert [c.what for c in clear.comparisons] == ["a − b", "a − c", "b − c"]
    (wrong,) = judged(ORDER, {"a": [0.6, 0.61, 0.6], "b": [0.7, 0.71, 0.71], "c": [0.1, 0.1, 0.1]})
    assert (wrong.outcome, wrong.why) == ("does not hold", "b better than a")
    assert judged(ORDER, {"a": [0.9], "b": [0.7]}) == []  # a line that was not run: no verdict


def test_a_tie_is_level_and_so_is_what_the_spread_may_have_made():
    (tie,) = judged(ORDER, {"a": [0.9, 0.9, 0.9], "b": [0.9, 0.9, 0.9], "c": [0.1, 0.2, 0.1]})
    assert (tie.outcome, tie.why) == ("holds in part", "a level with b")
    # Ahead in two of three seeds, and by the means; but the third might as well have been the rule.
    assert outcome(PAIR, {"a": [0.9, 0.9, 0.6], "b": [0.7, 0.72, 0.7]}) == "not shown"


def test_seeds_are_compared_one_by_one():
    # The seeds differ by far more than the lines do, and yet a is ahead in each.
    assert outcome(PAIR, {"a": [0.52, 0.72, 0.91], "b": [0.5, 0.7, 0.89]}) == "holds"
    assert outcome(PAIR, {"a": [0.72, 0.52, 0.91], "b": [0.5, 0.7, 0.89]}) == "not shown"


def test_one_seed_of_a_line_decides_nothing_beside_several():
    (verdict,) = judged(ORDER, {"a": [0.9, 0.92, 0.91], "b": [0.7, 0.73, 0.7], "c": [0.1]})
    assert (verdict.outcome, verdict.why) == ("holds in part", "a − c: one seed, b − c: one seed")
    assert verdict.seeds == 3


def test_never_bounds_a_difference_from_one_side_alone():
    alike = Claim("alike", measure="seconds", alike=5.0, lines=("a", "b"))
    assert outcome(alike, {"a": [90.0, 90.0], "b": [None, None]}, ends={"b": 80.0}) == "not shown"
    assert outcome(alike, {"a": [10.0, 10.0], "b": [None, None]}) == "does not hold"
    assert outcome(alike, {"a": [None, None], "b": [None, None]}) == "not shown"
    assert outcome(LESS, {"base": [None, None], "a": [60.0, 60.0]}) == "not shown"  # 40 % at least
    assert outcome(LESS, {"base": [100.0, 100.0], "a": [None, None]}, ends={"a": 30.0}) == "not shown"
    assert outcome(LESS, {"base": [100.0, 100.0], "a": [None, None]}, ends={"a": 90.0}) == "does not hold"
    late = Claim("late", measure="seconds", above=200.0, lines=("a", "b"))
    assert outcome(late, {"a": [None, None], "b": [250.0, 250.0]}) == "holds in part"


def test_an_end_is_that_of_the_seeds_own_run():
    order = Claim("a before b", measure="seconds", order=(("a",), ("b",)))
    (verdict,) = judged(order, {"a": [50.0, 50.0], "b": [None, None]}, ends={"b": [40.0, 400.0]})
    assert verdict.comparisons[0].difference.mean == (0 + 50 - 400) / 2


def test_what_never_arrives_says_little_where_nobody_does_or_all_are_at_chance():
    never = Claim("b never does", measure="rounds", never=True, lines=("b",))
    (cut,) = judged(never, {"a": [3.0, 3.0], "b": [None, None]})
    assert (cut.outcome, cut.why) == ("holds", "within the run")  # it may learn, and come later
    (nobody,) = judged(never, {"a": [None, None], "b": [None, None]})
    assert (nobody.outcome, nobody.why) == ("not shown", "nobody gets there")
    (guessing,) = judged(never, {"a": [3.0, 3.0], "b": [None, None]}, chance=0.1)
    assert (guessing.outcome, guessing.why) == ("holds", "at chance, 10 %")


def test_that_central_training_gets_there_does_not_make_others_fail():
    never = Claim("b never does", measure="rounds", never=True, lines=("b",))
    (nobody,) = judged(never, {"a": [None, None], "b": [None, None], "central": [3.0, 3.0]})
    assert (nobody.outcome, nobody.why) == ("not shown", "nobody gets there")


def test_a_line_is_at_chance_only_if_it_is_in_every_seed():
    values = {"a": [0.102, 0.1, 0.101], "b": [0.1, 0.098, 0.099]}
    assert outcome(PAIR, values, chance=0.1) == "at chance"
    # One seed learns: its mean is far above chance, though its interval is too wide to leave chance out.
    assert outcome(PAIR, {**values, "a": [0.385, 0.107, 0.101]}, chance=0.1) == "not shown"


def test_where_all_are_at_chance_it_does_not_matter_which_is_ahead():
    (verdict,) = judged(PAIR, {"a": [0.1, 0.1, 0.1], "b": [0.1085, 0.1085, 0.1085]}, chance=0.1)
    assert (verdict.outcome, verdict.why) == ("at chance", "chance is 10 %")
    learns = {"a": [0.1, 0.1, 0.1], "b": [0.115, 0.115, 0.115]}
    assert outcome(PAIR, learns, chance=0.1) == "does not hold"
    gap = Claim("closer and closer", gap=("a", "b"))
    guesses = {"a": [0.1, 0.1], "b": [0.102, 0.103]}
    (verdict,) = judged(gap, guesses, chance=0.1, q={"a": [0.1, 0.1], "b": [0.107, 0.108]})
    assert (verdict.outcome, verdict.why) == ("at chance", "chance is 10 %")


def test_two_lines_at_chance_are_level_beside_one_that_learns():
    values = {"a": [0.7, 0.7, 0.7], "b": [0.095, 0.095, 0.096], "c": [0.102, 0.102, 0.103]}
    (verdict,) = judged(ORDER, values, chance=0.1)
    assert (verdict.outcome, verdict.why) == ("holds in part", "b level with c (both at chance)")
    (verdict,) = judged(ORDER, {name: found[:1] for name, found in values.items()}, chance=0.1)
    assert (verdict.outcome, verdict.why) == ("holds in part", "b level with c (both at chance)")
    assert outcome(ORDER, {**values, "c": [0.102, 0.102, 0.15]}, chance=0.1) == "holds in part"
    assert outcome(ORDER, {**values, "c": [0.2, 0.2, 0.2]}, chance=0.1) == "does not hold"
    assert outcome(ORDER, values) == "does not hold", "nobody knows the chance"
    alike = Claim("all alike", measure="end", alike=0.03, lines=("a", "b", "c"))
    (verdict,) = judged(alike, {"a": [0.2, 0.2], "b": [0.1, 0.1], "c": [0.1, 0.1]}, chance=0.1)
    assert verdict.why == "a and b apart, a and c apart"
    assert [(c.level, c.because) for c in verdict.comparisons if not c.so] == [
        ("b and c undecided", "both at chance")
    ]


def test_of_those_who_never_arrive_it_is_said_which_are_at_chance():
    never = Claim("b and c never do", measure="rounds", never=True, lines=("b", "c"))
    values = {"a": [3.0, 3.0], "b": [None, None], "c": [None, None]}
    (verdict,) = judged(never, values, chance=0.1, at_end={"b": 0.4})
    assert (verdict.outcome, verdict.why) == ("holds", "within the run; c at chance, 10 %")
    (verdict,) = judged(never, values, chance=0.1, at_end={"b": 0.4, "c": 0.4})
    assert (verdict.outcome, verdict.why) == ("holds", "within the run")
    (verdict,) = judged(never, {**values, "b": [None, 3.0]}, chance=0.1, at_end={"b": 0.4})
    assert (verdict.outcome, verdict.why) == (
        "holds in part",
        "b gets there in 1 of 2 seeds; c at chance, 10 %",
    )
    (verdict,) = judged(never, {**values, "b": [3.0, 3.0]}, chance=0.1)
    assert (verdict.outcome, verdict.why) == ("does not hold", "b gets there")


def test_published_figures_stand_beside_what_the_paper_measured():
    values = {"a": [3.0, 3.0], "b": [4.0, 4.1]}
    told = {
        measure: judged(
            Claim("a before b", measure=measure, order=(("a",), ("b",))), values, published_by=("finished",)
        )[0].published
        for measure in ("finished", "total", "rounds")
    }
    assert told == {"finished": "a 3", "total": "", "rounds": ""}
    own = Claim("more", measure="memory", order=(("a",), ("b",)), published="about 200 % more")
    (verdict,) = judged(own, values)
    assert (verdict.outcome, verdict.published) == ("holds", "about 200 % more")
    assert verdict.detail == "a 3.00, b 4.05 (35 % more)"


def test_a_loss_is_told_in_points():
    lost = Claim("a loses", measure="drop", above=0.0, lines=("a",))
    (verdict,) = judged(lost, {"a": [0.82, 0.822]})
    assert (verdict.outcome, verdict.detail) == ("holds", "a 82.1 points")
    (verdict,) = judged(lost, {"a": [3.0, 3.1]}, metric="perplexity")
    assert verdict.detail == "a 3.0"


def test_two_perplexities_that_have_diverged_are_level_by_however_much():
    """Three seeds of 1e30 beside 1e31: losses are capped, and not even the size says anything."""
    end = Claim("a ends better than b", measure="end", order=(("a",), ("b",)))
    gone = {"a": [1e30, 2e30, 1e30], "b": [1e31, 3e31, 1e31]}
    (verdict,) = judged(end, gone, metric="perplexity")
    assert (verdict.outcome, verdict.why) == ("not shown", "a level with b (both diverged)")
    # One seed that says something is one seed of three: 0 in the others.
    (verdict,) = judged(end, {"a": [12.0, 1e30, 1e30], "b": [24.0, 3e31, 1e31]}, metric="perplexity")
    assert (verdict.outcome, verdict.why) == ("not shown", "a level with b")
    assert verdict.comparisons[0].difference.mean == pytest.approx(-math.log(2) / 3)
    alike = Claim("alike", measure="end", alike=5.0, lines=("a", "b"))
    (verdict,) = judged(alike, gone, metric="perplexity")
    assert (verdict.outcome, verdict.why) == ("not shown", "a and b undecided (both diverged)")
    assert verdict.detail == "a diverged in 3 of 3 seeds, b diverged in 3 of 3 seeds"
    assert outcome(alike, {"a": [12.0, 12.0, 1e30], "b": [12.0, 12.0, 1e31]}, metric="perplexity") == (
        "not shown"
    ), "nobody knows whether they are alike in the third"
    gap = Claim("closer and closer", measure="end", gap=("a", "b"))
    (verdict,) = judged(gap, gone, metric="perplexity", q={"a": [12.0] * 3, "b": [24.0] * 3})
    assert (verdict.outcome, verdict.why) == ("not shown", "p and q: no seed has a gap in both")


def test_lines_that_share_no_seed_are_not_called_level():
    (verdict,) = judged(PAIR, {"a": [0.9, 0.9], "b": [0.5, 0.5]}, seeds={"b": (5, 6)})
    assert (verdict.outcome, verdict.why) == ("not shown", "a and b: no seed in common")
    alike = Claim("alike", alike=0.05, lines=("a", "b"))
    (verdict,) = judged(alike, {"a": [0.9, 0.9], "b": [0.9, 0.9]}, seeds={"b": (5, 6)})
    assert verdict.why == "a and b: no seed in common"
    less = {"base": [80.0, 90.0], "a": [30.0, 30.0]}
    (verdict,) = judged(LESS, less, seeds={"a": (5, 6)})
    assert verdict.why == "a and base: no seed in common"
    ids = Claim("a before b", measure="ids", order=(("a",), ("b",)))
    (verdict,) = judged(ids, {"a": [1.0, 1.0], "b": [None, None]})
    assert verdict.why == "a and b: not measured"


def test_a_change_of_perplexity_may_be_below_0():
    rise = Claim("a rises less than b", measure="rise", order=(("a",), ("b",)))
    assert outcome(rise, {"a": [-5.0, -5.1], "b": [2.0, 2.1]}, metric="perplexity") == "holds"


def test_a_difference_that_is_rounding_is_level():
    assert outcome(PAIR, {"a": [0.1 + 0.2] * 3, "b": [0.3] * 3}) == "not shown"
    assert Interval.of([1e-15] * 3) == Interval(0.0, 0.0, 0.0, 3)
    assert Interval.of([1e-15]).sign == 0
    assert Interval.of([0.1 + 0.2, 0.3, 0.3]) == Interval(pytest.approx(0.3), *[pytest.approx(0.3)] * 2, 3)
    assert Interval.of([-1.0] * 3).sign == -1


def test_who_does_not_arrive_is_said_to_have_been_given_so_long():
    order = Claim("a before b", measure="total", order=(("a",), ("b",)))
    (verdict,) = judged(order, {"a": [50.0, 51.0], "b": [None, None]}, ends={"b": [279.06, 297.6]})
    assert verdict.detail == "a 50.5, b not by 279 to 298 s"
    after = Claim("a before b", measure="seconds", order=(("a",), ("b",)))
    (verdict,) = judged(after, {"a": [50.0, 51.0], "b": [None, None]}, ends={"b": 160.0})
    assert verdict.detail == "a 50.5, b not in 160 s"


def test_what_speaks_against_a_claim_is_told_in_half_widths_beyond_its_bound():
    (order,) = judged(ORDER, {"a": [0.9, 0.92, 0.91], "b": [0.7, 0.73, 0.7], "c": [0.1, 0.1, 0.1]})
    assert [c.favour > 0 for c in order.comparisons] == [True, True, True]
    (falls,) = judged(
        Claim("a before b", measure="total", order=(("a",), ("b",))), {"a": [50.0, 52.0], "b": [40.0, 40.0]}
    )
    assert falls.comparisons[0].favour == pytest.approx(-11.0)
    alike = Claim("all alike", measure="end", alike=0.03, lines=("a", "b", "c"))
    (verdict,) = judged(alike, {"a": [0.8, 0.8], "b": [0.81, 0.81], "c": [0.84, 0.84]})
    assert [c.favour for c in verdict.comparisons] == pytest.approx([2.0, -1.0, 0.0])
    (less,) = judged(LESS, {"base": [100.0, 100.0], "a": [50.0, 50.0]})
    assert less.comparisons[0].favour == pytest.approx(5.0)


def test_one_seed_decides_nothing():
    (verdict,) = judged(PAIR, {"a": [0.9], "b": [0.7]})
    assert verdict.seeds == 1
    assert verdict.comparisons[0].difference == Interval(pytest.approx(20.0), None, None, 1)


def test_a_difference_is_never_made_larger_than_what_was_seen():
    order = Claim("a before b", measure="seconds", order=(("a",), ("b",)))
    seen = {"a": [50.0, 51.0], "b": [None, None]}
    (verdict,) = judged(order, seen, ends={"b": 80.0})
    assert verdict.comparisons[0].difference.mean == pytest.approx(50.5 - 80.0)
    # b was given less time than a took: nobody knows.
    assert outcome(order, {"a": [90.0, 91.0], "b": [None, None]}, ends={"b": 80.0}) == "not shown"
    assert outcome(order, {"a": [None, None], "b": [90.0, 91.0]}, ends={"a": 80.0}) == "not shown"
    assert outcome(order, {"a": [None, None], "b": [None, None]}, ends={"a": 80.0}) == "not shown"


def test_where_some_of_the_drawn_leavers_cases_arrive_the_seed_is_no_later_than_was_seen():
    """Nine of ten draws arrive in round 1, one not by round 100: a mean of 10.9 at least, not of 100."""
    order = Claim("a before b", measure="rounds", order=(("a",), ("b",)))
    seen, some = {"a": [50.0, 51.0], "b": [None, None]}, {"b": {0: 10.9, 1: 10.9}}
    assert outcome(order, seen) == "holds"
    (verdict,) = judged(order, seen, partly=some)
    assert (verdict.outcome, verdict.why) == ("not shown", "a level with b")
    assert verdict.detail == "a 50.5, b not for all leavers in 100 rounds"
    (verdict,) = judged(order, {"a": [5.0, 5.0], "b": [None, None]}, partly=some)
    assert verdict.comparisons[0].difference.mean == pytest.approx(5 - 10.9)
    never = Claim("b never does", measure="rounds", never=True, lines=("b",))
    (verdict,) = judged(never, seen, partly=some)
    assert (verdict.outcome, verdict.why) == (
        "not shown",
        "b gets there in 0 of 2 seeds and for some of the leavers in 2",
    )
    (verdict,) = judged(order, {"a": [None, None], "b": [None, None]}, partly=some)
    assert verdict.why == "a level with b", "somebody gets there"


def test_who_never_arrives_counts_as_arriving_at_the_end_of_its_run():
    claim = Claim("a, then b and c", measure="rounds", order=(("a",), ("b", "c")))
    (held,) = judged(claim, {"a": [3.0, 4.0, 4.0], "b": [None, None, None], "c": [90.0, None, None]})
    assert held.outcome == "holds"
    assert held.detail == "a 3.7, b not in 100 rounds, c 90.0 (in 1 of 3 seeds)"
    assert held.published == "a 3"
    (other,) = judged(claim, {"a": [3.0], "b": [4.0], "c": [5.0]}, published_for="to 60 %")
    assert other.published == "a 3 (to 60 %)"
    assert held.comparisons[0].difference.mean == pytest.approx(3.67 - END, abs=0.01)
    (not_held,) = judged(claim, {"a": [None, None], "b": [3.0, 3.0], "c": [None, None]})
    assert (not_held.outcome, not_held.why) == ("does not hold", "b before a")
    (nobody,) = judged(claim, {"a": [None, None], "b": [None, None], "c": [None, None]})
    assert (nobody.outcome, nobody.why) == ("not shown", "nobody gets there")


def test_who_had_too_few_reports_for_the_stopping_rule_counts_as_meeting_it_with_the_other():
    """b never meets it: in 80 s, of which the first seed's had no five reports."""
    order = Claim("a before b", measure="stopped", order=(("a",), ("b",)))
    seen = {"a": [50.0, 51.0, 49.0], "b": [None, None, None]}
    assert outcome(order, seen, ends={"b": 80.0}) == "holds"
    (verdict,) = judged(order, seen, ends={"b": 80.0}, brief={"b": (0, 2)})
    assert (verdict.outcome, verdict.why) == ("not shown", "a level with b (too few reports: b)")
    assert verdict.comparisons[0].difference.mean == pytest.approx((0 + (51 - 80) + 0) / 3)
    assert verdict.detail == "a 50.0, b not in 80 s"
    other = Claim("a before b", measure="seconds", order=(("a",), ("b",)))
    assert outcome(other, seen, ends={"b": 80.0}, brief={"b": (0, 2)}) == "holds"


def test_where_all_are_at_chance_there_is_nothing_to_judge():
    values = {"a": [0.102, 0.1, 0.101], "b": [0.1, 0.098, 0.099]}
    (verdict,) = judged(PAIR, values, chance=0.1)
    assert (verdict.outcome, verdict.why) == ("at chance", "chance is 10 %")
    assert outcome(PAIR, values) == "holds"  # of what nobody knows the chance
    assert outcome(PAIR, {"a": [0.9, 0.91], "b": [0.1, 0.11]}, chance=0.1) == "holds"


LESS = Claim("at least 45 % less", measure="seconds", less=0.45, lines=("a",), than="base")


def test_less_is_a_share_of_what_the_other_takes():
    (saved,) = judged(LESS, {"base": [80.0, 90.0, 85.0], "a": [30.0, 30.2, 31.0]})
    assert (saved.outcome, saved.detail) == ("holds", "base 85.0, a 30.4")
    assert saved.comparisons[0].difference.mean == pytest.approx(64.2, abs=0.1)
    assert outcome(LESS, {"base": [100.0, 100.0], "a": [55.0, 55.0]}) == "holds"  # just so
    assert outcome(LESS, {"base": [100.0, 100.0], "a": [52.0, 60.0]}) == "not shown"
    assert outcome(LESS, {"base": [50.0, 50.0], "a": [56.0, 55.0]}) == "does not hold"
    assert outcome(LESS, {"base": [None, None], "a": [30.0, 30.0]}) == "holds"  # of the whole run
    assert outcome(LESS, {"base": [90.0, 90.0], "a": [None, None]}) == "does not hold"
    assert outcome(LESS, {"base": [0.0, 0.0], "a": [0.0, 0.0]}) == "does not hold"  # nothing to save
    assert outcome(LESS, {"base": [90.0, 90.0], "a": [20.0, None]}) == "not shown"
    assert judged(LESS, {"a": [1.0]}) == []


def test_below_is_a_bound_that_each_line_stays_under():
    below = Claim("below 0.35", measure="f1_after", below=0.35, lines=("a", "b"))
    (held,) = judged(below, {"a": [0.30, 0.31, 0.30], "b": [0.2, 0.21, 0.2]})
    assert (held.outcome, held.comparisons[0].what) == ("holds", "0.35 − a")
    (wrong,) = judged(below, {"a": [0.30, 0.31, 0.30], "b": [0.6, 0.61, 0.6]})
    assert (wrong.outcome, wrong.why) == ("does not hold", "b above 0.35")
    assert outcome(below, {"a": [0.30, 0.31, 0.30], "b": [0.2, 0.5, 0.3]}) == "holds in part"
    soon = Claim("soon", measure="seconds", below=50.0, lines=("a",))
    assert outcome(soon, {"a": [40.0, 41.0, 40.0]}) == "holds"
    assert outcome(soon, {"a": [40.0, None, None]}, ends={"a": 45.0}) == "not shown"
    assert outcome(soon, {"a": [90.0, None, None]}, ends={"a": 95.0}) == "does not hold"


def test_a_bound_may_be_below_0():
    joins = Claim("hardly falls", measure="join_rise", above=-0.01, lines=("a",))
    (held,) = judged(joins, {"a": [0.0, 0.001, -0.002]})
    assert (held.outcome, held.comparisons[0].what) == ("holds", "a − (−1)")
    (wrong,) = judged(joins, {"a": [-0.2, -0.21, -0.2]})
    assert (wrong.outcome, wrong.why) == ("does not hold", "a below −1")
    assert wrong.detail == "a −20.3"


def test_of_who_could_not_meet_the_rule_no_bound_is_shown():
    """Too few reports for KNOT's stopping rule: when it would have been met, nobody knows."""
    seen, brief = {"base": [None] * 3, "a": [20.0, 21.0, 20.0]}, {"base": (0, 1, 2)}
    saves = Claim("saves", measure="stopped", less=0.45, lines=("a",), than="base")
    assert outcome(saves, seen) == "holds"
    (verdict,) = judged(saves, seen, brief=brief)
    assert (verdict.outcome, verdict.why) == ("not shown", "a undecided (too few reports: base)")
    for bound in ({"above": 50.0}, {"below": 500.0}):
        assert (
            outcome(Claim("x", measure="stopped", lines=("base",), **bound), seen, brief=brief) == "not shown"
        )


def test_a_difference_of_some_of_the_seeds_says_so():
    (verdict,) = judged(PAIR, {"a": [0.9, 0.91, 0.9], "b": [0.7, 0.71, None]})
    assert [c.what for c in verdict.comparisons] == ["a − b (2 of 3 seeds)"]
    (verdict,) = judged(PAIR, {"a": [0.9, 0.91, 0.9], "b": [0.7, 0.71, 0.7]})
    assert [c.what for c in verdict.comparisons] == ["a − b"]


def test_a_verdict_says_what_was_measured_and_whose_claim_it_is():
    (verdict,) = judged(
        Claim("x", measure="end", order=(("a",), ("b",)), ours=True), {"a": [0.9], "b": [0.8]}
    )
    assert (verdict.ours, verdict.by) == (True, "accuracy at the end of a phase after a client has left")
    claim = Claim("x", measure="end", order=(("a",), ("b",)))
    (verdict,) = judged(claim, {"a": [9.0], "b": [8.0]}, metric="perplexity")
    assert (verdict.ours, verdict.by) == (False, "perplexity at the end of a phase after a client has left")


def test_what_is_contrary_is_told_in_the_words_of_the_measure():
    def contrary(measure):
        claim = Claim("x", measure=measure, order=(("a",), ("b",)))
        better = measure in ("end", "speedup")
        return judged(claim, {"a": [2.0, 2.1][::1], "b": [3.0, 3.1] if better else [1.0, 1.1]})[0].why

    assert contrary("end") == "b better than a"
    assert contrary("seconds") == "b before a"
    assert contrary("memory") == "b takes less than a"


def test_time_is_better_when_it_is_less_and_so_is_perplexity():
    order = Claim("a before b", measure="total", order=(("a",), ("b",)))
    assert outcome(order, {"a": [17.0, 18.0], "b": [20.8, 21.8]}) == "holds"
    assert outcome(order, {"a": [17.0, 18.0], "b": [13.0, 14.0]}) == "does not hold"
    end = Claim("a ends better than b", measure="end", order=(("a",), ("b",)))
    assert outcome(end, {"a": [80.0, 81.0], "b": [95.5, 96.5]}, metric="perplexity") == "holds"
    assert outcome(end, {"a": [0.5, 0.5], "b": [0.8, 0.8]}) == "does not hold"


def test_a_perplexity_that_has_diverged_does_not_drown_the_difference():
    end = Claim("a ends better than b", measure="end", order=(("a",), ("b",)))
    (verdict,) = judged(end, {"a": [11.9, 12.0, 11.8], "b": [1e10, 5e11, 9e10]}, metric="perplexity")
    assert (verdict.outcome, verdict.detail) == ("holds", "a 11.9, b 2e+11")
    (verdict,) = judged(end, {"a": [11.9, 12.0, 11.8], "b": [23.0, 2e43, 24.0]}, metric="perplexity")
    assert verdict.detail == "a 11.9, b diverged in 1 of 3 seeds"
    assert verdict.comparisons[0].what == "a − b in log perplexity"


def test_a_bound_is_passed_by_more_than_the_spread():
    faster = Claim("a is twice as fast", measure="speedup", above=2.0, lines=("a",))
    (verdict,) = judged(faster, {"a": [2.5, 2.51]})
    assert (verdict.outcome, verdict.detail) == ("holds", "a 2.50 ×")
    assert outcome(faster, {"a": [2.5, 1.9]}) == "not shown"
    assert outcome(faster, {"a": [None, None]}) == "does not hold"
    high = Claim("a is above 45 %", measure="end", above=0.45, lines=("a",))
    assert outcome(high, {"a": [0.5, 0.501]}) == "holds"
    assert outcome(high, {"a": [0.4, 0.401]}) == "does not hold"


def test_never_is_said_of_every_seed():
    never = Claim("a never keeps it", measure="kept", never=True, lines=("a", "b"))
    assert outcome(never, {"a": [None, None], "b": [None, None], "c": [3.0, 3.0]}) == "holds"
    (some,) = judged(never, {"a": [None, None], "b": [None, 3.0]})
    assert (some.outcome, some.why) == ("holds in part", "b gets there in 1 of 2 seeds")
    (all_,) = judged(never, {"a": [None, None], "b": [3.0, 3.0]})
    assert (all_.outcome, all_.why) == ("does not hold", "b gets there")


def test_one_seed_of_a_line_does_not_show_that_it_never_arrives_beside_several():
    never = Claim("never", measure="rounds", never=True, lines=("a", "b"))
    three = {"b": [None, None, None], "c": [3.0, 3.0, 3.0]}
    (verdict,) = judged(never, {"a": [None], **three})
    assert (verdict.outcome, verdict.why) == ("holds in part", "a never: one seed")
    (verdict,) = judged(never, {"a": [3.0], **three})
    assert (verdict.outcome, verdict.why) == ("holds in part", "a never: one seed")
    assert outcome(never, {"a": [None], "b": [None], "c": [3.0]}) == "holds"


def test_alike_is_within_the_bound_and_not_merely_undecided():
    alike = Claim("all alike", measure="end", alike=0.03, lines=("a", "b", "c"))
    near = {"a": [0.80, 0.81, 0.80], "b": [0.81, 0.82, 0.81]}
    assert outcome(alike, {**near, "c": [0.80, 0.80, 0.80]}) == "holds"
    (wide,) = judged(alike, {**near, "c": [0.60, 0.99, 0.80]})
    assert (wide.outcome, wide.why) == ("holds in part", "a and c undecided, b and c undecided")
    assert outcome(alike, {**near, "c": [0.60, 0.61, 0.60]}) == "does not hold"


def test_a_gap_shrinks_from_panel_to_panel():
    claim = Claim("closer and closer", gap=("a", "b"))
    wide, close = {"a": [0.9, 0.91], "b": [0.5, 0.51]}, {"a": [0.9, 0.91], "b": [0.8, 0.81]}
    (shrinks,) = judged(claim, wide, q=close)
    assert (shrinks.outcome, shrinks.detail) == ("holds", "p +40.0, q +10.0")
    (grows,) = judged(claim, close, q=wide)
    assert (grows.outcome, grows.why) == ("does not hold", "wider in q than in p")
    assert judged(claim, wide) == []


def test_a_panel_that_does_without_a_side_of_a_comparison_has_no_verdict():
    assert judged(PAIR, {"a": [0.9, 0.9]}, without=("b",)) == []
    three = {"a": [0.9, 0.9], "b": [0.5, 0.5]}
    assert outcome(ORDER, three, without=("c",)) == "holds"


@pytest.mark.parametrize(
    "measure", [f"{figure}_{of}" for figure in ("f1", "auc", "tpr") for of in ("before", "after", "control")]
)
def test_a_model_is_better_when_an_attack_does_worse_on_it(measure):
    order = Claim("a shows less than b", measure=measure, order=(("a",), ("b",)))
    assert outcome(order, {"a": [0.25, 0.26], "b": [0.5, 0.5]}) == "holds"
    assert outcome(order, {"a": [0.6, 0.6], "b": [0.5, 0.5]}) == "does not hold"
    high = Claim("a shows much", measure=measure, above=0.5, lines=("a",))
    assert [outcome(high, {"a": [v, v]}) for v in (0.6, 0.4)] == ["holds", "does not hold"]


@pytest.mark.parametrize(
    ("measure", "better", "worse"),
    [
        *((name, 0.0, 1.0) for name in ("sees", "flagged", "over_forgotten")),
        *((name, 0.6, 0.05) for name in ("p_before", "p_after")),
        ("f1_fall", 0.5, 0.2),
    ],
)
def test_which_way_is_better_is_known_of_every_measure(measure, better, worse):
    order = Claim("a before b", measure=measure, order=(("a",), ("b",)))
    assert outcome(order, {"a": [better] * 2, "b": [worse] * 2}) == "holds"
    assert outcome(order, {"a": [worse] * 2, "b": [better] * 2}) == "does not hold"


def test_intervals_are_students_and_wilsons():
    stats = pytest.importorskip("scipy.stats")
    for values in ([1.0, 2.0], [1.0, 2.0, 4.0], [0.1 * i**1.5 for i in range(12)], list(range(60))):
        low, high = stats.t.interval(0.95, len(values) - 1, sum(values) / len(values), stats.sem(values))
        found = Interval.of([float(value) for value in values])
        assert (found.low, found.high) == (pytest.approx(low, rel=2e-3), pytest.approx(high, rel=2e-3))
    for freedom in range(1, 200):
        assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=6e-4)
        if freedom > 30:  # beyond the table
            assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=2e-5)
    exact = stats.binomtest(97, 100).proportion_ci(method="wilson")
    assert share(97, 100) == (pytest.approx(exact.low, abs=1e-4), pytest.approx(exact.high, abs=1e-4))


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
        ({"order": (("a",),)}, "a line before another one"),
        ({"order": (("a", "b"),)}, "a line before another one"),
        ({"order": (("a",), ("b", "a"))}, "each once"),
        ({"alike": -1.0, "lines": ("a", "b")}, "0 or above, not -1 of 2"),
        ({"alike": 1.0, "lines": ("a",)}, "two lines or more"),
        ({"less": 45.0, "lines": ("a",), "than": "b"}, "a share, above 0 and at most 1"),
        ({"less": 0.0, "lines": ("a",), "than": "b"}, "a share, above 0 and at most 1"),
    ],
)
def test_a_claim_that_cannot_be_put_to_the_question(options, message):
    with pytest.raises(ConfigError, match=message):
        Claim("it says", **{"measure": "seconds", **options})


def test_how_far_an_f1_falls_is_judged_where_it_was_measured():
    claim = Claim("falls by 45 %", measure="f1_fall", above=0.45, lines=("a", "b"))
    (held,) = judged(claim, {"a": [0.5, 0.5], "b": [0.6, 0.6], "c": [None, None]})
    assert (held.outcome, held.detail) == ("holds", "a falls by 50 %, b falls by 60 %")
    assert judged(claim, {"a": [0.5], "b": [None]}) == []  # a run without an audit


def test_an_f1_that_rises_does_not_fall_by_less_than_nothing():
    claim = Claim("falls by 45 %", measure="f1_fall", above=0.45, lines=("a", "b"))
    (found,) = judged(claim, {"a": [-0.04, -0.06], "b": [0.02, 0.04]})
    assert found.detail == "a rises by 5 %, b falls by 3 %"


def test_what_is_lost_by_a_removal_has_a_minus_not_a_hyphen():
    (found,) = judged(
        Claim("rises", measure="rise", above=0.0, lines=("a", "b")), {"a": [-0.003], "b": [0.02]}
    )
    assert found.detail == "a −0.3, b +2.0"


def compared(so, level, what="x − y", word="level"):
    return Comparison(what, None, so, contrary=f"contrary of {what}", level=level, word=word)


def test_of_many_that_are_level_it_is_said_how_many_and_which_are_not():
    level = [compared(0, f"a level with {name}") for name in "bcde"]
    assert why(PARTLY, level[:3]) == "a level with b, a level with c, a level with d"
    assert why(LEVEL, level) == "all 4 comparisons level"
    one = compared(1, "", "a − f")
    assert why(PARTLY, [*level, one]) == "4 of 5 comparisons level, all but a − f"
    assert why(PARTLY, [*level, *[one] * 4]) == "4 of 8 comparisons level"
    undecided = [compared(0, f"a and {name} undecided", word="undecided") for name in "bcde"]
    assert why(LEVEL, undecided) == "all 4 comparisons undecided"
    gone = [compared(0, f"{name} gets there in 2 of 5 seeds", word="") for name in "abcd"]
    assert why(LEVEL, gone) == ", ".join(c.level for c in gone), "what each did is not to be counted"


def test_why_they_are_level_is_said_all_the_same_and_what_is_contrary_is_named_in_full():
    level = [compared(0, f"a level with {name}") for name in "bc"]
    brief = [replace(compared(0, f"{name} level with e"), because="too few reports: e") for name in "ab"]
    assert why(LEVEL, brief) == "a level with e (too few reports: e), b level with e (too few reports: e)"
    assert why(LEVEL, [*level, *brief]) == "all 4 comparisons level; too few reports: e in 2"
    blind = [compared(0, f"a level with {name}").blind() for name in "fg"]
    assert why(LEVEL, [*level, *blind]) == "all 4 comparisons level; both at chance in 2"
    contrary = [compared(-1, "", f"{name} − z") for name in "abcde"]
    assert why(FAILS, [*level, *contrary]) == ", ".join(c.contrary for c in contrary)
