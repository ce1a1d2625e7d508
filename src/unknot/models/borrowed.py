"""Language models of other makes, by the package `transformers` where it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unknot.core.base import in_full
from unknot.core.errors import ConfigError, DataError, install
from unknot.core.wording import Wording
from unknot.models.transformer import LastToken

CLASSIFIER = "ForSequenceClassification"


class Borrowed(nn.Module):
    """A model of `transformers`, which gives logits of token numbers, and nothing else.

    `theirs`: that model, by whose own names adapters are written and read. `pad`: what fills up texts, which
    it is not to read where it is a classifier. With `answers` it tells these tokens at the end of a text.
    """

    head: str | None = None
    """Which gets no adapter, unless it is named."""
    fresh: tuple[str, ...] = ()
    """Layers that the folder has nothing for: they are trained beside adapters."""
    wording: Wording | None = None
    """What is known of the texts that it reads."""

    def __init__(self, theirs: nn.Module, pad: int | None, answers: Sequence[int]) -> None:
        super().__init__()
        self.theirs = theirs
        self.last = LastToken(pad) if answers and pad is not None else None
        self.pad, self.answers = pad, list(answers)

    def forward(self, tokens: Tensor) -> Tensor:
        given = {"input_ids": tokens}
        if self.pad is not None and self.last is None:
            given["attention_mask"] = (tokens != self.pad).long()
        logits: Tensor = in_full(self.theirs(**given).logits)
        return logits if self.last is None else self.last(logits, tokens)[..., self.answers]


def vocabulary(path: Path, why: str) -> int:
    """How many tokens the model in a folder knows."""
    return int(_config(path, why).vocab_size)


def positions(path: Path, why: str) -> int | None:
    """The longest text that the model in a folder was trained on, where its settings say so."""
    found = getattr(_config(path, why), "max_position_embeddings", None)
    return found if isinstance(found, int) and found > 0 else None


def borrowed(
    path: Path, why: str, answers: Sequence[int], classes: int | None, pad: int | None, dtype: torch.dtype
) -> Borrowed:
    """The model in a folder; with `classes`, one that tells so many by a layer of its own.

    `why` is what keeps us from reading it ourselves.
    """
    config = _config(path, why)
    import transformers

    ready = str((config.architectures or [""])[0]).endswith(CLASSIFIER)
    scored = classes is not None
    if ready and not scored:
        raise ConfigError(f"pretrained: {path} is for classification: it predicts no tokens")
    if ready and config.num_labels != classes:
        raise ConfigError(f"pretrained: {path} tells {config.num_labels} classes, and the data has {classes}")
    config.use_cache = False
    for name, value in config.to_dict().items():
        if isinstance(value, float) and ("dropout" in name or "pdrop" in name):
            setattr(config, name, 0.0)
    if scored:
        config.num_labels, config.pad_token_id = classes, pad
    maker = transformers.AutoModelForSequenceClassification if scored else transformers.AutoModelForCausalLM
    options = {"config": config, "attn_implementation": "eager", "local_files_only": True}
    theirs: Any
    theirs, told = _theirs(
        path, why, lambda: maker.from_pretrained(path, output_loading_info=True, **options)
    )
    for module in theirs.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    model = Borrowed(theirs.to(dtype).train(), pad, answers)
    model.fresh = tuple(
        dict.fromkeys(f"theirs.{key.rpartition('.')[0]}" for key in sorted(told["missing_keys"]))
    )
    out = None if scored else theirs.get_output_embeddings()
    model.head = next((name for name, m in model.named_modules() if m is out), None)
    return model


def _config(path: Path, why: str) -> Any:
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            f"{path}: {why}; to read it by the package transformers: {install('text')}"
        ) from None
    return _theirs(path, why, lambda: transformers.AutoConfig.from_pretrained(path, local_files_only=True))


def _theirs(path: Path, why: str, call: Any) -> Any:
    try:
        with _silent():
            return call()
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise DataError(f"{path}: {why}, and transformers cannot read it either: {error}") from error


@contextmanager
def _silent() -> Iterator[None]:
    """Within: `transformers` draws no progress and tells of nothing but errors; then it is as it was."""
    from transformers.utils import logging

    drawn, told = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.set_verbosity_error()
    if drawn:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(told)
        if drawn:
            logging.enable_progress_bar()
