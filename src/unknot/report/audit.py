"""An audit for people: one sentence first, then what was compared, then the figures."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from unknot.report.summary import share

Shown = Mapping[str, Any]
MODELS = ("kept", "served", "controls")
MEANING = {
    "served": "what the run serves after the erasure: the audit is about it",
    "controls": "the same run with other seeds, in which the erased data never was: what no trace looks like",
    "kept": "the same run with the erased data left in: what an audit would see if nothing were forgotten",
}
STYLES = {
    "still shows": "bold red",
    "over-forgotten": "bold red",
    "no trace found": "bold green",
    "no power": "bold yellow",
}
OUTCOME = "outcome"
BLIND = "no power"
"""Of an attack: what it does not find says nothing."""
CHANCE = math.log2(math.e)
"""Bits: the mean exposure of a secret that nobody wrote, among many."""
UNLIKE = 2.0
"""From here on it is said that the served model is unlike its controls altogether."""


def to_json(audit: Shown) -> str:
    return json.dumps(audit)


def sentence(audit: Shown) -> str:
    """What it comes to, for somebody who decides by it, without promising more than was shown."""
    risk = f"With a {percent(audit['level'])} risk of a false alarm, "
    outcome = audit["outcome"]
    if audit.get("same"):
        return (
            "What is served is, bit for bit, a model that was trained without the erased data: there is "
            "nothing of it to be found. This holds for this run, and no attack can say more."
            + _untested(audit)
        )
    if outcome == "no trace found":
        return (
            f"{risk}no trace was found{_tested(audit)}. {_sensitivity(audit)}This is evidence, not proof."
            f"{_untested(audit)}{_unlike(audit)}"
        )
    if outcome == "still shows":
        return (
            f"{risk}the erased data still shows: {_odds(audit)}, as models do that kept it."
            f"{_untested(audit)}{_unlike(audit)}"
        )
    if outcome == "over-forgotten":
        return (
            f"{risk}the erased data was over-forgotten: {_odds(audit)}, the other way than models that "
            "kept it. It knows less of this data than a model that never had it, and so tells whose was "
            "erased." + _untested(audit) + _unlike(audit)
        )
    return (
        "Nothing was shown: most models that kept the erased data cannot be told from models that never "
        "had it either. This is evidence neither of forgetting nor of the contrary."
    )


def _tested(audit: Shown) -> str:
    """By which attacks, where it was not by all of them."""
    able = [finding["attack"] for finding in audit["findings"] if finding["outcome"] != BLIND]
    return "" if len(able) == len(audit["findings"]) else f" by {listed(able)}"


def _untested(audit: Shown) -> str:
    """Which attacks could not have seen anything, so that nobody takes their silence for an answer."""
    blind = [finding["attack"] for finding in audit["findings"] if finding["outcome"] == BLIND]
    if not blind:
        return ""
    why = "most models that kept the erased data do not stand out"
    if len(blind) == len(audit["findings"]):
        return f" No attack had power here ({why} either): the verdict rests on the bits alone."
    says, them = ("says", "it") if len(blind) == 1 else ("say", "them")
    return f" {listed(blind)} had no power and {says} nothing: {why} by {them}."


def listed(names: Sequence[str]) -> str:
    """``a``; ``a and b``; ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _unlike(audit: Shown) -> str:
    """A caution where like is not compared with like."""
    if audit["unlike"] < UNLIKE:
        return ""
    return (
        " But it also answers samples that nobody learned from unlike any of these models, "
        f"{audit['unlike']:.1f} times as far off as they are: it may be another kind of model, and the "
        "comparison may not hold."
    )


def percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def _odds(audit: Shown) -> str:
    return f"what is served stands out from {audit['controls']} models without it (p = {audit['p']:.3g})"


def _sensitivity(audit: Shown) -> str:
    found = audit["sensitivity"]
    if found is None:
        return "How small a trace would have been found was not measured. "
    if found["share"] is None:
        return "Not even all of the data left in would have been found in 8 of 10 cases. "
    least = math.ceil(100 * found["share"] - 1e-9)
    return f"At least {least} % of the data left in would have been found in 8 of 10 cases. "


def tables(audit: Shown) -> RenderableType:
    """The sentence, what was compared, and the figures."""
    verdict = Text.assemble((f"{audit['outcome']}: ", STYLES[audit["outcome"]]), sentence(audit))
    about = Text(
        f"{audit['experiment']}: {audit['erased']} erased by {served_by(audit)}; {asked(audit)}{given(audit)}"
    )
    meaning = Text("\n".join(f"{name:9} {words}" for name, words in MEANING.items()), style="dim")
    parts: list[RenderableType] = [verdict, Text(""), about, meaning]
    if audit["outcome"] != "no power":
        parts += [_attacks(audit), _divergence(audit)]
        if (found := audit.get("perplexity")) is not None:
            parts.append(_Figures(*perplexities(found), 1, len(MODELS)))
    return Group(*parts, Text("\n".join(notes(audit))))


def asked(audit: Shown) -> str:
    alike = " of the same classes" if audit.get("perplexity") is None else ""
    return (
        f"{audit['members']} of {audit['samples']} erased samples and {audit['others']} others{alike} were "
        f"asked about, against {audit['controls']} controls"
    )


def given(audit: Shown) -> str:
    """What was audited, if it is not what the run serves; what it kept of the erased, if it is."""
    if audit["model"] is not None:
        return f". Audited, in place of what this run serves: {audit['model']}"
    waived = ", ".join(audit.get("waived", ()))
    return f". Kept although erased data had a part in it: {waived}" if waived else ""


def served_by(audit: Shown) -> str:
    """``pga (approximate: ...)``."""
    promise = audit.get("guarantee")
    return f"{audit['method']} ({promise})" if promise else str(audit["method"])


def notes(audit: Shown) -> list[str]:
    """What else was counted, each in a sentence; nothing, where the outcome is that nothing was shown."""
    if audit["epsilon"] is None or audit["outcome"] == "no power":
        seen, models = audit["findings"][0]["seen"]
        return [f"Of {models} models that kept the erased data, {seen} can be told from the controls."]
    found = audit["epsilon"]
    lines = [
        f"ε of (ε, {found['delta']:g})-unlearning is at least {found['epsilon']:.2f} "
        f"({percent(found['level'])} confidence); so many samples could show {found['most']:.2f} at most."
    ]
    if (power := audit["sensitivity"]) is not None:
        tried = ", ".join(
            f"{found} of {models} with {percent(float(part))}"
            for part, (found, models) in power["found"].items()
        )
        lines.append(f"Models with a share of the erased data left in that were found: {tried}.")
    if audit.get("perplexity") is not None:
        lines.append("The perplexity is tested by itself; the verdict does not rest on it.")
    if (method := audit["ulira"]) is not None:
        bound = method["epsilon"]
        lines.append(
            f"U-LiRA: {method['unlearned']} models unlearned by {audit['method']} and "
            f"{method['retrained']} that never had the data are {method['outcome']} (AUC "
            f"{estimate(method['auc'])}, p = {method['p']:.3g}); ε is at least {bound['epsilon']:.2f}, and "
            f"so many models could show {bound['most']:.2f}."
        )
    return lines


@dataclass(frozen=True)
class _Figures:
    """A table in one piece where there is room, otherwise in as many as it takes: no value is cut."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int
    """How many columns say what a row is; they stand in every piece."""
    section: int
    """After so many rows there is a line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for places in self._pieces(options.max_width):
            table = Table()
            for place in places:
                words = place < self.names or self.heads[place] == OUTCOME
                table.add_column(self._head(place), justify="left" if words else "right", no_wrap=True)
            for number, row in enumerate(self.rows, start=1):
                cells = (Text(row[place], style=STYLES.get(row[place], "")) for place in places)
                table.add_row(*cells, end_section=number % self.section == 0)
            yield table

    def _pieces(self, room: int) -> Iterator[list[int]]:
        """The columns of each table."""
        names = list(range(self.names))
        piece = list(names)
        for place in range(self.names, len(self.heads)):
            if len(piece) > len(names) and 1 + sum(map(self._width, [*piece, place])) > room:
                yield piece
                piece = list(names)
            piece.append(place)
        yield piece

    def _width(self, place: int) -> int:
        """With the border on one side, and the space on both."""
        return 3 + max(map(len, (*self._head(place).split("\n"), *(row[place] for row in self.rows))))

    def _head(self, place: int) -> str:
        """In as many lines as it takes to be no wider than the values."""
        head = self.heads[place]
        widest = max(map(len, (*head.split(), *(row[place] for row in self.rows))))
        return "\n".join(textwrap.wrap(head, widest))


def _attacks(audit: Shown) -> _Figures:
    tpr = {rate for finding in audit["findings"] for rate, e in finding["served"]["tpr"].items() if e}
    decided = any("f1" in finding["served"] for finding in audit["findings"])
    rates = sorted(tpr, key=float, reverse=True)
    figures = ["deviation", "AUC", *(f"TPR at {percent(float(rate))}" for rate in rates), *["F1"] * decided]
    rows = []
    for finding in audit["findings"]:
        for model in MODELS:
            found, values = finding[model], finding["statistics"][model]
            rows.append(
                [
                    finding["attack"] if model == MODELS[0] else "",
                    model,
                    f"{values[0]:+.1f}" if len(values) == 1 else f"{min(values):+.1f} to {max(values):+.1f}",
                    estimate(found["auc"]),
                    *(estimate(found["tpr"][rate]) for rate in rates),
                    *([estimate(found.get("f1"))] if decided else []),
                    finding["outcome"] if model == "served" else "",
                ]
            )
    return _Figures(["attack", "model", *figures, OUTCOME], rows, names=2, section=len(MODELS))


def _divergence(audit: Shown) -> _Figures:
    heads = ["model", "erased data", "forgetting error", "test data", "‖w − control‖", "KL", "agreement"]
    rows = []
    for model in ("kept", "served", "another control"):
        found = audit["divergence"][model]
        rows.append(
            [
                model,
                share(found["erased"]),
                f"{100 * found['forgetting_error']:+.1f} points",
                share(found["test"]),
                "–" if found["distance"] is None else f"{found['distance']:.3f}",
                f"{found['kl']:.4f}",
                share(found["agreement"]),
            ]
        )
    return _Figures(heads, rows, names=1, section=len(rows))


def perplexities(found: Shown) -> tuple[list[str], list[list[str]]]:
    """Of every kind of model: how well it predicts the erased texts, and others."""
    said = ["–" if found["p"] is None else f"{found['p']:.3g}", found["outcome"]]
    rows = []
    for model in MODELS:
        those = [found["served"]] if model == "served" else found[model]
        spans = (_span([both[texts] for both in those]) for texts in ("erased", "others"))
        rows.append([model, *spans, *(said if model == "served" else ["", ""])])
    return ["model", "perplexity: erased texts", "other texts", "p", OUTCOME], rows


def marks(found: Shown) -> RenderableType:
    """Who answers to the mark that the erased clients' samples bore."""
    rows = []
    for model in MODELS:
        rates = [found["served"]] if model == "served" else found[model]
        rows.append([model, estimate(rates[0]) if len(rates) == 1 else _range(rates)])
    table = _Figures(["model", "marked test samples taken for the target"], rows, 1, len(rows))
    said = {
        "still shows": "what is served still answers to the mark.",
        "over-forgotten": "what is served answers to it less than models that never saw it.",
        "no trace found": "what is served answers to it no more than models that never saw it.",
        "no power": "not even models that kept it answer to it. This shows nothing.",
    }
    about = f"{found['experiment']}: {found['erased']} erased, all of it marked as class {found['target']}"
    return Group(Text(about), table, _said(found, said))


def guesses(found: Shown) -> RenderableType:
    """How well the coins can still be told that only the erased client knew."""
    rows = []
    for model in ("kept", "served"):
        of = found[model]
        guessed = f"{of['right']} of {of['made']}"
        rows.append([model, guessed, f"{of['two_sided']:.3g}", f"{of['epsilon']:.2f}", f"{of['most']:.2f}"])
    heads = ["model", "right guesses", "p", "ε at least", "at most to be shown"]
    table = _Figures(heads, rows, 1, len(rows))
    said = {
        "still shows": "from what is served, it can be told which canaries the erased client held.",
        "over-forgotten": "guesses from what is served are wrong too often: it was pushed off the canaries.",
        "no trace found": "guesses from what is served are right no more often than the toss of a coin.",
        "no power": "not even the model that kept the canaries tells them. This shows nothing.",
    }
    held = f"a coin's choice of {found['served']['number']} canaries among its samples"
    return Group(Text(f"{found['experiment']}: {found['erased']} erased, {held}"), table, _said(found, said))


def secrets(found: Shown) -> RenderableType:
    """How far the secrets are exposed that only the erased client's texts held."""
    rows = []
    for model in ("before", "served", "controls"):
        those = found[model] if model == "controls" else [found[model]]
        means = _span([of["mean"] for of in those])
        highest, p = _span([of["bits"][0] for of in those]), [of["two_sided"] for of in those]
        rows.append(
            [model, means, highest, f"{p[0]:.3g}" if len(p) == 1 else f"{min(p):.3g} to {max(p):.3g}"]
        )
    table = _Figures(["model", "bits exposed on average", "of the most exposed", "p"], rows, 1, len(rows))
    said = {
        "still shows": "what is served still exposes the erased client's secrets.",
        "over-forgotten": "what is served takes them for less likely than other secrets: it was pushed off.",
        "no trace found": "what is served exposes them no more than secrets that nobody wrote.",
        "no power": "not even the model before the erasure exposed them. This shows nothing.",
    }
    planted = found["secrets"]
    about = (
        f"{found['experiment']}: {found['erased']} erased, with {planted['number']} secrets of "
        f"{planted['length']} out of {found['tokens']} tokens in its texts, each {planted['repeats']} times"
    )
    meaning = (
        f"Bits that a guesser is spared who tries {planted['candidates'] + 1:,} such secrets: "
        f"{found['served']['most']:.3g} at most, {CHANCE:.1f} on average where nothing was learned. "
        "before: the model when it was asked to forget; controls: models that never had them. p: how "
        "often chance alone leads to ranks that are so odd, low or high (two-sided)."
    )
    exposed = "Before the erasure they were exposed." if found["exposed"] else ""
    return Group(Text(about), table, Text(meaning, style="dim"), *filter(None, [exposed]), _said(found, said))


def _span(values: Sequence[float]) -> str:
    return f"{values[0]:.1f}" if len(values) == 1 else f"{min(values):.1f} to {max(values):.1f}"


def _said(found: Shown, said: Mapping[str, str]) -> Text:
    outcome = found["outcome"]
    if found["same"]:
        told = "what is served is, bit for bit, a model that was trained without the erased data."
        return Text.assemble((f"{outcome}: ", STYLES[outcome]), told)
    risk = f" (With a {percent(found['level'])} risk of a false alarm; p = {found['p']:.3g}.)"
    told = said[outcome] + ("" if outcome == "no power" else risk)
    return Text.assemble((f"{outcome}: ", STYLES[outcome]), told)


def _range(rates: list[Shown]) -> str:
    values = [rate["value"] for rate in rates]
    return f"{min(values):.3f} to {max(values):.3f}"


def estimate(shown: Shown | None) -> str:
    if shown is None:
        return "–"
    return f"{shown['value']:.3f} [{shown['low']:.3f}, {shown['high']:.3f}]"
