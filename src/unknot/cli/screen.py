"""The two streams of a command: any encoding will do, and a reader that has gone is no error.

What cannot be written (a full disk, a closed descriptor) ends a command in words where it is the result, and
is let go of where it is told beside it: a run goes on, and leaves what it leaves.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment
from rich.text import Text

GONE = 141
"""What a command exits with whose output is read no more, as by ``head``: as one that SIGPIPE ended."""
PLAIN = "unknot.plain"
"""How letters are written that the stream's encoding does not have."""
LIKE = {"±": "+-", "ε": "eps", "δ": "delta", "μ": "mu", "α": "alpha", "ψ": "psi", "ζ": "zeta", "Σ": "sum"}
LIKE |= dict(zip("▾◂▸–—…·×≥≤≈←→⇒−‖‘’", "v<>--~.x><~<>>-|''", strict=True))
LIKE |= dict(zip("█▏▎▍▌▋▊▉━╸╺─", "#||||###--_-", strict=True))

_ENDS = re.compile(r"[ \t]+$", re.MULTILINE)
STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Kinds of characters, as Unicode has them, that are no writing."""


class Screen(Console):
    """A console that says when nobody reads it any more, so that the command can end by itself."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """As it is; where nobody looks at it, without the spaces that tables end their lines with."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as printed:
            super().print(*objects, **options)
        if text := _ENDS.sub("", printed.get()):
            self.file.write(text)
            self.file.flush()

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is shown, whoever wrote it, without what would steer the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def harmless(text: str) -> str:
    """Control characters, and those that turn or hide what is written, as Python writes them; lines stay."""
    if text.isprintable():
        return text
    return "".join(_escaped(one) if unicodedata.category(one) in STEERING else one for one in text)


def _escaped(letter: str) -> str:
    return letter if letter == "\n" else letter.encode("unicode_escape").decode()


def screen(quiet: bool = False) -> Console:
    """Where results are shown."""
    return Screen(quiet=quiet)


def side(quiet: bool = False) -> Console:
    """Where a person is told how far it is and what is wrong: beside the result, never in it."""
    console = Screen(stderr=True, quiet=quiet)
    console.soft_wrap = not console.is_terminal  # in a log or a pipe, what is said in a line stays one
    return console


def aside(text: Text) -> None:
    """A line on stderr, also while a run goes on: a live line there gives way, and is drawn anew below it.

    Not by the console of that line: a signal may come while it has its locks.
    """
    console = side()
    live = console.is_terminal and not console.is_dumb_terminal
    clear = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
    console.print(*([clear] if live else []), text)


def warn(text: str, bad: bool = False) -> None:
    """A line on stderr; what is `bad` in red."""
    aside(Text.assemble(("warning: ", "bold red" if bad else "bold yellow"), text))


@contextmanager
def warnings_told() -> Iterator[None]:
    """Within: what the library logs is told at once as a warning, once, as all others are."""
    log, told = logging.getLogger("unknot"), _Told(logging.WARNING)
    log.addHandler(told)
    try:
        yield
    finally:
        log.removeHandler(told)


class _Told(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage(), bad=True)


def take_any_encoding() -> None:
    """Write what a stream's encoding does not have by what looks like it, rather than fail."""
    codecs.register_error(PLAIN, _plain)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=PLAIN)


def leave_quietly() -> None:
    """What is still to be written to a reader that has gone goes nowhere."""
    _to_nowhere(sys.stdout)


class Unwritten(Exception):
    """The result of a command cannot be written to standard output; what it did is done all the same."""


@contextmanager
def streams() -> Iterator[None]:
    """Within: any encoding will do for both streams, and what cannot be written is no error of the code."""
    _keep_low_numbers()
    take_any_encoding()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast(TextIO, _Result(sys.stdout)), cast(TextIO, _Beside(sys.stderr))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Result:
    """Standard output: what cannot be written is `Unwritten`, whoever writes it."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def write(self, text: str) -> int:
        if self._stream is None:
            raise Unwritten("it is closed")
        with self._heard():
            return self._stream.write(text)
        return 0

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        if self._stream is not None:
            with self._heard():
                self._stream.flush()

    @contextmanager
    def _heard(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:  # a file that is closed is a ValueError of Python's
            _to_nowhere(self._stream)
            raise Unwritten(getattr(error, "strerror", None) or str(error)) from None


class _Beside(_Result):
    """Standard error: where it cannot be written, nobody is told, and the command goes on."""

    def write(self, text: str) -> int:
        with suppress(Unwritten):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(Unwritten):
            super().flush()


def _to_nowhere(stream: TextIO | None) -> None:
    """What a stream still holds must not fail again when the process ends."""
    with suppress(OSError, ValueError, AttributeError):
        number = cast(TextIO, stream).fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def _keep_low_numbers() -> None:
    """No file that is opened may get the number of a closed stream: what is printed would go there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_like, error.object[error.start : error.end])), error.end


def _like(letter: str) -> str:
    """``v`` for ``▾``, ``a`` for ``ä``, ``?`` for what is like nothing."""
    bare = "".join(part for part in unicodedata.normalize("NFKD", letter) if part.isascii())
    return LIKE.get(letter, bare or "?")
