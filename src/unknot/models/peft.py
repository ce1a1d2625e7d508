"""Adapters in the file format of Hugging Face's PEFT: a folder with numbers and a configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unknot.core.base import Base, trained
from unknot.core.errors import ConfigError
from unknot.models.gpt2 import Block
from unknot.models.lora import LoraLinear, lora, put_back

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
BASE = "unknot_base"
"""The key of the metadata under which the digest of the base stands."""
PREFIX = "base_model.model."
BORROWED = "theirs"
"""Where a model of `transformers` lies within ours, if it does: adapters go by its own names."""
HARMLESS = frozenset(
    """
    peft_type peft_version task_type base_model_name_or_path revision auto_mapping inference_mode r lora_alpha
    lora_dropout init_lora_weights target_modules modules_to_save bias megatron_core qalora_group_size
    fan_in_fan_out
    """.split()  # noqa: SIM905
)
"""What a configuration may say: what is read here, and what changes nothing once adapters are trained."""


def save_adapter(model: nn.Module, folder: str | Path, base: str = "", task: str | None = None) -> None:
    """Write the adapters of a `model` that `lora` was put on to a `folder`, for PEFT to load.

    `base` is the name or path of the model below them, `task` PEFT's name of what it is for
    (``"CAUSAL_LM"``): for the file alone. The digest of the base goes along, for `load_adapter`. Such a file
    does not say whose data shaped the adapters; one of `unknot.save_model` does.
    """
    from safetensors.torch import save_file

    model = getattr(model, BORROWED, model)
    found = {name: m for name, m in model.named_modules() if isinstance(m, LoraLinear)}
    if not found:
        raise ConfigError("there is no adapter in this model: unknot.lora(model) puts some on it")
    ranks = {(layer.rank, layer.alpha) for layer in found.values()}
    rank, alpha = ranks.pop()
    if ranks:
        raise ConfigError("the adapters of this model differ in rank or alpha")
    whole = sorted({name.rpartition(".")[0] for name in trained(model) if ".lora_" not in name})
    config = {
        "peft_type": "LORA",
        "task_type": task,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": _turned(model),
        "inference_mode": True,
        "target_modules": _targets(model, found),
        "modules_to_save": whole or None,
    }
    tensors = {
        f"{PREFIX}{name}": parameter.detach().cpu().clone().contiguous()
        for name, parameter in trained(model).items()
    }
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path / WEIGHTS, {"format": "pt", BASE: Base.of(model).digest})
        (path / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


def load_adapter(model: nn.Module, folder: str | Path) -> nn.Module:
    """Put the adapters in a `folder` of PEFT's on a `model` that has none; it is changed, and given back.

    They count as nobody's: such a file does not say whose data shaped them. One of `save_adapter` says which
    base they belong to, and another one is refused; a model is left as it was where anything is.
    """
    path = Path(folder)
    config, tensors, base = _read(path)
    _check(config, path)
    given = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}
    if odd := [name for name, tensor in given.items() if not tensor.isfinite().all()]:
        raise ConfigError(f"the adapter in {path} has numbers that are none (NaN or infinite) in {min(odd)}")
    within = getattr(model, BORROWED, model)
    whole = config.get("modules_to_save") or ()
    with put_back(model):
        lora(within, config["r"], config["lora_alpha"], config["target_modules"], also=whole)
        named = trained(within)
        if given.keys() != named.keys() or any(given[n].shape != p.shape for n, p in named.items()):
            apart = sorted(given.keys() ^ named.keys())[:3]
            raise ConfigError(
                f"the adapter in {path} is not for this model: {', '.join(apart) or 'other shapes'}"
            )
        if base and base != (found := Base.of(within)).digest:
            raise ConfigError(
                f"the adapter in {path} belongs to {Base(base).told()}, and the model has {found.told()}: "
                "other numbers, another precision, or layers that are set to something else (answers, say)"
            )
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(given[name])
    return model


def _read(path: Path) -> tuple[Any, dict[str, Tensor], str]:
    """The configuration, the numbers, and the digest of the base where the file says it."""
    from safetensors import SafetensorError, safe_open

    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        with safe_open(path / WEIGHTS, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return config, tensors, (file.metadata() or {}).get(BASE, "")
    except OSError as error:
        raise ConfigError(f"cannot read the adapter in {path}: {error.strerror or error}") from None
    except (ValueError, SafetensorError) as error:
        raise ConfigError(f"{path} holds no adapter that can be read: {error}") from None


def _targets(model: nn.Module, found: Iterable[str]) -> list[str] | str:
    """The layers that have adapters, by their names.

    To PEFT, as to `lora`, a name is also that of all layers whose names end with it. Where there are others
    of these, they are one pattern for the whole name.
    """
    chosen = sorted(found)
    within = tuple(f"{name}." for name in chosen)
    others = [name for name, _ in model.named_modules() if name not in chosen and not name.startswith(within)]
    if any(name.endswith(tuple(f".{one}" for one in chosen)) for name in others):
        return "|".join(map(re.escape, chosen))
    return chosen


def _turned(model: nn.Module) -> bool:
    """Whether adapters are beside what `transformers` keeps as GPT-2's `Conv1D`, the other way round."""
    blocks = (module for module in model.modules() if isinstance(module, Block))
    return any(isinstance(module, LoraLinear) for block in blocks for module in block.modules())


def _check(config: Any, path: Path) -> None:
    """Refuse what is not plain LoRA: it would give other numbers without a word."""
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise ConfigError(f"the adapter in {path} is no LoRA")
    if not isinstance(targets := config.get("target_modules"), str) and not _names(targets):
        raise ConfigError(f"{path / CONFIG}: target_modules must be names, or a pattern, not {targets!r}")
    if not _names(whole := config.get("modules_to_save") or []):
        raise ConfigError(f"{path / CONFIG}: modules_to_save must be a list of layers' names, not {whole!r}")
    for name in ("r", "lora_alpha"):
        if isinstance(value := config.get(name), bool) or not isinstance(value, int | float):
            raise ConfigError(f"{path / CONFIG}: {name} must be a number, not {value!r}")
    odd = sorted(name for name, value in config.items() if value and name not in HARMLESS)
    if odd or config.get("bias", "none") != "none":
        raise ConfigError(f"the adapter in {path} uses {(odd or ['bias'])[0]}, which is not known here")


def _names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
