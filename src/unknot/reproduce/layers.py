"""The layers of a reproduction's file: base, scale, panels and lines, merged to one experiment's table."""

from __future__ import annotations

from typing import Any

from unknot.core.errors import ConfigError
from unknot.core.fields import convert, refuse_unknown
from unknot.core.registry import Option, filled, options_of, shared
from unknot.reproduce.parts import SCALES, Table, convert_table, convert_tables

SECTIONS = ("data", "model", "train", "federation", "select", "clock", "method", "engine", "audit")
LAYER = (*SECTIONS, "request", "phase", "phases", "scale")


def merge(below: Table, above: Table) -> dict[str, Any]:
    """Sections are merged, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def on_top(below: Table, above: Table) -> dict[str, Any]:
    """Published figures are replaced as a whole: those of one figure say nothing of another.

    Lines that are held to fewer seeds below are so to those that are left, where seeds or lines are others.
    """
    if "fewer" in below:
        seeds, without = above.get("seeds"), above.get("without")
        fewer = {
            line: [seed for seed in some if not isinstance(seeds, list) or seed in seeds]
            for line, some in below["fewer"].items()
            if not isinstance(without, list) or line not in without
        }
        below = {**below, "fewer": {line: some for line, some in fewer.items() if some}}
    return {**merge(below, above), **{key: above[key] for key in ("published",) if key in above}}


def resolve(merged: dict[str, Any], name: str, seed: int) -> dict[str, Any]:
    """The table of an experiment: phases become rounds."""
    phase, phases = _phases(merged.pop("phase", None), merged.pop("phases", None), name)
    requests = [
        _request(item, phase, phases, f"{name}: request {i}")
        for i, item in enumerate(merged.pop("request", []), 1)
    ]
    federation = dict(merged.get("federation", {}))
    if phase is not None and phases is not None:
        federation["rounds"] = phase * phases
    elif not {"rounds", "seconds"} & set(federation):
        raise ConfigError(f"{name}: how long? Give phase and phases, federation.rounds or federation.seconds")
    merged["federation"] = federation
    return {"name": name, "seed": seed, **merged, "request": requests}


def _phases(phase: object, phases: object, name: str) -> tuple[int, int] | tuple[None, None]:
    """The length of a phase and how many there are: both or neither."""
    given = {"phase, the rounds of one,": phase, "phases, how many,": phases}
    if phase is None and phases is None:
        return None, None
    if missing := [what for what, value in given.items() if value is None]:
        there = next(f"{what} is {value!r}" for what, value in given.items() if value is not None)
        raise ConfigError(f"{name}: {there}, but {missing[0]} is missing: give both")
    length, count = convert(phase, int, f"{name}: phase"), convert(phases, int, f"{name}: phases")
    for what, value in (("phase", length), ("phases", count)):
        if value < 1:
            raise ConfigError(f"{name}: {what} must be at least 1, not {value}")
    return length, count


def _request(item: dict[str, Any], phase: int | None, phases: int | None, where: str) -> dict[str, Any]:
    """A request as an experiment has it: at a round or at a time."""
    refuse_unknown(item, ("erase", "join", "phase", "after", "round", "time"), where)
    named: dict[str, Any] = {key: item[key] for key in ("erase", "join") if key in item}
    moments = [key for key in ("phase", "round", "time") if key in item]
    if len(moments) != 1:
        raise ConfigError(f"{where} comes at a phase, a round or a time: give one of them")
    if moments != ["phase"]:
        if "after" in item:
            raise ConfigError(f"{where}.after counts from a phase, and there is none")
        return {**named, moments[0]: item[moments[0]]}
    if phase is None or phases is None:
        raise ConfigError(
            f"{where} comes at a phase, but phase, the rounds of one, and phases, how many, are missing: "
            "give both"
        )
    number, last = convert(item["phase"], int, f"{where}.phase"), phases - 1
    if not 0 <= number <= last:
        raise ConfigError(f"{where}.phase is {number}, but there are phases 0 to {last}")
    at = number * phase + convert(item.get("after", 0), int, f"{where}.after")
    if not 0 <= at < phases * phase:
        raise ConfigError(f"{where} comes at round {at}, but the run has {phases * phase}")
    return {**named, "round": at}


def checked(table: dict[str, Any], where: str, *, scaled: bool = False) -> dict[str, Any]:
    refuse_unknown(table, [key for key in LAYER if not (scaled and key == "scale")], where)
    for key in SECTIONS:
        if key in table:
            convert_table(table[key], f"{where}.{key}")
    scales = convert_table(table.get("scale", {}), f"{where}.scale")
    refuse_unknown(scales, SCALES, f"{where}.scale")
    for key, part in scales.items():
        checked(convert_table(part, f"{where}.scale.{key}"), f"{where}.scale.{key}", scaled=True)
    return table


def layered(cls: type, table: object, where: str) -> Any:
    """A value with fields of its own and the sections of an experiment beside them."""
    own = {name: option for name, option in options_of(cls).items() if name != "layer"}
    layer = {key: Option(key) for key in LAYER if key not in own}
    parts = shared(convert_table(table, where), {"own": own, "layer": layer}, where)
    return filled(cls, {**parts["own"], "layer": checked(parts["layer"], where)}, where)


def several(cls: type, table: Table, key: str) -> tuple[Any, ...]:
    items = enumerate(convert_tables(table.get(key, []), key))
    return tuple(layered(cls, item, f"{key}[{i}]") for i, item in items)
