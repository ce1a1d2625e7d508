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
import math
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
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
_MOST = 1 << 24
"""No client has a number as high as this: a lineage takes memory by the highest."""


def save_model(model: Model, file: str | Path) -> None:
    """Write a `model` and the clients that shaped it to a `file`, as safetensors; see `load_model`."""
    ensemble = isinstance(model, Ensemble)
    parts = model.parts if isinstance(model, Ensemble) else ((1.0, model),)
    layout = parts[0][1].layout
    tensors = {
        f"{_prefix(i, ensemble)}{name}": tensor
        for i, (_, weights) in enumerate(parts)
        for name, tensor in weights.tensors.items()
    }
    notes: dict[str, Any] = {
        "digest": model.digest(),
        "dtype": str(parts[0][1].vector.dtype).removeprefix("torch."),
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
    try:
        model = _model(tensors, notes)
        names = {client_number(int(client)): str(name) for client, name in notes["names"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise ConfigError(f"{file} is not a saved model: notes and tensors do not fit ({error})") from None
    if model.digest() != notes.get("digest"):
        raise ConfigError(
            f"{file} is damaged, or was changed: its numbers have the digest {model.digest()}, and it was "
            f"saved with {notes.get('digest')}"
        )
    return model.named(names) if names else model


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
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write {_no_file(file, error)}") from None


def read_tensors(file: str | Path, kind: str, what: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and notes of one of our own files; whatever is not one is refused."""
    from safetensors import safe_open

    try:
        with open(file, "rb", opener=_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError("it is a pipe or a device, and no file; name a file")
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {_no_file(file, error)}") from None
    try:
        with safe_open(file, "pt") as opened:
            told = (opened.metadata() or {}).get(NOTES)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        notes = None if told is None else json.loads(told)
    except Exception:  # whatever a reader makes of bytes that are none of ours
        raise ConfigError(f"{file} is not {what}: {_remedy(kind)}") from None
    if not isinstance(notes, dict):
        raise ConfigError(
            f"{file} is not {what}: it does not say whose data shaped it. Weights of another program can be "
            "put into a module by load_state_dict; they count as nobody's"
        )
    if (notes.get("kind"), notes.get("format")) != (kind, FORMAT):
        raise ConfigError(f"{file} is not {what}, or one of another version: {_remedy(kind)}")
    if notes.pop(SEAL, None) != _seal(tensors, notes):
        raise ConfigError(
            f"{file} is damaged, or was changed since it was saved: take another copy of it, or save it again"
        )
    return tensors, notes


def _at_once(path: str, flags: int) -> int:
    """Open a file; a pipe, which may lie in a folder of somebody else's, is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _no_file(file: str | Path, error: OSError | ValueError) -> str:
    """Which file there cannot be, and why: a ValueError is of a name that no file can have."""
    if isinstance(error, OSError):
        return f"{file}: {error.strerror or error}"
    return f"{str(file)!a}: no file can be called so; give another name"


def _remedy(kind: str) -> str:
    from_where = (
        " (unknot run --out leaves model.safetensors; in Python, save_model)" if kind == _MODEL else ""
    )
    return f"name a file that unknot has saved one to{from_where}"


def _seal(tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> str:
    """A checksum of all that a file says: names, shapes, types, numbers and notes.

    It finds damage and careless edits; who forges a file can forge it, too.
    """
    found = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    feed(found, tensors)
    return found.hexdigest()


def clients_of(clients: Sequence[int], waived: Sequence[int] = ()) -> Lineage:
    """The lineage of what these clients shaped in another run, and which of them it let pass."""
    return Ledger().units(map(client_number, clients)).waiving(map(client_number, waived))


def client_number(value: object) -> int:
    """A client's number as a file has it, or `ValueError`."""
    if type(value) is not int or not 0 <= value < _MOST:
        raise ValueError(f"{value!r} is no client's number")
    return value


def _model(tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> Model:
    """What the file describes; raises whatever it likes where that is nonsense."""
    ensemble, names = "vote" in notes, [str(name) for name in notes["parameters"]]
    factors = [float(factor) for factor in notes["factors"]] if ensemble else [1.0]
    keys = [[f"{_prefix(i, ensemble)}{name}" for name in names] for i in range(len(factors))]
    if sorted(key for part in keys for key in part) != sorted(tensors):
        raise ValueError("other names")
    if not all(math.isfinite(factor) for factor in factors):
        raise ValueError("a factor is not finite")
    if not names or {tensor.dtype for tensor in tensors.values()} != {_dtype(notes)}:
        raise ValueError("another type of numbers")
    layout = Layout(
        tuple(names),
        tuple(tuple(tensors[key].shape) for key in keys[0]),
        _base(notes),
    )
    parts = []
    for factor, part, clients, waived in zip(factors, keys, notes["clients"], notes["waived"], strict=True):
        if tuple(tuple(tensors[key].shape) for key in part) != layout.shapes:
            raise ValueError("parts of different shapes")
        vector = layout.join({name: tensors[key] for name, key in zip(names, part, strict=True)})
        parts.append((factor, Weights(vector, layout, clients_of(clients, waived))))
    if not ensemble:
        return parts[0][1]
    return Ensemble(tuple(parts), notes["vote"], clients_of(notes["also"], notes["also_waived"]))


def _base(notes: Mapping[str, Any]) -> Base:
    digest = notes["base"]
    if not isinstance(digest, str) or not re.fullmatch(r"([0-9a-f]{64})?", digest):
        raise ValueError("a base without a digest")
    return Base(digest, clients_of(notes["base_clients"]))


def _prefix(part: int, ensemble: bool) -> str:
    return f"part{part}." if ensemble else ""


def _dtype(notes: Mapping[str, Any]) -> torch.dtype | None:
    known = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    return {str(kind).removeprefix("torch."): kind for kind in known}.get(notes["dtype"])
