"""The slow oracle: plain PyTorch, every job on its own, with the optimisers of `torch.optim`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from threading import Event

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from unknot.core.base import trained
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Job, Update
from unknot.core.loss import Loss, OwnLoss, loss_for
from unknot.core.task import Task
from unknot.core.training import StepRule
from unknot.core.weights import Weights
from unknot.engine import checks
from unknot.engine.base import Machine
from unknot.engine.bits.made import Form
from unknot.engine.outputs import fitted
from unknot.engine.precision import FULL, Precision
from unknot.engine.ways import lessons
from unknot.engine.workers import Stopped


class LoopEngine(Machine):
    """Plain PyTorch, each job on its own: the slow oracle.

    Jobs are trained on copies of `model`, whose own weights never matter.

    `device` and `dtype`: where and in which precision. `threads`: how many jobs are trained side by side;
    each computes with one thread, so its bits do not depend on their number. `task`: what models are judged
    by, and trained by where a recipe does not say it.
    """

    name = "loop"

    def __init__(
        self,
        model: nn.Module,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
        task: Task | None = None,
    ) -> None:
        super().__init__(model, device, dtype, threads, task=task)

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        checks.check_jobs(jobs, self.layout)
        shards = lessons.shards_of(jobs, data)
        samples = self._readable(jobs, shards, data.train)
        with checks.no_hidden_draws(), self.gpu_settings():
            tasks = [partial(self._alone, samples, *pair) for pair in zip(jobs, shards, strict=True)]
            return self._run(tasks, self._workers())

    def _alone(self, samples: Samples, job: Job, shard: Shard, stop: Event) -> Update:
        loss = self._examine(Form.of(samples), job.recipe.loss).loss if len(shard) else None
        with self._borrowed() as model:
            return train_alone(model, job, shard, samples, stop, loss)

    def describe(self) -> dict[str, object]:
        return {
            "engine": self.name,
            "path": "loop",
            "reason": "; ".join(["every job on its own, by torch.optim", *dict.fromkeys(self._own_losses())]),
            "device": str(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "threads": self._workers(),
            "torch": str(torch.__version__),
        }

    def _own_losses(self) -> list[str]:
        losses = [examined.loss for examined in self._examined.values()]
        return [loss.said() for loss in losses if isinstance(loss, OwnLoss)]


def train_alone(
    model: nn.Module,
    job: Job,
    shard: Shard,
    samples: Samples,
    stop: Event | None = None,
    loss: Loss | None = None,
    precision: Precision = FULL,
) -> Update:
    """Train one job on `model`, whose weights it replaces; raises `Stopped` once `stop` is set.

    `loss` is the job's as an engine has examined it, `precision` that of the model's products.
    """
    recipe = job.recipe
    loss = loss or recipe.loss or loss_for(samples)
    job.start.load_into(model)
    named, where = trained(model), job.start.vector.device
    if not len(shard):
        return lessons.untrained(job, Weights.of(model).vector.to(where))
    model.train()
    parameters = list(named.values())
    kernels = [(3, 4) if p.dim() == 4 else None for p in parameters]
    rule = StepRule(recipe, job.version, _as_rows(parameters), kernels)
    second_order = recipe.optimizer.curvature
    products, signs = list[Tensor](), list[Tensor]()
    read = list(lessons.batches(job, shard))
    order = torch.from_numpy(np.concatenate(read)).to(samples.x.device)
    # Summed where it is computed: to ask a GPU for a number is to wait for it.
    total = torch.zeros((), dtype=torch.float64, device=samples.x.device)
    for step, rows in enumerate(torch.split(order, [len(rows) for rows in read])):
        if stop is not None and stop.is_set():
            raise Stopped
        x, y = samples.take(rows)
        # Attention's fast kernels can be differentiated once only.
        with sdpa_kernel(SDPBackend.MATH) if second_order else nullcontext():
            losses = loss(fitted(precision.outputs(model, x), y, samples.kind, 1, loss.own), y)
        gradients = torch.autograd.grad(
            losses.mean(), parameters, create_graph=second_order, materialize_grads=True
        )
        if second_order:
            drawn = job.start.layout.split(lessons.signs(job, step, job.start.layout))
            signs = [drawn[name].to(device=p.device, dtype=p.dtype) for name, p in named.items()]
            products = list(lessons.hessian_products(gradients, parameters, signs))
        rule.take(step, _as_rows(gradients), _as_rows(products), _as_rows(signs))
        total += losses.detach().double().sum()
    return job.done(Weights.of(model).vector.to(where), len(shard), total.item() / len(order))


def _as_rows(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Views of one row each, as the step rule takes them."""
    return [tensor.detach().unsqueeze(0) for tensor in tensors]
