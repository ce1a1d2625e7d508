"""What a way to train is: whether it can, how many rows it wants, what it costs, how it trains."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Event
from typing import ClassVar

from torch import nn

from unknot.core.data import Samples
from unknot.core.jobs import Update
from unknot.core.loss import Loss
from unknot.core.training import Recipe
from unknot.engine.bits.made import Form
from unknot.engine.cuda.courses import Courses
from unknot.engine.ways import chunks
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.shelf import Shelf
from unknot.engine.ways.stack import Stacking
from unknot.engine.ways.traits import Traits

Results = Iterable[tuple[Lesson, Update]]
"""On a GPU, to read them is to wait: what else there is to ask for is asked for first."""


@dataclass(frozen=True, eq=False)
class Case:
    """All that a way is chosen by: model and device, the recipe, the loss, what samples look like."""

    traits: Traits
    recipe: Recipe
    loss: Loss
    form: Form
    activations: int  # how many numbers the layers give for one sample

    @property
    def row_bytes(self) -> int:
        """What a row of a stack needs at the most."""
        inputs, itemsize = math.prod(self.form.inputs), self.traits.dtype.itemsize
        return chunks.row_bytes(self.traits.layout.size, self.activations, inputs, self.recipe, itemsize)


@dataclass(frozen=True, eq=False)
class Workshop:
    """What an engine lends to a way: copies of the model, buffers, and on a GPU the courses it captured."""

    borrowed: Callable[[], AbstractContextManager[nn.Module]]
    courses: Courses | None
    shelf: Shelf


@dataclass(frozen=True, eq=False)
class Stack:
    """Jobs that are handed to a way at once, and all that it needs to train them."""

    case: Case
    workshop: Workshop
    samples: Samples
    lessons: Sequence[Lesson]
    setting: Stacking
    stop: Event


class Way(ABC):
    """A way to train the jobs of one recipe. A value: what it keeps, it keeps in the workshop."""

    name: ClassVar[str]
    strength: ClassVar[str]  # why it is taken where it can be
    stacks: ClassVar[bool] = True  # several jobs at once, one a row

    @abstractmethod
    def lacks(self, traits: Traits) -> str:
        """What it wants of a model that this one does not have; empty where it can train it."""

    def why_not(self, case: Case, workshop: Workshop) -> str:
        """What speaks against recipe, loss and samples, where the model is one for it; empty: nothing."""
        return ""

    def at_once(self, case: Case) -> int:
        """How many jobs are handed over at once, where it does not stack them."""
        return 1

    def unwise(self, traits: Traits, loss: Loss | None = None) -> str:
        """Why the next one is better, though it can; empty where it is not."""
        return ""

    @abstractmethod
    def train(self, stack: Stack) -> Results:
        """Train the jobs of one stack; each result is as if the job had been alone."""
