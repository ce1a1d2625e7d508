"""The game of incentives for people: tables of shares and utilities, the paper's Figure 4a to c, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table

from unknot.core.errors import ConfigError
from unknot.incentive import POLICIES, Setting, by_clients, by_rate, describe, optimum, settle, survey
from unknot.incentive.sweeps import AT, CLIENTS, RATES
from unknot.report import game_plots
from unknot.report.canvas import GREY, load_matplotlib
from unknot.report.cells import columns
from unknot.report.colours import COLOURS
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


# The terminal.


def sheet(setting: Setting) -> RenderableType:
    """Final shares, the four policies, the equilibrium, and the others that there are."""
    game = setting.game
    head = (
        f"{game.populations} populations at {game.servers} servers, {sum(setting.clients)} clients; "
        f"{setting.periods} periods, δ = {float(game.delta):g}\n"
    )
    return Group(head, _shares(setting), "", _totals(setting), "", *_equilibria(setting))


def _shares(setting: Setting) -> Table:
    game, x = setting.game, setting.outcomes["evolutionary"].shares
    found = columns("population>", "data>", f"shares at the servers in period {setting.periods}", "utility>")
    for p, (row, mean) in enumerate(zip(x, game.means(x), strict=True)):
        shares = "  ".join(f"{share:.3f}" for share in row)
        found.add_row(f"{p}", f"{game.data[p]:.4g}", shares, f"{mean:.1f}")
    return found


def _totals(setting: Setting) -> Table:
    """A column a policy: there are four of them, and any number of periods."""
    best = float(setting.game.total(optimum(setting.game, setting.key)))
    outcomes = [setting.outcomes[name] for name in POLICIES]
    found = columns("total utility", *(f"{name}>" for name in POLICIES))
    for t in sorted({min(t, setting.periods) for t in (1, AT, 100, setting.periods)}):
        found.add_row(f"period {t}", *(f"{one.utilities[t - 1]:.2f}" for one in outcomes))
    found.add_row("mean", *(f"{one.utilities.mean():.2f}" for one in outcomes))
    of_best = (f"{one.utilities[-1] / best:.1%}" if best > 0 else "–" for one in outcomes)
    found.add_row(f"of the best found, {best:.2f}", *of_best)
    return found


def _equilibria(setting: Setting) -> Iterator[RenderableType]:
    game = setting.game
    found = settle(game, setting.start)
    yield f"from here the equations lead to this equilibrium: {found.kind}, residual {found.residual:.1e}"
    yield f"{float(game.total(found.shares)):.1f}  {_row(found.shares)}"
    yield f"eigenvalues per period: {_values(found.eigenvalues)}\n"
    seen = survey(game, setting.key)
    alike = [np.abs(place.shares - found.shares).max() < 1e-3 for place, _ in seen.reached]
    others = [item for item, same in zip(seen.reached, alike, strict=True) if not same]
    here = sum(part for (_, part), same in zip(seen.reached, alike, strict=True) if same)
    said = f"of {seen.starts} starts drawn evenly, {here:.1%} lead there too"
    if seen.moving:
        said += f", {seen.moving / seen.starts:.1%} had not come to rest"
    if not others:
        yield f"{said}; no other equilibrium was found"
        return
    yield f"{said}; {len(others)} other{'s were' if len(others) > 1 else ' was'} found:"
    listed = columns("starts>", "kind", "utility>", "shares")
    for place, part in others[:SHOWN]:
        listed.add_row(
            f"{part:.1%}", place.kind, f"{float(game.total(place.shares)):.1f}", _row(place.shares)
        )
    yield listed
    if len(others) > SHOWN:
        yield f"and {len(others) - SHOWN} more"


def _row(x: Floats) -> str:
    return "  ".join("(" + " ".join(f"{share:.3g}" for share in np.round(row, 3)) + ")" for row in x)


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
