"""Everything that has a name: what it is, its options and what they mean, and how a file names it."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from unknot.core import registry
from unknot.core.errors import ConfigError, nearest
from unknot.core.registry import REQUIRED, Option, Registry, options_of, registry_of
from unknot.core.toml import value_to_toml
from unknot.data.client_files import folder
from unknot.data.partition import Dirichlet
from unknot.data.sources import Source
from unknot.experiments.specs import FOLDER, USUAL_DEAL, EngineSpec
from unknot.federation import Guarantee, Method

WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "text"}
EXAMPLES: Mapping[str, Any] = {
    "clients": 20,
    "alpha": 0.5,
    "ratio": 0.1,
    "k": 2,
    "per_round": 10,
    "minimum": 5,
    "factors": (1.0, 2.0),
    "length": 100,
    "every": 50,
    "bound": 1.0,
    "path": "clients",
    "named.path": "model.gguf",
    "table_of_texts.path": "texts.csv",
}
"""What to write for an option that has no default; by its function, where a name means several things."""
SAMPLES: Mapping[str, Any] = {
    "budget": 8,
    "probabilities": (0.1, 0.4),
    "expires": (10.0, 20.0),
    "assignment": ((0, 2), (1, 3)),
    "retrain": "federaser",
    "weights": (1.0, 2.5),
    "channels": (32, 64),
    "hidden": (128, 64),
    "ids": {"Graz": 0, "Linz": 1},
    "target": "price",
    "label": "label",
    "client": "user",
}
"""What may be written for one that can be left out, where its type alone does not show it."""


@dataclass(frozen=True)
class Setting:
    """An option as a person writes it: what type it is in words, and its default as TOML has it."""

    name: str
    type: str
    default: str | None
    """As it would stand in a file; None where nothing holds unless something is said."""
    required: bool
    about: str
    example: str
    """A value to begin with: the default where there is one."""
    sample: str = ""
    """A value of one that may be left out and has no default, to show how it is written."""


@dataclass(frozen=True)
class Kind:
    """Things of one kind, and where a file names one."""

    name: str
    about: str
    section: str
    key: str
    page: str
    names: Registry[Any]


@dataclass(frozen=True)
class Thing:
    """Something that has a name."""

    kind: str
    name: str
    about: str = ""
    """What it is, in a line."""
    text: str = ""
    """The rest of what there is to say."""
    guarantee: str = ""
    """What a method promises in a word: exact, approximate or none."""
    promise: str = ""
    """The same, with what it does not cover."""
    settings: tuple[Setting, ...] = ()
    toml: str = ""
    """How a file names it."""
    page: str = ""
    """Where the documents speak of it."""
    package: str = ""
    """Where it comes from, if it is not ours."""
    error: str = ""
    """Why it cannot be used."""

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", ())}


KINDS = {
    kind.name: kind
    for kind in (
        Kind("methods", "how a federation forgets", "method", "name", "", registry.methods),
        Kind("models", "what is trained", "model", "name", "docs/extending.md#a-model", registry.models),
        Kind(
            "data",
            "what it is trained on",
            "data",
            "name",
            "docs/data.md#data-sets-and-partitions",
            registry.datasets,
        ),
        Kind(
            "partitions",
            "who holds what of it",
            "data",
            "partition",
            "docs/data.md#data-sets-and-partitions",
            registry.partitions,
        ),
        Kind(
            "optimizers",
            "how a gradient becomes a step",
            "train",
            "optimizer",
            "docs/architecture.md#one-step-rule",
            registry.optimizers,
        ),
        Kind(
            "schedules",
            "how the learning rate changes",
            "train",
            "schedule",
            "docs/architecture.md#one-step-rule",
            registry.schedules,
        ),
        Kind("losses", "what is trained by", "task", "loss", "docs/tasks.md#losses", registry.losses),
        Kind("metrics", "what is judged by", "task", "metrics", "docs/tasks.md#metrics", registry.metrics),
        Kind("selectors", "who is asked", "select", "name", "docs/selection.md", registry.selectors),
        Kind(
            "aggregators",
            "how updates become a model",
            "federation",
            "aggregate",
            "docs/aggregation.md",
            registry.aggregators,
        ),
        Kind(
            "paces",
            "for how many the server waits",
            "federation",
            "pace",
            "docs/glossary.md",
            registry.paces,
        ),
        Kind(
            "clocks",
            "how clients differ in speed",
            "clock",
            "slowness",
            "docs/glossary.md",
            registry.clocks,
        ),
        Kind(
            "engines",
            "what trains",
            "engine",
            "name",
            "docs/architecture.md#why-a-stack",
            registry.engines,
        ),
    )
}
OTHERWISE = {
    **{kind.names.kind: name for name, kind in KINDS.items()},
    "optimisers": "optimizers",
    "optimizer": "optimizers",
    "datasets": "data",
    "clock": "clocks",
}
"""Other words for the same: in the singular, in other spellings."""


def kind_of(word: str) -> Kind:
    """The kind that is called so."""
    found = KINDS.get(OTHERWISE.get(word, word))
    if found is None:
        raise ConfigError(f"there is no kind of thing called {word!r}.{nearest(word, KINDS)}")
    return found


def names_of(kind: Kind) -> tuple[str, ...]:
    """Every name of a kind: ours, and those of other packages."""
    names = kind.names.names()
    return (*names, FOLDER) if kind.name == "data" else names


def things(kind: Kind) -> list[Thing]:
    """Everything of a kind; what another package has but cannot load says why."""
    found = []
    for name in names_of(kind):
        try:
            found.append(thing(kind, name))
        except ConfigError as error:
            found.append(Thing(kind.name, name, error=str(error)))
    return found


def thing(kind: Kind, name: str) -> Thing:
    """What is known of one thing; an unknown name is an error with the nearest one."""
    if kind.name == "data" and name == FOLDER:
        settings = tuple(map(setting, options_of(folder, given=0).values()))
        about, text = _told(folder)
        return Thing(kind.name, name, about, text, settings=settings, **_written(kind, name, settings))
    if name not in (known := names_of(kind)) and ":" not in name:
        raise ConfigError(f"there is no {kind.names.kind} {name!r}.{nearest(name, known)}")
    found = kind.names.get(name)
    settings = tuple(map(setting, _options(kind, found).values()))
    about, text = (
        (f"{found.description}.", _told(found.read)[1]) if isinstance(found, Source) else _told(found)
    )
    guarantee = getattr(found, "guarantee", None)
    home = getattr(found, "__module__", type(found).__module__).partition(".")[0]
    return Thing(
        kind.name,
        name,
        about,
        text,
        guarantee=guarantee.value if isinstance(guarantee, Guarantee) else "",
        promise=_promise(kind, name, found),
        settings=settings,
        package="" if home == "unknot" else home,
        **_written(kind, name, settings),
    )


def setting(option: Option) -> Setting:
    """An option in a person's words."""
    required = option.default is REQUIRED
    default = None if required or option.default is None else as_toml(option.default, option.hint)
    example = _example(option) if required else option.default
    sample = value_to_toml(SAMPLES[option.name]) if option.default is None and option.name in SAMPLES else ""
    return Setting(
        option.name,
        in_words(option.hint),
        default,
        required,
        option.about,
        as_toml(example, option.hint),
        sample,
    )


def _example(option: Option) -> Any:
    owner = getattr(option.owner, "func", option.owner)  # of a function with arguments filled in, itself
    home = f"{getattr(owner, '__name__', '')}.{option.name}"
    return EXAMPLES.get(home, EXAMPLES.get(option.name, _any(option.hint)))


def as_toml(value: Any, hint: Any = None) -> str:
    """A value as it stands in a TOML file; a thing that has a name is named, of others nothing is told."""
    if isinstance(value, bool | int | float | str | Mapping | Sequence):
        return value_to_toml(value)
    if isinstance(value, Path):
        return value_to_toml(str(value))
    known = registry_of(hint)
    return "" if known is None or value is None else value_to_toml(known.name_of(type(value)))


def in_words(hint: Any) -> str:
    """A type as a person calls it; that nothing may be said as well is not told."""
    if (known := registry_of(hint)) is not None:
        return f"name of {'an' if known.kind[0] in 'aeiou' else 'a'} {known.kind}"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        words = dict.fromkeys(in_words(one) for one in args if one is not type(None))
        if "number" in words:
            words.pop("whole number", None)
        return " or ".join(words)
    if origin is typing.Literal:
        return " or ".join(map(as_toml, args))
    if origin is tuple and args[-1] is not Ellipsis:
        return f"list of {len(args)} {_plural(in_words(args[0]))}"
    if origin in (tuple, list, collections.abc.Sequence):
        return f"list of {_plural(in_words(args[0]))}"
    if origin is not None and issubclass(origin, Mapping):
        return "table"
    return WORDS.get(hint, "anything" if hint is Any else "table")


def _plural(words: str) -> str:
    if words.startswith("name of "):
        return f"names of {words.split(' ', 3)[3]}s"
    if words.startswith("list"):
        return f"lists{words[4:]}"
    if words in ("anything", WORDS[bool]):
        return words
    return " or ".join(f"{one}s" for one in words.split(" or "))


def _any(hint: Any) -> Any:
    """A value of this type, to show how one is written."""
    return {int: 1, float: 1.0, bool: True, str: "..."}.get(hint, [])


def _options(kind: Kind, found: Any) -> dict[str, Option]:
    """As a section takes them: what an engine is given by its section, and a part's options in its place."""
    options = kind.names.options_of(found)
    if found is Dirichlet:
        options |= {name: replace(options[name], default=usual) for name, usual in USUAL_DEAL.items()}
    if kind.name == "engines":
        own = options_of(EngineSpec)
        options = {name: own.get(name, option) for name, option in options.items() if name != "task"}
    dealt: dict[str, Option] = {}
    for name, option in options.items():
        plain = dataclasses.is_dataclass(option.hint) and registry_of(option.hint) is None
        dealt |= options_of(option.hint) if plain else {name: option}
    return dealt


def _told(found: Any) -> tuple[str, str]:
    """The first sentences of a docstring, in a line, and the rest of it but for what explains parameters."""
    about, *rest = (inspect.getdoc(found) or "").split("\n\n")
    text = "\n\n".join(part for part in rest if not re.match(r"`\w+`(:| and `)", part))
    return " ".join(about.split()), text


def _promise(kind: Kind, name: str, found: Any) -> str:
    if not isinstance(found, type) or not issubclass(found, Method):
        return ""
    try:
        made: Method = kind.names.make(name)
    except ConfigError:  # an option that must be given
        return found.guarantee.value
    return made.promise


def _written(kind: Kind, name: str, settings: Sequence[Setting]) -> dict[str, str]:
    """How a file names it, and where to read on."""
    page = kind.page or f"docs/methods/{name}.md"
    ours = name in kind.names.ours or name == FOLDER
    if kind.key == "schedule":
        needed = "".join(f", {one.name} = {one.example}" for one in settings if one.required)
        lines = [f'schedule = {{ name = "{name}"{needed} }}']
    elif kind.key == "metrics":
        lines = [f'metrics = ["{name}"]']
    else:
        lines = [f'{kind.key} = "{name}"']
        lines += [
            f"{'' if one.required else '# '}{one.name} = {one.example}" for one in settings if one.example
        ]
    toml = "\n".join([f"[{kind.section}]", *lines])
    return {"toml": toml, "page": page if ours else ""}
