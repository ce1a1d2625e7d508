"""What the sections of a file say, as values: the keys that they have themselves, and what is usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from unknot.core.errors import ConfigError
from unknot.core.fields import EACH, choose
from unknot.data.corrupt import CORRUPTIONS
from unknot.data.partition import Dirichlet, Partition
from unknot.federation import Aggregate, FedAvg, Pace, Synchronous

FOLDER = "folder"
"""The name of data that lies in a folder of your own, with a file a client."""
TEXTS = "texts"
"""The name of a table of texts of your own; a column of it can say who holds what."""
PRETRAINED = "pretrained"
"""The name of language models from files, which bring their tokenizers along."""
FOLDERS_OWN = ("name", "corrupt", "corruption")
"""What a section of data in a folder has beside what says how that is read."""
USUAL_DEAL: Mapping[str, Any] = {"clients": 20, "alpha": 0.5}
"""What a file need not say of the Dirichlet partition, which holds where it names no other."""


@dataclass(frozen=True)
class DataSpec:
    """Which data set, and who holds what of it; with the name "folder", one of your own (`unknot.folder`)."""

    name: str = "digits"
    """The data set (`unknot list data`), or "folder": one of your own, a file a client."""
    partition: Partition = field(default_factory=lambda: Dirichlet(**USUAL_DEAL))
    """Who holds what of it (`unknot list partitions`)."""
    validation: int | float = 0.1
    """Samples that the server measures with while it trains: a number, or a share below 1."""
    test_samples: int | None = None
    """Test samples a client, in its own proportions; left out: its part of them."""
    public: int = 0
    """Samples that are nobody's, without targets, which the server may use (distillation)."""
    test: str = "all"
    """What is tested on: "all" test samples, or those dealt to the "clients" at the start."""
    corrupt: Annotated[tuple[int | str, ...], EACH] = ()
    """Clients whose training data is made worthless."""
    corruption: str = "noise"
    """By what: "noise", random "labels", or "zero" for all inputs."""
    root: Path | None = None
    """The folder of the files; left out: those in $UNKNOT_DATA."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the data set itself takes."""

    def __post_init__(self) -> None:
        choose(dict.fromkeys(("all", "clients")), self.test, "data.test")
        choose(dict.fromkeys(CORRUPTIONS), self.corruption, "data.corruption")


@dataclass(frozen=True)
class LoraSpec:
    """What ``[model.lora]`` says: adapters are trained, and the network below them stays as it is."""

    rank: int = 8
    """How many columns an adapter's matrices have."""
    alpha: float | None = None
    """Adapters count alpha / rank; left out: twice the rank."""
    targets: str | tuple[str, ...] | None = None
    """Which linear layers get one: a list of their names, or of the last parts of these; or one pattern for
    the whole name (a regular expression); left out: all but the head of a language model."""
    also: tuple[str, ...] = ()
    """Layers that are trained as a whole; the new head of a pretrained model is, without being named."""
    seed: int | None = None
    """Of the adapters' start; left out: the experiment's."""


@dataclass(frozen=True)
class ModelSpec:
    """Which network, and where it starts."""

    name: str = "mlp"
    """The network (`unknot list models`)."""
    initial: Path | None = None
    """The file of a saved model to start from; left out: a start that the seed draws."""
    lora: LoraSpec | None = None
    """Low-rank adapters, a table of their own (`[model.lora]`); left out: the network is trained itself."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the network itself takes."""

    def __post_init__(self) -> None:
        if not isinstance(self.lora, LoraSpec | None):
            raise ConfigError(
                f"model.lora must be a table, [model.lora] with rank = 8, say, not {self.lora!r}"
            )


@dataclass(frozen=True)
class EngineSpec:
    """What trains, on what, with which options."""

    name: str = "stacked"
    """What trains: "stacked" (all jobs at once), "loop" (one after the other) or "ray" (many machines)."""
    device: str = "cpu"
    """Where: "cpu", "cuda" (of several GPUs "stacked" takes all, "loop" one), "cuda:1" (that one)..."""
    dtype: str = "float32"
    """The precision: "float32" or "float64"."""
    threads: int | None = None
    """How many jobs or stacks are trained side by side; left out: PyTorch's number of threads. Of "ray":
    cores a worker; left out: 1."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the engine itself takes."""

    def __post_init__(self) -> None:
        choose(dict.fromkeys(("float32", "float64")), self.dtype, "engine.dtype")


@dataclass(frozen=True)
class Course:
    """What ``[federation]`` says of how a federation goes on: fields of `Setup`."""

    pace: Pace = field(default_factory=Synchronous)
    """How many clients are asked, and for how many the server waits."""
    aggregate: Aggregate = field(default_factory=FedAvg)
    """How updates become a model; at a buffered pace fedbuff, else fedavg."""
    evaluate_every: int = 1
    """The served model is measured every so many rounds; 0: never."""
    evaluate_on: tuple[str, ...] = ("validation",)
    """On what it is measured then: "validation", "test"."""


@dataclass(frozen=True)
class ScenarioSpec:
    """What ``[scenario]`` says."""

    thresholds: tuple[float, ...] = ()
    """Values of the main metric whose reaching after a request is reported."""


@dataclass(frozen=True)
class RequestSpec:
    """What a ``[[request]]`` says: one of `erase` and `join`, and one of `round` and `time`."""

    erase: int | str | tuple[int | str, ...] | None = None
    """Who is to be forgotten: a client's number or name, or a list of them."""
    join: int | str | tuple[int | str, ...] | None = None
    """Who takes part from then on, and not before."""
    samples: tuple[int, ...] | None = None
    """Of one client to be erased: the ids of the samples that are, and not the client whole."""
    round: int | None = None
    """After which round."""
    time: float | None = None
    """At which simulated second."""
