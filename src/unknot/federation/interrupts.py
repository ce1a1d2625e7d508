"""Ctrl-C between two steps: what is in memory then can be gone on with."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def between_steps() -> Iterator[Callable[[], None]]:
    """Within: the first Ctrl-C waits until what this gives is called, or for the end; a second does not.

    Only where Python would hear it itself: who has a handler of its own knows what it does.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: None
        return
    asked: list[int] = []

    def hear(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    def check() -> None:
        if asked:
            asked.clear()
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hear)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
