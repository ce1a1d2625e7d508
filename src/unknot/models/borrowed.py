"""Language models of other makes, by the package `transformers` where it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Others:
    """A folder that `transformers` reads; `why` is what keeps us from reading it ourselves."""

    path: Path
    why: str

    @cached_property
    def config(self) -> Any:
        try:
            import transformers
        except ImportError:
            raise ConfigError(
                f"{self.path}: {self.why}; to read it by the package transformers: {install('text')}"
            ) from None
        with self._reading():
            return transformers.AutoConfig.from_pretrained(self.path, local_files_only=True)

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows."""
        return int(self.config.vocab_size)

    @property
    def context(self) -> int | None:
        """The longest text that it was trained on, where its settings say so."""
        found = getattr(self.config, "max_position_embeddings", None)
        return found if isinstance(found, int) and found > 0 else None

    def model(
        self, dtype: torch.dtype, pad: int | None, answers: Sequence[int], classes: int | None
    ) -> Borrowed:
        """The model; with `classes`, one that tells so many by a layer of its own."""
        path, config = self.path, self.config
        import transformers

        ready = str((config.architectures or [""])[0]).endswith(CLASSIFIER)
        if ready and config.num_labels != classes:
            raise ConfigError(
                f"pretrained: {path} is for classification, into {config.num_labels} classes; asked for "
                f"{classes or 'tokens'}"
            )
        config.use_cache = False
        for name, value in config.to_dict().items():
            if isinstance(value, float) and ("dropout" in name or "pdrop" in name):
                setattr(config, name, 0.0)
        maker: Any = transformers.AutoModelForCausalLM
        if classes is not None:
            maker = transformers.AutoModelForSequenceClassification
            config.num_labels, config.pad_token_id = classes, pad
        options = {"config": config, "attn_implementation": "eager", "local_files_only": True}
        with self._reading():
            theirs, told = maker.from_pretrained(path, output_loading_info=True, **options)
        for module in theirs.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd):
                module.p = 0.0
        model = Borrowed(theirs.to(dtype).train(), pad, answers)
        model.fresh = tuple(
            dict.fromkeys(f"theirs.{key.rpartition('.')[0]}" for key in sorted(told["missing_keys"]))
        )
        out = None if classes is not None else theirs.get_output_embeddings()
        model.head = next((name for name, m in model.named_modules() if m is out), None)
        return model

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Within: `transformers` draws no progress and tells of nothing but errors; then it is as it was."""
        from transformers.utils import logging

        drawn, told = logging.is_progress_bar_enabled(), logging.get_verbosity()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise DataError(
                f"{self.path}: {self.why}, and transformers cannot read it either: {error}"
            ) from error
        finally:
            logging.set_verbosity(told)
            if drawn:
                logging.enable_progress_bar()
