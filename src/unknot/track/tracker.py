"""What all that write a run down have in common."""

from __future__ import annotations

from pathlib import Path

from unknot.core.errors import ConfigError
from unknot.federation import Begun, Ended, Event, Round, Served


class Tracker:
    """An observer that counts the rounds of all lanes: `step` is the number of the last one.

    What it needs is looked for when it is made: a missing package is found before anything is trained.
    """

    begun: Begun
    step = 0
    place: Path | None = None
    """The file or folder that it writes to; none where that is a server's."""

    @property
    def where(self) -> str:
        """Where what was written lies, for people."""
        raise NotImplementedError

    def begin(self, begun: Begun) -> None:
        self.begun, self.step = begun, begun.rounds_before
        self.opened(begun)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Round):
            self.step += 1
            self.round(event)
        else:
            self.served(event)

    def end(self, ended: Ended) -> None:
        self.closed(ended)

    def opened(self, begun: Begun) -> None:
        """A run begins, or goes on."""
        raise NotImplementedError

    def round(self, record: Round) -> None:
        raise NotImplementedError

    def served(self, served: Served) -> None:
        raise NotImplementedError

    def closed(self, ended: Ended) -> None:
        """A run is over, or was broken off; nothing more comes until one is opened again."""
        raise NotImplementedError


def missing(what: str, package: str, extra: str) -> ConfigError:
    """What is said where a package is not there."""
    return ConfigError(
        f"{what} needs {package}, which is not installed: in your clone, pip install -e '.[{extra}]'"
    )


def folder(path: str | Path, what: str) -> Path:
    """A folder to write to, made if it is not there."""
    found = Path(path)
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{what}: cannot make the folder {found}: {error.strerror or error}. Name another one"
        ) from None
    return found
