"""What became of a paper's claims: in one line, in a page's table, and at a glance over all figures."""

from typing import Any

import pytest
from reproduction_findings import FOUND, compared

from unknot.report.verdicts import differences, glance_rows, glance_table, verdict, verdict_rows


def claim(says: str, panel: str, outcome: str, seeds: int = 5, **others: Any) -> dict[str, Any]:
    plain = {"earlier": False, "ours": False, "by": ""}
    return {"says": says, "panel": panel, "outcome": outcome, "seeds": seeds, **plain, **others}


def page(*verdicts: dict[str, Any], figure: str = "Figure 1") -> dict[str, Any]:
    return {"figure": figure, "verdicts": list(verdicts)}


def test_a_claim_has_one_row_with_the_places_of_each_verdict():
    shown = page(
        claim("A before B", "MNIST", "does not hold"),
        claim("B before C", "MNIST", "holds"),
        claim("A before B", "CIFAR-10", "holds"),
        claim("A before B", "text", "holds"),
    )
    header, rows = glance_rows([(shown, "one.md")])
    assert header == ["claim", "verdict"]
    assert rows == [
        ["[Figure 1](one.md): A before B", "**holds**: CIFAR-10 · text; **does not hold**: MNIST"],
        ["[Figure 1](one.md): B before C", "**holds**: MNIST"],
    ]


def test_verdicts_come_in_the_order_of_how_much_they_agree_and_single_seeds_last():
    told = [
        ("one", "holds", 1),
        ("chance", "at chance", 1),
        ("fails", "does not hold", 3),
        ("level", "not shown", 3),
        ("part", "holds in part", 3),
        ("so", "holds", 3),
    ]
    shown = page(*(claim("A before B", name, outcome, seeds) for name, outcome, seeds in told))
    ((_, text),) = glance_rows([(shown, "one.md")])[1]
    assert text == (
        "**holds**: so; **holds in part**: part; **not shown**: level; **at chance**: chance; "
        "**does not hold**: fails; **one seed, as published**: one"
    )


def test_runs_of_an_earlier_configuration_are_named_as_such():
    shown = page(claim("A before B", "MNIST", "holds"), claim("A before B", "text", "holds", earlier=True))
    assert "**earlier configuration, holds**: text" in glance_table([(shown, "one.md")])


def test_the_same_claim_of_two_figures_has_a_row_for_each():
    pages = [(page(claim("A before B", "MNIST", "holds"), figure=f"Figure {n}"), f"{n}.md") for n in (1, 2)]
    assert len(glance_rows(pages)[1]) == 2


def test_what_the_papers_text_does_not_say_is_marked_as_ours():
    shown = page(claim("A before B", "MNIST", "holds", ours=True), claim("B before C", "MNIST", "holds"))
    assert [row[0] for row in glance_rows([(shown, "one.md")])[1]] == [
        "[Figure 1](one.md): A before B (ours)",
        "[Figure 1](one.md): B before C",
    ]


def test_a_claim_stands_in_its_first_row_with_what_was_measured():
    item = {**FOUND["verdicts"][0], "ours": True, "by": "mean accuracy"}
    rows = verdict_rows([item, {**item, "panel": "more"}, {**item, "says": "BMT, too", "ours": False}])[1]
    assert [row[:2] for row in rows] == [
        ["MMT does better than RFS (ours) – *mean accuracy*", "digits"],
        ["", "more"],
        ["BMT, too – *mean accuracy*", "digits"],
    ]


@pytest.mark.parametrize(
    ("seeds", "outcome", "why", "words"),
    [
        (3, "holds", "", "holds"),
        (3, "holds in part", "a level with b", "holds in part: a level with b"),
        (3, "does not hold", "b before a", "does not hold: b before a"),
        (1, "holds", "", "one seed, as published"),
        (1, "does not hold", "b before a", "one seed, not as published: b before a"),
        (1, "not shown", "a level with b", "one seed, not shown: a level with b"),
        (0, "not shown", "p and q: no seed in common", "not shown: p and q: no seed in common"),
        (1, "holds in part", "a level with b", "one seed, in part as published: a level with b"),
        (1, "at chance", "chance is 10 %", "at chance: chance is 10 %"),
    ],
)
def test_a_verdict_is_one_line(seeds, outcome, why, words):
    found = {"outcome": outcome, "why": why, "seeds": seeds}
    assert verdict({**found, "earlier": False}) == words
    assert verdict({**found, "earlier": True}) == f"earlier configuration, {words}"


def test_the_least_clear_differences_stand_beside_a_verdict():
    several = [compared(f"a − {i}", 10.0 * i, 10.0 * i - 5, 10.0 * i + 5, 1) for i in range(1, 6)]
    reversed_ = compared("a − z", -8.0, -9.0, -7.0, -1)
    told = differences({"seeds": 3, "comparisons": [*several, reversed_]})
    assert told == "a − z −8.0 [−9.0, −7.0]; a − 1 +10.0 [+5.0, +15.0]; a − 2 +20.0 [+15.0, +25.0]; " + (
        "a − 3 +30.0 [+25.0, +35.0]"
    )
    tie, close = compared("a − b", 0.0, 0.0, 0.0, 0), compared("a − c", 0.5, 0.04, 0.96, 1)
    told = differences({"seeds": 3, "comparisons": [close, tie]})
    assert told == "a − b 0 in every seed; a − c +0.50 [+0.04, +0.96]"
    # Of lines said to be alike, within 3: the one nearest to the bound, not the one nearest to 0.
    near, far = compared("a − b", -0.2, -1.7, 1.3, 1, 2.8), compared("a − c", 2.0, -10.0, 14.0, 0, 1.0)
    assert differences({"seeds": 3, "comparisons": [near, far]}, 1) == "a − c +2.0 [−10.0, +14.0]"
    level, against = compared("a − b", 5.0, -5.0, 15.0, 0), compared("a − c", -4.0, -9.0, 1.0, 0)
    assert differences({"seeds": 3, "comparisons": [level, against]}, 1) == "a − c −4.0 [−9.0, +1.0]"
    assert differences({"seeds": 1, "comparisons": several}) == ""
    gone = compared("a − b", 9e30, -4e30, 2e31, 0)
    assert differences({"seeds": 3, "comparisons": [gone]}) == "a − b +9e+30 [−4e+30, +2e+31]"
    assert differences({"seeds": 3, "comparisons": [{**reversed_, "difference": None}]}) == ""


def test_a_difference_that_is_the_same_in_each_seed_may_be_the_least_clear():
    one, many = compared("a − b", -1.0, -1.0, -1.0, 1, 1.0), compared("b − c", -20.0, -22.5, -17.5, 1, 20.0)
    far = compared("a − c", -21.0, -21.0, -21.0, 1, 21.0)
    told = differences({"seeds": 3, "comparisons": [far, many, one]})
    assert told == "a − b −1.0 in every seed; b − c −20.0 [−22.5, −17.5]; a − c −21.0 in every seed"
    assert differences({"seeds": 3, "comparisons": [far, one]}, 1) == "a − b −1.0 in every seed"
    # The contrary is told before what is level, however far that is from being the claim's.
    wrong, level = compared("a − b", -1.0, -1.0, -1.0, -1), compared("a − c", -4.0, -9.0, 1.0, 0)
    assert differences({"seeds": 3, "comparisons": [level, wrong]}, 1) == "a − b −1.0 in every seed"


def test_published_figures_have_a_column_beside_a_verdict_where_there_are_any():
    item = FOUND["verdicts"][0]
    assert verdict_rows([item])[0] == ["claim", "where", "verdict", "figures", "differences"]
    header, rows = verdict_rows([item, {**item, "published": "about 200 % more", "seeds": 1}])
    assert header == ["claim", "where", "verdict", "published", "figures", "differences"]
    assert [row[3] for row in rows] == ["", "about 200 % more"]
