"""How models do: measured once each, however often it is asked."""

from __future__ import annotations

import time
from collections.abc import MutableMapping, Sequence

from torch.utils.weak import WeakIdKeyDictionary

from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine, Score, evaluate_all
from unknot.core.weights import Weights

SPLITS = ("validation", "test")


class Scores:
    """Scores of models on the validation and test data.

    `seconds` is the real time that they took since it was last counted.
    """

    def __init__(self, engine: Engine, data: FederatedData, watched: Sequence[str]) -> None:
        for split in watched:
            if split not in SPLITS:
                raise ConfigError(f"evaluate_on names 'validation' or 'test', not {split!r}")
        self._engine = engine
        self._data = data
        self._asked = tuple(watched)
        self.seconds = 0.0
        # By their numbers, whatever else they carry.
        self._known: MutableMapping[object, dict[str, Score]] = WeakIdKeyDictionary()
        self._last: Model | None = None

    @property
    def there(self) -> dict[str, Samples]:
        """What there is to measure on; an erasure may leave less of it."""
        given = {"validation": self._data.validation, "test": self._data.test}
        return {split: samples for split in SPLITS if (samples := given[split]) is not None and len(samples)}

    @property
    def watched(self) -> tuple[str, ...]:
        """What is measured on while training goes on."""
        return tuple(split for split in self._asked if split in self.there)

    def of(self, model: Model, split: str) -> Score:
        """One split of one model."""
        return self.each([model], split)[0]

    def each(self, models: Sequence[Model], split: str) -> list[Score]:
        """One split of several models, which are measured together as far as they are not known."""
        known = [self._known.setdefault(_numbers(model), {}) for model in models]
        new = {id(scores): (model, scores) for model, scores in zip(models, known, strict=True)}
        asked = [(model, scores) for model, scores in new.values() if split not in scores]
        if asked:
            started = time.perf_counter()
            found = evaluate_all(self._engine, [model for model, _ in asked], self.there[split])
            self.seconds += time.perf_counter() - started
            for (_, scores), score in zip(asked, found, strict=True):
                scores[split] = score
        return [scores[split] for scores in known]

    def now(self, model: Model) -> dict[str, Score]:
        """On what is watched while training goes on; a mean that came out the same is not measured again."""
        if self._last is not None and self._last.equal(model):
            model = self._last
        self._last = model
        return {split: self.of(model, split) for split in self.watched}

    def all(self, model: Model) -> dict[str, Score]:
        """On everything there is, at the end of a run."""
        return {split: self.of(model, split) for split in self.there}

    def __contains__(self, model: Model) -> bool:
        return _numbers(model) in self._known or model is self._last

    def forget(self) -> None:
        """Keep no model, and no figure, from before an erasure."""
        self._known.clear()
        self._last = None


def _numbers(model: Model) -> object:
    return model.vector if isinstance(model, Weights) else model
