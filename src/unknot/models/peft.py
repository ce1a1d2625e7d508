"""Adapters in the file format of Hugging Face's PEFT: a folder with numbers and a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unknot.core.base import trained
from unknot.core.errors import ConfigError
from unknot.models.gpt2 import Block
from unknot.models.lora import LoraLinear, lora

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
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
    (``"CAUSAL_LM"``): for the file alone. Such a file does not say whose data shaped the adapters; one of
    `unknot.save_model` does.
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
        "target_modules": sorted(found),
        "modules_to_save": whole or None,
    }
    tensors = {
        f"{PREFIX}{name}": parameter.detach().cpu().clone().contiguous()
        for name, parameter in trained(model).items()
    }
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path / WEIGHTS, {"format": "pt"})
        (path / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


def load_adapter(model: nn.Module, folder: str | Path) -> nn.Module:
    """Put the adapters in a `folder` of PEFT's on a `model` that has none; it is changed, and given back.

    They count as nobody's: such a file does not say whose data shaped them.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(folder)
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        tensors = load_file(path / WEIGHTS)
    except OSError as error:
        raise ConfigError(f"cannot read the adapter in {path}: {error.strerror or error}") from None
    except (ValueError, SafetensorError) as error:
        raise ConfigError(f"{path} holds no adapter that can be read: {error}") from None
    _check(config, path)
    targets, within = config["target_modules"], getattr(model, BORROWED, model)
    lora(within, config["r"], config["lora_alpha"], targets, also=config.get("modules_to_save") or ())
    named = trained(within)
    given = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}
    if given.keys() != named.keys() or any(given[n].shape != p.shape for n, p in named.items()):
        apart = sorted(given.keys() ^ named.keys())[:3]
        raise ConfigError(
            f"the adapter in {path} is not for this model: {', '.join(apart) or 'other shapes'}"
        )
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(given[name])
    return model


def _turned(model: nn.Module) -> bool:
    """Whether adapters are beside what `transformers` keeps as GPT-2's `Conv1D`, the other way round."""
    blocks = (module for module in model.modules() if isinstance(module, Block))
    return any(isinstance(module, LoraLinear) for block in blocks for module in block.modules())


def _check(config: Any, path: Path) -> None:
    """Refuse what is not plain LoRA: it would give other numbers without a word."""
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise ConfigError(f"the adapter in {path} is no LoRA")
    if not isinstance(config.get("target_modules"), str | list) or not isinstance(config.get("r"), int):
        raise ConfigError(f"{path / CONFIG} does not say which layers have adapters, and of which rank")
    odd = sorted(name for name, value in config.items() if value and name not in HARMLESS)
    if odd or config.get("bias", "none") != "none":
        raise ConfigError(f"the adapter in {path} uses {(odd or ['bias'])[0]}, which is not known here")
