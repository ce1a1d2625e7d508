"""The slow oracle: plain PyTorch, every job on its own, with the optimisers of `torch.optim`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from threading import Event

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Job, Update
from unknot.core.recipe import SGD, AdaHessian, Adam, AdamW, Optimizer
from unknot.core.weights import Weights
from unknot.engine import checks
from unknot.engine.base import Machine
from unknot.engine.ways import lessons
from unknot.engine.workers import Stopped


class LoopEngine(Machine):
    """Trains each job on a copy of `model` of its own; the model's own weights never matter.

    `threads` is how many jobs are trained side by side. Each computes with one thread: its bits do not
    depend on their number.
    """

    name = "loop"

    def __init__(
        self,
        model: nn.Module,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
    ) -> None:
        super().__init__(model, device, dtype, threads)

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        checks.check_jobs(jobs, self.layout)
        shards = lessons.shards_of(jobs, data)
        samples = self._readable(jobs, shards, data.train)
        with checks.no_hidden_draws(), self._gpu_settings():
            tasks = [partial(self._alone, samples, *pair) for pair in zip(jobs, shards, strict=True)]
            return self._run(tasks, self._workers())

    def _alone(self, samples: Samples, job: Job, shard: Shard, stop: Event) -> Update:
        with self._borrowed() as model:
            return train_alone(model, job, shard, samples, stop)

    def describe(self) -> dict[str, object]:
        return {
            "engine": self.name,
            "path": "loop",
            "reason": "every job on its own, by torch.optim",
            "device": str(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "threads": self._workers(),
            "torch": torch.__version__,
        }


def train_alone(
    model: nn.Module, job: Job, shard: Shard, samples: Samples, stop: Event | None = None
) -> Update:
    """Train one job on `model`, whose weights it replaces; raises `Stopped` once `stop` is set."""
    recipe = job.recipe
    job.start.load_into(model)
    where, dtype = job.start.vector.device, next(model.parameters()).dtype
    if not len(shard):
        return lessons.untrained(job, Weights.of(model).vector.to(where))
    model.train()
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    parameters = list(named.values())
    start = [p.detach().clone() for p in parameters]
    optimizer = make_optimizer(recipe.optimizer, parameters)
    read = list(lessons.batches(job, shard))
    order = torch.from_numpy(np.concatenate(read)).to(samples.x.device)
    # Summed where it is computed: to ask a GPU for a number is to wait for it.
    total = torch.zeros((), dtype=torch.float64, device=samples.x.device)
    for step, rows in enumerate(torch.split(order, [len(rows) for rows in read])):
        if stop is not None and stop.is_set():
            raise Stopped
        x, y = samples.take(rows)
        second_order = isinstance(optimizer, AdaHessianOptimizer)
        # Attention's fast kernels can be differentiated once only.
        with sdpa_kernel(SDPBackend.MATH) if second_order else nullcontext():
            losses = lessons.sample_losses(model(x), y)
        gradients = torch.autograd.grad(
            losses.mean(), parameters, create_graph=second_order, materialize_grads=True
        )
        if isinstance(optimizer, AdaHessianOptimizer):
            drawn = job.start.layout.split(lessons.signs(job, step, job.start.layout))
            signs = [drawn[name].to(device=p.device, dtype=dtype) for name, p in named.items()]
            products = lessons.hessian_products(gradients, parameters, signs)
            # The proximal term is part of the loss: its Hessian is μ on the diagonal.
            products = [hv + recipe.proximal * v for hv, v in zip(products, signs, strict=True)]
            optimizer.diagonals = [hutchinson(hv, v) for hv, v in zip(products, signs, strict=True)]
        for p, first, gradient in zip(parameters, start, gradients, strict=True):
            p.grad = gradient.detach()
            if recipe.proximal:
                p.grad = p.grad + recipe.proximal * (p.detach() - first)
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(parameters, recipe.clip)
        optimizer.step()
        total += losses.detach().double().sum()
    optimizer.zero_grad()
    return job.done(Weights.of(model).vector.to(where), len(shard), total.item() / len(order))


def hutchinson(product: Tensor, signs: Tensor) -> Tensor:
    """|v·Hv|: an estimate of the Hessian's diagonal, averaged over a convolution's kernel."""
    diagonal = (product * signs).abs()
    return diagonal.mean(dim=[2, 3], keepdim=True) if diagonal.dim() == 4 else diagonal


class AdaHessianOptimizer(torch.optim.Optimizer):
    """AdaHessian as its authors' code has it; `diagonals` are set before each step."""

    def __init__(self, parameters: Sequence[Tensor], spec: AdaHessian) -> None:
        super().__init__(parameters, {})
        self.spec = spec
        self.diagonals: list[Tensor] = []
        self.steps = 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.steps += 1
        first, second = self.spec.betas
        k = self.spec.hessian_power
        for p, diagonal in zip(self.param_groups[0]["params"], self.diagonals, strict=True):
            state = self.state[p]
            if not state:
                state["mean"], state["square"] = torch.zeros_like(p), torch.zeros_like(p)
            mean, square = state["mean"], state["square"]
            mean.mul_(first).add_(p.grad, alpha=1 - first)
            square.mul_(second).addcmul_(diagonal, diagonal, value=1 - second)
            correction1, correction2 = 1 - first**self.steps, 1 - second**self.steps
            bottom = (square.sqrt() ** k / math.sqrt(correction2) ** k).add_(self.spec.eps)
            p.sub_(self.spec.lr * (mean / correction1 / bottom + self.spec.weight_decay * p))


def make_optimizer(spec: Optimizer, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
    match spec:
        case SGD():
            return torch.optim.SGD(
                parameters,
                lr=spec.lr,
                momentum=spec.momentum,
                weight_decay=spec.weight_decay,
                nesterov=spec.nesterov,
            )
        case Adam() | AdamW():
            kind = torch.optim.Adam if isinstance(spec, Adam) else torch.optim.AdamW
            return kind(
                parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay
            )
        case AdaHessian():
            return AdaHessianOptimizer(parameters, spec)
