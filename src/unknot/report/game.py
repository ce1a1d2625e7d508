"""The game of incentives for people: tables of shares and utilities, the paper's Figure 4a to c, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import ConfigError
from unknot.incentive import POLICIES, Setting, by_clients, by_rate, describe, optimum, settle, survey
from unknot.incentive.sweeps import AT, CLIENTS, RATES
from unknot.report import game_plots
from unknot.report.canvas import GREY, load_matplotlib
from unknot.report.colours import COLOURS
from unknot.report.fitting import GLUE, USUAL, wrapped
from unknot.report.targets import check_picture

Floats = NDArray[np.float64]

SHOWN = 8  # equilibria that are listed
DRAWN = 4  # populations whose shares are drawn
SERVERS = (COLOURS[4], COLOURS[5], COLOURS[7], *COLOURS[:4])  # others than the policies', for a few servers


def to_json(setting: Setting) -> str:
    """One object, a policy each: final shares, total utility by period, and what the dynamics say of these.

    An eigenvalue is a number, or [real, imaginary] where it is not real.
    """
    return json.dumps({name: _entry(setting, name) for name in POLICIES})


def _entry(setting: Setting, name: str) -> dict[str, Any]:
    outcome = setting.outcomes[name]
    seen = describe(setting.game, outcome.shares)
    return {
        "shares": outcome.shares.tolist(),
        "utilities": outcome.utilities.tolist(),
        "residual": seen.residual,
        "eigenvalues": [z.real if z.imag == 0 else [z.real, z.imag] for z in seen.eigenvalues],
    }


# Characters.


def text(setting: Setting, width: int = USUAL) -> str:
    """Final shares, the four policies, the equilibrium, and the others that there are."""
    game = setting.game
    head = f"{game.populations} populations at {game.servers} servers, {sum(setting.clients)} clients; "
    head += f"{setting.periods} periods, δ{GLUE}={GLUE}{float(game.delta):g}"
    lines = [*wrapped(head, width), "", *_shares(setting, width), "", *_totals(setting), ""]
    return "\n".join([*lines, *_equilibria(setting, width)])


def _shares(setting: Setting, width: int) -> list[str]:
    """A line a population; servers that have no room beside the others stand below."""
    game, x = setting.game, setting.outcomes["evolutionary"].shares
    lines = [f"the game's shares after {setting.periods} periods:"]
    at_once = max(1, (width - 31) // 10)
    for first in range(0, game.servers, at_once):
        some = range(first, min(first + at_once, game.servers))
        servers = "".join(f"{f'server {j}':>10}" for j in some)
        lines.append(f"{'population':>12}{'data':>9}{servers}{'utility':>10}")
        for p, (row, mean) in enumerate(zip(x, game.means(x), strict=True)):
            cells = "".join(f"{row[j]:10.3f}" for j in some)
            lines.append(f"{p:12}{game.data[p]:9.4g}{cells}{mean:10.1f}")
    return lines


def _totals(setting: Setting) -> list[str]:
    """A column a policy: there are four of them, and any number of periods."""
    best = float(setting.game.total(optimum(setting.game, setting.key)))
    periods = sorted({min(t, setting.periods) for t in (1, AT, 100, setting.periods)})
    outcomes = setting.outcomes.values()
    rows = {f"period {t}": [f"{one.utilities[t - 1]:.2f}" for one in outcomes] for t in periods}
    rows["mean"] = [f"{one.utilities.mean():.2f}" for one in outcomes]
    rows["of the best"] = [f"{one.utilities[-1] / best:.1%}" if best > 0 else "–" for one in outcomes]
    lines = ["total utility:", _columns("", setting.outcomes)]
    lines += [_columns(name, cells) for name, cells in rows.items()]
    return [*lines, f"the best that was found, for all together: {best:.2f}"]


def _columns(head: str, cells: Iterable[str]) -> str:
    return f"{head:>11}" + "".join(
        f"{cell:>{max(len(name) + 1, 11)}}" for name, cell in zip(POLICIES, cells, strict=True)
    )


def _equilibria(setting: Setting, width: int) -> list[str]:
    game = setting.game
    found = settle(game, setting.start)
    head = (
        f"from here the equations lead to this equilibrium: {found.kind}, residual{GLUE}{found.residual:.1e}"
    )
    lines = wrapped(head, width)
    lines += _beside(f"{float(game.total(found.shares)):9.1f}  ", _row(found.shares), width)
    lines += _beside(f"{'':11}", f"eigenvalues a period: {_values(found.eigenvalues)}", width)
    seen = survey(game, setting.key)
    alike = [np.abs(place.shares - found.shares).max() < 1e-3 for place, _ in seen.reached]
    others = [item for item, same in zip(seen.reached, alike, strict=True) if not same]
    here = sum(part for (_, part), same in zip(seen.reached, alike, strict=True) if same)
    said = f"of {seen.starts} starts drawn evenly, {here:.1%} lead there too"
    if seen.moving:
        said += f", {seen.moving / seen.starts:.1%} had not come to rest"
    if not others:
        return [*lines, "", *wrapped(f"{said}; no other equilibrium was found", width)]
    told = f"{said}; {len(others)} other{'s were' if len(others) > 1 else ' was'} found:"
    lines += ["", *wrapped(told, width)]
    lines += _beside(f"{'starts':>9}{'kind':>10}{'total':>9}  ", "shares of population 0, 1, ..", width)
    for place, part in others[:SHOWN]:
        total = float(game.total(place.shares))
        lines += _beside(f"{part:9.1%}{place.kind:>10}{total:9.1f}  ", _row(place.shares), width)
    if len(others) > SHOWN:
        lines.append(f"{'':9} and {len(others) - SHOWN} more")
    return lines


def _beside(head: str, text: str, width: int) -> list[str]:
    """Text beside what stands in columns, in its own column where it takes several lines."""
    first, *more = wrapped(text, width - len(head))
    return [head + first, *(" " * len(head) + line for line in more)]


def _row(x: Floats) -> str:
    return "  ".join("(" + GLUE.join(f"{share:.3g}" for share in np.round(row, 3)) + ")" for row in x)


def _values(values: Sequence[complex]) -> str:
    shown = [f"{z.real:.3g}" if z.imag == 0 else f"{z.real:.3g}{z.imag:+.3g}i" for z in values]
    return ", ".join(shown).replace("-", "−") or "none: there is but one server"


# A file.


def draw(setting: Setting, file: str | Path) -> None:
    """Write the paper's Figure 4a to c, and the game's shares, to a file: .png, .svg, .pdf."""
    file = Path(file)
    check_picture(file)
    figure_of, style = load_matplotlib()
    shown = min(setting.game.populations, DRAWN)
    with style:
        figure = figure_of(figsize=(9.6, 5.9), layout="constrained")
        figure.suptitle(_title(setting), fontsize=10.5)
        upper, lower = figure.subfigures(2, 1, height_ratios=[3.2, 2.4])
        axes = upper.subplots(1, 3)
        _curves(axes[0], setting)
        _lines(axes[1], rates(setting), "rates")
        axes[1].set_title(f"b  total utility in period {AT}", loc="left", fontsize=9.5)
        _lines(axes[2], sizes(setting), "clients")
        axes[2].set_title(f"c  utility of a client, period {AT}", loc="left", fontsize=9.5)
        handles, labels = axes[0].get_legend_handles_labels()
        upper.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
        below = lower.subplots(1, shown, sharey=True, squeeze=False)[0]
        for p, panel in enumerate(below):
            _stack(panel, setting, p)
        below[0].set_ylabel("share of the population")
        handles, labels = below[0].get_legend_handles_labels()
        lower.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=min(8, len(labels)),
            frameon=False,
            fontsize=8.5,
        )
        try:
            dated = {"Date": None} if file.suffix.lower() == ".svg" else None
            figure.savefig(file, dpi=200, metadata=dated)
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None


def _title(setting: Setting) -> str:
    game = setting.game
    return (
        f"{game.populations} populations at {game.servers} servers, learning rate δ = {float(game.delta):g}"
    )


Lines = tuple[list[float], Mapping[str, list[float]]]


def rates(setting: Setting) -> Lines:
    """Figure 4b: learning rates, and each policy's total utility in period 50."""
    deltas = [float(setting.game.delta) * factor for factor in RATES]
    found = by_rate(setting.game, setting.crowd(), deltas, AT, setting.start)
    return deltas, {name: values.tolist() for name, values in found.items()}


def sizes(setting: Setting) -> Lines:
    """Figure 4c: numbers of clients, and each policy's utility in period 50 divided by that number."""
    groups = setting.game.populations
    numbers = [many for many in CLIENTS if many >= groups] or [groups]
    found = by_clients(setting.game, setting.key, numbers, AT, setting.start)
    return [float(many) for many in numbers], {name: values.tolist() for name, values in found.items()}


def _curves(axes: Any, setting: Setting) -> None:
    periods = range(1, setting.periods + 1)
    for name, outcome in setting.outcomes.items():
        game_plots.plot(axes, name, periods, outcome.utilities.tolist(), few=False)
    game_plots.along(axes, "periods", periods)
    axes.set_title("a  total utility", loc="left", fontsize=9.5)


def _lines(axes: Any, found: Lines, over: str) -> None:
    at, values = found
    for name in POLICIES:
        game_plots.plot(axes, name, at, values[name], few=True)
    game_plots.along(axes, over, at)


def _stack(axes: Any, setting: Setting, p: int) -> None:
    """A population's shares over the periods, one upon the other."""
    path = np.concatenate([setting.start[None, p], setting.outcomes["evolutionary"].path[:, p]])
    servers = range(setting.game.servers)
    axes.stackplot(
        np.arange(len(path)),
        path.T,
        colors=[SERVERS[j % len(SERVERS)] for j in servers],
        labels=[f"server {j}" for j in servers],
        edgecolor="white",
        linewidth=0.6,
    )
    axes.set_title(f"population {p}, data {setting.game.data[p]:g}", loc="left", fontsize=9.5)
    axes.set(xlim=(0, len(path) - 1), ylim=(0, 1), xlabel="period")
    axes.grid(visible=False)
    axes.tick_params(color=GREY)
