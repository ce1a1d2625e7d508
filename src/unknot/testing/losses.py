"""Is a loss one number a sample, a function of what it is given alone, and the same by every way to train?"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unknot.core.data import FederatedData
from unknot.core.keys import Key
from unknot.core.loss import Loss, LossFunction, as_loss
from unknot.core.task import Task
from unknot.core.training import SGD, Adam, Recipe
from unknot.engine import LoopEngine
from unknot.testing.models import company_changes_nothing, made, ways_agree
from unknot.testing.report import Checks, Report
from unknot.testing.worlds import small_data

KEY = Key.root(7).child("check loss")


def check_loss(
    loss: Loss | LossFunction | str,
    data: FederatedData | None = None,
    model: nn.Module | Callable[[], nn.Module] | None = None,
) -> Report:
    """Examine a loss, by its name or itself, and train a small model by it in every way there is.

    It gives a finite number a sample, which depends on that sample alone and can be differentiated; the
    gradient that it writes out is the one that autograd finds; and all ways to train by it agree as they do
    for a [model](`check_model`). Data of its kind is made, where none is given: classes for one of your own.
    One of your own for values or labels needs data that has them.
    """
    given = as_loss(loss)
    checks = Checks(f"loss {given.name}")
    used = data or small_data(kind=given.kinds[0])
    outputs = used.train.classes
    network = made(model or (lambda: _network(used.train.x[0].numel(), outputs)), used)
    with checks.during("it can be examined"):
        LoopEngine(network, task=Task(given)).examine(used.train)
    with checks.during("it can be computed"):
        if model is None:
            _is_one_number_a_sample(checks, given, used)
        for optimizer in (SGD(0.05), Adam(0.01, eps=1e-3)):
            recipe = Recipe(optimizer, batch_size=4, loss=given)
            ways_agree(checks, network, used, recipe, tolerance=1e-9)
            company_changes_nothing(checks, network, used, recipe)
    return checks.report()


def _network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs))


def _is_one_number_a_sample(checks: Checks, loss: Loss, data: FederatedData) -> None:
    samples = data.cast(torch.float64).train
    classes = samples.kind == "classes"
    shape = (*samples.y.shape, samples.classes) if classes else tuple(samples.y.shape)
    outputs = torch.from_numpy(KEY.generator().standard_normal(shape))
    targets = samples.y if classes else samples.y.double()
    losses = loss(outputs, targets)
    checks.hold(
        "it is one number a sample", losses.shape == (len(samples),), f"it is of shape {tuple(losses.shape)}"
    )
    checks.hold("its numbers are finite", bool(losses.isfinite().all()), "there are some that are not")
    for row in range(3):
        alone = loss(outputs[row : row + 1], targets[row : row + 1])[0]
        far = float((alone - losses[row]).abs())
        checks.hold(
            "a sample's loss is its own", far < 1e-9, f"that of sample {row} is {far:.3g} more or less alone"
        )
    _slope_is_right(checks, loss, outputs, targets)


def _slope_is_right(checks: Checks, loss: Loss, outputs: Tensor, targets: Tensor) -> None:
    """The written-out gradient of a stack of two rows against that of the plain form."""
    half = len(outputs) // 2
    stack = torch.stack([outputs[:half], outputs[half : 2 * half]])
    wanted = torch.stack([targets[:half], targets[half : 2 * half]])
    weights = torch.from_numpy(KEY.child("weights").generator().random((2, half)))
    losses, error = loss.error(stack, wanted, weights)
    leaf = stack.clone().requires_grad_()
    plain = torch.stack([loss(rows, aims) for rows, aims in zip(leaf, wanted, strict=True)])
    (slope,) = torch.autograd.grad((plain * weights).sum(), leaf)
    for what, one, other in (("loss", losses, plain), ("gradient", error, slope)):
        far = float((one - other).detach().abs().max())
        checks.hold("its form for stacks is its plain form", far < 1e-9, f"the {what} is up to {far:.3g} off")
