"""What an engine refuses, before training or while it goes on, in words; samples where it reads them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unknot.core.base import HALVES, frozen
from unknot.core.data import Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.weights import Layout


def check_model(model: nn.Module) -> None:
    """Refuse what would tie one client's result to another's, or to a hidden generator."""
    for name, module in model.named_modules():
        where = f"{name!r} is a {type(module).__name__}"
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise ConfigError(
                f"{where}: its batch statistics mix samples and outlive the round, so that nothing can be "
                f"forgotten exactly; use GroupNorm (or LayerNorm) instead"
            )
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            raise ConfigError(
                f"{where} with p={module.p}: it draws from a generator without a name; "
                f"set p=0 or leave it out"
            )
        dropout = getattr(module, "dropout", 0.0)  # attention and recurrent layers have it as a number
        if isinstance(dropout, float) and dropout > 0:
            raise ConfigError(f"{where} with dropout={dropout}: set it to 0, its draws have no name")
        if _calls_a_layer(vars(module).get("forward")):
            raise ConfigError(
                f"{where} whose forward was replaced by a function that calls a layer: in a copy of "
                "the model it would call the same one, which is not trained. Write a class with this forward"
            )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(f"{type(model).__name__} has no parameters to train")


def _calls_a_layer(forward: Any) -> bool:
    """Whether a function has a layer, or a method of one, in its closure: a copy of it has the same one."""
    held = inspect.getclosurevars(forward).nonlocals if inspect.isfunction(forward) else {}
    return any(isinstance(getattr(value, "__self__", value), nn.Module) for value in held.values())


def copied(model: nn.Module) -> nn.Module:
    """A copy of a model; what a forward pass left in it as part of its graph is copied as plain numbers."""
    return _copy(model, {})


def _copy(model: nn.Module, shared: dict[int, Any]) -> nn.Module:
    left = [v for m in model.modules() for v in vars(m).values() if isinstance(v, Tensor) and not v.is_leaf]
    return copy.deepcopy(model, {id(tensor): tensor.detach().clone() for tensor in left} | shared)


def twin(model: nn.Module) -> nn.Module:
    """A copy of a model that has the base in common with it."""
    return _copy(model, {id(p): p for p in frozen(model).values()})


def placed(model: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """The model on a device, what is trained of it in this precision; a base of half precision stays that."""
    for tensor in [*model.parameters(), *model.buffers()]:
        half = tensor.dtype in HALVES and not tensor.requires_grad
        wanted = None if half or not tensor.is_floating_point() else dtype
        tensor.data = tensor.data.to(device=device, dtype=wanted)
    return model


def check_jobs(jobs: Sequence[Job], layout: Layout) -> None:
    for job in {id(job.start): job for job in reversed(jobs)}.values():  # the first of each start
        if job.start.layout != layout:
            raise ConfigError(
                f"the job of client {job.client} (node {job.node!r}) starts from weights of another model: "
                f"{_difference(job.start.layout, layout)}"
            )


def _difference(given: Layout, own: Layout) -> str:
    if given.names != own.names:
        unknown = [name for name in given.names if name not in own.names]
        missing = [name for name in own.names if name not in given.names]
        return f"unknown {unknown[:3]}, missing {missing[:3]}" if unknown or missing else "another order"
    for name, a, b in zip(own.names, given.shapes, own.shapes, strict=True):
        if a != b:
            return f"{name} is of shape {a}, the model's of {b}"
    return f"they belong to {given.base.told()}, and the model has {own.base.told()}"


def on_device(samples: Samples, device: torch.device, dtype: torch.dtype) -> Samples:
    """The samples where an engine reads them: numbers in its precision, classes as whole numbers."""
    x = samples.x.to(device=device, dtype=dtype if samples.x.is_floating_point() else None)
    return replace(samples, x=x, y=samples.y.to(device, torch.int64 if samples.kind == "classes" else dtype))


@dataclass(frozen=True)
class Vocabulary:
    """How many words the model knows: the size of the embedding that is given the input itself."""

    module: str
    size: int


def outside(samples: Samples, vocabulary: Vocabulary | None) -> NDArray[np.int64]:
    """The rows whose targets are none of their kind, or whose words the model does not know."""
    bad = torch.zeros(len(samples), dtype=torch.bool, device=samples.x.device)
    bad[torch.from_numpy(samples.mislabelled)] = True
    if vocabulary is not None:
        bad |= _per_row((samples.x < 0) | (samples.x >= vocabulary.size))
    return bad.nonzero().view(-1).cpu().numpy()


def _per_row(bad: Tensor) -> Tensor:
    return bad.reshape(len(bad), -1).any(1) if len(bad) else bad.new_zeros(0)


def check_reads(
    jobs: Sequence[Job],
    shards: Sequence[Shard],
    samples: Samples,
    bad: NDArray[np.int64],
    vocabulary: Vocabulary | None,
) -> None:
    """Refuse, by the client's number, rows that would end everybody's training with an error."""
    for job, shard in zip(jobs, shards, strict=True):
        if len(rows := shard.rows[np.isin(shard.rows, bad)]):
            raise ConfigError(
                f"client {job.client} has {len(rows)} samples that cannot be trained on, the first in row "
                f"{rows[0]} with {_fault(samples, int(rows[0]), vocabulary)}"
            )


def _fault(samples: Samples, row: int, vocabulary: Vocabulary | None) -> str:
    """What is wrong with a row: a word that the model does not know, or a target that is none."""
    if vocabulary is not None:
        words = samples.x[row].reshape(-1)
        unknown = words[(words < 0) | (words >= vocabulary.size)]
        if len(unknown):
            return (
                f"word {unknown[0].item()}: words are the numbers of tokens, and the model knows those in "
                f"0..{vocabulary.size - 1} ({vocabulary.module!r}). Was the tokenizer another model's?"
            )
    return f"target {samples.y[row].tolist()}: targets must be {_wanted(samples)}"


def check_targets(samples: Samples) -> None:
    """Refuse targets that are none of their kind; what has no score."""
    if len(bad := outside(samples, None)):
        raise ConfigError(
            f"sample {bad[0]} has target {samples.y[int(bad[0])].tolist()}, "
            f"but targets must be {_wanted(samples)}"
        )


def _wanted(samples: Samples) -> str:
    kinds = {"labels": "0 or 1", "values": "finite"}
    return kinds.get(samples.kind, f"in 0..{samples.classes - 1}")


@contextmanager
def no_hidden_draws() -> Iterator[None]:
    """Within: a model that draws from PyTorch's global generator is found out, the generator put back."""
    before = torch.get_rng_state()
    yield
    if not torch.equal(before, torch.get_rng_state()):
        torch.set_rng_state(before)
        raise ConfigError(
            "the model drew from PyTorch's global generator while it was trained (dropout in its forward?): "
            "such draws have no name, so the result could not be repeated; take them out"
        )
