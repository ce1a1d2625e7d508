"""Clients among settings, by number: what is kept of an experiment must not have their names in the open.

Names lie sealed, each under its client's key, and go with it. Where a list of a setting has a client's name,
or a table has it for a key, what is kept has ``"#3"``. Where the letters 0 and 2 are capitals in one of them
and not in the other it has ``"#3~5"``, and where accents are signs of their own besides, ``"#3~5'"``. A text
that looks so itself gets one ``#`` more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from unknot.core.ids import one_way

_NUMBER = re.compile(r"#+([0-9]{1,18})(~[0-9a-f]{1,250}'?)?")


class Numbers:
    """The numbers of clients by what they are called; capitals count only where two names differ by them."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._exact = {one_way(name): number for number, name in names.items()}
        loose: dict[str, list[int]] = {}
        for name, number in self._exact.items():
            loose.setdefault(name.casefold(), []).append(number)
        self._loose = {name: numbers[0] for name, numbers in loose.items() if len(numbers) == 1}
        self._names = {number: name for name, number in self._exact.items()}

    def of(self, text: str) -> int | None:
        """Whose name a text is; None where it is nobody's."""
        name = one_way(text)
        return self._exact.get(name, self._loose.get(name.casefold()))

    def mark(self, text: str) -> str:
        """A text as it is kept where clients may be listed."""
        number = self.of(text)
        if number is not None and (how := _how(self._names[number], text)) is not None:
            return f"#{number}{how}"
        return f"#{text}" if _NUMBER.fullmatch(text) else text

    def within(self, text: str) -> bool:
        """Whether a text is one of their names, or has it where people see it: not inside a longer word.

        ``data_Graz``, ``Graz2024`` and ``GrazStudy`` have it, ``grazing`` has not; nor has ``12`` the name
        ``1``, or ``conv2d`` the name ``2``.
        """
        told = one_way(text)
        plain, humped = told.casefold(), _humps(told).casefold()
        return any(_has(plain, name) or _has(humped, parted) for name, parted in self._looked_for)

    @cached_property
    def _looked_for(self) -> list[tuple[str, str]]:
        return [(name.casefold(), _humps(name).casefold()) for name in self._exact]


def by_number(value: object, numbers: Numbers) -> object:
    """A setting in which names of clients, in lists and as keys, are their numbers."""
    if isinstance(value, Mapping):
        return {numbers.mark(str(key)): by_number(inner, numbers) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [numbers.mark(one) if isinstance(one, str) else by_number(one, numbers) for one in value]
    return value


def by_name(value: object, names: Mapping[int, str]) -> object:
    """The same setting with names again, in order; who has none any more is left out."""

    def called(number: int, how: str) -> list[str]:
        return [_written(names[number], how)] if number in names else []

    return _each(value, called)


def without(value: object, gone: Iterable[int]) -> object:
    """A setting by number that these clients are left out of."""
    left = frozenset(gone)

    def marked(number: int, how: str) -> list[str]:
        return [] if number in left else [f"#{number}{how}"]

    return _each(value, marked, plain=lambda text: text)


def numbers_in(value: object) -> set[int]:
    """Whom a setting names by number."""
    found: set[int] = set()

    def noted(number: int, how: str) -> list[str]:
        found.add(number)
        return []

    _each(value, noted)
    return found


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


def _humps(text: str) -> str:
    """A text with words apart that only a capital parts: ``GrazStudy``."""
    pairs = zip(" " + text, text, strict=False)
    return "".join(f"\0{one}" if one.isupper() and before.islower() else one for before, one in pairs)


def _has(there: str, wanted: str) -> bool:
    """Whether a text has a name between other signs than its first and last one are."""
    if not wanted or wanted not in there:
        return False
    letter, digit, nothing = r"[^\W\d_]", r"\d", r"(?!)"
    number = not any(map(str.isalpha, wanted))  # a letter beside it makes it another word: conv2d

    def beside(edge: str) -> str:
        if edge.isalpha():
            return letter
        return rf"(?:{letter}|{digit})" if number else digit if edge.isdigit() else nothing

    pattern = f"(?<!{beside(wanted[0])}){re.escape(wanted)}(?!{beside(wanted[-1])})"
    return re.search(pattern, there) is not None


def _how(name: str, text: str) -> str | None:
    """How a text writes a name: nothing where it is the name, else which letters are turned, as bits.

    None where `_written` would not give the text back.
    """
    if text == name:
        return ""
    pairs = enumerate(zip(name, one_way(text), strict=False))
    how = f"~{sum(1 << place for place, (one, other) in pairs if one != other):x}"
    return next((how for how in (how, f"{how}'") if _written(name, how) == text), None)


def _written(name: str, how: str) -> str:
    if not how:
        return name
    turned = int(how[1:].rstrip("'"), 16)
    text = "".join(one.swapcase() if turned >> place & 1 else one for place, one in enumerate(name))
    return unicodedata.normalize("NFD", text) if how.endswith("'") else text


def _each(
    value: object, told: Callable[[int, str], list[str]], plain: Callable[[str], str] = lambda text: text[1:]
) -> object:
    """A setting with each of its numbers as it is `told`, and what only looks like one `plain`."""

    def shown(text: object) -> list[object]:
        if not isinstance(text, str):
            return [_each(text, told, plain)]
        if not (found := _NUMBER.fullmatch(text)):
            return [text]
        if text[1] == "#":
            return [plain(text)]
        return [*told(int(found[1]), found[2] or "")]

    if isinstance(value, Mapping):
        return {key: _each(inner, told, plain) for name, inner in value.items() for key in shown(name)}
    return [one for part in value for one in shown(part)] if isinstance(value, list | tuple) else value
