"""A paper's claims at a glance: a row a claim, whatever the number of places that it was looked at in."""

from typing import Any

from unknot.report.verdicts import glance_rows, glance_table


def claim(says: str, panel: str, outcome: str, seeds: int = 5, **others: Any) -> dict[str, Any]:
    return {"says": says, "panel": panel, "outcome": outcome, "seeds": seeds, "earlier": False, **others}


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
