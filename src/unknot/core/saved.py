"""Models in files that anybody can read, with whose data shaped them.

A file is one of safetensors: numbers and notes, nothing that is run. The tensors are those that are trained,
by the names of the module's own state dict, those of an ensemble with ``part0.``, ``part1.``... before them;
of what is frozen, the base, there is a digest. The notes are JSON under the one key ``unknot`` of the
metadata.

A file says what clients are called, where they have names, and else their numbers. It knows no revisions:
those count anew in every run, and whatever part of a client's data is erased later, a model that any of it
shaped is found by its client. It also says whom an approximate method has let pass: they are still in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from unknot.core.base import Base, feed
from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.lineage import Ledger, Lineage
from unknot.core.weights import Layout, Weights

NOTES, SEAL = "unknot", "seal"
"""The key of the metadata under which our notes stand; that of a checksum of all, among them."""
FORMAT = 4
_MODEL = "model"


def save_model(model: Model, file: str | Path) -> None:
    """Write a `model` and the clients that shaped it to a `file`, as safetensors; see `load_model`."""
    ensemble = isinstance(model, Ensemble)
    parts = model.parts if isinstance(model, Ensemble) else ((1.0, model),)
    layout = parts[0][1].layout
    tensors = {
        f"part{i}.{name}" if ensemble else name: tensor
        for i, (_, weights) in enumerate(parts)
        for name, tensor in weights.tensors.items()
    }
    notes: dict[str, Any] = {
        "digest": model.digest(),
        "parameters": list(layout.names),
        "base": layout.base.digest,
        "base_clients": sorted(layout.base.lineage.inherited().clients),
        "clients": [sorted(weights.lineage.clients) for _, weights in parts],
        "names": {str(client): name for client, name in sorted(model.lineage.names.items())},
        "waived": [sorted(weights.lineage.waived) for _, weights in parts],
    }
    if isinstance(model, Ensemble):
        notes |= {
            "vote": model.vote,
            "factors": [factor for factor, _ in parts],
            "also": sorted(model.also.clients),
            "also_waived": sorted(model.also.waived),
        }
    write_tensors(file, _MODEL, tensors, notes)


def load_model(file: str | Path) -> Model:
    """The model in a `file` of `save_model`; its lineage is that of its clients, as any run names them."""
    tensors, notes = read_tensors(file, _MODEL, "a saved model")
    names = tuple(notes["parameters"])
    ensemble, parts = "vote" in notes, []
    base = Base(notes["base"], clients_of(notes["base_clients"]))
    for i, who in enumerate(zip(notes["clients"], notes["waived"], strict=True)):
        mine = {name: tensors[f"part{i}.{name}" if ensemble else name] for name in names}
        layout = Layout(names, tuple(tuple(mine[name].shape) for name in names), base)
        parts.append(Weights(layout.join(mine), layout, clients_of(*who)))
    model: Model = parts[0]
    if ensemble:
        also = clients_of(notes["also"], notes["also_waived"])
        model = Ensemble(tuple(zip(notes["factors"], parts, strict=True)), notes["vote"], also)
    called = {int(client): name for client, name in notes["names"].items()}
    return model.named(called) if called else model


def write_tensors(
    file: str | Path, kind: str, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]
) -> None:
    """One of our own files: tensors by name, and notes that turn into JSON."""
    from safetensors.torch import save

    # Copies: a view would bring along all the memory behind it, that of the other clients' models, say.
    own = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    every = {"kind": kind, "format": FORMAT, **notes}
    told = json.dumps({**every, SEAL: _seal(own, every)}, ensure_ascii=False)
    content = save(own, {NOTES: told})
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None


def read_tensors(file: str | Path, kind: str, what: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and notes of one of our own files; whatever is not one is refused."""
    from safetensors import safe_open

    try:
        with safe_open(file, "pt") as opened:
            notes = json.loads(opened.metadata()[NOTES])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        known = (notes.pop(SEAL), notes["kind"], notes["format"])
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from None
    except Exception:  # whatever a reader makes of bytes that are none of ours
        raise ConfigError(
            f"{file} is not {what}: it does not say whose data shaped it. Weights of another program can be "
            "put into a module by load_state_dict; they count as nobody's"
        ) from None
    if known[1:] != (kind, FORMAT):
        raise ConfigError(f"{file} is not {what}, or one of another version: save it again")
    if known[0] != _seal(tensors, notes):
        raise ConfigError(f"{file} is damaged, or was changed since it was saved: take another copy of it")
    return tensors, notes


def _seal(tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> str:
    """A checksum of all that a file says: names, shapes, types, numbers and notes.

    It finds damage and careless edits; who forges a file can forge it, too.
    """
    found = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    feed(found, tensors)
    return found.hexdigest()


def clients_of(clients: Sequence[int], waived: Sequence[int] = ()) -> Lineage:
    """The lineage of what these clients shaped in another run, and which of them it let pass."""
    return Ledger().units(clients).waiving(waived)
