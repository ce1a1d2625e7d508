"""Processes for tests, each forked from one that has imported torch, and nothing of unknot, once for all."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import unknot

SOURCE = str(Path(unknot.__file__).parents[1])
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["torch"])


class Started:
    """``unknot arguments``, or ``python -c program arguments``, and what it says."""

    def __init__(
        self,
        *arguments: object,
        program: str | None = None,
        path: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        said = [_FORKS.Pipe(duplex=False) for _ in range(2)]
        mine, others = zip(*said, strict=True)
        words = tuple(map(str, arguments))
        told = (program, words, [*path, SOURCE], dict(environment or {}), others)
        self._process = _FORKS.Process(target=_run, args=told)
        self._process.start()
        for end in others:
            end.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(end.fileno())) for end in mine)
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """What it ended with; negative is the signal that ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float = 60) -> int:
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"still there after {seconds} seconds"
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def communicate(self) -> tuple[str, str]:
        """All that is still to be read, once it has ended."""
        found = self.stdout.read(), self.stderr.read()
        self.wait()
        return found

    def end(self) -> None:
        """Kill it, where it is still there."""
        self._process.kill()
        self._process.join()
        self.stdout.close()
        self.stderr.close()


def _run(
    program: str | None,
    words: tuple[str, ...],
    path: Sequence[str],
    environment: Mapping[str, str],
    streams: tuple[Connection, Connection],
) -> None:
    import torch

    torch.set_num_threads(1)
    os.environ.update(environment)
    tempfile.tempdir = None  # it goes by the environment
    for number, stream in enumerate(streams, 1):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    sys.path[:0] = path
    sys.argv = ["-c" if program else "unknot", *words]
    if program is not None:
        exec(compile(program, "-c", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module("unknot", run_name="__main__", alter_sys=True)
