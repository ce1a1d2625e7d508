"""What went wrong in a run without an error, a sentence each: the model is not what it seems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from unknot.core.jobs import Score
from unknot.federation.events import Event, Round

TOO_MANY = 0.5
"""The share of updates that are set aside from which on a run is not well."""
WORSE = 10
"""So many times the loss of the model that it began with: then a run has diverged."""
IDLE = 3
"""Rounds of a lane, at its end, from which none was used: then it is not well either."""
TOO_HIGH = "the learning rate may be too high"
HINTS = {"not finite": TOO_HIGH}


def mostly_set_aside(rounds: Sequence[Round], since: Sequence[Round]) -> list[str]:
    """Of a run most of whose updates could not be used: in all its rounds, or in those `since` a request."""
    told = _mostly_aside(rounds) or _mostly_aside(since, " since the last request")
    return [told] if told else []


def idle_lanes(rounds: Sequence[Round]) -> list[str]:
    """Of each lane that has come to a stand: nothing that it was sent at the end could be used."""
    by_lane: dict[str, list[Round]] = {}
    for record in rounds:
        by_lane.setdefault(record.lane, []).append(record)
    return [text for name, records in by_lane.items() if (text := _idle(name, records))]


def diverged(scores: Mapping[str, Score], initial: Mapping[str, Score], events: Sequence[Event]) -> list[str]:
    """If what is served at the end is far worse than what nothing was learned for."""
    split = next((split for split in ("validation", "test") if split in scores), "")
    if not split:
        return []
    if split in initial:
        least, whose = initial[split].loss, "of the model that it began with"
    else:
        known = [event.scores if isinstance(event, Round) else event.before for event in events]
        losses = [seen[split].loss for seen in known if split in seen]
        least, whose = min(losses, default=0.0), "that it had been"
    loss = scores[split].loss
    # A loss of one's own may be nothing, or less: then so many times it says nothing.
    if least <= 0 or not loss > WORSE * least:
        return []
    told = f"the loss on the {split} data is {loss:.4g} at the end, more than {WORSE} times the {least:.4g}"
    return [f"{told} {whose}: it has diverged; {TOO_HIGH}"]


def unmeasured(scores: Mapping[str, Score], rounds: Sequence[Round]) -> list[str]:
    """The metrics that were no numbers when they were last measured."""
    last = next((record.scores for record in reversed(rounds) if record.scores), {})
    found: dict[str, str] = {}
    for split, score in {**last, **scores}.items():
        for name, value in score.metrics.items():
            if not math.isfinite(value):
                found.setdefault(name, f"{value} on the {split} data")
    return [
        f"the metric {name!r} is no finite number ({told}): it reaches no goal, and the record has "
        "null for it"
        for name, told in found.items()
    ]


def _mostly_aside(rounds: Sequence[Round], when: str = "") -> str:
    aside = sum((Counter(record.set_aside) for record in rounds), Counter[str]())
    every = aside.total() + sum(record.used for record in rounds)
    if not aside or aside.total() < TOO_MANY * every:
        return ""
    return f"{aside.total()} of {every} updates{when} were set aside ({_reasons(aside)}){_hint(aside)}"


def _idle(lane: str, rounds: Sequence[Round]) -> str:
    aside, last = Counter[str](), 0
    for record in reversed(rounds):
        if record.used:
            break
        # A round of clients that hold nothing brings no update, and nothing is wrong with that.
        aside.update(record.set_aside)
        last += bool(record.set_aside)
    if last < IDLE:
        return ""
    return f"{lane} used no update in its last {last} rounds ({_reasons(aside)}){_hint(aside)}"


def _reasons(aside: Counter[str]) -> str:
    return ", ".join(reason for reason, _ in aside.most_common())


def _hint(aside: Counter[str]) -> str:
    hints = [HINTS[reason] for reason, _ in aside.most_common(1) if reason in HINTS]
    return "".join(f": {hint}" for hint in hints)
