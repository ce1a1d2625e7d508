"""What became of a paper's claims: a page's table, and those over all figures."""

from __future__ import annotations

from collections.abc import Sequence

from unknot.report.cells import NONE, Rows, Shown, markdown_table

ALONE = {
    "holds": "as published",
    "holds in part": "in part as published",
    "does not hold": "not as published",
}
HUGE = 1e6
"""Differences whose digits say nothing: of perplexities that have diverged."""
FEW = 4
"""How many differences stand beside a verdict."""
RULE = (
    "*Verdicts* are by one rule. A claim is as many comparisons as it has pairs of lines (or lines and "
    "bounds); each is made seed by seed, and its mean difference has a 95 % interval (Student's t). A "
    "claim *holds* where every interval lies on the paper's side of 0, *does not hold* where one lies on "
    "the other, and in between *holds in part* or is *not shown*: what is level is named. Who never "
    "arrives counts as arriving when its own run ends, or with the other where that is later. Where no line "
    "is a point or more above what guessing gives, in any seed, a claim is *at chance*; two lines of it that "
    "are so are level. That lines are *alike* holds where every interval lies within the bound, and does not "
    "where one lies beyond it; of others that is *undecided*. Of one seed there is no interval, and nothing "
    "is decided."
)
OURS = " *(ours)*: the paper's text does not say it."
HEADER = ["claim", "where", "published", "ours", "verdict"]
ORDER = ("holds", "holds in part", "not shown", "at chance", "does not hold")
"""In which verdicts stand at a glance; those of one seed, or of an earlier configuration, come last."""


def rule(verdicts: Sequence[Shown]) -> str:
    """By what verdicts are reached, and what their words mean."""
    return f"{RULE}{OURS if any(item['ours'] for item in verdicts) else ''}"


def outcome(item: Shown) -> str:
    """``holds in part``; of one seed: whether it was as published there, or is not shown."""
    then = "earlier configuration, " if item["earlier"] else ""
    if item["seeds"] != 1 or item["outcome"] == "at chance":
        return f"{then}{item['outcome']}"
    return f"{then}one seed, {ALONE.get(item['outcome'], item['outcome'])}"


def verdict(item: Shown) -> str:
    """``holds in part: MMT level with BMT``."""
    return f"{outcome(item)}: {item['why']}" if item["why"] else outcome(item)


def told(item: Shown) -> str:
    """What was claimed, and whether the paper's text does not say it."""
    return f"{item['says']} (ours)" if item["ours"] else str(item["says"])


def measured(item: Shown) -> str:
    """The claim, and what was measured for it: ``MMT recovers fastest – mean accuracy over ...``."""
    return f"{told(item)} – *{item['by']}*" if item["by"] else told(item)


def differences(item: Shown, most: int = FEW) -> str:
    """``MMT − BMT +3.5 [−1.2, +8.2]``: a few comparisons, what speaks against the claim first.

    That is what is the contrary, then what is level; and then by how many half-widths of its interval a mean
    lies on the claim's side of 0, or of the bound. That a few seeds are all the same does not show how far
    others would be apart: an interval of no width counts as wide as the widest beside it.
    """

    def half(comparison: Shown) -> float:
        return float(comparison["difference"]["high"] - comparison["difference"]["low"]) / 2

    known = [c for c in item["comparisons"] if c["difference"] and c["difference"]["low"] is not None]
    if item["seeds"] < 2 or not known:
        return ""
    widest = max(map(half, known)) or 1.0
    few = sorted(known, key=lambda c: (c["so"], c["favour"] / (half(c) or widest)))[:most]
    return "; ".join(f"{c['what']} {_interval(c['difference'])}" for c in few)


def _interval(found: Shown) -> str:
    values = [found[name] for name in ("mean", "low", "high")]
    if not any(values):
        return "0 in every seed"
    digits = 2 if any(0 < abs(value) < 1 for value in values) else 1
    told = (f"{value:+.0e}" if abs(value) >= HUGE else f"{value:+.{digits}f}" for value in values)
    mean, low, high = (text.replace("-", "−") for text in told)
    return f"{mean} in every seed" if values[1] == values[2] else f"{mean} [{low}, {high}]"


def verdict_rows(verdicts: Sequence[Shown]) -> tuple[list[str], Rows]:
    """A row a claim and panel, the claim in its first; published figures where there are any."""
    columns = {
        "claim": [
            "" if i and verdicts[i - 1]["says"] == item["says"] else measured(item)
            for i, item in enumerate(verdicts)
        ],
        "where": [item["panel"] for item in verdicts],
        "verdict": [verdict(item) for item in verdicts],
        "published": [item["published"] for item in verdicts],
        "figures": [item["detail"] for item in verdicts],
        "differences": [differences(item) for item in verdicts],
    }
    always = ("claim", "where", "verdict", "figures")
    shown = {name: column for name, column in columns.items() if name in always or any(column)}
    return [*shown], [list(row) for row in zip(*shown.values(), strict=True)]


def glance_rows(pages: Sequence[tuple[Shown, str]]) -> tuple[list[str], Rows]:
    """A row a claim, of pages with the address of each: ``**holds**: MNIST · CIFAR-10``."""
    claims: dict[str, dict[str, list[str]]] = {}
    for findings, address in pages:
        for item in findings["verdicts"]:
            claim = claims.setdefault(f"[{findings['figure']}]({address}): {told(item)}", {})
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
            says = "" if item["says"] == last else f"{link}: {measured(item)}"
            last = item["says"]
            told = differences(item, 1)
            ours = f"{item['detail']} ({told})" if told else item["detail"]
            rows.append([says, item["panel"], item["published"] or NONE, ours, verdict(item)])
    return HEADER, rows


def glance_table(pages: Sequence[tuple[Shown, str]]) -> str:
    return "\n".join(markdown_table(*glance_rows(pages)))


def verdicts_table(pages: Sequence[tuple[Shown, str]]) -> str:
    return "\n".join(markdown_table(*verdicts_rows(pages)))
