"""Is a loss of the user's own one number a sample, a function of its arguments alone? Made batches tell.

What a loss carries from one call to the next ties clients together as a model's state would, and a loss that
mixes the samples of a batch depends on how the batch is filled up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from unknot.core.errors import ConfigError
from unknot.core.loss import OwnLoss
from unknot.engine.bits.compare import close, same_bits
from unknot.engine.bits.state import digest, global_generators, held_by, state_of


@dataclass(frozen=True)
class Given:
    """What a loss is given: a model's outputs, and the targets."""

    outputs: Tensor
    targets: Tensor

    def copy(self) -> Given:
        return Given(self.outputs.clone(), self.targets.clone())

    def sample(self, row: int) -> Given:
        return Given(self.outputs[row : row + 1], self.targets[row : row + 1])


def examine(loss: OwnLoss, some: Given, others: Given, device: torch.device) -> OwnLoss:
    """The loss with the way in which it is to be computed; one that cannot be trained by is refused."""
    return _Examination(loss, some, others, device).way()


class _Examination:
    def __init__(self, loss: OwnLoss, some: Given, others: Given, device: torch.device) -> None:
        self.loss = loss
        self.device = device
        self.some = some
        self.others = others.copy()  # the first sample is the same, the others and their number are not
        self.others.outputs[0], self.others.targets[0] = some.outputs[0], some.targets[0]

    def way(self) -> OwnLoss:
        """Look at everything in turn."""
        generators = {name: digest(g) for name, g in global_generators(self.device).items()}
        state = self._state()
        first = self._call(self.some)
        for name, generator in global_generators(self.device).items():
            if digest(generator) != generators[name]:
                self._refuse(f"draws from {name}: such draws have no name, so nothing could be repeated")
        others, again = self._call(self.others), self._call(self.some)
        if self._state() != state:
            self._refuse("changes something that it holds", CARRIED)
        if not same_bits(first, again):
            self._refuse("gives another result the second time, for the same arguments", CARRIED)
        self._check_slope()
        if first.dim():
            for batch, given in ((self.some, first), (self.others, others)):
                alone = [self._call(batch.sample(row)).reshape(()) for row in range(len(given))]
                if not close(given, torch.stack(alone)):
                    self._refuse("mixes the samples of a batch", MIXED)
            if not close(first[0], others[0]):
                self._refuse("mixes the samples of a batch", MIXED)
            return replace(self.loss, way="batch")
        single = torch.stack([self._call(self.some.sample(row)) for row in range(len(self.some.targets))])
        if not close(first, single.mean()):
            self._refuse(
                "gives one number for a batch that is not the mean of what it gives for single samples",
                "let it give a number a sample (reduction='none')",
            )
        return self._one_by_one(single)

    def _one_by_one(self, single: Tensor) -> OwnLoss:
        try:
            found = self.loss.one_by_one(self.some.outputs, self.some.targets, by_vmap=True)
        except (RuntimeError, ValueError, TypeError) as error:
            return replace(self.loss, way="loop", why=_line(error))
        if not close(found, single):
            return replace(self.loss, way="loop", why="it gives something else there")
        return replace(self.loss, way="vmap")

    def _call(self, given: Given) -> Tensor:
        count, copy = len(given.targets), given.copy()
        with self._explained(given), torch.no_grad():
            found: Any = self.loss.function(copy.outputs, copy.targets)
        if not same_bits(copy.outputs, given.outputs) or not torch.equal(copy.targets, given.targets):
            self._refuse("changes what it is given")
        if not isinstance(found, Tensor) or not found.is_floating_point():
            what = str(found.dtype) if isinstance(found, Tensor) else type(found).__name__
            self._refuse(f"gives a {what}, not a tensor of floating-point numbers")
        if found.dim() and len(found) != count:
            self._refuse(
                f"gives a tensor of shape {tuple(found.shape)} for {count} samples",
                "it must give one number a sample, or one number that is their mean",
            )
        return found.flatten(1).mean(1) if found.dim() > 1 else found

    def _check_slope(self) -> None:
        given = self.some.copy()
        leaf = given.outputs.requires_grad_()
        with self._explained(given), torch.enable_grad():
            total = self.loss.function(leaf, given.targets).sum()
            slope = torch.autograd.grad(total, leaf, allow_unused=True)[0] if total.requires_grad else None
        if slope is None:
            self._refuse(
                "cannot be differentiated: it does not follow from the outputs by PyTorch's functions"
            )

    def _state(self) -> dict[Any, str]:
        function = self.loss.function
        if isinstance(function, nn.Module):
            return dict(state_of(function))
        return {name: digest(value) for name, value in held_by(function).items()}

    @contextmanager
    def _explained(self, given: Given) -> Iterator[None]:
        try:
            yield
        except ConfigError:
            raise
        except Exception as error:  # whatever a function of the user's does
            outputs, targets = tuple(given.outputs.shape), tuple(given.targets.shape)
            raise ConfigError(
                f"the loss {self.loss.name!r} cannot be computed for outputs of shape {outputs} and "
                f"targets of shape {targets}: {_line(error)}"
            ) from error

    def _refuse(self, said: str, advice: str = "") -> NoReturn:
        raise ConfigError(f"the loss {self.loss.name!r} {said}" + (f": {advice}" if advice else ""))


def _line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


CARRIED = "its results would depend on what was computed before, so that nothing could be forgotten exactly"
MIXED = "a sample's loss would depend on who else is in its batch, and on how the batch is filled up"
