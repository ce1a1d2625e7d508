"""Buffers that wait for the next stack of their sizes: fresh memory costs as much as computing on it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

T = TypeVar("T")


class Shelf:
    """Lends what it has, or has it made; what comes back waits. Any thread may ask.

    What is lent and what waits take `memory` bytes at the most, unless what is lent does so alone.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._waiting: list[tuple[Hashable, int, object]] = []
        self._lent = 0
        self._lock = Lock()

    @contextmanager
    def lent(self, kind: type[T], sizes: Hashable, taken: int, make: Callable[[], T]) -> Iterator[T]:
        """One thing of these sizes, which takes so many bytes; it is not put back where its user fails."""
        found = self._take(kind, sizes, taken)
        try:
            thing = make() if found is None else found
            yield thing
        except BaseException:
            with self._lock:
                self._lent -= taken
            raise
        with self._lock:
            self._lent -= taken
            self._waiting.append(((kind, sizes), taken, thing))
            self._make_room(0)

    def clear(self) -> None:
        """Let go of everything: what was computed last is in it."""
        with self._lock:
            self._waiting.clear()

    def _take(self, kind: type[T], sizes: Hashable, taken: int) -> T | None:
        with self._lock:
            for place, (known, _, thing) in enumerate(self._waiting):
                if known == (kind, sizes):
                    del self._waiting[place]
                    assert isinstance(thing, kind)
                    self._lent += taken
                    return thing
            self._make_room(taken)
            self._lent += taken
        return None

    def _make_room(self, wanted: int) -> None:
        """Drop what has waited longest until there is room for so much more."""
        while self._waiting and self._lent + wanted + sum(n for _, n, _ in self._waiting) > self.memory:
            del self._waiting[0]
