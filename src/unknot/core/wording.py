"""What data knows of its texts, and a model of those that it reads: numbers mean the same to both."""

from __future__ import annotations

from dataclasses import dataclass

from unknot.core.errors import ConfigError


@dataclass(frozen=True)
class Wording:
    """Whose numbers the tokens of texts are, and what their classes are called."""

    tokenizer: str
    """What the tokenizer is called, for messages."""
    spelled: tuple[int, ...] = ()
    """Its tokens of a sentence that all are asked for: by these two are told apart. None: it is not known."""
    pad: int | None = None
    """What fills up short texts; None: a model that predicts tokens reads what comes before alone."""
    classes: tuple[str, ...] = ()
    """What the classes are called, in the order of their numbers, where that is known."""
    context: int | None = None
    """The longest text that a model was trained on; None: it is not known, or there is no such limit."""

    def check(self, tokens: int, labelled: bool, data: Wording | None) -> None:
        """Refuse texts of so many tokens that this model would take for others, or could not tell apart.

        `labelled`: whether a text has a class; else each token predicts the next.
        """
        if self.context is not None and tokens > self.context:
            raise ConfigError(
                f"texts of {tokens} tokens are longer than the {self.context} positions that the model was "
                f"trained on; set data.context to at most {self.context}"
            )
        if data is not None and not self._reads(data):
            raise ConfigError(
                f"the texts were made by the tokenizer {data.tokenizer!r}, and the model reads those of "
                f"{self.tokenizer!r}, to which the numbers mean other words: let data.tokenizer be the "
                "model's own (in a file with a pretrained model, leave it out)"
            )
        if self.pad is not None and not labelled:
            raise ConfigError(
                "the texts have no labels, each token predicts the next, and the model is to tell classes: "
                "name the labels (data.label), or let the model predict tokens (no answers, and the model's "
                "own tokenizer as data.tokenizer)"
            )
        if data is not None:
            for place, word in enumerate(self.classes):
                _check_class(place, word, data.classes)

    def _reads(self, data: Wording) -> bool:
        known = self.spelled and data.spelled
        return (not known or self.spelled == data.spelled) and self.pad in (None, data.pad)


def _check_class(place: int, word: str, labels: tuple[str, ...]) -> None:
    called = [label.strip().casefold() for label in labels]
    found = word.strip().casefold()
    if found in called and called[place : place + 1] != [found]:
        raise ConfigError(
            f"answers has {word!r} for class {place}, and that is what class {called.index(found)} is "
            f"called; write them in the order of the classes: {', '.join(labels)}"
        )
