"""What a parameter means is read from beside it."""

import functools
from dataclasses import dataclass, make_dataclass

import pytest

from unknot.core.registry import explain, options_of
from unknot.core.registry.explain import explained


@dataclass
class Base:
    """A thing. `width` is told here, too."""

    width: int = 1
    """How wide it is,
    in metres."""
    height: int = 2
    depth: int = 3


@dataclass
class Below(Base):
    """Another, of `height` floors. And `more` of it!"""

    width: int = 4
    more: int = 5


class Plain:
    """Made by hand, of a `size`."""

    def __init__(self, size: int, colour: str) -> None:
        """The `colour` stands here."""


def function(x, *, share: float = 0.5, rest: int = 0):
    """What it does. ``share`` is code. `share`: the part that is left out. Then `rest`, and no more."""


@pytest.mark.parametrize(
    ("thing", "name", "about"),
    [
        (Base, "width", "How wide it is, in metres."),
        (Below, "width", "How wide it is, in metres."),
        (Below, "height", "Another, of `height` floors."),
        (Below, "more", "And `more` of it!"),
        (Base, "depth", ""),
        (Plain, "size", "Made by hand, of a `size`."),
        (Plain, "colour", "The `colour` stands here."),
        (function, "share", "The part that is left out."),
        (functools.partial(function, 1), "rest", "Then `rest`, and no more."),
        (function, "x", ""),
        (make_dataclass("Made", [("a", int)]), "a", ""),
        (len, "obj", ""),
        (None, "anything", ""),
    ],
)
def test_the_text_under_a_field_or_the_sentence_that_names_it(thing, name, about):
    assert explained(thing, name) == about


def test_no_source_is_read_before_somebody_asks(monkeypatch):
    def read(kind):
        raise AssertionError("a source was read")

    monkeypatch.setattr(explain, "_under_fields", read)
    option = options_of(Below)["more"]
    with pytest.raises(AssertionError, match="was read"):
        option.about  # noqa: B018
