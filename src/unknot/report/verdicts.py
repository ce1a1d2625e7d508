"""What became of a paper's claims, over all of its figures: at a glance, and with the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence

from unknot.report.cells import NONE, Rows, Shown
from unknot.report.reproduction import differences, markdown_table, outcome, verdict

HEADER = ["claim", "where", "published", "ours", "verdict"]
ORDER = ("holds", "holds in part", "not shown", "at chance", "does not hold")
"""In which verdicts stand at a glance; those of one seed, or of an earlier configuration, come last."""


def glance_rows(pages: Sequence[tuple[Shown, str]]) -> tuple[list[str], Rows]:
    """A row a claim, of pages with the address of each: ``**holds**: MNIST · CIFAR-10``."""
    claims: dict[str, dict[str, list[str]]] = {}
    for findings, address in pages:
        for item in findings["verdicts"]:
            claim = claims.setdefault(f"[{findings['figure']}]({address}): {item['says']}", {})
            claim.setdefault(outcome(item), []).append(item["panel"])
    return ["claim", "verdict"], [[claim, _places(where)] for claim, where in claims.items()]


def _places(where: dict[str, list[str]]) -> str:
    def place(one: str) -> int:
        return ORDER.index(one) if one in ORDER else len(ORDER)

    return "; ".join(f"**{one}**: {' · '.join(where[one])}" for one in sorted(where, key=place))


def verdicts_rows(pages: Sequence[tuple[Shown, str]]) -> tuple[list[str], Rows]:
    """A row a claim and place, of pages with the address of each; the claim stands in its first row."""
    rows: Rows = []
    for findings, address in pages:
        last = None
        for item in findings["verdicts"]:
            link = f"[{findings['figure']}]({address})"
            says = "" if item["says"] == last else f"{link}: {item['says']}"
            last = item["says"]
            told = differences(item, 1)
            ours = f"{item['detail']} ({told})" if told else item["detail"]
            rows.append([says, item["panel"], item["published"] or NONE, ours, verdict(item)])
    return HEADER, rows


def glance_table(pages: Sequence[tuple[Shown, str]]) -> str:
    return "\n".join(markdown_table(*glance_rows(pages)))


def verdicts_table(pages: Sequence[tuple[Shown, str]]) -> str:
    return "\n".join(markdown_table(*verdicts_rows(pages)))
