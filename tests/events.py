"""What Python itself tells of what is done: files opened, processes started, modules imported."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

Listener = Callable[[str, tuple], None]
_listeners: list[Listener] = []


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Within: every event is told to it."""
    _hooked()
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@cache
def _hooked() -> None:
    """Once, and when somebody listens: a hook cannot be taken away, and then comes with every id()."""
    sys.addaudithook(_tell)


def _tell(event: str, arguments: tuple) -> None:
    for listener in _listeners:
        listener(event, arguments)
