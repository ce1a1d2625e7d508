"""Does a method keep its promise? The checks that ours pass."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unknot.audit import gap, variants
from unknot.core.data import FederatedData
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError, ErasedDataError, UnknotError
from unknot.core.fingerprint import fingerprint
from unknot.core.form import NotPlain
from unknot.core.jobs import Engine, Job, Update
from unknot.core.requests import Erase, Request, Target, erase, join
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.experiments import simulate
from unknot.federation import Federation, Guarantee, History, Lane, Method
from unknot.federation.snapshot import dump
from unknot.select import Balanced
from unknot.testing.interrupted import goes_on
from unknot.testing.reach import reached
from unknot.testing.report import Checks, Report, named
from unknot.testing.worlds import ServerMomentum, ToyEngine, paces, small_data, toy_weights
from unknot.unlearn import make_method

RECIPE = Recipe(batch_size=2)
GONE = 1
MARK = 0.70316231250762939
"""What the leavers' inputs are filled with when they are looked for afterwards: nobody else has it."""


@dataclass(frozen=True)
class Script:
    """Requests at rounds, and for how many rounds there is training in all."""

    requests: tuple[Request, ...]
    rounds: int

    @property
    def erased(self) -> tuple[Target, ...]:
        """What is erased in all; who leaves after some samples is erased whole."""
        targets = [t for r in self.requests if isinstance(r, Erase) for t in r.targets]
        whole = {t.client for t in targets if t.samples is None}
        some: dict[int, list[int]] = {}
        for target in targets:
            if target.client not in whole:
                some.setdefault(target.client, []).extend(target.samples or ())
        return (*(Target(c) for c in sorted(whole)), *(Target(c, tuple(ids)) for c, ids in some.items()))

    def altered(self, data: FederatedData) -> list[Target]:
        """The same, for variants of the data: who loses samples must hold them in every variant."""
        partly = {
            t.client
            for r in self.requests
            if isinstance(r, Erase)
            for t in r.targets
            if t.samples is not None
        }
        return [
            Target(t.client, tuple(data[t.client].ids.tolist()))
            if t.samples is None and t.client in partly
            else t
            for t in self.erased
        ]


def scripts(data: FederatedData) -> dict[str, Script]:
    """What a method has to bear, with data of 8 clients or more."""
    *early, late, _ = data.clients
    few = early[GONE]
    return {
        "an erasure": Script((erase(few, round=3),), 6),
        "an erasure before anything is trained": Script((erase(few, round=0),), 4),
        "several at once": Script((erase(early[::2], round=3),), 6),
        "requests in a row": Script(
            (erase(few, round=2), erase(early[3], round=3), erase(early[0], round=5)), 8
        ),
        "some samples": Script((erase({few: data[few].ids[[0, 2]]}, round=3),), 6),
        "some samples, then their client": Script(
            (erase({few: data[few].ids[:1]}, round=2), erase(few, round=4)), 6
        ),
        "a newcomer before an erasure": Script((join(late, round=2), erase(few, round=4)), 7),
        "a newcomer after an erasure": Script((erase(few, round=3), join(late, round=4)), 7),
        "a newcomer that leaves": Script((join(late, round=1), erase(late, round=4)), 7),
        "all but one": Script((erase([*early, late], round=3),), 6),
    }


def check_method(
    method: Method | str,
    *,
    data: FederatedData | None = None,
    model: str | nn.Module | Callable[[], nn.Module] | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    never_had: bool = False,
    isolated: bool = False,
) -> Report:
    """Put a method through requests of every kind, at synchronous and buffered paces; raise if it fails.

    Of every method: the erased data is out of reach, nothing that it shaped is served, the same run gives
    the same bits, no weights that it is given are changed in place, one federation does not notice another,
    a run can be broken off at any step and gone on with elsewhere, and to ask for the model changes
    nothing. Of an exact one: runs that differ in the erased data alone serve the same bits. Of another: if
    they do not, what was let pass is on record. Both with a selector that knows clients and an aggregator
    that has a state as well. A pace, and that aggregator, may be refused by a `ConfigError`.

    An author may promise more: that what is served is what a federation serves that `never_had` the erased
    data, and that lanes without the erased client go on as if nothing had happened (`isolated`). The report's
    notes say whether that is so. Training is a toy that takes no time; give a `model` for the real thing.
    """
    given = make_method(method) if isinstance(method, str) else method
    trial = _Trial(given, data or small_data(), model, recipe or RECIPE, seed)
    trial.says_what_it_is()
    accepted = trial.paces()
    trial.leaves_others_alone(isolated)
    for pace in accepted:
        trial.repeats_itself(pace)
        trial.changes_nothing_in_place(pace)
        trial.is_asked_at_any_moment(pace)
        trial.as_if_never_there(pace, never_had)
        trial.forgets(pace)
        trial.goes_on(pace)
    trial.with_other_parts()
    return trial.checks.report()


class _Trial:
    def __init__(self, method: Method, data: FederatedData, model: Any, recipe: Recipe, seed: int) -> None:
        if len(data) < 8:
            raise ConfigError(f"the checks of a method need 8 clients or more, not {len(data)}")
        self.checks = Checks(f"method {named(method)}")
        self.method = method
        self.untouched = copy.deepcopy(method)
        self.data, self.model, self.recipe, self.seed = data, model, recipe, seed
        self.scripts = scripts(data)
        self.refused: dict[str, str] = {}
        # What a schedule tells of how much a leaver held is left open where models are kept.
        self.worlds = paces(steady=method.keeps)

    def open(self, data: FederatedData, parts: dict[str, Any], method: Method | None = None) -> Federation:
        setup = {"seed": self.seed, "evaluate_every": 0, **parts}
        method = method or self.method
        if self.model is None:
            return Federation(ToyEngine(), toy_weights(), data, method, self.recipe, **setup)
        return simulate(self.model, data, method, self.recipe, threads=1, **setup)

    def serve(
        self, script: Script, data: FederatedData, parts: dict[str, Any], method: Method | None = None
    ) -> tuple[Federation, History]:
        """Run the script; where there is one lane, on until it is at the round that it was asked for.

        How far a method goes back may depend on the erased data; the model of a round must not.
        """
        fed = self.open(data, parts, method)
        history = fed.run(script.rounds, requests=script.requests)
        if len(fed.lanes) == 1 and fed.members:
            (lane,) = fed.lanes.values()
            if lane.version < script.rounds:
                history = fed.run(script.rounds - lane.version)
        return fed, history

    # What every method must bear -----------------------------------------------------------------

    def says_what_it_is(self) -> None:
        method = self.method
        known = isinstance(method.guarantee, Guarantee) and method.name != Method.name
        self.checks.hold("name and guarantee", known, "it needs a name of its own and a Guarantee")
        exact = method.promise.startswith(Guarantee.EXACT.value)
        self.checks.hold(
            "its promise in words",
            exact == method.exact,
            f"it is {'' if method.exact else 'not '}exact, but promises: {method.promise}",
        )
        self.checks.notes["promise"] = method.promise

    def paces(self) -> dict[str, dict[str, Any]]:
        """Those that the method takes: it must take the synchronous one."""
        found = {name: parts for name, parts in self.worlds.items() if self._takes(name, parts)}
        why = self.refused.get("synchronous", "")
        self.checks.hold("it runs at a synchronous pace", "synchronous" in found, why)
        return found

    def _takes(self, name: str, parts: dict[str, Any]) -> bool:
        """Whether it runs with these; what it refuses is noted, in its own words."""
        try:
            self.open(self.data, parts).run(1)
        except ConfigError as error:
            self.refused[name] = str(error)
            self.checks.notes["refused"] = self.refused
            return False
        except NotPlain as error:
            self.checks.hold("what it notes is structure that can be written", False, str(error))
        except UnknotError as error:
            self.checks.hold(f"it runs, {name}", False, str(error))
        return True

    def _is_gone(self, about: str, script: Script, fed: Federation) -> None:
        """After an erasure nothing of the client is in what is served, kept, or reached from there."""
        check = f"{about}: what is erased is gone"
        gone = {target.client for target in script.erased if target.samples is None}
        with self.checks.during(check):
            models = {"is served": fed.model}
        for lane in fed.lanes.values():
            models |= {f"node {n.name!r} of lane {lane.name!r} has": n.weights for n in lane.nodes.values()}
        for where, model in models.items():
            still = sorted(gone & model.lineage.clients)
            self.checks.hold(check, not still, f"clients {still} had a part in the model that {where}")
        for client in gone:
            self.checks.hold(check, _is_closed(fed.data, client), f"client {client}'s data can be read")
        kept = reached(fed, MARK)
        self.checks.hold(check, not kept, f"numbers of erased samples are still held, as {', '.join(kept)}")

    def repeats_itself(self, pace: str) -> None:
        parts = self.worlds[pace]
        script, check = self.scripts["requests in a row"], f"the same run gives the same bits, {pace}"
        with self.checks.during(check):
            untouched = copy.deepcopy(self.untouched)
            first = self.serve(script, self.data, parts, untouched)[0].model
            again = self.serve(script, self.data, parts, copy.deepcopy(self.untouched))[0].model
            after = self.serve(script, self.data, parts, untouched)[0].model
        self._equal(check, first, again, "a draw without a key, perhaps")
        self._equal(
            f"one federation does not notice another, {pace}",
            first,
            after,
            "the method remembers an earlier one; what it keeps belongs into desk.archive or lane.notes",
        )

    def changes_nothing_in_place(self, pace: str) -> None:
        """What was sent to clients, and came back, is in the end what it was."""
        script, check = self.scripts["requests in a row"], f"weights are never changed in place, {pace}"
        with self.checks.during(check):
            fed = self.open(self.data, self.worlds[pace])
            fed.work.engine = watching = _Watching(fed.work.engine)
            fed.run(script.rounds, requests=script.requests)
        changed = watching.changed()
        self.checks.hold(
            check,
            changed is None,
            f"{changed} was changed afterwards: another run may have the same numbers; compute new weights "
            "instead, as update.weights * 0.5 does, or weights.like(vector) of a vector of your own",
        )

    def forgets(self, pace: str) -> None:
        """Runs that differ in the erased data alone serve the same bits, or what passed is on record."""
        parts = self.worlds[pace]
        for name, script in self.scripts.items():
            self._non_interference(f"{name}, {pace}", script, parts)

    def goes_on(self, pace: str) -> None:
        """What it remembers can be written, and read again by another process."""
        script = self.scripts["a newcomer before an erasure"]

        def build() -> Federation:
            return self.open(self.data, self.worlds[pace], copy.deepcopy(self.untouched))

        goes_on(self.checks, pace, build, script.rounds, script.requests)

    def is_asked_at_any_moment(self, pace: str) -> None:
        """A run that is kept asks for its model at each checkpoint, which comes by the clock."""
        check = f"{pace}: to ask for the model changes nothing"
        with self.checks.during(check):
            try:
                never, always = (self._all_of_it(pace, asked) for asked in (False, True))
            except UnknotError:
                return  # another check says it better
        same = never == always
        self.checks.hold(check, same, "serve changes what the method remembers: do that in absorb")

    def _all_of_it(self, pace: str, asked: bool) -> tuple[object, ...]:
        """All that is remembered of a run, and happened in it; it is `asked` for its model at every step."""
        fed, script = self.open(self.data, self.worlds[pace]), self.scripts["requests in a row"]
        fed.begin(script.rounds, requests=script.requests)
        while not fed.over:
            fed.step()
            if asked:
                with suppress(Exception):  # a run that is kept goes on then, too
                    fed.work.would_serve()
        history = fed.history
        assert history is not None
        history.ended = replace(history.ended, seconds=dict.fromkeys(history.seconds, 0.0))
        content, tensors, _ = dump(fed)
        return content, set(tensors)

    def with_other_parts(self) -> None:
        """The same with a selector that knows clients, and with an aggregator that has a state."""
        script, plain = self.scripts["requests in a row"], self.worlds["synchronous"]
        if self.method.selects and not self.method.keeps:
            self._non_interference(
                "requests in a row, with a selector that knows clients",
                script,
                {**plain, "select": Balanced()},
            )
        with_state = {**plain, "aggregate": ServerMomentum()}
        if self.method.aggregates and self._takes("an aggregator that has a state", with_state):
            self._non_interference(
                "requests in a row, with an aggregator that has a state", script, with_state
            )

    def _non_interference(self, about: str, script: Script, parts: dict[str, Any]) -> None:
        check = f"{about}: what is served does not depend on what was erased"
        with self.checks.during(check):
            marked = _marked(self.data, script.erased)
            fed, _ = self.serve(script, marked, parts)
            self._is_gone(about, script, fed)
            for variant, data in variants(marked, script.altered(self.data)).items():
                plain = self.model is None and script is not self.scripts["an erasure"]
                if plain and variant == "random labels":
                    continue  # a training that takes no time sees labels as it sees inputs
                other, _ = self.serve(script, data, parts)
                found = _apart(fed, other)
                if self.method.exact:
                    self.checks.hold(
                        check,
                        found == 0.0,
                        f"with {variant} in place of the erased data, weights differ by up to {found:.3g}. "
                        "Something of it is still used: a number kept from before the request, a choice that "
                        "was made by it, a model that went on",
                    )
                    self._notes_nothing_of_it(about, variant, fed, other)
                elif found != 0.0:
                    self.checks.notes["depends on what was erased"] = True
            if not self.method.exact:
                self._is_on_record(about, script, marked, parts, fed)

    def _notes_nothing_of_it(self, about: str, variant: str, fed: Federation, other: Federation) -> None:
        """What lanes note is the same where the same models are left, whatever the erased data was."""
        for name in fed.lanes.keys() & other.lanes.keys():
            one, two = fed.lanes[name], other.lanes[name]
            keys = [key for key in one.notes if _differ(one.notes[key], two.notes.get(key))]
            self.checks.hold(
                f"{about}: what is noted does not depend on what was erased",
                one.version != two.version or not keys,
                f"with {variant} in place of the erased data, notes{keys[:1]} of lane {name!r} differ: "
                "notes hold structure alone, and numbers made of data belong into desk.archive",
            )

    def _is_on_record(
        self, about: str, script: Script, marked: FederatedData, parts: dict[str, Any], fed: Federation
    ) -> None:
        """What is served may depend on those of the erased alone that are on record as let pass."""
        waived = fed.state.waived.clients
        others = [target for target in script.altered(self.data) if target.client not in waived]
        for variant, data in variants(marked, others).items() if others else ():
            found = _apart(fed, self.serve(script, data, parts)[0])
            self.checks.hold(
                f"{about}: what was let pass is on record",
                found == 0.0,
                f"with {variant} in place of what clients {[t.client for t in others]} had erased, weights "
                f"differ by up to {found:.3g}, but these are not waived: what is kept although erased data "
                "had a part in it belongs into desk.keepsakes",
            )

    # What an author may promise beyond that ------------------------------------------------------

    def as_if_never_there(self, pace: str, promised: bool) -> None:
        if not self.method.exact:
            self.checks.hold(
                "as if never there", not promised, "a method that is not exact cannot promise that"
            )
            return
        parts = self.worlds[pace]
        script, check = self.scripts["an erasure"], f"as if the erased client had never been there, {pace}"
        with self.checks.during(check):
            fed, _ = self.serve(script, self.data, parts)
            rest = self.data.fork()
            for target in script.erased:
                rest.erase(target.client, target.samples)
            twin = self.open(rest, parts)
            twin.run(max(lane.version for lane in fed.lanes.values()))
            found = gap(fed.model, twin.model)
        if promised:
            self.checks.hold(check, found == 0.0, f"weights differ by up to {found:.3g}")
        always = bool(self.checks.notes.get("as if never there", True))
        self.checks.notes["as if never there"] = always and found == 0.0
        if found and _layout(fed) != _layout(twin):
            self.checks.notes["never there"] = "not comparable: without the client there are other nodes"

    def leaves_others_alone(self, promised: bool) -> None:
        script, parts = self.scripts["an erasure"], self.worlds["synchronous"]
        check = "lanes without the erased client go on as if nothing had happened"
        with self.checks.during(check):
            asked, quiet = self.open(self.data, parts), self.open(self.data, parts)
            quiet.run(script.rounds)
            there = {lane.name for lane in quiet.lanes.values() if self.data.clients[GONE] in lane.members}
            asked.run(script.rounds, requests=script.requests)
            others = [name for name in quiet.lanes if name not in there and name in asked.lanes]
            disturbed = [n for n in others if not _same(asked.lanes[n], quiet.lanes[n])]
        if promised:
            self.checks.hold(check, bool(others), "there is no lane that the erased client is not in")
            self.checks.hold(check, not disturbed, f"lanes {disturbed} are not what they would have been")
        if others:
            self.checks.notes["isolated"] = not disturbed

    def _equal(self, check: str, one: Model, other: Model, why: str) -> None:
        found = gap(one, other)
        self.checks.hold(check, found == 0.0, f"weights differ by up to {found:.3g}: {why}")


class _Watching:
    """An engine that knows what it was given to train from, and gave back, as it was then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._then: dict[int, tuple[str, Weights, Tensor]] = {}

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        for job in jobs:
            self._note(f"the model that client {job.client} was sent", job.start)
        updates = self._engine.train(jobs, data)
        for update in updates:
            self._note(f"what client {update.client} sent back", update.weights)
        return updates

    def changed(self) -> str | None:
        """The first of them that is not what it was."""
        told = (what for what, weights, then in self._then.values() if not _alike(weights, then))
        return next(told, None)

    def _note(self, what: str, weights: Weights) -> None:
        self._then.setdefault(id(weights), (what, weights, weights.vector.clone()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def _alike(weights: Weights, then: Tensor) -> bool:
    """Whether they have the numbers that they had."""
    return weights.equal(weights.like(then))


def _marked(data: FederatedData, targets: Sequence[Target]) -> FederatedData:
    """The same, with the inputs of what is erased filled with one number; words stay words."""
    if not data.train.x.is_floating_point():
        return data
    x = data.train.x.clone()
    for target in targets:
        shard = data[target.client]
        rows = shard.rows if target.samples is None else shard.rows_of(np.asarray(target.samples))
        x[torch.from_numpy(rows)] = MARK
    return data.replaced(train=replace(data.train, x=x))


def _apart(one: Federation, other: Federation) -> float:
    """By how much what two federations serve differs, or could serve instead."""
    first, second = (fed.method.choices(fed.desk) for fed in (one, other))
    if first.keys() != second.keys():
        return math.inf
    return max(gap(one.model, other.model), *(gap(first[name], second[name]) for name in first), 0.0)


def _differ(one: object, other: object) -> bool:
    """Whether two notes are not the same, in their written form."""
    return fingerprint(one) != fingerprint(other)


def _layout(fed: Federation) -> dict[tuple[str, str], set[int]]:
    """The members of every node."""
    return {(lane.name, n.name): set(n.members) for lane in fed.lanes.values() for n in lane.nodes.values()}


def _is_closed(data: FederatedData, client: int) -> bool:
    try:
        data[client]
    except ErasedDataError:
        return True
    return False


def _same(one: Lane, other: Lane) -> bool:
    nodes = one.nodes.keys() == other.nodes.keys()
    return nodes and all(one.nodes[n].weights.equal(other.nodes[n].weights) for n in one.nodes)
