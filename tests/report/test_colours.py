"""One look a line: the same on every page, and another than its neighbours'."""

import pytest

from unknot import reproduce
from unknot.report.colours import COLOURS, PLACES, looks


@pytest.mark.parametrize("name", reproduce.names())
def test_lines_of_a_paper_have_places_of_their_own_in_each_figure(name):
    lines = [line.name for line in reproduce.load(name).lines]
    assert len({PLACES[line] for line in lines}) == len(lines)
    assert looks(lines) == {line: looks([line])[line] for line in lines}


def test_names_without_a_place_have_what_is_left():
    found = looks(["mine", "rfs", "other", "mmt", "mine"])
    assert list(found) == ["mine", "rfs", "other", "mmt"]
    assert (found["rfs"], found["mmt"]) == (looks(["rfs"])["rfs"], looks(["mmt"])["mmt"])
    assert len({look["color"] for look in found.values()}) == 4


def test_two_names_of_one_place_differ_where_they_meet():
    found = looks(["rfs", "fedbuff"])
    assert PLACES["rfs"] == PLACES["fedbuff"]
    assert found["rfs"] != found["fedbuff"]


def test_more_lines_than_colours_are_drawn_all_the_same():
    assert len(looks(f"line {i}" for i in range(len(COLOURS) + 3))) == len(COLOURS) + 3
