"""What has a name, in tables: kinds, the things of a kind, one thing with its options."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unknot.report.compared import short

Record = Mapping[str, Any]


def kinds(listed: Sequence[Record]) -> RenderableType:
    """Every kind, and the names of that kind."""
    table = Table.grid("", "", padding=(0, 2))
    for kind in listed:
        told = Text.assemble((f"{kind['about']}\n", "dim"), ", ".join(kind["names"]))
        table.add_row(Text(kind["kind"], style="bold"), told)
    hint = "unknot list KIND says what each is, unknot list KIND NAME its options and how to write it."
    return Group(table, Text(""), Text(hint, style="dim"))


def things(kind: str, listed: Sequence[Record]) -> RenderableType:
    """The things of a kind, a line each; one that cannot be used with the reason."""
    promised = any("guarantee" in one for one in listed)
    table = Table("name", *(["guarantee"] if promised else []), "what it is")
    table.columns[0].no_wrap = True
    for one in listed:
        told = Text(one["error"], style="red") if "error" in one else Text(one.get("about", ""))
        if "package" in one:
            told.append(f" ({one['package']})", style="dim")
        middle = [Text(short(one["promise"]) if "promise" in one else "")] if promised else []
        table.add_row(Text(one["name"], style="bold"), *middle, told)
    hint = f"unknot list {kind} NAME says what its options are."
    if kind == "data":
        hint += " unknot data says which sets are here, and how to get the others."
    if promised:
        hint += " *: there it also says what the guarantee does not cover, or why it is none."
    return Group(table, Text(hint, style="dim"))


def thing(one: Record) -> RenderableType:
    """One thing: what it is and promises, its options, how a file names it, where to read on."""
    parts: list[RenderableType] = [
        Text.assemble((one["name"], "bold"), f"  {one.get('about', '')}"),
        Text(""),
    ]
    for paragraph in filter(None, one.get("text", "").split("\n\n")):
        parts += [Text(" ".join(textwrap.dedent(paragraph).split())), Text("")]
    if "promise" in one:
        parts += [Text.assemble(("guarantee: ", "bold"), one["promise"]), Text("")]
    if settings := one.get("settings"):
        parts += [_options(settings), Text("")]
    parts += [Text("in a file", style="bold"), Padding(Text(one["toml"], style="cyan"), (0, 0, 0, 2))]
    if "page" in one:
        parts += [Text(""), Text.assemble(("read on: ", "bold"), one["page"])]
    return Group(*parts)


def _options(settings: Sequence[Record]) -> Table:
    table = Table("option", "default", "what it means")
    table.columns[0].no_wrap = True
    table.columns[1].overflow = "fold"
    for setting in settings:
        default = "must be given" if setting["required"] else setting["default"] or "left out"
        such = f", such as {setting['sample']}" if setting["sample"] else ""
        told = Text.assemble(setting["about"] or "–", (f" ({setting['type']}{such})", "dim"))
        table.add_row(Text(setting["name"], style="bold"), Text(default), told)
    return table
