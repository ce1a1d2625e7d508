"""Audits by what was put into the erased clients' data beforehand: a mark, canaries, or secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from unknot.audit.backdoor import Trigger, answers_to, marked
from unknot.audit.canaries import Canaries, Guesses, confidences, guessed, planted
from unknot.audit.ranks import LEVEL, check_level, rank_test
from unknot.audit.roc import Estimate
from unknot.audit.secrets import Exposures, Secrets, hidden, losses
from unknot.core.data import FederatedData
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.experiments.config import Experiment
from unknot.experiments.counterparts import (
    APART,
    KEPT,
    Counterpart,
    Look,
    Tell,
    erasures_of,
    named,
    parted,
    train,
)
from unknot.experiments.simulate import assemble, data_of
from unknot.federation import Event, Federation, Round, Served

USUAL = 3
"""Models that never had a canary or a secret, which tell how likely it looks by itself."""


@dataclass(frozen=True, eq=False)
class Backdoor:
    """Which models answer to a mark that only the erased clients' samples bore."""

    experiment: str
    erased: str
    target: int
    level: float
    kept: tuple[Estimate, ...]
    """Of marked test samples, the share that models with the marked data left in take for the target."""
    served: Estimate
    controls: tuple[Estimate, ...]
    p: float
    same: bool
    """Whether the served model is the control of its own seed, bit for bit: then there is nothing to find."""
    outcome: str
    seeds: dict[str, list[int]]

    def to_dict(self) -> dict[str, object]:
        plain = ("experiment", "erased", "target", "level", "p", "same", "outcome", "seeds")
        return {
            **{name: getattr(self, name) for name in plain},
            "served": self.served.to_dict(),
            "kept": [found.to_dict() for found in self.kept],
            "controls": [found.to_dict() for found in self.controls],
        }


def backdoor(
    experiment: Experiment,
    trigger: Trigger | None = None,
    *,
    controls: int = 19,
    level: float = LEVEL,
    tell: Tell = lambda text: None,
) -> Backdoor:
    """Mark all samples of the erased clients, run the experiment, and see who still answers to the mark.

    The share of answers is ranked among that of controls, as in `unknot.experiments.audited.audit`.
    """
    trigger = trigger or Trigger()
    check_level(controls, level)
    given = data_of(experiment)
    data = marked(given, _whole(experiment, given, "a mark is on all of a client's samples"), trigger)
    engine, (served, twin, *models), seeds = _trained(experiment, data, controls, KEPT, tell)
    test = data.test
    rates = [answers_to(engine, model, test, trigger) for model in models]
    mine, usual, kept = answers_to(engine, served, test, trigger), rates[:controls], rates[controls:]
    values = [found.value for found in usual]

    def found(rate: Estimate) -> tuple[str | None, float]:
        test = rank_test(rate.value, values, level)
        return test.found(0, level), test.p[0]

    seen = sum(found(rate)[0] == "still shows" for rate in kept)
    outcome, p = found(mine)
    if 2 * seen <= len(kept):
        outcome = "no power"
    if same := served.equal(twin):
        outcome = None
    return Backdoor(
        experiment=experiment.name,
        erased=named(experiment, data),
        target=trigger.target,
        level=level,
        kept=tuple(kept),
        served=mine,
        controls=tuple(usual),
        p=p,
        same=same,
        outcome=outcome or "no trace found",
        seeds=seeds,
    )


@dataclass(frozen=True, eq=False)
class CanaryAudit:
    """What the served model still tells of coins that only the erased client knew."""

    experiment: str
    erased: str
    level: float
    same: bool
    """Whether the served model is the control of its own seed, bit for bit: then there is nothing to find."""
    served: Guesses
    kept: Guesses
    seeds: dict[str, list[int]]

    @property
    def outcome(self) -> str:
        return "no trace found" if self.same else self.served.verdict(self.level, self.kept)

    def to_dict(self) -> dict[str, object]:
        plain = ("experiment", "erased", "level", "same", "outcome", "seeds")
        return {
            **{name: getattr(self, name) for name in plain},
            "p": self.served.two_sided,
            "served": self.served.to_dict(self.level),
            "kept": self.kept.to_dict(self.level),
        }


def with_canaries(
    experiment: Experiment,
    canaries: Canaries | None = None,
    *,
    level: float = LEVEL,
    tell: Tell = lambda text: None,
) -> CanaryAudit:
    """Plant canaries in the erased client, run the experiment once, and guess which of them had been in."""
    canaries = canaries or Canaries()
    _check_chance(level)
    given = data_of(experiment)
    clients = _whole(experiment, given, "canaries are erased with all of a client's samples")
    key = Key.root(experiment.seed).child("audit")
    data, inside, samples = planted(given, min(clients), canaries, key)
    engine, (served, twin, *models), seeds = _trained(experiment, data, USUAL, 1, tell)
    usual = np.mean([confidences(engine, model, samples) for model in models[:USUAL]], axis=0)
    mine, kept = (guessed(engine, model, samples, inside, canaries, usual) for model in (served, models[-1]))
    same = served.equal(twin)
    return CanaryAudit(experiment.name, named(experiment, data), level, same, mine, kept, seeds)


@dataclass(frozen=True, eq=False)
class SecretAudit:
    """How far models expose secrets that only the erased client's texts held."""

    experiment: str
    erased: str
    level: float
    secrets: Secrets
    tokens: int
    """How many different ones secrets were drawn from."""
    same: bool
    """Whether the served model is the control of its own seed, bit for bit: then there is nothing to find."""
    before: Exposures
    """In the run's own model, as it was when it was asked to forget them."""
    served: Exposures
    controls: tuple[Exposures, ...]
    """In models that never had them; the first is the control of the run's own seed."""
    seeds: dict[str, list[int]]

    @property
    def outcome(self) -> str:
        return "no trace found" if self.same else self.served.verdict(self.level, self.before)

    def to_dict(self) -> dict[str, object]:
        plain = ("experiment", "erased", "level", "tokens", "same", "outcome", "seeds")
        return {
            **{name: getattr(self, name) for name in plain},
            "p": self.served.two_sided,
            "exposed": self.before.verdict(self.level) == "still shows",
            "secrets": asdict(self.secrets),
            "before": self.before.to_dict(),
            "served": self.served.to_dict(),
            "controls": [found.to_dict() for found in self.controls],
        }


def with_secrets(
    experiment: Experiment,
    secrets: Secrets | None = None,
    *,
    level: float = LEVEL,
    tell: Tell = lambda text: None,
) -> SecretAudit:
    """Write secrets into the erased client's texts, run the experiment once, and see who exposes them."""
    secrets = secrets or Secrets()
    _check_chance(level)
    given = data_of(experiment)
    client = min(_whole(experiment, given, "secrets are erased with all of a client's samples"))
    key = Key.root(experiment.seed).child("audit")
    data, drawn = hidden(given, client, secrets, key)
    before: list[Model] = []
    asked: list[Served] = []

    def look(one: Counterpart, fed: Federation, event: Event) -> None:
        """Hold the last model before the request: after it, the federation refuses to serve it."""
        if not one.whole:
            return
        if isinstance(event, Served) and client in event.clients:
            asked.append(event)
        elif isinstance(event, Round) and not asked:
            before[:] = [fed.model]

    engine, (served, twin, *others), seeds = _trained(experiment, data, USUAL, 0, tell, look)
    if not before:
        raise ConfigError("secrets are learned before they are erased: ask for the erasure in a later round")
    said = losses(engine, [before[0], served, twin, *others], drawn.texts)
    mine, after, *never = (Exposures.of(found, drawn.planted) for found in said)
    return SecretAudit(
        experiment=experiment.name,
        erased=named(experiment, data),
        level=level,
        secrets=secrets,
        tokens=drawn.tokens,
        same=served.equal(twin),
        before=mine,
        served=after,
        controls=tuple(never),
        seeds=seeds,
    )


def _check_chance(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"the level is a chance of a false alarm, between 0 and 1; not {level}")


def _whole(experiment: Experiment, data: FederatedData, why: str) -> set[int]:
    targets = [target for request in erasures_of(experiment, data) for target in request.targets]
    if any(target.samples is not None for target in targets):
        raise ConfigError(f"{why}: erase clients, not some of their samples")
    return {target.client for target in targets}


def _trained(
    experiment: Experiment,
    data: FederatedData,
    controls: int,
    kept: int,
    tell: Tell,
    look: Look | None = None,
) -> tuple[Engine, Sequence[Model], dict[str, list[int]]]:
    """The engine; what is served, its own control, the others and what kept all of it; their seeds."""
    _, erased = parted(data, erasures_of(experiment, data))
    seeds = {
        "controls": [experiment.seed + 1 + i for i in range(controls)],
        "kept": [experiment.seed + APART + 1 + i for i in range(kept)],
    }
    wanted = [
        Counterpart(experiment.seed, whole=True),
        Counterpart(experiment.seed),
        *(Counterpart(seed) for seed in seeds["controls"]),
        *(Counterpart(seed, erased) for seed in seeds["kept"]),
    ]
    tell(f"training {len(wanted)} models")
    fed = assemble(experiment, data)
    models = train(experiment, fed.data, fed.engine, wanted, look)
    return fed.engine, models, {kind: found for kind, found in seeds.items() if found}
