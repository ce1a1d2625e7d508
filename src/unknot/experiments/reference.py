"""All keys that a TOML file can have, as a page: made from the code, so that it is true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from unknot.core.registry import Option, options_of
from unknot.core.task import Task
from unknot.core.training import Recipe
from unknot.experiments.catalogue import KINDS, Setting, Thing, names_of, setting, thing
from unknot.experiments.specs import (
    FOLDER,
    Course,
    DataSpec,
    EngineSpec,
    LoraSpec,
    ModelSpec,
    RequestSpec,
    ScenarioSpec,
)
from unknot.federation import Clock, Length

HEAD = """# Every key of a file

Made from the code by `make reference`; a test holds it. `unknot list` shows the same at the prompt, with what
other packages bring; `unknot new` writes a file to begin with, and `unknot check FILE.toml` says what a run
of one would do.

A file has these sections, none of which must be there. An option of whatever a section names stands beside
the name, in the same section, or in [a table of its own](extending.md#options). On the command line:
`--set SECTION.KEY=VALUE`. An unknown key is an error that names the nearest one.
"""
TOP = (
    Setting("name", "text", None, False, "What the run is called; left out: as the file.", ""),
    Setting("seed", "whole number", "0", False, "The seed of every draw.", ""),
    Setting(
        "modules",
        "text",
        None,
        False,
        "The folder in which a `module:Thing` is looked for, from that of the file; left out: beside it.",
        "",
    ),
)
METHOD = (Setting("name", "text", '"rfs"', False, "The method (`unknot list methods`).", ""),)
SELECT = (
    Setting("name", "text", '"uniform"', False, "The selector (`unknot list selectors`).", ""),
    Setting(
        "when",
        "text",
        '"always"',
        False,
        'When it chooses: "always", or when "unlearning": from the first request on, of a cluster.',
        "",
    ),
)
LENGTH = {"rounds": "20"}
"""What holds in a file where the value itself has no default."""


@dataclass(frozen=True)
class Section:
    """A section of a file: its own keys, and the kinds of things that it names."""

    name: str
    about: str
    settings: tuple[Setting, ...]
    kinds: tuple[str, ...] = ()


def sections() -> list[Section]:
    """The sections of a file, in their usual order."""
    length = [
        replace(one, default=LENGTH.get(one.name, one.default)) for one in _settings(options_of(Length))
    ]
    return [
        Section("", "What the file is called, and what its draws depend on.", TOP),
        Section(
            "[data]",
            "What is trained on, and who holds it.",
            _settings(_own(DataSpec)),
            ("data", "partitions"),
        ),
        Section("[model]", "What is trained.", _settings(_own(ModelSpec, "lora")), ("models",)),
        Section(
            "[model.lora]",
            "Low-rank adapters beside linear layers of a model: they are trained, and it stays as it is.",
            _settings(options_of(LoraSpec)),
        ),
        Section(
            "[train]", "What a client does.", _settings(_own(Recipe, "loss")), ("optimizers", "schedules")
        ),
        Section(
            "[federation]",
            "How long, at which pace, and how updates become a model.",
            (*length, *_settings(options_of(Course))),
            ("paces", "aggregators"),
        ),
        Section("[select]", "Who is asked.", SELECT, ("selectors",)),
        Section(
            "[clock]", "How long clients take, in simulated time.", _settings(options_of(Clock)), ("clocks",)
        ),
        Section("[method]", "How it forgets.", METHOD, ("methods",)),
        Section(
            "[task]", "What is trained by, and judged by.", _settings(options_of(Task)), ("losses", "metrics")
        ),
        Section("[engine]", "What trains.", _settings(_own(EngineSpec)), ("engines",)),
        Section("[scenario]", "What is reported of requests.", _settings(options_of(ScenarioSpec))),
        Section(
            "[[request]]",
            "Who is to be forgotten, or joins, and when; as many as you like.",
            _settings(options_of(RequestSpec)),
        ),
    ]


def page() -> str:
    """The whole reference, in Markdown."""
    parts = [HEAD]
    for section in sections():
        head = f"`{section.name}`" if section.name else "Above all sections"
        parts += [f"## {head}\n\n{section.about}\n", _table(section.settings)]
        for kind in (KINDS[name] for name in section.kinds):
            ours = [thing(kind, name) for name in names_of(kind) if name in kind.names.ours or name == FOLDER]
            parts += [f"### {kind.name.capitalize()}: `{kind.key}` of `[{kind.section}]`\n", _overview(ours)]
            alike: dict[tuple[Setting, ...], list[str]] = {}
            for one in ours:
                alike.setdefault(one.settings, []).append(one.name)
            parts += [f"**{', '.join(names)}**\n\n{_table(some)}" for some, names in alike.items() if some]
    return "\n".join(parts)


def _own(cls: type, *without: str) -> dict[str, Option]:
    left = ("options", *without)
    return {name: option for name, option in options_of(cls).items() if name not in left}


def _settings(options: dict[str, Option]) -> tuple[Setting, ...]:
    return tuple(map(setting, options.values()))


def _table(settings: Iterable[Setting]) -> str:
    rows = ["| key | type | default | what it means |", "|---|---|---|---|"]
    for one in settings:
        default = "must be given" if one.required else f"`{one.default}`" if one.default else "–"
        rows.append(f"| `{one.name}` | {one.type} | {default} | {_cell(one.about)} |")
    return "\n".join(rows) + "\n"


def _overview(ours: Iterable[Thing]) -> str:
    promised = [bool(one.guarantee) for one in ours]
    head, line = (
        ("| name | guarantee | what it is |", "|---|---|---|")
        if any(promised)
        else (
            "| name | what it is |",
            "|---|---|",
        )
    )
    rows = [head, line]
    for one in ours:
        name = f"[`{one.name}`](methods/{one.name}.md)" if one.guarantee else f"`{one.name}`"
        cells = [name, *([one.promise or one.guarantee] if any(promised) else []), _cell(one.about)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
