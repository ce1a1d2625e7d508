"""A run's figures in words: the same in the terminal and on a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from unknot.federation import History, Recovery, Served
from unknot.federation.clustered import JOINT
from unknot.report.activity import lanes

MOST = 7
"""So many layers are named."""


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def counted(number: int, what: str) -> str:
    """``1 round``, ``2,000 rounds``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def model_name(name: str, path: object) -> str:
    """``mlp``; of one that was read from a file, also which: ``pretrained (tinyllama)``."""
    return f"{name} ({PurePath(str(path)).stem})" if path else name


def trained_part(model: Mapping[str, Any]) -> str:
    """``63,610 parameters``; ``1,344 parameters trained`` where others are frozen."""
    return f"{model['parameters']:,} parameters{' trained' if model.get('base') else ''}"


def adapters_of(model: Mapping[str, Any]) -> str:
    """``LoRA of rank 4 on q_proj, v_proj``; nothing where there are no adapters."""
    if not (found := model.get("adapters")):
        return ""
    on = found["on"]
    more = f" and {len(on) - MOST} more" if len(on) > MOST else ""
    return f"LoRA of rank {found['rank']} on {', '.join(on[:MOST])}{more}"


def frozen_part(model: Mapping[str, Any]) -> str:
    """``86,064 frozen, base 2c1cecdc``; nothing where nothing is frozen."""
    return f"{model['frozen']:,} frozen, base {model['base'][:8]}" if model.get("base") else ""


def where(served: Served, several: bool) -> str:
    """``round 3, 70.0 s``; with several lanes, whose round: ``round 3 of cluster 2, 70.0 s``."""
    whose = f" of {', '.join(served.lanes) or 'the furthest lane'}" if several else ""
    return f"round {served.round}{whose}, {served.time:.1f} s"


def pending(history: History) -> list[str]:
    what = "the run ended before it came. Train for longer, or ask earlier"
    return [f"still pending: {request}: {what}" for request in history.unserved]


def refused(record: Mapping[str, Any]) -> list[str]:
    """Of what was asked of a kept run from outside: why is told by its folder alone, for it names people."""
    return [f"request {number} was refused: unknot show says why" for number in record.get("refused", ())]


def rounds_of(history: History) -> str:
    """Lanes side by side count one by one, and joint rounds apart from them."""
    joint = sum(record.lane == JOINT for record in history.rounds)
    text, many = str(len(history.rounds) - joint), len(lanes(history))
    text += f" in {many} lanes" if many > 1 else ""
    return f"{text}, {joint} joint" if joint else text


def regained(history: History, recovery: Recovery | None) -> str:
    """``99% of it regained in 4 rounds, 31.4 s, 96.0 client epochs``; nothing where there is no target."""
    if recovery is None or not math.isfinite(recovery.target):
        return ""
    metric = history.metric
    what = f"{recovery.fraction:.0%} of it"
    if metric.falls or recovery.target < 0:  # then it is not a share of it
        what = f"{metric.name} {metric.shown(recovery.target)}"
    if recovery.reached and not recovery.rounds:
        return f"{what} was still there right after"
    rounds = counted(recovery.rounds, "round")
    cost = f"{rounds}, {recovery.seconds:.1f} s, {recovery.client_epochs:.1f} client epochs"
    return f"{what} {'regained' if recovery.reached else 'not regained'} in {cost}"


def engine_of(history: History) -> str:
    """``stacked / fused / cpu``; where it is not in this process, also on how many machines."""
    path = history.environment.get("engine", {})
    said = " / ".join(str(path[k]) for k in ("engine", "path", "device") if k in path)
    if "nodes" not in path:
        return said
    lost = f", {path['lost']} lost" if path.get("lost") else ""
    return (
        f"{said}, {counted(path['workers'], 'worker')} on {counted(path['nodes'], 'machine')} "
        f"({path['address']}){lost}"
    )


def label(members: Sequence[int | str], most: int = 48) -> str:
    """The members, runs of numbers as 3–7, cut when long."""
    if len(members) == 1:
        return clip(str(members[0]), most)
    pieces: list[str] = []
    length, used = 0, 0
    for first, last, count in _runs(members[: 4 * most]):
        piece = str(first) if count == 1 else f"{first}, {last}" if count == 2 else f"{first}–{last}"
        length += len(piece) + 2
        if pieces and length > most:
            break
        pieces.append(clip(piece, most))
        used += count
    rest = len(members) - used
    if not rest:
        return ", ".join(pieces)
    return f"{', '.join(pieces)}, … ({len(members)} clients)"


def _runs(members: Sequence[int | str]) -> Iterator[tuple[int | str, int | str, int]]:
    start = 0
    for end in range(1, len(members) + 1):
        one, two = members[end - 1], members[end] if end < len(members) else None
        if isinstance(one, int) and isinstance(two, int) and two == one + 1:
            continue
        yield members[start], one, end - start
        start = end


def clip(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"
