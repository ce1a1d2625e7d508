"""Adapters in the file format of Hugging Face's PEFT: a folder with numbers and a configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from unknot.core.base import Base, trained
from unknot.core.errors import ConfigError
from unknot.models.gpt2 import Block
from unknot.models.lora import LoraLinear, lora

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
    path.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path / WEIGHTS, {"format": "pt", BASE: Base.of(model).digest})
    (path / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_adapter(model: nn.Module, folder: str | Path) -> nn.Module:
    """Put the adapters in a `folder` of PEFT's on a `model` that has none; it is changed, and given back.

    They count as nobody's: such a file does not say whose data shaped them. One of `save_adapter` says which
    base they belong to, and another one is refused.
    """
    from safetensors import SafetensorError, safe_open

    path, within = Path(folder), getattr(model, BORROWED, model)
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        with safe_open(path / WEIGHTS, "pt") as file:
            base = (file.metadata() or {}).get(BASE, "")
            given = {name.removeprefix(PREFIX): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        # What is not plain LoRA would give other numbers without a word.
        odd = sorted(name for name, value in config.items() if value and name not in HARMLESS)
        if config["peft_type"] != "LORA" or odd or config.get("bias", "none") != "none":
            raise ConfigError(f"the adapter in {path} uses {(odd or ['another way than LoRA'])[0]}")
        if odd := [name for name, tensor in given.items() if not tensor.isfinite().all()]:
            raise ConfigError(
                f"the adapter in {path} has numbers that are none (NaN or infinite) in {min(odd)}"
            )
        whole = config.get("modules_to_save") or ()
        lora(within, config["r"], config["lora_alpha"], config["target_modules"], also=whole)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise ConfigError(f"the adapter in {path} cannot be put on this model: {error}") from error
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
