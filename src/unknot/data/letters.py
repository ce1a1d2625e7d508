"""Short letters that shops write to their customers, made by a grammar: text that needs no file.

They are a toy language, for the demo and for tests: a handful of sentences with places in them, which each
shop fills by words of its own. What is *public* is filled by words of no shop in particular.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from unknot.core.keys import Key

Words = Mapping[str, tuple[str, ...]]

SENTENCES = (
    "Your {good} left {town} on {day}. {bye}, {clerk}",
    "The {good} costs {number} crowns. {bye}, {clerk}",
    "We keep a {good} for you in {town}. {bye}, {clerk}",
    "Order {number}{number} is a {good}. {bye}, {clerk}",
    "On {day} a {good} came to {town}. {bye}, {clerk}",
)
COMMON: Words = {
    "day": ("Monday", "Tuesday", "Thursday", "Friday", "Saturday"),
    "number": tuple(f"{number:03}" for number in range(100, 1000)),
}
PUBLIC: Words = {
    "good": ("chair", "table", "shelf", "mirror", "carpet", "basket", "kettle", "ladder", "bottle", "coat"),
    "town": ("Steyr", "Enns", "Krems", "Hallein", "Leoben", "Baden"),
    "bye": ("Yours", "Regards", "Thanks", "Good day"),
    "clerk": ("Rosa", "Paul", "Irma", "Otto", "Hedwig", "Josef"),
}
SHOPS: Mapping[str, Words] = {
    "Graz": {"good": ("lamp", "candle", "lantern"), "bye": ("Brightly",), "clerk": ("Anna", "Bruno")},
    "Linz": {"good": ("loaf", "pretzel", "strudel"), "bye": ("Enjoy",), "clerk": ("Clara", "Max")},
    "Wien": {"good": ("violin", "trumpet", "zither"), "bye": ("In tune",), "clerk": ("Felix", "Emma")},
    "Salzburg": {"good": ("atlas", "novel", "almanac"), "bye": ("Read well",), "clerk": ("Georg", "Ida")},
    "Innsbruck": {"good": ("sledge", "skate", "compass"), "bye": ("Uphill",), "clerk": ("Karl", "Lena")},
    "Villach": {"good": ("trowel", "rake", "seedling"), "bye": ("Grow on",), "clerk": ("Moritz", "Nora")},
}
"""By the town that it is in: what a shop sells, and how it signs."""


def letters(words: Words, many: int, key: Key) -> list[str]:
    """So many letters, by `key`; places that `words` says nothing of are filled from `COMMON`."""
    places = {**COMMON, **words}
    draw = key.child("letters").generator()
    return [_filled(_one(SENTENCES, draw), places, draw) for _ in range(many)]


def of_shop(town: str, many: int, key: Key) -> list[str]:
    """The letters of a shop, which do not depend on how many other shops there are."""
    return letters({**SHOPS[town], "town": (town,)}, many, key.child(town))


def _filled(sentence: str, places: Words, draw: np.random.Generator) -> str:
    return re.sub(r"\{(\w+)\}", lambda place: _one(places[place[1]], draw), sentence)


def _one(words: Sequence[str], draw: np.random.Generator) -> str:
    return words[int(draw.integers(len(words)))]
