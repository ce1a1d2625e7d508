"""Put a federation together: from an experiment, or from Python values."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import nn

from unknot.core.data import FederatedData
from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.core.lineage import of_runs
from unknot.core.loss import Loss, LossFunction, as_loss
from unknot.core.registry import as_written, datasets, methods, models, options_of
from unknot.core.requests import Erase, resolved
from unknot.core.saved import load_model
from unknot.core.task import Task
from unknot.core.training import Recipe
from unknot.core.weights import Layout, Weights
from unknot.core.wording import Wording
from unknot.data.corrupt import corrupt
from unknot.data.dataset import Dataset
from unknot.data.partition.federate import Drawn, drawn, put_together
from unknot.experiments.config import Experiment
from unknot.experiments.specs import FOLDER, PRETRAINED, TEXTS, Course, DataSpec, EngineSpec
from unknot.experiments.stored import Store
from unknot.federation import Federation, History, Method, Observer, Setup, SetupParts
from unknot.federation.cohort import Running, run_alone
from unknot.models import build
from unknot.models.lora import lora


def simulate(
    model: str | nn.Module | Callable[[], nn.Module],
    data: FederatedData,
    method: str | Method = "rfs",
    recipe: Recipe | None = None,
    *,
    loss: Loss | LossFunction | str | None = None,
    initial: Model | str | Path | None = None,
    engine: str | Engine = "stacked",
    device: str = "cpu",
    dtype: str = "float32",
    threads: int | None = None,
    engine_options: Mapping[str, Any] | None = None,
    setup: Setup | None = None,
    observers: Sequence[Observer] = (),
    store: str | Path | Store | None = None,
    **parts: Unpack[SetupParts],
) -> Federation:
    """A federation in this process, ready to ``run``.

    `data` is what clients hold, `method` how it forgets (a name, or a `Method`), `recipe` how clients train.
    `model` is a name (``"mlp"``), a function that makes a module (its start is then drawn from the seed), or
    a module whose present parameters are the start. `initial` are weights to start from instead: a served
    model, or the file of one. They bring along whose data shaped them, and so does a module that a served
    model was put into by `load_into`; of any other module nothing can be known. `engine` is a name, with its
    own options in `engine_options`, or an engine for this model that there is already. `loss` is what is
    trained by: a name, a `Loss`, or a function of your own of outputs and targets; it is the recipe's, and
    may stand there. It trains on the `device`, in the precision `dtype`, with so many `threads`. `observers`
    are called with each event of the run (`unknot.track` has some). The further `parts`, `pace`,
    `aggregate`, `clock`, `select`, `metrics`, `seed`..., are the fields of `Setup`, which may be given whole
    as `setup` instead. `store` is a folder in which the run is kept beyond this process, or a `Store`, which
    says where its keys are, too; where it holds one, the federation is what that was, and ``resume`` goes on
    with it.
    """
    _check_kinds(model, data, method)
    kept = None if store is None else Store.of(store, observers)
    if kept is not None:
        from unknot.experiments.kept import as_known  # where it is used: it needs more than others

        data = as_known(data, kept)
    setup = Setup.of(setup, recipe, parts)
    if loss is not None:
        setup = replace(setup, recipe=replace(setup.recipe, loss=as_loss(loss)))
    precision = {"float32": torch.float32, "float64": torch.float64}.get(dtype)
    if precision is None:
        raise ConfigError(f"dtype is 'float32' or 'float64', not {dtype!r}")
    _check_device(device, engine)
    with Key.root(setup.seed).child("init").torch_seed():
        if isinstance(model, str):
            shape = tuple(data.train.x.shape[1:])
            module = build(model, shape, data.train.classes)
        else:
            module = model if isinstance(model, nn.Module) else _made(model)
    _check_wording(module, data)
    if isinstance(engine, str):
        from unknot.engine import make_engine  # when it is used: engines are not for everybody

        # An engine from outside that knows no tasks will do for the usual one.
        options = {**(engine_options or {}), **({"task": setup.task} if setup.task != Task() else {})}
        options = dict(device=device, dtype=precision, threads=threads, **options)
        trainer: Engine = make_engine(engine, module, **options)
    else:
        trainer = engine
        _check_task(trainer, setup.task)
    data = data.cast(precision)
    trainer.examine(data.train)
    drawn = Weights.of(module).to(device=device, dtype=precision)
    if not isinstance(model, nn.Module):
        drawn = _on_its_base(drawn, trainer)
    start = drawn
    if initial is not None:
        start = _start(initial, drawn)
        drawn = drawn.carrying(start.layout.base.lineage)
    fed = Federation(
        trainer,
        start,
        data,
        methods.make(method) if isinstance(method, str) else method,
        setup=setup,
        restart=None if drawn.lineage else drawn,
        observers=observers,
        called=_called(model, module),
    )
    fed.architecture = _architecture(module)
    if kept is not None:
        from unknot.experiments.kept import keep

        keep(fed, kept)
    return fed


def _on_its_base(drawn: Weights, engine: Engine) -> Weights:
    """Weights that a seed draws belong to the base of the engine that is to train them, which is given."""
    own: Layout = getattr(engine, "layout", None) or drawn.layout
    if replace(own, base=drawn.layout.base) != drawn.layout:
        return drawn  # of another model: refused when it is trained
    return replace(drawn, layout=own).carrying(own.base.lineage)


def _called(model: str | nn.Module | Callable[[], nn.Module], module: nn.Module) -> str:
    """What the model goes by in records and pictures: its name, or that of what made it, or its kind."""
    name = model if isinstance(model, str) else getattr(model, "__name__", "<lambda>")
    return type(module).__name__ if name == "<lambda>" else name


def _architecture(module: nn.Module) -> str:
    """A digest of how a module is made, as it says itself; where its parts lie in memory is left out."""
    return hashlib.sha256(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(module)).encode()).hexdigest()


def _check_kinds(model: object, data: object, method: object) -> None:
    """What is of another kind is refused with what to write instead."""
    if not isinstance(data, FederatedData):
        raise ConfigError(
            f"data must be a federation's, not {type(data).__name__}: make it by unknot.clients(...) of what "
            "each client holds, or by unknot.federate(...) of a data set"
        )
    if not isinstance(model, str) and not callable(model):
        raise ConfigError(
            f"model is a name, a module, or a function without arguments that makes one, not {model!r}"
        )
    if isinstance(method, type):
        raise ConfigError(f"method is a class: give an instance, {method.__name__}()")
    if not isinstance(method, str | Method):
        raise ConfigError(f"method is a name, or a Method such as unknot.RFS(), not {method!r}")


def _made(model: Callable[[], nn.Module]) -> nn.Module:
    """What a function or a class makes, where that can be had without arguments."""
    try:
        inspect.signature(model).bind()
    except ValueError:  # it has none to be read
        pass
    except TypeError as error:
        name = getattr(model, "__name__", repr(model))
        raise ConfigError(
            f"model: {name} cannot be made without arguments ({error}): give a module, or lambda: {name}(...)"
        ) from None
    made = model()
    if not isinstance(made, nn.Module):
        raise ConfigError(f"model: what is made is no torch.nn.Module, but {type(made).__name__}")
    return made


def _check_wording(module: nn.Module, data: FederatedData) -> None:
    """A model that knows which texts it reads is not given others."""
    for part in module.modules():
        if isinstance(reads := getattr(part, "wording", None), Wording):
            shape = data.train.x.shape[1:]
            reads.check(shape[0] if len(shape) == 1 else 0, not _next_tokens(data), data.wording)


def _next_tokens(data: FederatedData) -> bool:
    """Whether there are texts without labels, in which each token predicts the next."""
    return data.train.kind == "classes" and data.train.y.ndim > 1


def _check_task(engine: Engine, task: Task) -> None:
    """An engine that there is already measures by its own task: it must be this one."""
    own = getattr(engine, "task", task)
    if task != own and task != Task():
        raise ConfigError(
            "the engine was made for another loss or other metrics: make it with the same task, "
            "make_engine(..., task=Task(loss, metrics))"
        )


def _start(initial: Model | str | Path, like: Weights) -> Weights:
    """The weights to start from, of the same kind as the model's own.

    They and the model have the same base: what either knows of who shaped it holds.
    """
    given = initial if isinstance(initial, Weights | Ensemble) else load_model(initial)
    if isinstance(given, Ensemble):
        raise ConfigError("a federation starts from one model, and the initial one is an ensemble")
    if given.layout != like.layout:
        apart = "names and shapes differ"
        if replace(given.layout, base=like.layout.base) == like.layout:
            apart = f"they belong to {given.layout.base.told()}, and the model has {like.layout.base.told()}"
        raise ConfigError(f"the initial weights are of another model: {apart}")
    base = like.layout.base
    base = replace(base, lineage=of_runs(base.lineage, given.layout.base.lineage))
    layout = replace(like.layout, base=base)
    return Weights(given.vector.to(like.vector, copy=True), layout, of_runs(given.lineage, base.lineage))


def _check_device(device: str, engine: object) -> None:
    """A device that is not there is refused now, not when training has begun."""
    known = None
    try:
        known = torch.device(device)
        torch.empty(1, device=known)
    except (RuntimeError, AssertionError) as error:
        # Of one that is there, the cause is another: its memory is full, say.
        why = "" if known is None else f" ({str(error).partition(chr(10))[0]})"
        there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        gpu = device.lower().startswith("gpu")
        meant = (". Did you mean 'cuda'?" if len(there) > 1 else " (a GPU is called 'cuda')") if gpu else ""
        if engine == "ray" and device == "cuda":
            meant = ". Where Ray's workers have GPUs and this machine has none, write engine.gpus = 1 instead"
        raise ConfigError(
            f"device: cannot train on {device!r}{why}; this machine has {', '.join(there)}{meant}"
        ) from error


def prepare(experiment: Experiment, observers: Sequence[Observer] = ()) -> Federation:
    """The federation of an `experiment`; everything but the requests is checked here.

    `observers` are called with each event of its run.
    """
    return assemble(experiment, data_of(experiment), observers)


def data_of(experiment: Experiment) -> FederatedData:
    """Who holds what when the experiment begins."""
    return dealt(experiment, read(experiment))


def read(experiment: Experiment) -> Dataset | FederatedData:
    """What the experiment's data is made of: a data set, or what a folder says that each client holds."""
    from unknot.data import folder, load

    spec = experiment.data
    with as_written("data", spec.options, alone=False):
        if spec.name == FOLDER:
            return folder(**spec.options)
        return load(spec.name, spec.root, **{**_own_tokenizer(experiment), **spec.options})


def _own_tokenizer(experiment: Experiment) -> dict[str, str]:
    """The tokenizer of a pretrained model, for texts of which the file does not say which makes them."""
    if experiment.model.name != PRETRAINED or "tokenizer" not in datasets.options(experiment.data.name):
        return {}
    if "tokenizer" in experiment.data.options:
        return {}
    from unknot.models.pretrained import own_tokenizer

    options = experiment.model.options
    return {"tokenizer": str(own_tokenizer(options["path"], options.get("tokenizer")))}


def draw(experiment: Experiment, source: Dataset) -> Drawn:
    """Which rows of a data set are whose, by the experiment's seed."""
    spec, key = experiment.data, Key.root(experiment.seed)
    with as_written("data", options_of(DataSpec), alone=False):
        return drawn(source, spec.partition, key, spec.validation, spec.test_samples, spec.public)


def dealt(
    experiment: Experiment, source: Dataset | FederatedData, rows: Drawn | None = None
) -> FederatedData:
    """Who holds what of it: as was drawn before (`rows`), or by the experiment's seed."""
    spec = experiment.data
    if isinstance(source, FederatedData):
        data = source
    else:
        data = put_together(source, draw(experiment, source) if rows is None else rows)
    if spec.test == "clients":
        data = _tested_on_shares(data)
    if spec.corrupt:
        data = corrupt(data, spec.corrupt, spec.corruption, key=Key.root(experiment.seed))
    return data


def assemble(
    experiment: Experiment,
    data: FederatedData,
    observers: Sequence[Observer] = (),
    *,
    seed: int | None = None,
    engine: Engine | None = None,
    clients: int | None = None,
) -> Federation:
    """The experiment's federation on this data; with another seed all is drawn anew but the data.

    `clients` is how many there were when it was begun, where some have left since.
    """
    setup = experiment.setup if seed is None else replace(experiment.setup, seed=seed)
    per_round = getattr(setup.pace, "per_round", None)
    count = len(data) if clients is None else clients
    if per_round is not None and per_round > count:
        way = "lower it" if experiment.data.name in (FOLDER, TEXTS) else "lower it or raise data.clients"
        raise ConfigError(f"federation.per_round = {per_round}, but there are only {count} clients: {way}")
    spec = experiment.engine
    with (
        as_written("engine", [*options_of(EngineSpec), *spec.options], alone=False),
        as_written("federation", options_of(Course), alone=False),
        as_written("model", ["answers"], alone=False),
        as_written("select", ["target"], alone=False),
    ):
        return simulate(
            maker(experiment, data, setup.seed),
            data,
            experiment.method,
            initial=experiment.model.initial,
            engine=engine or spec.name,
            device=spec.device,
            dtype=spec.dtype,
            threads=spec.threads,
            engine_options=spec.options if engine is None else None,
            setup=setup,
            observers=observers,
        )


def maker(experiment: Experiment, data: FederatedData, seed: int | None = None) -> Callable[[], nn.Module]:
    """What makes the experiment's model; its start is drawn where it is called, adapters' by the seed."""
    shape, spec = tuple(data.train.x.shape[1:]), experiment.model

    def make() -> nn.Module:
        with as_written("model", models.options(spec.name), alone=False):
            if spec.name == PRETRAINED and spec.options.get("answers") and _next_tokens(data):
                raise ConfigError(
                    "answers tell the classes of texts, and these have no labels, each token predicts the "
                    "next: leave answers out, or name the labels (data.label)"
                )
            module = build(spec.name, shape, data.train.classes, **spec.options)
        if spec.lora is None:
            return module
        drawn = next(one for one in (spec.lora.seed, seed, experiment.seed) if one is not None)
        told = {**vars(spec.lora), "seed": drawn}
        with as_written("model.lora", told):
            return lora(module, **told)

    make.__name__ = spec.name
    return make


def _tested_on_shares(data: FederatedData) -> FederatedData:
    """The union of the clients' test shares, as dealt at the start, is the test set of the whole run."""
    rows = np.unique(np.concatenate(list(data.test_rows.values())))
    shares = {client: np.searchsorted(rows, mine) for client, mine in data.test_rows.items()}
    owner = None if data.test_owner is None else data.test_owner[rows]
    return data.replaced(test=data.test.subset(rows), test_rows=shares, test_owner=owner)


def prepare_without(experiment: Experiment, observers: Sequence[Observer] = ()) -> Federation:
    """The same federation, but what the experiment's requests erase was never part of it.

    `observers` are called with each event of its run.
    """
    rest = data_of(experiment)
    for request in resolved(experiment.requests, rest):
        if isinstance(request, Erase):
            for target in request.targets:
                rest.erase(target.client, target.samples)
    return assemble(experiment, rest, observers)


def run(experiment: Experiment, observers: Sequence[Observer] = ()) -> History:
    """Prepare and run an `experiment`; `observers` are called with each event."""
    return run_alone(going(prepare(experiment, observers), experiment))


def going(fed: Federation, experiment: Experiment) -> Running[History]:
    """A federation that runs for as long as its experiment says, and with its requests."""
    fed.experiment = experiment.table
    return fed.running(experiment.length, requests=experiment.requests)
