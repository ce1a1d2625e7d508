"""Ctrl-C between two steps: what is in memory then can be gone on with."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def between_steps() -> Iterator[None]:
    """Within: the first Ctrl-C waits for `check_now`, or for the end; a second one does not.

    Only where Python would hear it itself: who has a handler of its own knows what it does.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def hear(number: int, frame: object) -> None:
        if _asked:
            raise KeyboardInterrupt
        _asked.append(number)

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    except Exception as error:
        if _asked:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        heard = bool(_asked)
        _asked.clear()
    if heard:
        raise KeyboardInterrupt


_asked: list[int] = []  # signals reach the main thread alone: there is one


def pressed() -> bool:
    """Whether somebody has pressed Ctrl-C, and is about to be heard."""
    return bool(_asked)


def check_now() -> None:
    """Nothing is under way: who pressed Ctrl-C is heard."""
    if _asked and threading.current_thread() is threading.main_thread():
        _asked.clear()
        raise KeyboardInterrupt
