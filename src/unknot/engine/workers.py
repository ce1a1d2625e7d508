"""The cores: tasks handed to threads, each of which computes with one intra-op thread.

Two threads that each train half of a stack beat one stack whose operations are each split in two, and
nothing is ever split differently on a machine with more cores: the bits do not depend on their number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from threading import Event
from typing import TypeVar

import torch

from unknot.core.errors import ConfigError

T = TypeVar("T")


class Stopped(Exception):
    """A task gave up because another one failed."""


def check_threads(threads: int | None) -> int | None:
    if threads is not None and threads < 1:
        raise ConfigError(f"threads must be at least 1, not {threads}")
    return threads


@contextmanager
def intra_op_threads(threads: int | None) -> Iterator[None]:
    """Within: PyTorch uses so many threads for one operation; after: as many as before."""
    before = torch.get_num_threads()
    if threads is not None and threads != before:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        # Worker threads set the default of new threads: put it back even if ours is unchanged.
        torch.set_num_threads(before)


def run(tasks: Sequence[Callable[[Event], T]], workers: int) -> list[T]:
    """The results of the tasks, in their order, on so many threads of one intra-op thread each.

    A task is given an event that tells it to stop, since another one failed (or was interrupted).
    """
    stop = Event()
    if not tasks:
        return []
    if torch.get_num_threads() == 1 and min(workers, len(tasks)) == 1:
        return [task(stop) for task in tasks]
    with intra_op_threads(None):
        pool = _pool(workers)
        futures = [pool.submit(task, stop) for task in tasks]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
            for future in futures:
                future.cancel()
        wait(futures)
    for future in futures:
        if not future.cancelled() and not isinstance(future.exception(), Stopped | None):
            future.result()  # raises what made the others stop
    return [future.result() for future in futures]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them anew would be a tenth of a small model's round."""
    return ThreadPoolExecutor(workers, "unknot", _one_thread)


# A forked process has the pool's memory, but none of its threads.
os.register_at_fork(after_in_child=_pool.cache_clear)


def _one_thread() -> None:
    torch.set_num_threads(1)
