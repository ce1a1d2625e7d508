"""Who looks on while a federation runs, and what becomes of one that fails.

An observer is called with each `Round` and each `Served` as it happens. One that has the methods `begin` and
`end` is handed what the run is made of (`Begun`), and how it ended (`Ended`). All are copies of its own:
whatever it does with them, the run stays as it is.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from unknot.core.errors import said
from unknot.federation.events import Event, Round, SetAside
from unknot.federation.history import History

Observer = Callable[[Event], None]


class Observers:
    """Those who look on, in the order in which they were given. One that raises is asked no more."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._there = list(observers)
        self._interruption: BaseException | None = None

    @contextmanager
    def during(self, history: History) -> Iterator[None]:
        """Tell those who want to know it that a run begins; and that it ended, in whatever way."""
        error = ""
        try:
            begun = replace(history.begun, rounds_before=len(history.rounds), guarantee=history.guarantee)
            self._each("begin", "the start", lambda: begun, history)
            yield
        except BaseException as raised:
            error = said(raised)
            raise
        finally:
            self._end(history, error)

    def tell(self, event: Event, history: History) -> None:
        said = f"round {event.round} of {event.lane}" if isinstance(event, Round) else f"'{event.request}'"
        try:
            self._each("__call__", said, lambda: event, history)
        except (KeyboardInterrupt, SystemExit) as error:  # heard when the step is made
            self._interruption = self._interruption or error

    def heard(self) -> None:
        """Between two steps: raise what an observer interrupts the run with."""
        error, self._interruption = self._interruption, None
        if error is not None:
            raise error

    def _end(self, history: History, error: str) -> None:
        """Tell all of the end: one that interrupts is heard when the others have been told."""
        with ExitStack() as interruptions:
            for observer in reversed(self._there):
                interruptions.callback(
                    self._one, observer, "end", "the end", lambda: history.end(error), history
                )

    def _each(self, method: str, when: str, made: Callable[[], Any], history: History) -> None:
        for observer in list(self._there):
            self._one(observer, method, when, made, history)

    def _one(
        self, observer: Observer, method: str, when: str, made: Callable[[], Any], history: History
    ) -> None:
        try:
            call = getattr(observer, method, None)
            if call is not None:
                event = made()
                plain = msgspec.to_builtins(event, enc_hook=str)
                call(msgspec.convert(plain, type(event)))  # a copy that is made soon
        except Exception as error:
            self._there = [one for one in self._there if one is not observer]
            aside = SetAside(_name(observer), when, said(error) + _where(error))
            history.set_aside(aside)
            logging.getLogger(__name__).warning("%s", aside)


def _name(observer: Observer) -> str:
    """What a function is called; of anything else, its class."""
    try:
        return str(getattr(observer, "__name__", type(observer).__name__))
    except Exception:
        return type(observer).__name__


def _where(error: BaseException) -> str:
    """The line that raised it: without a traceback, that is what its writer needs."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f" ({Path(frame.filename).name}:{frame.lineno})"
