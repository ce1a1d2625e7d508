"""Clients among settings, by number: what is kept of an experiment must not have their names in the open.

Names lie sealed, each under its client's key, and go with it. Where a list of a setting has a client's name,
or a table has it for a key, what is kept has ``"#3"``; a text that looks so itself gets one ``#`` more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from unknot.core.ids import one_way

_NUMBER = re.compile(r"#+[0-9]{1,18}")


class Numbers:
    """The numbers of clients by what they are called; capitals count only where two names differ by them."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._exact = {one_way(name): number for number, name in names.items()}
        loose: dict[str, list[int]] = {}
        for name, number in self._exact.items():
            loose.setdefault(name.casefold(), []).append(number)
        self._loose = {name: numbers[0] for name, numbers in loose.items() if len(numbers) == 1}

    def of(self, text: str) -> int | None:
        """Whose name a text is; None where it is nobody's."""
        name = one_way(text)
        return self._exact.get(name, self._loose.get(name.casefold()))

    def mark(self, text: str) -> str:
        """A text as it is kept where clients may be listed."""
        if (number := self.of(text)) is not None:
            return f"#{number}"
        return f"#{text}" if _NUMBER.fullmatch(text) else text


def by_number(value: object, numbers: Numbers) -> object:
    """A setting in which names of clients, in lists and as keys, are their numbers."""
    if isinstance(value, Mapping):
        return {numbers.mark(str(key)): by_number(inner, numbers) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [numbers.mark(one) if isinstance(one, str) else by_number(one, numbers) for one in value]
    return value


def by_name(value: object, names: Mapping[int, str]) -> object:
    """The same setting with names again, in order; who has none any more is left out."""
    return _each(value, lambda number: [names[number]] if number in names else [])


def without(value: object, gone: Iterable[int]) -> object:
    """A setting by number that these clients are left out of."""
    left = frozenset(gone)
    return _each(value, lambda number: [] if number in left else [f"#{number}"], plain=lambda text: text)


def numbers_in(value: object) -> set[int]:
    """Whom a setting names by number."""
    found: set[int] = set()

    def noted(number: int) -> list[str]:
        found.add(number)
        return []

    _each(value, noted)
    return found


def texts_in(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """All texts of settings, each with the setting that it belongs to."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts_in(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one, place)


def _each(
    value: object, told: Callable[[int], list[str]], plain: Callable[[str], str] = lambda text: text[1:]
) -> object:
    """A setting with each of its numbers as it is `told`, and what only looks like one `plain`."""

    def shown(text: object) -> list[object]:
        if not isinstance(text, str):
            return [_each(text, told, plain)]
        if not _NUMBER.fullmatch(text):
            return [text]
        return [*told(int(text[1:]))] if text[1] != "#" else [plain(text)]

    if isinstance(value, Mapping):
        return {key: _each(inner, told, plain) for name, inner in value.items() for key in shown(name)}
    return [one for part in value for one in shown(part)] if isinstance(value, list | tuple) else value
