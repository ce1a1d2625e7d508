"""One call to ``run``, as data: how long it is to go on, and whether it is over."""

from __future__ import annotations

from dataclasses import dataclass, field

from unknot.federation.length import Length


@dataclass
class Stint:
    """What a federation was last asked to do, and how far that is."""

    length: Length
    rule: Length
    """What the run stops by, as its first ``run`` has it: more rounds, asked for later, do not change it."""
    more: bool = False
    """Whether it is more than the rule asks for."""
    limit: int | None = None
    """The simulated nanosecond at which it ends."""
    goals: dict[str, int] = field(default_factory=dict)
    """The round at which each lane rests; none where it goes by time."""
    stopped: str = ""
    """Why it is over; nothing while it goes on."""
    after: Length | None = None
    """What was done as `more` just before, in the same call, where something was asked as that ended."""
    answered: bool = False
    """Whether who asked for it was given what came of it: asked for once more, it is done once more."""

    def is_more_by(self, length: Length | None) -> bool:
        """Whether just so much more than the rule asks for is under way, or was done and given to nobody.

        So it is of what that led to.
        """
        return self.owed is not None and self.owed == length

    @property
    def owed(self) -> Length | None:
        """How much more than the rule asks for is under way, or was done and given to nobody."""
        return None if self.answered else self.length if self.more else self.after
