"""What a check found: everything held, or an `AssertionError` that says in words what did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from unknot.core.errors import UnknotError


@dataclass(frozen=True)
class Report:
    """What held of a thing, check by check; `notes` is what was found out beside that."""

    subject: str
    held: tuple[str, ...]
    notes: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        notes = [f"  {name}: {value}" for name, value in self.notes.items()]
        return "\n".join([f"{self.subject}: {len(self.held)} checks held", *notes])


class Checks:
    """The checks of one thing, as they are made."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._held: dict[str, None] = {}
        self.notes: dict[str, object] = {}

    def hold(self, check: str, held: bool, otherwise: str) -> None:
        """Note that a check held, or raise with what is to be said otherwise."""
        if not held:
            raise AssertionError(f"{self.subject}: {check}: {otherwise}")
        self._held[check] = None

    @contextmanager
    def during(self, check: str) -> Iterator[None]:
        """Within: an error of ours is a check that did not hold; any other is told where it came up."""
        try:
            yield
        except UnknotError as error:
            raise AssertionError(f"{self.subject}: {check}: {type(error).__name__}: {error}") from error
        except AssertionError:
            raise
        except Exception as error:
            error.add_note(f"while checking {self.subject}: {check}")
            raise

    def report(self) -> Report:
        return Report(self.subject, tuple(self._held), dict(self.notes))


def named(thing: object) -> str:
    """How a thing is called in messages."""
    kind = thing if isinstance(thing, type) else type(thing)
    own = getattr(thing, "name", None) or getattr(thing, "kind", None)
    plain = getattr(thing, "__name__", kind.__name__)
    return f"{plain} ({own})" if isinstance(own, str) and own != plain else str(plain)
