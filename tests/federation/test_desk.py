"""What a method may touch is what it can touch: the desk's page is the whole of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import toy_federation
from unknot.federation import Desk
from unknot.unlearn import RFS

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


@pytest.fixture
def desk():
    fed = toy_federation(RFS())
    fed.run(2)
    return fed.desk


def test_the_page_names_everything_on_the_desk_and_nothing_else():
    table = PAGE.read_text().split("## The desk", 1)[1].split("\n## ", 1)[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for cell in first for name in re.findall(r"`(\w+)", cell)}
    assert named == public(Desk)


def test_nothing_on_the_desk_can_be_replaced(desk):
    for name in public(Desk):
        with pytest.raises(AttributeError):
            setattr(desk, name, None)


def test_no_samples_no_engine_and_no_books_are_on_the_desk(desk):
    assert not public(desk) & {"data", "engine", "state", "costs", "outside", "select", "clock", "memo"}
    assert not public(desk.ledger) & {"forbid", "reading"}


def test_members_and_lanes_are_read_only(desk):
    assert isinstance(desk.members, frozenset)
    with pytest.raises(TypeError):
        desk.lanes["other"] = desk.lanes["global"]
    desk.ids(0)[:] = 0  # a copy
    assert desk.ids(0).tolist() == list(range(desk.size(0)))
