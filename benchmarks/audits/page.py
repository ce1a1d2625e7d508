"""The page of what was measured, audits.md, and a picture of the power, audits.png."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from unknot.report.canvas import GREY, load_matplotlib
from unknot.report.colours import COLOURS

SHARES = ("0.05", "0.1", "0.2", "0.4", "1")
HEAD = """# Audits of models of which the truth is known

What `unknot audit` says where the answer is known: `python -m benchmarks.audits`, an MLP on the built-in
digits, client 2 erased, its data learned by heart (SGD 0.05, two local epochs of batches of 10). The level is
5 %, with 19 controls; how the test is made is on the page about [audits](../audits.md). The figures are in
[audits.json](audits.json).

![How often a share that was left in is found](audits.png)"""


def write(found: dict[str, Any], folder: Path) -> None:
    parts = [HEAD, *(PARTS[name](found[name]) for name in PARTS if name in found), _where(found)]
    (folder / "audits.md").write_text("\n\n".join(parts) + "\n")
    if "level" in found:
        _draw(found["level"]["settings"], folder / "audits.png")


def _words(text: str) -> str:
    return textwrap.fill(text, 114)


def _percent(part: float, digits: int = 1) -> str:
    return f"{100 * part:.{digits}f} %"


def _flagged(row: dict[str, Any]) -> float:
    return float((row["still shows"] + row["over-forgotten"]) / row["n"])


def _rate(row: dict[str, Any]) -> str:
    return _percent(_flagged(row)) + ("" if row["error"] is None else f" ± {100 * row['error']:.1f}")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _name(setting: dict[str, Any]) -> str:
    kind = {"iid": "iid", "dirichlet": "Dirichlet 0.3"}[setting["partition"]]
    return f"{kind}, {setting['erased']} erased"


def _level(part: dict[str, Any]) -> str:
    settings = part["settings"]
    nulls = [
        [
            _name(s),
            f"{min(s['others'])} to {max(s['others'])}",
            *(_rate(s["outcomes"][who]) for who in ("null", "controls × 0.5", "controls × 2")),
            str(s["outcomes"]["null"]["n"]),
        ]
        for s in settings
    ]
    power = [
        [
            _name(s),
            *(_percent(_shows(s, who), 0) for who in ("null", *SHARES)),
            ", ".join("–" if x is None else f"{100 * x:.0f}" for x in _sorted(s["sensitivity"]["shares"])),
        ]
        for s in settings
    ]
    told = [[_name(s), *(_both(s["sensitivity"], x) for x in SHARES[:-1])] for s in settings]
    names = [f"{100 * float(x):g} %" for x in SHARES]
    return "\n\n".join(
        [
            "## False alarms",
            _words(
                f"The served model is a control with another seed: {part['draws']} draws of the data, 20 "
                "models each. Flagged, either way, with the standard error over the draws. Beside it, "
                "controls that trained half or twice as long as what is served: an audit never has such "
                "controls, but a model that is given to it might differ so. The statistic is adjusted for "
                "it."
            ),
            _table(["", "others", "flagged", "controls half as long", "twice as long", "models"], nulls),
            "## Power",
            _words(
                "*Still shows*, by the share of the erased data that was left in; ten models for each "
                "share and draw. Last: the smallest share that would be found in 8 of 10 cases, in per "
                "cent, as the audits of the draws tell it, from 5 models for each share."
            ),
            _table(["", "0", *names, "told sensitivity"], power),
            _words(
                "How often a share would be found: as told from 5 models for each share / as found among "
                "5 others."
            ),
            _table(["", *names[:-1]], told),
        ]
    )


def _shows(setting: dict[str, Any], who: str) -> float:
    row = setting["outcomes"][who]
    return float(row["still shows"] / row["n"])


def _sorted(shares: list[float | None]) -> list[float | None]:
    return sorted(shares, key=lambda share: 9 if share is None else share)


def _both(told: dict[str, Any], share: str) -> str:
    return f"{100 * told['power'][share]:.0f} / {100 * told['later'][share]:.0f} %"


def _methods(part: dict[str, Any]) -> str:
    served = part["served"]
    outcomes = ("still shows", "over-forgotten", "no trace found", "no power")
    rows = [
        [name, *(str(row[outcome]) for outcome in outcomes), f"{row['auc']:.2f}"]
        for name, row in served.items()
    ]
    n = next(iter(served.values()))["n"]
    exact = [row for name, row in served.items() if name in EXACT]
    able = sum(row["n"] - row["no power"] for row in exact)
    wrong = sum(row["still shows"] + row["over-forgotten"] for row in exact)
    return "\n\n".join(
        [
            "## Methods, and what is no unlearning",
            _words(
                f"200 samples erased after 20 rounds, 30 rounds more; {part['draws']} draws of the data, "
                f"{n} served models in all for each, against controls of the same method. *Nothing done*: "
                "the data was left in. *Fine-tuned*: 30 rounds without the client, from what it helped to "
                "train. *Random labels*: 50 rounds with it, then 40 in which it learns labels drawn from "
                "the wrong ones. AUC: of the erased samples among the others, the median. All verdicts "
                "are by the test alone: `unknot audit` itself never flags a served model that is its "
                "control bit for bit, as that of most exact methods is. By the test alone exact methods "
                f"are flagged in {wrong} of {able} cases with power ({_percent(wrong / able)}; five models "
                "of a draw share their controls)."
            ),
            _table(["served by", *outcomes, "AUC"], rows),
        ]
    )


def _intervals(part: dict[str, Any]) -> str:
    names = list(part["rows"][0]["covered"])
    rows = [
        [
            f"{row['members']} / {row['others']}, d′ = {row['apart']:g}",
            *("–" if row["covered"][name] is None else _percent(row["covered"][name]) for name in names),
        ]
        for row in part["rows"]
    ]
    return "\n\n".join(
        [
            "## Intervals",
            _words(
                f"How often they cover the truth, over {part['times']} draws of normal scores; they are to "
                "do so in 99 %, the lower bound on ε in 95 %. Members / others; where there are too few "
                "others there is no figure. Intervals of rates are exact bounds, and wider than they need "
                "be."
            ),
            _table(["", *names], rows),
        ]
    )


def _time(part: dict[str, Any]) -> str:
    return (
        "## Time\n\nThe default audit of the experiment on the page about audits (44 models): "
        f"{part['seconds']:.0f} s on 2 cores."
    )


def _where(found: dict[str, Any]) -> str:
    machines = {part["machine"] for part in found.values()}
    return "Measured on " + "; ".join(sorted(machines)) + "."


def _draw(settings: list[dict[str, Any]], file: Path) -> None:
    figure_of, style = load_matplotlib()
    with style:
        figure = figure_of(figsize=(8.4, 3.7), layout="constrained")
        for axes, kind in zip(figure.subplots(1, 2, sharey=True), ("iid", "dirichlet"), strict=True):
            mine = [s for s in settings if s["partition"] == kind]
            for setting, colour, dash in zip(mine, COLOURS, ("-", "--", ":"), strict=False):
                values = [100 * _shows(setting, who) for who in ("null", *SHARES)]
                axes.plot(
                    range(6), values, color=colour, linestyle=dash, marker="o", markersize=4,
                    label=f"{setting['erased']} samples erased",
                )  # fmt: skip
            for level, dash, meaning in (
                (80, "-.", "80 %: the power asked for"),
                (5, ":", "5 %: false alarms"),
            ):
                axes.axhline(level, color=GREY, linewidth=0.8, linestyle=dash, label=meaning)
            axes.set_xticks(range(6), ["0 %", *(f"{100 * float(x):g} %" for x in SHARES)])
            axes.set_xlabel("share of the erased data left in")
            axes.set_title({"iid": "iid", "dirichlet": "Dirichlet 0.3"}[kind], fontsize=10)
        figure.axes[0].set_ylabel("models in which it is found (%)")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=5,
            frameon=False,
            fontsize=7.5,
            columnspacing=1.3,
        )
        figure.suptitle("What is left in, and how often it is found: mlp on digits", fontsize=10.5)
        figure.savefig(file, dpi=150)


EXACT = ("rfs", "rapid", "knot", "bmt", "mmt", "sisa", "fedcio", "exact-fun", "fats", "standalone")
PARTS = {"level": _level, "methods": _methods, "intervals": _intervals, "time": _time}
