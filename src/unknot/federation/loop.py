"""One loop over a simulated clock: jobs are launched, become due, are trained, are absorbed.

Synchronous and asynchronous runs differ in the pace alone. Erasures and joins are events of this
loop. A job is trained when it is due, not when it is launched: an erasure in between cancels it,
and all jobs that are due together are one call to the engine.

Every lane has its own time: that of the last thing that happened in it. A lane that has had its
rounds rests while others finish theirs, and goes on from its own time when there is more to do: a
run in parts is the run in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unknot.federation.clock import SECOND
from unknot.federation.cohort import Running
from unknot.federation.history import NOBODY_LEFT, History
from unknot.federation.inbox import Inbox, concerned_by
from unknot.federation.lanes import Lane
from unknot.federation.stint import Stint
from unknot.federation.work import Work


def advance(work: Work, inbox: Inbox, stint: Stint, history: History) -> Running[str]:
    """Send clients out and take in who is back first, where no request is due; why, if that is the end."""
    state, lanes = work.state, work.state.lanes
    length, goals, limit = stint.length, stint.goals, stint.limit
    if length.rounds is not None:
        goals |= {name: length.rounds for name in lanes if name not in goals}
    short = [lane for name, lane in lanes.items() if not goals or lane.rounds < goals[name]]
    active = [lane for lane in short if lane.members or lane.flights] or short
    if not active or (state.members and not any(lane.members for lane in short)):
        return "rounds"
    if length.reached(history) and not inbox.may_come(state, goals, limit):
        return "accuracy" if length.goal is None else "goal"
    halted = inbox.halted(state, goals)
    active = [lane for lane in active if lane.name not in halted]
    for lane in active:
        _launch_once(work, lane)
    ready = {lane.name: lane.ready for lane in active if lane.flights}
    wakes = inbox.wakes()
    if not ready and not wakes:
        return NOBODY_LEFT
    ready |= _led_on(work, inbox, wakes, ready, busy={lane.name for lane in short} | halted)
    at = min([*ready.values(), *wakes])
    if limit is not None and at > limit:
        state.now = max(state.now, limit)
        return "seconds"
    before, state.now = state.now, at
    if at not in wakes:
        try:
            yield from work.absorb([lanes[name] for name, due_at in ready.items() if due_at == at], history)
        except BaseException:  # an engine that failed may be asked again: nothing has happened yet
            state.now = before
            raise
    return ""


def _led_on(
    work: Work, inbox: Inbox, wakes: Sequence[int], ready: Mapping[str, int], busy: set[str]
) -> dict[str, int]:
    """The lanes that rest, but are not yet where a request at a time would find them in a longer run."""
    asked = min(wakes, default=0)
    if not ready or not wakes or asked > min(ready.values()):
        return {}
    concerned = {
        lane.name
        for request in inbox.requests
        if request.at.time is not None and round(request.at.time * SECOND) == asked
        for lane in concerned_by(work.state, request)
    }
    found: dict[str, int] = {}
    for lane in work.state.lanes.values():
        if lane.name in concerned - busy and lane.at < asked:
            _launch_once(work, lane)
            if lane.flights and lane.ready < asked:
                found[lane.name] = lane.ready
    return found


def _launch_once(work: Work, lane: Lane) -> None:
    if lane.name not in work.launched:
        work.launch(lane)
        work.launched.add(lane.name)
