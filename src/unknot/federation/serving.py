"""Requests of a federation: checked when they come, served when their moment has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unknot.core.errors import RequestError
from unknot.core.requests import Erase, Join, Label, Request
from unknot.core.weights import Weights
from unknot.federation.clock import SECOND
from unknot.federation.describe import asked_of, beyond, members_of
from unknot.federation.erasure import attempt, close, last_visit, left_to_erase, left_to_join, repair
from unknot.federation.events import Served
from unknot.federation.inbox import Inbox, Waiting, check_requests, held_by
from unknot.federation.promise import Uncovered
from unknot.federation.work import Work


class Serving:
    """Who was asked to be forgotten, or to join; `restart` are weights to begin again from."""

    def __init__(self, work: Work, restart: Weights | None) -> None:
        self.work, self.state = work, work.state
        self.restart = restart
        self.inbox = Inbox()
        self.uncovered = Uncovered()
        """What of the method's promise a run has left behind."""

    def check(self, new: Sequence[Request], members: set[int], label: Label, outside: bool = False) -> None:
        """Raise for what cannot be served, with clients called by `label`; one from outside stands alone."""
        inherited = self.state.initial.lineage.clients
        known = inherited | self.state.select_knows.clients
        check_requests(new, self.inbox.untouched, self.state.data, members, known, label if outside else None)
        named = {t.client for r in new if isinstance(r, Erase) for t in r.targets}
        base = self.state.initial.layout.base.lineage
        if shaped := sorted(named & (base.clients | base.waived)):
            raise RequestError(
                f"{label(shaped[0])} had a part in the base of the model, which is frozen: nothing "
                "that is trained on it can forget that. Begin again on another base",
                "the base of the model, which is frozen, was shaped by it",
            )
        if self.restart is None and (shaped := sorted(named & inherited)):
            raise RequestError(
                f"{label(shaped[0])} had a part in the weights that this federation began with, "
                "and there are no others to begin again from: give the model by name or as a function",
                "the weights that the run began with were shaped by it",
            )

    @property
    def undone(self) -> list[Request]:
        """What waits, but for what others' requests have done meanwhile: at its moment there is nothing left.

        Of samples alone it stays, as long as their client does.
        """
        return [one.request for one in self.inbox.waiting if one.tried or not self._is_done(one.request)]

    def _is_done(self, request: Request) -> bool:
        if isinstance(request, Join):
            return left_to_join(self.state, request) is None
        return all(target.client in self.state.forgotten for target in request.targets)

    def serve(self, waiting: Waiting, place: int) -> Served:
        """Serve a request. Should the method fail, it stays the first to be served."""
        request, state = waiting.request, self.state
        self.uncovered.timed |= request.at.time is not None
        if not waiting.begun:
            waiting.held = members_of(self.state.lanes)
            waiting.lanes = tuple(lane.name for lane in held_by(state, request))
            waiting.round = max(
                (lane.rounds for lane in held_by(state, request) or self.state.lanes.values()), default=0
            )
            waiting.before = self.work.scores_now()
        flying = [(lane, flight) for lane in self.state.lanes.values() for flight in lane.flights]
        state.restarted.clear()
        self.work.forget_members()
        try:
            clients = self._forget(waiting, request) if isinstance(request, Erase) else self._admit(request)
        finally:  # who was called back was, also where the method failed after that
            still = {flight for lane in self.state.lanes.values() for flight in lane.flights}
            waiting.trips += [lane.trip(flight, state.now) for lane, flight in flying if flight not in still]
        with state.midst():  # a metric may fail, and what was asked has been done
            return Served(
                kind="erase" if isinstance(request, Erase) else "join",
                asked=asked_of(request),
                clients=clients,
                time=state.now / SECOND,
                round=waiting.round,
                place=place,
                restarted=tuple(state.restarted),
                cancelled=tuple(sorted(trip.client for trip in waiting.trips)),
                purged=waiting.purged,
                before=waiting.before,
                after=self.work.scores_now(),
                costs=self.state.costs,
                trips=tuple(waiting.trips),
                visits=tuple(waiting.visits),
                lanes=waiting.lanes,
                samples=tuple(count for _, count in asked_of(waiting.left)) if waiting.left else (),
                entered=beyond(members_of(self.state.lanes), waiting.held),
                left=beyond(waiting.held, members_of(self.state.lanes)),
            )

    def _forget(self, waiting: Waiting, request: Erase) -> tuple[int, ...]:
        """A last visit; close the door on the data, drop what carries it, have the method repair the rest."""
        if not waiting.begun:
            left = left_to_erase(self.state, request)
            if left is None:
                return ()
            waiting.tried = True
            self._say_farewell(waiting, left)
            waiting.members = tuple(t.client for t in left.targets if t.client in self.state.members)
            with self.state.midst():
                waiting.touched, waiting.purged = close(self.state, left.targets)
                waiting.begun = True
                waiting.left = left
                waiting.idle = not (waiting.members or waiting.touched)
                self.work.engine.wipe()
                self.work.scores.forget()
                self.uncovered.erased = True
        if self.work.history:  # also where this is tried again: an observer may have said something since
            self.work.history.forget()
        assert waiting.left is not None
        targets = waiting.left.targets
        if not waiting.idle:
            touched = [lane for lane in waiting.touched if lane in self.state.lanes.values()]
            known = tuple(target for target in targets if target.client in waiting.members)
            asked = replace(waiting.left, targets=known or targets)
            waiting.purged += repair(self.state, self.work.method, asked, touched, self.restart)
        return tuple(target.client for target in targets)

    def _say_farewell(self, waiting: Waiting, request: Erase) -> None:
        before = len(self.work.apart)
        try:
            last_visit(self.state, self.work.method, request)
        finally:  # what was done was done, also where it failed
            waiting.visits += self.work.apart[before:]
            del self.work.apart[before:]

    def _admit(self, request: Join) -> tuple[int, ...]:
        left = left_to_join(self.state, request)
        if left is None:
            return ()
        with attempt(self.state):
            held = {name: set(lane.members) for name, lane in self.state.lanes.items()}
            self.state.members.update(left.clients)
            self.work.method.admit(self.state.desk, left.clients)
        for name, lane in self.state.lanes.items():
            if lane.members != held.get(name):  # there is somebody to ask from now on
                lane.at = max(lane.at, self.state.now)
        return left.clients
