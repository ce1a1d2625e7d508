"""What became of a paper's claims, over all of its figures: a table for the reader in a hurry."""

from __future__ import annotations

from collections.abc import Sequence

from unknot.report.cells import NONE, Rows, Shown
from unknot.report.reproduction import differences, markdown_table, verdict

HEADER = ["claim", "where", "published", "ours", "verdict"]


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


def verdicts_table(pages: Sequence[tuple[Shown, str]]) -> str:
    return "\n".join(markdown_table(*verdicts_rows(pages)))
