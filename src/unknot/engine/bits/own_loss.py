"""Is a loss of the user's own one number a sample, a function of its arguments alone? Made batches tell.

What a loss carries from one call to the next ties clients together as a model's state would, and a loss that
mixes the samples of a batch depends on how the batch is filled up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from unknot.core.errors import ConfigError
from unknot.core.loss import OwnLoss
from unknot.core.samples import IGNORED
from unknot.engine.bits.compare import close, same_bits
from unknot.engine.bits.made import SCALES
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

    def scaled(self) -> Given:
        """The same with some samples' outputs far larger than the others', and of the other sign."""
        factors = self.outputs.new_tensor(SCALES).repeat(len(self.outputs))[: len(self.outputs)].clone()
        factors[1::2] *= -1
        return Given(self.outputs * factors.view(-1, *[1] * (self.outputs.dim() - 1)), self.targets)

    @property
    def masked(self) -> bool:
        return not self.targets.is_floating_point() and bool((self.targets == IGNORED).any())

    @property
    def size(self) -> float:
        """The largest of its numbers."""
        parts = [self.outputs.flatten()]
        if self.targets.is_floating_point():
            parts.append(self.targets.flatten().to(self.outputs))
        return float(torch.cat(parts).nan_to_num(0.0, 0.0, 0.0).abs().max())


def examine(
    loss: OwnLoss, some: Given, others: Given, varied: Sequence[Given], device: torch.device
) -> OwnLoss:
    """The loss with the way in which it is to be computed; one that cannot be trained by is refused.

    `some` and `others` every loss must be able to compute; `varied` it may decline: not every one takes
    masked targets, or any number.
    """
    return _Examination(loss, some, others, varied, device).way()


class _Examination:
    def __init__(
        self, loss: OwnLoss, some: Given, others: Given, varied: Sequence[Given], device: torch.device
    ) -> None:
        self.loss = loss
        self.device = device
        self.some = some
        self.varied = varied
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
        self._check_state(state)
        if not same_bits(first, again):
            self._refuse("gives another result the second time, for the same arguments", CARRIED)
        self._check_slope()
        self._check_company(self.some, first, self._call)
        self._check_company(self.others, others, self._call)
        if first.dim() and not close(first[0], others[0]):
            self._refuse("mixes the samples of a batch", MIXED)
        for batch in self.varied:
            if (given := self._tried(batch)) is not None:
                self._check_company(batch, given, self._tried)
        self._check_state(state)
        return replace(self.loss, way="batch") if first.dim() else self._one_by_one()

    def _check_state(self, before: dict[Any, str]) -> None:
        if self._state() != before:
            self._refuse("changes something that it holds", CARRIED)

    def _check_company(self, batch: Given, given: Tensor, compute: Callable[[Given], Tensor | None]) -> None:
        """What it gives for a batch must be what it gives for the samples alone, or the mean of it."""
        alone = [compute(batch.sample(row)) for row in range(len(batch.targets))]
        single = [None if loss is None else loss.reshape(()) for loss in alone]
        if given.dim():
            for row, (among, by_itself) in enumerate(zip(given, single, strict=True)):
                if by_itself is not None and not close(among, by_itself, batch.sample(row).size):
                    self._refuse("mixes the samples of a batch", MIXED)
            return
        # Masked positions count for nothing in a sample's mean: the mean over a batch's is another one.
        known = [loss for loss in single if loss is not None]
        if len(known) == len(single) and not batch.masked and not close(given, torch.stack(known).mean()):
            self._refuse(
                "gives one number for a batch that is not the mean of what it gives for single samples",
                "let it give a number a sample (reduction='none')",
            )

    def _one_by_one(self) -> OwnLoss:
        single = torch.stack([self._call(self.some.sample(row)) for row in range(len(self.some.targets))])
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

    def _tried(self, given: Given) -> Tensor | None:
        """The same, or None where the loss cannot be computed."""
        copy = given.copy()
        try:
            with torch.no_grad():
                self.loss.function(copy.outputs, copy.targets)
        except Exception:  # whatever a function of the user's does
            return None
        return self._call(given)

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
