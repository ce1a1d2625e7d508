"""An audit as one HTML file that explains itself, for a data-protection officer to keep with the request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from unknot.report import svg
from unknot.report.audit import (
    BLIND,
    MEANING,
    MODELS,
    Shown,
    asked,
    estimate,
    given,
    notes,
    percent,
    perplexities,
    sentence,
    served_by,
)
from unknot.report.audit_plot import LABELS, corners
from unknot.report.html import Html, code, details, document, element, figure, joined, notice, table
from unknot.report.targets import check_page

TONES = {"no trace found": "good", "still shows": "bad", "over-forgotten": "bad", BLIND: "warn"}
LOOKS = {
    "kept": ("var(--c1)", "up", "5 3"),
    "served": ("var(--c0)", "diamond", ""),
    "controls": ("var(--soft)", "circle", ""),
}
"""Of each kind of model: its colour, its sign, the dash of its line."""
BAND, GUESSING = "var(--rule)", "2 3"
FAR = 4.0
"""How many times as far as what would be told from the controls a picture goes."""
OUTCOMES = {
    "no trace found": "what is served stands among its controls; models that kept all of the data do not",
    "still shows": "it stands out as models do that kept the erased data",
    "over-forgotten": "it stands out the other way: it knows less than a model that never had the data",
    "no power": "most models that kept the erased data do not stand out either; then nothing else is said",
}
READING = (
    (
        "Deviation",
        "by how many standard deviations of the controls a model's statistic lies from theirs. If no trace "
        "is left, the served model is one more control, and is the oddest of all only by chance.",
    ),
    (
        "AUC",
        "the chance that an erased sample looks more like a learned one than another sample does; ½ is "
        "guessing.",
    ),
    (
        "TPR",
        "how many erased samples are found while so few others are taken for one. In brackets: intervals of "
        "99 % over draws of the samples, given the model; for the controls, the least and the most.",
    ),
)


def check(file: Path | None) -> None:
    """Whether the page can be written: asked before a long run rather than after it."""
    if file is not None:
        check_page(file)


def page(audit: Shown) -> str:
    """The verdict in a sentence, what was compared, figures, pictures, and what is needed to repeat it."""
    outcome = audit["outcome"]
    title = f"Audit: {audit['erased']} erased from {audit['experiment']}"
    settings = {"experiment": audit["settings"], "options": audit["options"]}
    return document(
        title,
        element("h1", title),
        notice(joined([element("b", f"{outcome.capitalize()}."), f" {sentence(audit)}"]), TONES[outcome]),
        element("h2", "What was compared"),
        element("p", f"Served by {served_by(audit)}; {asked(audit)}{given(audit)}."),
        _pairs(MEANING),
        *_shown(audit),
        *(element("p", note) for note in notes(audit)),
        element("h2", "The four outcomes"),
        _pairs(OUTCOMES),
        details("The experiment and the options", code(json.dumps(settings, indent=1))),
        element("footer", element("p", _repeat(audit))),
        style=svg.STYLE,
    )


def _shown(audit: Shown) -> list[Html]:
    """Figures and pictures; none, where the outcome is that nothing was shown."""
    if audit["outcome"] == BLIND:
        return []
    reading = joined(joined([element("b", name), f": {text} "]) for name, text in READING)
    return [
        element("h2", "Figures"),
        _attacks(audit),
        element("p", reading, class_="soft small"),
        *([] if audit.get("perplexity") is None else _texts(audit["perplexity"])),
        element("h2", "Pictures"),
        _among(audit),
        _curves(audit),
    ]


def _texts(found: Shown) -> list[Html]:
    """How well models predict the erased texts: the figures, and where each model lies."""
    heads, rows = perplexities(found)
    every = {model: [found[model]] if model == "served" else found[model] for model in MODELS}
    dots = [
        svg.Dot(
            both["erased"],
            0.6 * ((i % 5) - 2) / 2 if model == "controls" else 0.0,
            LOOKS[model][0],
            shape=LOOKS[model][1],
            about=f"{model}: {both['erased']:.2f}",
        )
        for model in ("controls", "kept", "served")
        for i, both in enumerate(every[model])
    ]
    chart = svg.Chart(
        svg.Axis.over("perplexity on the erased texts", [dot.x for dot in dots]),
        svg.Axis("", -1.0, 1.0, named=()),
        dots=dots,
        height=80,
        left=16,
        about="the perplexity of every model on the erased texts",
    )
    signs = [(LOOKS[model][1], LOOKS[model][0], LABELS[model]) for model in ("served", "kept", "controls")]
    said = (
        "Among how many equally likely tokens a model has to choose, on average: low where it knows the text."
    )
    return [table(heads, rows, (1, 2, 3)), figure(chart.draw(), said, svg.legend(signs))]


def _pairs(words: Mapping[str, str]) -> Html:
    return table([], [[element("b", name), text] for name, text in words.items()])


def _attacks(audit: Shown) -> Html:
    heads = ["attack", "model", "deviation", "AUC", "TPR at 1 %", "outcome"]
    rows = []
    for finding in audit["findings"]:
        for model in MODELS:
            values = finding["statistics"][model]
            lone = len(values) == 1
            rows.append(
                [
                    finding["attack"] if model == MODELS[0] else "",
                    model,
                    f"{values[0]:+.1f}" if lone else f"{min(values):+.1f} to {max(values):+.1f}",
                    estimate(finding[model]["auc"]),
                    estimate(finding[model]["tpr"]["0.01"]),
                    _found(finding) if model == "served" else "",
                ]
            )
    return table(heads, rows, (2, 3, 4))


def _found(finding: Shown) -> str:
    return str(finding["outcome"]) + ("" if finding["p"] is None else f", p = {finding['p']:.3g}")


def _among(audit: Shown) -> Html:
    """Where the statistic of every model lies, in deviations of the controls."""
    reach = max(finding["critical"] for finding in audit["findings"])
    every = [v for finding in audit["findings"] for model in MODELS for v in finding["statistics"][model]]
    ends = min(max(max(map(abs, every)), 1.2 * reach), FAR * reach)
    charts = []
    for finding in audit["findings"]:
        critical, dots = finding["critical"], list[svg.Dot]()
        for model in ("controls", "kept", "served"):
            tint, shape, _ = LOOKS[model]
            for i, value in enumerate(finding["statistics"][model]):
                height = 0.6 * ((i % 5) - 2) / 2 if model == "controls" else 0.0
                dots.append(svg.Dot(value, height, tint, shape=shape, about=f"{model}: {value:+.1f}"))
        chart = svg.Chart(
            svg.Axis("", -1.05 * ends, 1.05 * ends),
            svg.Axis("", -1.0, 1.0, named=()),
            bands=[svg.Band([(-critical, -1.0, 1.0), (critical, -1.0, 1.0)], "var(--soft)")],
            dots=dots,
            height=80,
            left=16,
            about=f"{finding['attack']}: the statistic of every model, in deviations of the controls",
        )
        charts.append((_titled(finding), chart))
    said = (
        "Each sign is a model: to the right, what still shows; to the left, what was over-forgotten; 0 is "
        "the middle of the controls. Beyond the shaded part, what is served would be told from them."
    )
    if max(map(abs, every)) > ends:
        said += " What lies further out is drawn at the edge."
    signs = [(LOOKS[model][1], LOOKS[model][0], LABELS[model]) for model in ("served", "kept", "controls")]
    return svg.multiples(charts, said, svg.legend([*signs, ("box", BAND, "not told from the controls")]))


def _curves(audit: Shown) -> Html:
    """The ROC of each attack; both axes logarithmic: what matters is on the left."""
    left, bottom = 0.5 / audit["others"], 0.5 / audit["members"]
    charts = []
    for finding in audit["findings"]:
        roc = finding["controls"]["roc"]
        edges = [
            (max(x, left), max(low, bottom), max(high, bottom))
            for x, low, high in zip(roc["fpr"], roc["low"], roc["high"], strict=True)
        ]
        lines = [svg.Line([(left, left), (1.0, 1.0)], "var(--soft)", "guessing", 1.0, dash=GUESSING)]
        for model in ("kept", "served"):
            tint, _, dash = LOOKS[model]
            points = [(max(x, left), max(y, bottom)) for x, y in corners(finding[model]["roc"])]
            lines.append(svg.Line(points, tint, LABELS[model], 2, True, dash or None))
        chart = svg.Chart(
            svg.Axis("false positive rate", left, 1.0, log=True),
            svg.Axis("true positive rate", bottom, 1.0, log=True),
            lines,
            [svg.Band(edges, "var(--soft)", steps=True)],
            height=200,
            about=f"{finding['attack']}: true positive rate by false positive rate",
        )
        charts.append((_titled(finding), chart))
    signs = [(f"line {LOOKS[m][2]}".strip(), LOOKS[m][0], LABELS[m]) for m in ("served", "kept")]
    signs += [("box", BAND, LABELS["controls"]), (f"line {GUESSING}", "var(--soft)", "guessing")]
    said = "How many erased samples are found, by how many others are taken for one. The band is where the "
    return svg.multiples(charts, f"{said}curves of the controls lie.", svg.legend(signs))


def _titled(finding: Shown) -> Html:
    return joined([finding["attack"], element("small", finding["outcome"])])


def _repeat(audit: Shown) -> str:
    seeds = "; ".join(f"{kind} {_span(values)}" for kind, values in audit["seeds"].items())
    return (
        f"Level {percent(audit['level'])}, {audit['controls']} controls. Seeds: {seeds}. The same command "
        "on the same experiment gives this page again."
    )


def _span(seeds: list[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
