"""Clients among settings, by number: what is kept of an experiment must not have their names in the open.

Names lie sealed, each under its client's key, and go with it. Where a list of a setting has a client's name,
or a table has it for a key, in whatever capitals, what is kept has ``"#3"``; read again, it is the name as
the client has it. A text that looks so itself gets one ``#`` more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from unknot.core.ids import one_way

_MARK = re.compile(r"#+[0-9]{1,18}")


class Numbers:
    """The numbers of clients by what they are called; capitals count only where two names differ by them."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = {one_way(name): number for number, name in names.items()}
        self._of = {name.casefold(): number for name, number in self._names.items()} | self._names

    def mark(self, text: str) -> str:
        """A text as it is kept where clients may be listed."""
        name = one_way(text)
        if (number := self._of.get(name, self._of.get(name.casefold()))) is not None:
            return f"#{number}"
        return f"#{text}" if _MARK.fullmatch(text) else text

    def within(self, text: str) -> bool:
        """Whether a text is one of their names, or has it where people see it: not inside a longer word.

        ``data_Graz``, ``Graz2024`` and ``GrazStudy`` have it, ``grazing`` has not; nor has ``12`` the name
        ``1``, or ``conv2d`` the name ``2``.
        """
        return any(
            way(name, letters) in way(one_way(text), letters)
            for name in self._names
            for letters in [any(map(str.isalpha, name))]
            for way in (_words, _humps)
        )


def by_number(value: object, numbers: Numbers) -> object:
    """A setting in which names of clients, in lists and as keys, are their numbers."""
    return _each(value, lambda text: [numbers.mark(text)])


def by_name(value: object, names: Mapping[int, str]) -> object:
    """The same setting with names again, in order; who has none any more is left out."""

    def called(text: str) -> list[str]:
        if (number := _number(text)) is not None:
            return [names[number]] if number in names else []
        return [text[1:] if _MARK.fullmatch(text) else text]

    return _each(value, called)


def without(value: object, gone: Iterable[int]) -> object:
    """A setting by number that these clients are left out of."""
    left = frozenset(gone)
    return _each(value, lambda text: [] if _number(text) in left else [text])


def numbers_in(value: object) -> set[int]:
    """Whom a setting names by number."""
    found: set[int | None] = set()

    def noted(text: str) -> list[str]:
        found.add(_number(text))
        return [text]

    _each(value, noted)
    return {number for number in found if number is not None}


def texts_in(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """All texts of settings and names of their keys, each with the setting that it belongs to."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield place, str(key)
            yield from texts_in(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one, place)


def _number(text: str) -> int | None:
    return int(text[1:]) if _MARK.fullmatch(text) and text[1] != "#" else None


def _each(value: object, told: Callable[[str], list[str]]) -> object:
    """A setting with each text in a list, and each key, as it is `told`."""

    def shown(part: object) -> list[object]:
        return [*told(part)] if isinstance(part, str) else [_each(part, told)]

    if isinstance(value, Mapping):
        return {key: _each(inner, told) for name, inner in value.items() for key in told(str(name))}
    return [one for part in value for one in shown(part)] if isinstance(value, list | tuple) else value


def _words(text: str, letters: bool) -> str:
    """The words of a text, with spaces around each; a digit ends one if what is looked for has `letters`."""
    found = re.findall(r"[^\W\d_]+|\d+" if letters else r"[^\W_]+", text.casefold())
    return f" {' '.join(found)} "


def _humps(text: str, letters: bool) -> str:
    """The same, where a capital begins a word: ``GrazStudy``."""
    pairs = zip(" " + text, text, strict=False)
    apart = "".join(f" {one}" if one.isupper() and before.islower() else one for before, one in pairs)
    return _words(apart, letters)
