"""The bars of a measure: a group a panel, a bar or a dot a line, and what stands where there is no bar."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from unknot.report.canvas import GREY, WIDTH
from unknot.report.cells import Shown, in_percent

MEASURES = {
    "before": "accuracy before a leave (%)",
    "recovering": "mean accuracy over the 20 rounds after a leave (%)",
    "recovered": "accuracy 20 rounds after a leave (%)",
    "throughout": "mean accuracy after a leave (%)",
    "first": "accuracy in round 0 after a leave (%)",
    "end": "accuracy at the end of a phase after a leave (%)",
    "drop": "accuracy lost at a leave (points)",
    "rise": "accuracy gained by the removal (points)",
    "join_rise": "accuracy gained at worst after a join (points)",
    "rounds": "rounds to the threshold",
    "ids": "models aggregated at a leave",
    "seconds": "simulated seconds from the leave to the threshold",
    "total": "simulated seconds from the start to the threshold, after the leave",
    "kept": "simulated seconds from the leave until the threshold is kept",
    "stopped": "simulated seconds from the leave until KNOT's stopping rule",
    "finished": "simulated seconds from the start until KNOT's stopping rule, after the leave",
    "earliest": "simulated seconds from the start to the threshold, before the leave or after",
    "aggregated": "accuracy of what is served when KNOT's stopping rule is met (%)",
    "speedup": "times as fast as {baseline}, from the start to the threshold, where both get there",
    "final": "test accuracy at the end (%)",
    "memory": "copies of the model that a client holds in training",
    "peak": "GiB of GPU memory",
    "f1_before": "F1 of the attack before the request",
    "f1_after": "F1 of the attack on the erased data",
    "f1_control": "F1 of the attack on the controls",
    "f1_fall": "share by which the F1 of the attack falls",
    "auc_before": "AUC of the attack before the request",
    "auc_after": "AUC of the attack on the erased data",
    "auc_control": "AUC of the attack on the controls",
    "tpr_before": "TPR of the attack at 1 % of false alarms, before the request",
    "tpr_after": "TPR of the attack at 1 % of false alarms",
    "tpr_control": "TPR of the attack at 1 % of false alarms, on the controls",
    "asked": "rounds in which the erased client took part",
    "sees": "share of seeds in which the attack sees the erased data",
    "flagged": "share of seeds in which it still does after the unlearning",
    "over_forgotten": "share of seeds in which the unlearning went too far",
    "p_before": "p of the model before the request among its controls",
    "p_after": "p of the model after the unlearning among its controls",
}
CHANGES = ("drop", "rise", "join_rise")
QUALITIES = ("before", "recovering", "recovered", "throughout", "first", "end", "final", "aggregated")
ARRIVALS = ("rounds", "seconds", "total", "kept", "stopped", "finished", "earliest")
FARTHER = 8.0  # dots so many times as far off as all others lie apart would leave these a ninth of the axis
LETTER, LINE = 0.055, 0.125  # inches that a letter of a tick's label is wide, and a line of it high
SMALLEST = 4.0  # points of letters that can be read
NEVER: Any = {"marker": "x", "markersize": 7, "markeredgewidth": 1.8, "linestyle": "none"}
AT_ONCE: Any = {"marker": "o", "markersize": 6, "markerfacecolor": "white", "linestyle": "none"}
FAR: Any = {"markersize": 8, "linestyle": "none"}
DOWN, UP = "$↓$", "$↑$"
ALONE: Any = {"marker": "_", "markersize": 7, "markeredgewidth": 1.8, "linestyle": "none"}
SIGNS = {
    "never": "not reached within the run",
    "at once": "reached at once",
    "some": "reached in some of the seeds only",
    "alone": "reached, but in no seed in which the baseline was",
    "far": "off the axis, at the value beside it",
}
"""What stands in place of a bar or a dot, or makes it another one."""
LOOKS = {"never": NEVER, "at once": AT_ONCE, "alone": ALONE, "far": {"marker": DOWN, **FAR}}
"""How it is marked; a bar of some seeds is an empty one."""
BESIDE: dict[str, tuple[dict[str, Any], str]] = {
    "before": (
        {"marker": "D", "markerfacecolor": "black", "markeredgecolor": "white"},
        "before the request (FedAvg)",
    ),
    "control": (
        {"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black"},
        "controls: never had the client",
    ),
}
"""What of an attack stands beside the figure after the unlearning, and how it is marked."""
GUESSES = {
    "f1": {0.5: "a coin", 2 / 3: "always \u201cmember\u201d"},
    "auc": {0.5: "guessing"},
    "tpr": {0.01: "guessing"},
}
SPANS = {"f1": (0.0, 0.75), "auc": (0.4, 0.6), "tpr": (0.0, 0.05)}
"""Of an axis, at least: what lies close to guessing is to look so."""


def measured(measure: str, panels: Sequence[Shown]) -> bool:
    """Of an attack's figures: whether any line has it. Of few samples there is no TPR at 1 %."""
    lines = [line for panel in panels for line in panel["lines"]]
    return measure.partition("_")[0] not in GUESSES or any(measure in line["measures"] for line in lines)


def bars_of(axes: Any, panels: Sequence[Shown], measure: str, looks: Mapping[str, Any]) -> set[str]:
    """A group a panel, a bar a line; the whisker is the deviation over the seeds. Says which signs it set.

    Accuracies are dots: where differences of a point matter the axis cannot begin at 0, and a bar
    that does not begin at 0 lies.
    """
    signs: set[str] = set()
    noted: list[tuple[float, float, str]] = []
    dotted: list[tuple[float, float, float, str]] = []
    attack, _, model = measure.partition("_")
    attacked = attack in GUESSES and model == "after"
    dots = measure in QUALITIES or (attacked and attack != "f1")
    names = list(looks)
    width = 0.8 / len(names)
    for group, panel in enumerate(panels):
        shares = in_percent(panel["metric"]) and measure in (*QUALITIES, *CHANGES)
        factor = 100.0 if shares else 1.0
        for line in panel["lines"]:
            stat = line["measures"].get(measure)
            place = group + _place(line["name"], names, width)
            color = looks[line["name"]]["color"]
            if stat is None:
                arrival = "total" if measure == "speedup" else measure
                if arrival in ARRIVALS:
                    sign = "alone" if arrival in line["measures"] else "never"
                    foot = axes.get_xaxis_transform()  # x by place, y by height
                    axes.plot(place, 0.05, color=color, transform=foot, **LOOKS[sign])
                    signs.add(sign)
                continue
            value, whisker = factor * stat["mean"], factor * (stat["std"] or 0.0)
            if dots:
                dotted.append((place, value, whisker, color))
            else:
                some = stat["n"] < stat["asked"]
                look = {"facecolor": "none", "edgecolor": color} if some else {"color": color}
                axes.bar(place, value, 0.92 * width, yerr=whisker, ecolor="#333333", **look)
                if some:
                    noted.append((place, value + whisker, f"{stat['n']} of {stat['asked']}"))
                once = measure in ARRIVALS and value == 0
                if once:
                    axes.plot(place, 0, color=color, clip_on=False, zorder=3, **AT_ONCE)
                signs |= {name for name, there in {"some": some, "at once": once}.items() if there}
        if attacked:
            _beside(axes, group, panel["lines"], names, attack)
    far = _far([(value, whisker) for _, value, whisker, _ in dotted]) if measure in QUALITIES else {}
    for i, (place, value, whisker, color) in enumerate(dotted):
        if i not in far:
            axes.errorbar(place, value, whisker, fmt="o", markersize=5, color=color, elinewidth=1.4)
    for i, sign in far.items():
        place, value, _, color = dotted[i]
        foot, up = axes.get_xaxis_transform(), sign == UP
        axes.plot(place, 0.95 if up else 0.05, marker=sign, color=color, transform=foot, **FAR)
        told = {"ha": "center", "va": "top" if up else "bottom", "fontsize": 7.5, "transform": foot}
        axes.text(place, 0.90 if up else 0.10, f"{value:.1f}", **told)
    signs |= {"far"} if far else set()
    if attacked:
        (low, high), (least, most) = axes.get_ylim(), SPANS[attack]
        axes.set_ylim(max(0.0, min(low, least)), max(high, most))
    for level, words in GUESSES[attack].items() if attacked else ():
        axes.axhline(level, color=GREY, linewidth=0.8, linestyle=":")
        side = axes.get_yaxis_transform()  # x by width, y by value
        axes.text(1.01, level, words, transform=side, va="center", fontsize=6.5, color=GREY)
    inches = _ticks(axes, panels, names, width)
    size = min(7.0, 72 * inches * width)
    for place, top, words in noted if size >= SMALLEST else ():
        above = {"textcoords": "offset points", "xytext": (0, 2), "ha": "center", "va": "bottom"}
        axes.annotate(words, (place, top), rotation=90, fontsize=size, color=GREY, **above)
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.2 * top))
    return signs


def _ticks(axes: Any, panels: Sequence[Shown], names: Sequence[str], width: float) -> float:
    """What stands below the bars: panels or, of a single one, its lines. Says how many inches a group has."""
    places: list[float]
    if len(panels) > 1:
        places, labels = [float(i) for i in range(len(panels))], [panel["title"] for panel in panels]
    else:
        lines = panels[0]["lines"]
        places = [_place(line["name"], names, width) for line in lines]
        labels = [line["label"] for line in lines]
    margin = 0.6 if len(panels) > 1 else 0.45
    axes.set_xlim(-margin, len(panels) - 1 + margin)
    inches = (WIDTH - 0.7) / (len(panels) - 1 + 2 * margin)
    apart = inches if len(panels) > 1 else inches * width
    room, turned = max(8, 34 // len(labels)), {}
    if len(labels) > 4 and max(len(word) for label in labels for word in label.split()) * LETTER > apart:
        room, turned = _upright(labels, apart), {"rotation": 90}  # where they are below nobody else
    elif len(labels) > 4:
        room = int(apart / LETTER)
    wrapped = [textwrap.fill(label, room, break_long_words=False) for label in labels]
    axes.set_xticks(places, wrapped, fontsize=7.5, **turned)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    return inches


def _place(name: str, names: Sequence[str], width: float) -> float:
    """Of a line's bar, from the middle of its group."""
    return (names.index(name) - (len(names) - 1) / 2) * width


def _upright(labels: Sequence[str], inches: float) -> int:
    """How many letters a line of labels has that stand upright, so far from one another."""
    lines = max(1, int(inches / LINE - 0.5))  # half of one is between them and the next label
    longest = max(map(len, labels))
    fitting = (room for room in range(12, longest) if _lines(labels, room) <= lines)
    return next(fitting, longest)


def _lines(labels: Sequence[str], room: int) -> int:
    return max(len(textwrap.wrap(label, room, break_long_words=False)) for label in labels)


def _far(dots: Sequence[tuple[float, float]]) -> dict[int, str]:
    """Which values (with whiskers) are left out of the axis, as the others could not be told apart.

    They are fewer than the others, and all below them or all above.
    """
    order = sorted(range(len(dots)), key=lambda i: dots[i][0])
    gaps = [dots[b][0] - dots[a][0] for a, b in itertools.pairwise(order)]
    if not gaps:
        return {}
    place = gaps.index(max(gaps)) + 1
    below, above = order[:place], order[place:]
    few, many, sign = (below, above, DOWN) if len(below) < len(above) else (above, below, UP)
    span = max(sum(dots[i]) for i in many) - min(dots[i][0] - dots[i][1] for i in many)
    least = 0.02 * max(abs(dots[i][0]) for i in many)  # what is nearly the same need not look far apart
    return dict.fromkeys(few, sign) if len(few) < len(many) and max(gaps) > FARTHER * max(span, least) else {}


def _beside(axes: Any, group: int, lines: Sequence[Shown], names: Sequence[str], attack: str) -> None:
    """What the attack did before the request, and on controls; one sign where all lines have the same."""
    width = 0.8 / len(names)
    for shift, (model, (look, _)) in zip((-0.25, 0.25), BESIDE.items(), strict=True):
        found = {
            line["name"]: stat["mean"]
            for line in lines
            if (stat := line["measures"].get(f"{attack}_{model}"))
        }
        places = {_place(name, names, width): value for name, value in found.items()}
        if len(found) > 1 and len(set(found.values())) == 1:
            places = {0.0: next(iter(found.values()))}
        for place, value in places.items():
            axes.plot(group + place + shift * width, value, markersize=5, zorder=3, **look)
