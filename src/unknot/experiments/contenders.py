"""Methods to be compared, as a person names them: by name, with options, as values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.core.registry import beside
from unknot.core.registry import methods as known
from unknot.core.toml import key_to_toml, value_to_toml
from unknot.experiments.config import Experiment
from unknot.experiments.tables import from_anywhere, lies_in
from unknot.federation import Method

Given = str | Mapping[str, Any] | Method
"""A name, ``"knot, clusters=4"``, a section as in a file, or a method."""
USUAL = ("rfs", "federaser", "pga", "knot", "sisa", "mmt")
"""What is compared unless something is named: one of each way to forget."""


@dataclass(frozen=True, eq=False)
class Contender:
    """A method that takes part: what it is called, and how a file writes it where a file can."""

    label: str
    method: Method
    table: Mapping[str, Any] | None = None


def contenders(given: Sequence[Given] | None, experiment: Experiment) -> tuple[Contender, ...]:
    """The methods that are named; otherwise the usual ones, and the experiment's own.

    A "module:Thing" may lie where the experiment's file does.
    """
    with nullcontext() if experiment.folder is None else beside(experiment.folder):
        found = [_contender(one, experiment) for one in (_usual(experiment) if given is None else given)]
    if not found:
        raise ConfigError("there is nothing to compare: name a method")
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(
                f"the method {label!r} is named twice: name it once, or with other options, as in "
                "'knot, clusters=4'"
            )
    return tuple(found)


def parse_method(text: str) -> dict[str, Any]:
    """``knot``, ``knot, clusters=4`` or ``name="knot", clusters=4``: what a file's [method] would say."""
    head, _, rest = text.partition(",")
    if "=" in head:
        head, rest = "", text
    try:
        table: dict[str, Any] = tomllib.loads(f"method = {{{rest}}}")["method"]
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            f"cannot read the method {text!r}: write a name, and options as in a file: knot, or "
            """'knot, clusters=4, by="random"' (texts stand in double quotes)"""
        ) from None
    if head.strip():
        if "name" in table:
            raise ConfigError(f"the method {text!r} has two names")
        table = {"name": head.strip(), **table}
    return table


def written(text: str, folder: Path | None = None) -> str:
    """The same method on one line, its files named from the root: it means the same from anywhere.

    `folder` is where a "module:Thing" may lie.
    """
    told = from_anywhere({"modules": str(folder or ""), "method": parse_method(text)})["method"]
    rest = (f"{key_to_toml(key)}={value_to_toml(value)}" for key, value in told.items() if key != "name")
    return ", ".join([told["name"], *rest])


def finding(experiment: Experiment, chosen: Iterable[Contender]) -> Experiment:
    """The experiment, whose table says where methods lie that its own file does not name."""
    folder, table = experiment.folder, experiment.table
    if folder is None or not table or not any(lies_in(folder, one.table) for one in chosen):
        return experiment
    found = replace(experiment)
    object.__setattr__(found, "table", {**table, "modules": str(folder)})
    return found


def _usual(experiment: Experiment) -> Iterable[Given]:
    own = experiment.table.get("method", {}).get("name", experiment.method.name)
    return USUAL if own in USUAL else (*USUAL, own if experiment.table else experiment.method)


def _contender(given: Given, experiment: Experiment) -> Contender:
    if isinstance(given, Method):
        return Contender(_label(given.name, _settings(given)), given)
    if not isinstance(given, str | Mapping):
        raise ConfigError(
            f"a method is a name, a section as in a file, or a Method such as unknot.RFS(), not {given!r}"
        )
    table = parse_method(given) if isinstance(given, str) else dict(given)
    if "name" not in table:
        raise ConfigError(f"the method {given!r} has no name")
    options = {key: value for key, value in table.items() if key != "name"}
    label = _label(str(table["name"]), options)
    own = experiment.table.get("method", {})
    if table["name"] == own.get("name", "rfs"):
        options = {**{key: value for key, value in own.items() if key != "name"}, **options}
    elif not experiment.table and table == {"name": experiment.method.name}:
        return Contender(label, experiment.method)
    try:
        method = known.make(table["name"], options)
    except ConfigError as error:
        if not isinstance(given, str) or repr(given) in str(error):
            raise
        raise ConfigError(f"the method {given!r}: {_without_class(str(error))}") from error
    return Contender(label, method, {"name": table["name"], **options})


def _without_class(text: str) -> str:
    """``clusters must be ...`` of ``KNOT: clusters must be ...``: what the person wrote stands before it."""
    return re.sub(r"^(?:\w+|method '[^']*'): ", "", text)


def _settings(method: Method) -> dict[str, Any]:
    """The options of a method that are not as they would be if nothing was said."""
    if not is_dataclass(method):
        return {}
    found = {}
    for item in fields(method):
        usual = item.default_factory() if item.default_factory is not MISSING else item.default
        if item.init and item.repr and getattr(method, item.name) != usual:
            found[item.name] = getattr(method, item.name)
    return found


def _label(name: str, options: Mapping[str, Any]) -> str:
    return ", ".join([name, *(f"{key}={_said(value)}" for key, value in options.items())])


def _said(value: Any) -> str:
    if isinstance(value, Method):
        return f"({told})" if "," in (told := _label(value.name, _settings(value))) else told
    if isinstance(value, Mapping):
        inner = {key: item for key, item in value.items() if key != "name"}
        told = _label(str(value.get("name", "")), inner)
        return f"({told})" if inner else told
    return str(value)
