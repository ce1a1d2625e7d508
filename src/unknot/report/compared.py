"""What a comparison of methods says, as columns of texts: for a screen and for a page alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unknot.report.cells import NONE, Shown

NEVER, AT_ONCE = "never", "at once"
MORE, LESS, CHEAPER, SOONER = "more", "less", "cheaper", "sooner"
"""What is better: of a metric, of a cost, of the way back (who has none never arrived)."""
ENOUGH = 3
"""Seeds of which a deviation says something."""
SAVED = 0.05
"""The least share by which a cost must be lower to be called so."""


@dataclass(frozen=True)
class Column:
    """One figure of every method, in their order; `best` says which cells stand out."""

    head: str
    cells: tuple[str, ...]
    best: int | None = None
    left: bool = False
    """Whether it is words, not numbers."""


@dataclass(frozen=True)
class Part:
    """Columns that belong together."""

    title: str
    columns: tuple[Column, ...]


def parts(comparison: Shown) -> list[Part]:
    """What a person decides by: how good the model is, what the way back takes, what else it costs."""
    metric, better = called(comparison), LESS if comparison["falls"] else MORE

    def value(stat: Shown) -> str:
        return _spread(stat, 100.0, 1) if comparison["share"] else _spread(stat, digits=3)

    def column(head: str, figure: str, shown: Callable[[Shown], str], better: str = "") -> Column:
        return _column(comparison["methods"], head, figure, shown, better)

    asked = comparison["erasures"] > 0
    quality = [column("before", "before", value), column("right after", "after", value, better=better)]
    quality = quality if asked else []
    quality.append(column("at the end", "final", value, better=better))
    words = tuple(short(method["guarantee"]) for method in comparison["methods"])
    regained = (
        column("rounds", "regained_rounds", _arrival, better=SOONER),
        column("time (s)", "regained_seconds", _arrival, better=SOONER),
        column("client epochs", "regained_client_epochs", _arrival, better=SOONER),
    )
    training = column("training before", "client_epochs_before", lambda stat: f"{_spread(stat)} epochs")
    if any(method["stats"]["extra_training"] for method in comparison["methods"]):
        training = column(
            "training before", "extra_training", lambda stat: f"{_spread(stat)} ×", better=CHEAPER
        )
    stored = column("stored", "peak_bytes_stored", _size, better=CHEAPER)
    found = [Part(metric, (Column("guarantee", words, left=True), *quality))]
    if comparison["split"] != "test":
        last = column(f"test{unit(comparison)}", "test", value, better=better)
        found.append(Part(f"test {comparison['metric']}{unit(comparison)}, at the end", (last,)))
    if asked:
        found.append(Part(f"to regain {comparison['fraction']:.0%}", regained))
    return [*found, Part("cost", (training, stored, column("sent", "bytes_sent", _size, better=CHEAPER)))]


def notes(comparison: Shown) -> list[str]:
    """How the figures are to be read."""
    seeds, fraction = comparison["seeds"], f"{comparison['fraction']:.0%}"
    name = comparison["metric"]
    spread = f"Mean ± standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else f"Seed {seeds[0]}"
    best = "; in bold what is best by more than the two deviations together (a cost by 5% at least)"
    found = [f"{spread}{best if len(seeds) >= ENOUGH else ''}."]
    if comparison["erasures"]:
        regained = (
            f"To regain {fraction}: until the served model first had {fraction} of its {name} before the "
            "request again, in rounds (of clusters: of the one that made most), simulated seconds and client "
            "epochs."
        )
        found.append(regained)
    if comparison["erasures"] > 1:
        found.append(
            f"Of {comparison['erasures']} erasures, the figures are those of the one that took longest."
        )
    if any("/" in cell for part in parts(comparison) for column in part.columns for cell in column.cells):
        found.append(f"1/{len(seeds)}: in one of {len(seeds)} seeds, and never in the others.")
    if not comparison["erasures"]:
        found.append("Nothing was erased: the file has no [[request]] that erases, or it did not come.")
    before = "before the first erasure" if comparison["erasures"] else "in the whole run"
    if any(method["stats"]["extra_training"] for method in comparison["methods"]):
        found.append(
            f"Training before: client epochs {before}, as a multiple of rfs, which is plain training."
        )
    else:
        found.append(
            f"Training before: client epochs {before}; with rfs among the methods, as a multiple of its."
        )
    found.append("Stored: on the server, at its most. Sent: down and up, over the whole run.")
    return found


def guarantees(comparison: Shown) -> list[tuple[str, str]]:
    """The guarantees in words, where a word does not say all of it."""
    return [
        (method["method"], method["guarantee"])
        for method in comparison["methods"]
        if method["guarantee"] and short(method["guarantee"]) != method["guarantee"]
    ]


def wrong(comparison: Shown) -> list[tuple[str, str]]:
    """What went wrong, by method: what could not run and why, models that are not what they seem."""
    found = []
    for method in comparison["methods"]:
        if method["error"]:
            part = (
                f" ({method['failed']} of {method['seeds']} seeds)"
                if method["failed"] < method["seeds"]
                else ""
            )
            found.append((method["method"], f"could not run{part}: {method['error']}"))
        found += [(method["method"], text) for text in method["warnings"]]
    return found


def title(comparison: Shown) -> str:
    """The data, the model, who takes part, what is asked."""
    clients = f", {comparison['clients']} clients" if comparison["clients"] else ""
    asked = "; ".join(comparison["requests"][:3]) + ("; …" if len(comparison["requests"]) > 3 else "")
    return f"{comparison['data']}, {comparison['model']}{clients}" + (f": {asked}" if asked else "")


def called(comparison: Shown) -> str:
    """The metric, what it is measured on, its unit."""
    return f"{comparison['split'] or ''} {comparison['metric']}{unit(comparison)}".strip()


def unit(comparison: Shown) -> str:
    """What stands behind the name of a figure."""
    return " (%)" if comparison["share"] else ""


def window(comparison: Shown) -> tuple[float, float] | tuple[None, None]:
    """The time around the first erasure that is of interest: until the slowest is back, and some more."""
    curves = [method["curve"] for method in comparison["methods"] if method["curve"]]
    stats = [method["stats"]["regained_seconds"] for method in comparison["methods"]]
    back = [stat["mean"] for stat in stats if stat]
    if not curves or not any(back):
        return None, None
    later = max((moment for curve in curves for moment in curve["asked"]), default=0.0)
    end = min(max(curve["at"][-1] for curve in curves), later + 1.2 * max(back))
    return max(min(curve["at"][0] for curve in curves), -0.3 * end), end


def short(guarantee: str | None) -> str:
    """``exact``; ``exact*`` where there is more to say."""
    if not guarantee:
        return NONE
    first = re.split(r", but for|[:;]", guarantee)[0]
    return first if first == guarantee else f"{first}*"


def _column(
    methods: Sequence[Shown],
    head: str,
    figure: str,
    shown: Callable[[Shown], str],
    better: str,
) -> Column:
    stats = [method["stats"][figure] for method in methods]
    missing = [
        NEVER if better == SOONER and method["failed"] < method["seeds"] else NONE for method in methods
    ]
    cells = tuple(none if stat is None else shown(stat) for stat, none in zip(stats, missing, strict=True))
    least = SAVED if better == CHEAPER else 0.0
    return Column(head, cells, _best(stats, better == MORE, least) if better else None)


def _best(stats: Sequence[Shown | None], rises: bool, least: float = 0.0) -> int | None:
    """Which is best by more than both deviations together, and by this share of the other at least.

    Of fewer seeds than are enough, or of some of them only, nothing is said.
    """
    whole = {i: stat for i, stat in enumerate(stats) if stat and stat["n"] == stat["asked"] >= ENOUGH}
    if len(whole) < 2:
        return None
    sign = 1 if rises else -1
    first, *others = sorted(whole, key=lambda i: -sign * whole[i]["mean"])
    margins = {i: max(whole[first]["std"] + whole[i]["std"], least * whole[i]["mean"]) for i in others}
    ahead = all(sign * (whole[first]["mean"] - whole[i]["mean"]) > margins[i] for i in others)
    return first if ahead else None


def _arrival(stat: Shown) -> str:
    some = "" if stat["n"] == stat["asked"] else f", {stat['n']}/{stat['asked']}"
    return (AT_ONCE if not stat["mean"] else _spread(stat)) + some


def _spread(stat: Shown, factor: float = 1.0, digits: int | None = None) -> str:
    """``9.7 ± 1.2``, in as many digits as are of use."""
    mean, std = factor * stat["mean"], None if stat["std"] is None else factor * stat["std"]
    if digits is None:
        whole = mean == int(mean) and not std
        digits = 0 if whole or abs(mean) >= 100 else 1 if abs(mean) >= 1 else 2
    some = std is not None and std >= 0.5 * 10**-digits
    return f"{mean:.{digits}f}" + (f" ± {std:.{digits}f}" if some else "")


def _size(stat: Shown) -> str:
    """Bytes; by how much they vary with the seed is of no use to anybody."""
    count, unit = stat["mean"], "B"
    for larger in ("kB", "MB", "GB"):
        if count < 1000:
            break
        count, unit = count / 1000, larger
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
