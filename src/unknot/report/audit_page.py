"""An audit as one HTML file that explains itself, for a data-protection officer to keep with the request."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from unknot.report.audit import (
    MEANING,
    MODELS,
    Shown,
    asked,
    estimate,
    given,
    notes,
    percent,
    sentence,
    served_by,
)
from unknot.report.audit_plot import svg
from unknot.report.plots import load_matplotlib
from unknot.report.targets import check_page

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: auto; padding: 1rem; }
.verdict { border-left: .5rem solid; padding: .6rem 1rem; background: #f6f6f6; font-size: 1.15rem; }
.still-shows, .over-forgotten { border-color: #b3261e; } .no-trace-found { border-color: #2e7d32; }
.no-power { border-color: #b28704; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #ddd; }
svg { max-width: 100%; height: auto; } footer { color: #555; font-size: .85rem; }
"""
OUTCOMES = {
    "no trace found": "what is served stands among its controls; models that kept all of the data do not",
    "still shows": "it stands out as models do that kept the erased data",
    "over-forgotten": "it stands out the other way: it knows less than a model that never had the data",
    "no power": "most models that kept the erased data do not stand out either; then nothing else is said",
}
READING = (
    "<b>Deviation</b>: by how many standard deviations of the controls a model's statistic lies from "
    "theirs. If no trace is left, the served model is one more control, and is the oddest of all only by "
    "chance. <b>AUC</b>: the chance that an erased sample looks more like a learned one than another "
    "sample does; ½ is guessing. <b>TPR</b>: how many erased samples are found while so few others are "
    "taken for one. In brackets: intervals of 99 % over draws of the samples, given the model; for the "
    "controls, the least and the most."
)


def check(file: Path | None) -> None:
    """Whether the page can be written: asked before a long run rather than after it."""
    if file is not None:
        check_page(file)
        load_matplotlib()


def page(audit: Shown) -> str:
    """The verdict in a sentence, what was compared, figures, pictures, and what is needed to repeat it."""
    outcome = audit["outcome"]
    title = f"Audit: {audit['erased']} erased from {audit['experiment']}"
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            f"<style>{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            f'<p class="verdict {outcome.replace(" ", "-")}"><b>{escape(outcome.capitalize())}.</b> '
            f"{escape(sentence(audit))}</p>",
            f"<h2>What was compared</h2><p>Served by {escape(served_by(audit))}; ",
            f"{escape(asked(audit) + given(audit))}.</p>",
            _pairs(MEANING),
            *_shown(audit),
            *(f"<p>{escape(note)}</p>" for note in notes(audit)),
            f"<h2>The four outcomes</h2>{_pairs(OUTCOMES)}",
            f"<footer><p>{_repeat(audit)}</p><pre>{_settings(audit)}</pre></footer></body></html>",
        ]
    )


def _shown(audit: Shown) -> list[str]:
    """Figures and pictures; none, where the outcome is that nothing was shown."""
    if audit["outcome"] == "no power":
        return []
    return [
        f"<h2>Figures</h2>{_attacks(audit)}<p>{READING}</p>",
        f"<h2>Pictures</h2>{svg(audit)}",
        "<p>On the left, each point is a model; beyond the shaded part, what is served would be told from "
        "the controls. On the right, the band is where the curves of the controls lie.</p>",
    ]


def _pairs(words: dict[str, str]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in words.items())
    return f"<table>{rows}</table>"


def _attacks(audit: Shown) -> str:
    heads = ["attack", "model", "deviation", "AUC", "TPR at 1 %", "outcome"]
    rows = []
    for finding in audit["findings"]:
        for model in MODELS:
            values = finding["statistics"][model]
            lone = len(values) == 1
            cells = [
                finding["attack"] if model == MODELS[0] else "",
                model,
                f"{values[0]:+.1f}" if lone else f"{min(values):+.1f} to {max(values):+.1f}",
                estimate(finding[model]["auc"]),
                estimate(finding[model]["tpr"]["0.01"]),
                _found(finding) if model == "served" else "",
            ]
            rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _found(finding: Shown) -> str:
    return str(finding["outcome"]) + ("" if finding["p"] is None else f", p = {finding['p']:.3g}")


def _repeat(audit: Shown) -> str:
    seeds = "; ".join(f"{kind} {_span(values)}" for kind, values in audit["seeds"].items())
    return escape(
        f"Level {percent(audit['level'])}, {audit['controls']} controls. Seeds: {seeds}. The same command "
        "on the same experiment gives this page again."
    )


def _settings(audit: Shown) -> str:
    """The experiment and the options, as they were given."""
    return escape(json.dumps({"experiment": audit["settings"], "options": audit["options"]}, indent=1))


def _span(seeds: list[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
