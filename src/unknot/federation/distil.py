"""Distillation: a model learns what another one says of samples that are nobody's."""

from __future__ import annotations

import numpy as np
import torch

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine, Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.loss import SoftTargets
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation.inspect import fault


def distilled(
    engine: Engine, data: FederatedData, student: Weights, teacher: Weights, recipe: Recipe, key: Key
) -> tuple[Weights | None, int]:
    """The student after it learned, None if it has no numbers then; and how many samples were read.

    Teacher and student are softened by the loss's temperature alike.
    """
    check_distillable(data)
    loss = recipe.loss
    if not isinstance(loss, SoftTargets):
        raise ConfigError("a model is distilled by the loss SoftTargets(temperature)")
    assert data.public is not None
    public, classes = data.public, data.train.classes
    asked = Samples(public, torch.zeros(len(public), dtype=torch.int64), classes)
    said = engine.predict(teacher, asked).log().div(loss.temperature).softmax(-1)
    read = len(public) + recipe.samples_seen(len(public))
    if not said.isfinite().all():  # a teacher that has nothing to say
        return None, read
    softened = Samples(public, said.to(student.vector.dtype).cpu(), classes, "values")
    school = FederatedData(softened, {0: Shard.of(np.arange(len(softened)))}, softened)
    job = Job(Unit(0), student, key, recipe, "distil")
    (update,) = engine.train([job], school)
    return None if fault(job, update) else student.like(update.weights.vector, teacher), read


def check_distillable(data: FederatedData) -> None:
    """Raise `ConfigError` unless there is something to distil with."""
    if data.public is None:
        raise ConfigError(
            "distillation needs inputs of the server's own, without targets: federate(..., public=200), "
            "clients(..., public=X); in a file with a data set data.public = 200, with a folder the name of "
            'a file in it, data.public = "public.csv"'
        )
    if data.train.kind != "classes" or data.train.y.ndim > 1:
        raise ConfigError(
            "distillation is for samples of one class each: a teacher gives every class a probability"
        )
