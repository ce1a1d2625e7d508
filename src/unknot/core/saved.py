"""Models in files, with whose data shaped them.

A file says what clients are called, where they have names, and else their numbers. It knows no revisions:
those count anew in every run, and whatever part of a client's data is erased later, a model that any of it
shaped is found by its client.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.lineage import Lineage, Unit
from unknot.core.weights import Layout, Weights

_KIND = "unknot model 2"


def save_model(model: Model, file: str | Path) -> None:
    """Write a model and the clients that shaped it; `load_model` reads it back."""
    parts = model.parts if isinstance(model, Ensemble) else ((1.0, model),)
    layout = parts[0][1].layout
    content = {
        "kind": _KIND,
        "names": list(layout.names),
        "shapes": [list(shape) for shape in layout.shapes],
        "frozen": list(layout.frozen),
        "vote": model.vote if isinstance(model, Ensemble) else None,
        "factors": [factor for factor, _ in parts],
        "vectors": [weights.vector.detach().cpu().clone() for _, weights in parts],
        "clients": [sorted(weights.lineage.clients) for _, weights in parts],
        "also": sorted(model.also.clients) if isinstance(model, Ensemble) else [],
        "called": dict(model.lineage.names),
    }
    try:
        torch.save(content, file)
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"cannot write {file}: {error}") from None


def load_model(file: str | Path) -> Model:
    """A model that `save_model` wrote; its lineage is that of its clients, as any run names them."""
    content = read_saved(file, _KIND, "a saved model")
    layout = Layout(tuple(content["names"]), tuple(map(tuple, content["shapes"])), tuple(content["frozen"]))
    parts = tuple(
        (float(factor), Weights(vector, layout, clients_of(clients)))
        for factor, vector, clients in zip(
            content["factors"], content["vectors"], content["clients"], strict=True
        )
    )
    model: Model = parts[0][1]
    if content["vote"] is not None:
        model = Ensemble(parts, content["vote"], clients_of(content["also"]))
    return model.named(content["called"]) if content["called"] else model


def read_saved(file: str | Path, kind: str, what: str) -> dict[str, Any]:
    """The content of one of our own files; tensors and plain values, nothing that is run."""
    try:
        content = torch.load(file, weights_only=True, map_location="cpu")
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from None
    except Exception:  # whatever a reader makes of bytes that are none of ours
        raise ConfigError(f"{file} is not {what}") from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise ConfigError(f"{file} is not {what}, or one of another version")
    return content


def clients_of(clients: list[int]) -> Lineage:
    """The lineage of what these clients shaped in another run."""
    return Lineage(Unit(client) for client in clients)
