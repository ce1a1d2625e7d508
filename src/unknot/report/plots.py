"""The figures of a reproduction, by matplotlib: ``pip install -e '.[plot]'``."""

from __future__ import annotations

import itertools
import math
import textwrap
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, install
from unknot.report.cells import in_percent
from unknot.report.colours import looks as looks_of
from unknot.report.pictures import digest, save

Shown = Mapping[str, Any]

MEASURES = {
    "before": "accuracy before a leave (%)",
    "recovering": "mean accuracy over the 20 rounds after a leave (%)",
    "recovered": "accuracy 20 rounds after a leave (%)",
    "first": "accuracy in round 0 after a leave (%)",
    "end": "accuracy at the end of a phase after a leave (%)",
    "rise": "accuracy gained by the removal (points)",
    "rounds": "rounds to the threshold",
    "ids": "models aggregated at a leave",
    "seconds": "simulated seconds from the leave to the threshold",
    "total": "simulated seconds from the start to the threshold, after the leave",
    "kept": "simulated seconds from the leave until the threshold is kept",
    "stopped": "simulated seconds from the leave until KNOT's stopping rule",
    "finished": "simulated seconds from the start until KNOT's stopping rule, after the leave",
    "earliest": "simulated seconds from the start to the threshold, before the leave or after",
    "aggregated": "accuracy of what is served when KNOT's stopping rule is met (%)",
    "speedup": "times as fast as {baseline}, from the start to the threshold",
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
QUALITIES = ("before", "recovering", "recovered", "first", "end", "final", "aggregated")
ARRIVALS = ("rounds", "seconds", "total", "kept", "stopped", "finished", "earliest")
WIDTH, HEIGHT = 3.2, 2.7  # inches an axes: three in a row can still be read at 800 pixels
DIVERGED, SHOWN, FEW = (
    1e4,
    30.0,
    4.0,
)  # from one end of an axis to the other: too far, what is shown then, near
ALIKE = 0.9  # of two curves' places: where they are the same in so many, one hides the other
FARTHER = 8.0  # dots so many times as far off as all others lie apart would leave these a ninth of the axis
LETTER, LINE = 0.055, 0.125  # inches that a letter of a tick's label is wide, and a line of it high
NO_BREAK = "\u00a0"
SMALLEST = 4.0  # points of letters that can be read
GREY = "#555555"
NEVER: Any = {"marker": "x", "markersize": 7, "markeredgewidth": 1.8, "linestyle": "none"}
AT_ONCE: Any = {"marker": "o", "markersize": 6, "markerfacecolor": "white", "linestyle": "none"}
FAR: Any = {"markersize": 8, "linestyle": "none"}
DOWN, UP = "$↓$", "$↑$"
BEYOND: Any = {"marker": ">", "markersize": 5, "linestyle": "none"}
ALONE: Any = {"marker": "_", "markersize": 7, "markeredgewidth": 1.8, "linestyle": "none"}
SIGNS = {
    "never": "never reached",
    "at once": "reached at once",
    "some": "reached in some of the seeds only",
    "alone": "reached, but in no seed in which the baseline was",
    "far": "off the axis, at the value beside it",
}
"""What stands in place of a bar or a dot, or makes it another one."""
GOES_ON = "goes on beyond the axis"
HIDDEN = "wide where a narrower line is the same"
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
MARKS = {
    "erase": ("v", "a client is erased"),
    "samples": ("d", "samples are erased"),
    "join": ("^", "a client joins"),
}
"""Signs of requests: `samples` is an erasure after which its clients stay."""
MODELS = {
    **dict.fromkeys(("cnn-exact", "cnn-incentive"), "CNN"),
    "mlp": "MLP",
    "lenet5": "LeNet-5",
    "vgg16": "VGG-16",
    "gpt": "small GPT",
    "gpt2": "GPT-2",
    "pretrained": "pretrained model",
}
DATA = {
    "mnist": "MNIST",
    "mnist-writers": "MNIST by writer",
    "fashion-mnist": "Fashion-MNIST",
    "femnist": "FEMNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "location30": "Location-30",
    "purchase100": "Purchase-100",
    "shakespeare": "Shakespeare",
    "langid": "languages",
    "sentiments": "sentiments",
}
"""What people call them; the others have their names in files."""


def draw(findings: Shown, *files: str | Path) -> bool:
    """Write the figure to files (the ending says how: .png, .svg); False where there is nothing to draw."""
    panels = [panel for panel in findings["panels"] if panel["lines"]]
    if not panels:
        return False
    figure_of, style = load_matplotlib()
    bars = [bar for bar in findings["bars"] if _measured(bar, panels)]
    curved = panels if findings["curves"] or not bars else []
    axes_count = len(curved) + len(bars)
    columns = axes_count if axes_count <= 3 else math.ceil(axes_count / math.ceil(axes_count / 3))
    rows = math.ceil(axes_count / columns)
    width = WIDTH * max(columns, 1.6)
    with style:
        figure = figure_of(
            figsize=(width, (HEIGHT if axes_count > 1 else 3.4) * rows + 0.9), layout="constrained"
        )
        figure.subplots(rows, columns, squeeze=False)
        looks = looks_of(line["name"] for panel in panels for line in panel["lines"])
        signs: set[str] = set()
        for axes, panel in zip(figure.axes, curved, strict=False):
            _curves(axes, panel, looks, findings["axis"] == "time")
        for axes, measure in zip(figure.axes[len(curved) :], bars, strict=False):
            signs |= _bars(axes, panels, measure, looks)
            baseline = panels[0]["labels"].get(findings["baseline"], "")
            axes.set_title(textwrap.fill(MEASURES[measure].format(baseline=baseline), 30), fontsize=9)
        for axes in figure.axes[axes_count:]:
            axes.set_axis_off()
        rows = _legend(figure, panels, looks, bars, bool(curved), signs, columns=max(2, int(width / 1.4)))
        lines = [*headline(findings, width), *_whole(_trained(panels), _room(width))]
        figure.suptitle("\n".join(lines), fontsize=10.5)
        # What stands around the axes takes nothing away from them.
        figure.set_figheight(figure.get_figheight() + 0.2 * (len(lines) - 1) + 0.17 * max(0, rows - 2))
        save(figure, files, digest(findings))
    return True


def headline(findings: Shown, width: float) -> list[str]:
    """The title of a figure so many inches wide; what it is of stays together, below the rest if need be."""
    title, source = findings["title"], f"({findings['figure']}, {findings['scale']} scale)"
    room = _room(width)
    if len(title) + 1 + len(source) <= room:
        return [f"{title} {source}"]
    return [*textwrap.wrap(title, room), source]


def _room(width: float) -> int:
    """Letters of a title that so many inches have room for, and a margin."""
    return int(12.5 * width)


def _trained(panels: Sequence[Shown]) -> str:
    """What is trained on what: ``MLP on digits, MNIST; small GPT on Shakespeare``."""
    data: dict[str, dict[str, None]] = {}
    for panel in panels:
        model, _, name = panel["trained"].partition(" on ")
        data.setdefault(MODELS.get(model, model), {})[DATA.get(name, name)] = None
    return "; ".join(f"{model} on {', '.join(names)}" for model, names in data.items())


def _whole(text: str, room: int) -> list[str]:
    """Wrapped between what semicolons part, where each of that has room."""
    if max(map(len, parts := text.split("; "))) >= room:
        return textwrap.wrap(text, room)
    kept = "; ".join(part.replace(" ", NO_BREAK) for part in parts)
    return [line.replace(NO_BREAK, " ") for line in textwrap.wrap(kept, room)]


def _measured(measure: str, panels: Sequence[Shown]) -> bool:
    """Of an attack's figures: whether any line has it. Of few samples there is no TPR at 1 %."""
    lines = [line for panel in panels for line in panel["lines"]]
    return measure.partition("_")[0] not in GUESSES or any(measure in line["measures"] for line in lines)


def load_matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(f"figures need {error.name}: {install('plot')}") from None

    def figure(**options: Any) -> Any:
        made = Figure(**options)  # no pyplot: nothing global is opened, nothing has to be closed
        FigureCanvasAgg(made)
        return made

    settings: Any = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.alpha": 0.25,
        "svg.hashsalt": "unknot",
    }
    return figure, matplotlib.rc_context(settings)


def _curves(axes: Any, panel: Shown, looks: Mapping[str, Any], over_time: bool) -> None:
    factor = 100.0 if in_percent(panel["metric"]) else 1.0
    above = _hiding(panel["lines"])
    for line in panel["lines"]:
        curve = line["curve"]
        x, mean, low, high = (
            curve["at"],
            *([factor * value for value in curve[name]] for name in ("mean", "low", "high")),
        )
        axes.plot(x, mean, linewidth=1.4 + 1.8 * above[line["name"]], **looks[line["name"]])
        color = looks[line["name"]]["color"]
        axes.fill_between(x, low, high, color=color, alpha=0.07 if line["lanes"] else 0.15, linewidth=0)
        for edge in (low, high) if line["lanes"] else ():  # where bands lie on one another, these tell whose
            axes.plot(x, edge, color=color, linewidth=0.5, alpha=0.8)
    for at, kind in _asked(panel, over_time):
        axes.axvline(at, color=GREY, linewidth=0.8, linestyle="-" if kind == "erase" else ":", zorder=0)
        sign, _ = MARKS[kind]
        place = axes.get_xaxis_transform()  # x by round or time, y by height: on the upper edge
        axes.plot(at, 1, sign, color=GREY, markersize=5, transform=place, clip_on=False)
    for threshold in panel["thresholds"]:
        axes.axhline(factor * threshold, color="#999999", linewidth=0.8, linestyle="--", zorder=0)
    axes.set_title(textwrap.fill(_title(panel), 36), fontsize=10, pad=8)
    cut = _cut(panel)
    axes.set_xlim(left=0 if over_time else None, right=panel["until"] if cut else None)
    axes.set_xlabel("simulated time (s)" if over_time else "round")
    axes.set_ylabel(f"{panel['split']} {panel['metric']}{' (%)' if in_percent(panel['metric']) else ''}")
    if panel["metric"] == "perplexity":
        _logarithmic(axes)
    for line in cut:
        curve, side = line["curve"], {"clip_on": False, "zorder": 4, **BEYOND}
        height = factor * curve["mean"][bisect_right(curve["at"], panel["until"]) - 1]
        low, high = axes.get_ylim()
        if low <= height <= high:
            axes.plot(panel["until"], height, color=looks[line["name"]]["color"], **side)


def _cut(panel: Shown) -> list[Shown]:
    """Lines that go on where the axis ends."""
    until, lines = panel["until"], [line for line in panel["lines"] if line["curve"]["at"]]
    return [line for line in lines if until and line["curve"]["at"][0] <= until < line["curve"]["at"][-1]]


def _hiding(lines: Sequence[Shown]) -> dict[str, int]:
    """By line, how many that are drawn later are the same: it is so much wider, and its edges can be seen."""
    curves = {
        line["name"]: list(zip(line["curve"]["at"], line["curve"]["mean"], strict=True)) for line in lines
    }
    names = list(curves)

    def same(one: str, other: str) -> bool:
        if len(curves[one]) != len(curves[other]):
            return False
        places = zip(curves[one], curves[other], strict=True)
        alike = sum(a == b and math.isclose(x, y, rel_tol=1e-9) for (a, x), (b, y) in places)
        return bool(alike > ALIKE * len(curves[one]))

    return {name: sum(same(name, other) for other in names[i + 1 :]) for i, name in enumerate(names)}


def _asked(panel: Shown, over_time: bool) -> list[tuple[float, str]]:
    """When requests came, and of which kind. Where it finds lines a round apart: one mark."""
    afters = [after for line in panel["lines"] for after in line["after"]]
    if over_time:
        return sorted({(after["time"], after["kind"]) for after in afters})
    found: dict[tuple[int, str], float] = {}
    for after in afters:
        key = (after["round"], after["kind"])
        found[key] = min(after["at"], found.get(key, after["at"]))
    return sorted((at, kind) for (_, kind), at in found.items())


def _title(panel: Shown) -> str:
    """A panel's, and that its runs are of an earlier configuration, which the page tells more of."""
    if not panel.get("earlier"):
        return str(panel["title"])
    seeds = max(len(line["seeds"]) for line in panel["lines"])
    return f"{panel['title']} (earlier configuration, {'one seed' if seeds == 1 else f'{seeds} seeds'})"


def _logarithmic(axes: Any) -> None:
    """Perplexities begin in the thousands and end in the tens; ticks are plain numbers all the same.

    One that has diverged has no end: its line leaves the figure, so that the others can be read.
    """
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low > DIVERGED:
        # Not the axis' own: its margins grow with what diverges. `ymin` rounding may bring below 0.
        low = 0.9 * axes.dataLim.minposy
        high = SHOWN * low
        axes.set_ylim(low, high)
    steps = (1.0, 2.0, 5.0) if high / low > FEW else tuple(range(1, 10))
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())


def _bars(axes: Any, panels: Sequence[Shown], measure: str, looks: Mapping[str, Any]) -> set[str]:
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
    places: list[float]
    for group, panel in enumerate(panels):
        shares = in_percent(panel["metric"]) and measure in (*QUALITIES, "rise")
        factor = 100.0 if shares else 1.0
        for line in panel["lines"]:
            stat = line["measures"].get(measure)
            place = group + (names.index(line["name"]) - (len(names) - 1) / 2) * width
            color = looks[line["name"]]["color"]
            if stat is None:
                arrival = "total" if measure == "speedup" else measure
                if arrival in ARRIVALS:
                    sign, look = ("alone", ALONE) if arrival in line["measures"] else ("never", NEVER)
                    foot = axes.get_xaxis_transform()  # x by place, y by height
                    axes.plot(place, 0.05, color=color, transform=foot, **look)
                    signs.add(sign)
                continue
            value, whisker = factor * stat["mean"], factor * (stat["std"] or 0.0)
            if attacked:
                _beside(axes, place, width, attack, line["measures"])
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
    if len(panels) > 1:
        places, labels = [float(i) for i in range(len(panels))], [panel["title"] for panel in panels]
    else:
        lines = panels[0]["lines"]
        places = [(names.index(line["name"]) - (len(names) - 1) / 2) * width for line in lines]
        labels = [line["label"] for line in lines]
    margin = 0.6 if len(panels) > 1 else 0.45
    axes.set_xlim(-margin, len(panels) - 1 + margin)
    inches = (WIDTH - 0.7) / (len(panels) - 1 + 2 * margin)  # of the axis, a group
    apart = inches if len(panels) > 1 else inches * width
    room, turned = max(8, 34 // len(labels)), {}
    if len(labels) > 4 and max(len(word) for label in labels for word in label.split()) * LETTER > apart:
        room, turned = _upright(labels, apart), {"rotation": 90}  # where they are below nobody else
    elif len(labels) > 4:
        room = int(apart / LETTER)
    wrapped = [textwrap.fill(label, room, break_long_words=False) for label in labels]
    axes.set_xticks(places, wrapped, fontsize=7.5, **turned)
    size = min(7.0, 72 * inches * width)
    for place, top, words in noted if size >= SMALLEST else ():
        above = {"textcoords": "offset points", "xytext": (0, 2), "ha": "center", "va": "bottom"}
        axes.annotate(words, (place, top), rotation=90, fontsize=size, color=GREY, **above)
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.2 * top))
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    return signs


def _upright(labels: Sequence[str], inches: float) -> int:
    """How many letters a line of labels has that stand upright, so far from one another."""
    lines = max(1, int(inches / LINE))
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


def _beside(axes: Any, place: float, width: float, attack: str, measures: Shown) -> None:
    for shift, (model, (look, _)) in zip((-0.25, 0.25), BESIDE.items(), strict=True):
        if stat := measures.get(f"{attack}_{model}"):
            x = place + shift * width
            axes.plot(x, stat["mean"], markersize=5, zorder=3, **look)


def _legend(
    figure: Any,
    panels: Sequence[Shown],
    looks: Mapping[str, Any],
    bars: Sequence[str],
    curved: bool,
    signs: set[str],
    columns: int,
) -> int:
    """Only what is in this figure; says in how many rows."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    labels = {line["name"]: line["label"] for panel in panels for line in panel["lines"]}
    handles: list[Any] = [Line2D([], [], linewidth=1.6, **look) for look in looks.values()]
    names = [labels[name] for name in looks]
    every = [line for panel in panels for line in panel["lines"]]
    if band := _band(every) if curved else "":
        handles.append(Patch(color=GREY, alpha=0.25, linewidth=0))
        names.append(band)
    stats = [line["measures"][bar] for line in every for bar in bars if bar in line["measures"]]
    if any(stat["std"] for stat in stats):
        handles.append(Line2D([], [], color="#333333", marker="|", linestyle="none", markersize=9))
        names.append("standard deviation over the seeds")
    for sign, meaning in SIGNS.items():
        if sign in signs:
            look = {"never": NEVER, "at once": AT_ONCE, "alone": ALONE, "far": {"marker": DOWN, **FAR}}.get(
                sign
            )
            handles.append(
                Line2D([], [], color=GREY, **look) if look else Patch(facecolor="none", edgecolor=GREY)
            )
            names.append(meaning)
    if any(bar.partition("_")[0] in GUESSES for bar in bars):
        for look, meaning in BESIDE.values():
            handles.append(Line2D([], [], linestyle="none", markersize=5, **look))
            names.append(meaning)
    if curved and any(map(_cut, panels)):
        handles.append(Line2D([], [], color=GREY, **BEYOND))
        names.append(GOES_ON)
    if curved and any(any(_hiding(panel["lines"]).values()) for panel in panels):
        handles.append(Line2D([], [], color=GREY, linewidth=4, alpha=0.6))
        names.append(HIDDEN)
    if any(panel["thresholds"] for panel in panels):
        handles.append(Line2D([], [], color="#999999", linewidth=0.8, linestyle="--"))
        names.append("threshold")
    kinds = {after["kind"] for panel in panels for line in panel["lines"] for after in line["after"]}
    for kind in sorted(kinds) if curved else ():
        sign, meaning = MARKS[kind]
        handles.append(Line2D([], [], color=GREY, marker=sign, linestyle="none", markersize=5))
        names.append(meaning)
    columns = min(len(names), columns)
    while columns > 1 and _legend_width(names, columns) > figure.get_figwidth() - 0.3:
        columns -= 1
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return math.ceil(len(names) / columns)


def _band(lines: Sequence[Shown]) -> str:
    """What the bands of the curves are."""
    clusters = any(line["lanes"] for line in lines)
    seeds = any(not line["lanes"] and len(line["seeds"]) > 1 for line in lines)
    words = [name for name, there in {"cluster": clusters, "seed": seeds}.items() if there]
    return f"worst to best {', or '.join(words)}" if words else ""


def _legend_width(names: Sequence[str], columns: int) -> float:
    """Inches, as measured on our figures: the first columns are the longer ones."""
    rows, longer = divmod(len(names), columns)
    ends = [sum(rows + (i < longer) for i in range(column + 1)) for column in range(columns)]
    widest = [max(map(len, names[start:end])) for start, end in zip([0, *ends], ends, strict=False)]
    return sum(0.48 + 0.057 * length for length in widest)
