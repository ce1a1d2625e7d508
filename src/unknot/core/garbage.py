"""When Python looks for garbage: not in the middle of something.

What is put off for a round's sake may come a little early; while something is captured it must not come at
all. Both turn the same switch, and know of each other: nobody turns the search on while anybody captures.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_captures = 0  # that are under way, in all threads
_owed = False  # whether the search goes on when the last of them has ended


@contextmanager
def no_garbage_search() -> Iterator[None]:
    """Within: objects that refer to each other in a circle are not searched for; all others go as ever.

    A round of many clients makes tens of thousands of objects that are gone by its end. Searched meanwhile,
    they would be taken for such as stay, and all that stays be gone through again and again. Of several
    threads, the one that turned the search off turns it on again, whoever is within: it is put off, and not
    given up. While something is captured, that waits until the capture has ended.
    """
    ours = _put_off()
    try:
        yield
    finally:
        if ours:
            _go_on()


@contextmanager
def no_garbage_search_at_all() -> Iterator[None]:
    """Within: no search in any thread, whoever else puts it off or is done with that.

    For what is captured in a CUDA graph: an old graph that is thrown away meanwhile would spoil the new one.
    Of several that capture at once, the last one lets the search go on, if it went on before.
    """
    global _captures, _owed
    with _lock:
        _captures += 1
        _owed = _owed or gc.isenabled()
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _captures -= 1
            if _owed and not _captures:
                _owed = False
                gc.enable()


def _put_off() -> bool:
    """Whether the search went on until now, or was to go on after a capture: then it is ours to turn on."""
    global _owed
    with _lock:
        ours, _owed = _owed or gc.isenabled(), False
        gc.disable()
        return ours


def _go_on() -> None:
    global _owed
    with _lock:
        if _captures:
            _owed = True
        else:
            gc.enable()
