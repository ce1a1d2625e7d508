"""Texts in many languages: papluca's language identification, tyqiangz's multilingual sentiments."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from unknot.core.data import Samples
from unknot.core.errors import ConfigError, nearest
from unknot.data.dataset import Dataset, Ints
from unknot.data.files import read_bytes, reading
from unknot.data.tables import Table, read_table, table
from unknot.data.text import Named, Prompt, check_context, tokenizer_of

Files = Mapping[str, Path]

LANGUAGES: Mapping[str, str] = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sw": "Swahili",
    "th": "Thai",
    "tr": "Turkish",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
"""The 20 languages of `langid` in the order of their codes, and what they are called in English."""
LANGID = {part: f"langid/{part}.csv" for part in ("train", "valid", "test")}

SENTIMENTS = ("negative", "neutral", "positive")
SPOKEN = (
    "Arabic",
    "Chinese",
    "English",
    "French",
    "German",
    "Hindi",
    "Indonesian",
    "Italian",
    "Japanese",
    "Malay",
    "Portuguese",
    "Spanish",
)
"""The languages of `sentiments`."""
ALIKE = ("Arabic", "English", "French", "German", "Hindi", "Italian", "Portuguese", "Spanish")
"""Those with as many texts as one another, and of each class: 1,839 to train with, 870 to test with."""
ARCHIVE = "sentiment/multilingual-sentiments.tar.xz"


def langid(
    files: Files,
    *,
    languages: tuple[str, ...] = tuple(LANGUAGES.values()),
    tokenizer: Named = "bytes",
    context: int = 64,
    prompt: str = "{text}\nLanguage:",
) -> Dataset:
    """A text, and in which language it is; trained on the training part where it is there, else on "valid".

    `languages`: those that there are, by name ("Dutch") or code ("nl"); class i is the i-th of them.
    `tokenizer`: "bytes", "characters", or a file or folder of one; with a pretrained model, left out: the
    model's own. `context`: tokens a text, with its prompt. `prompt`: what the model is given, with {text}
    where the text goes; a text that is too long is cut, the prompt is not.
    """
    codes = {name: code for code, name in LANGUAGES.items()}
    chosen = _chosen("langid", languages, tuple(codes), LANGUAGES, least=2)
    number = {codes[name]: i for i, name in enumerate(chosen)}
    made = _prompt("langid", tokenizer, files[LANGID["test"]].parents[1], context, prompt)
    parts = []
    for part in ("train" if LANGID["train"] in files else "valid", "test"):
        table = read_table(files[LANGID[part]])
        rows = zip(table.column("labels"), table.column("text"), strict=True)
        parts.append(
            _samples(made, [(number[code], text) for code, text in rows if code in number], len(chosen))
        )
    train, test = parts
    return Dataset("langid", train, test, labels=chosen, tokenizer=made.tokenizer)


def sentiments(
    files: Files,
    *,
    languages: tuple[str, ...] = ALIKE,
    tokenizer: Named = "bytes",
    context: int = 64,
    prompt: str = "{text}\nSentiment:",
) -> Dataset:
    """A text, and whether it is negative, neutral or positive; languages are the natural clients.

    Japanese and Chinese have no training part, and are trained on "valid".

    `languages`: those that there are, of twelve; left out: the eight with as many texts as one another.
    `tokenizer`: "bytes", "characters", or a file or folder of one; with a pretrained model, left out: the
    model's own. `context`: tokens a text, with its prompt. `prompt`: what the model is given, with {text}
    where the text goes; a text that is too long is cut, the prompt is not.
    """
    chosen = _chosen("sentiments", languages, SPOKEN, {}, least=1)
    place = files[ARCHIVE]
    made = _prompt("sentiments", tokenizer, place.parents[1], context, prompt)
    tables = _tables(place, chosen)
    parts: list[list[tuple[int, str]]] = [[], []]
    owners: list[list[int]] = [[], []]
    for owner, language in enumerate(chosen):
        with reading(place):
            found = [tables.get((language, "train")) or tables[language, "valid"], tables[language, "test"]]
            for rows, whose, table in zip(parts, owners, found, strict=True):
                rows += zip(map(SENTIMENTS.index, table.column("label")), table.column("text"), strict=True)
                whose += [owner] * len(table.rows)
    train, test = (_samples(made, rows, len(SENTIMENTS)) for rows in parts)
    train_owner, test_owner = (np.asarray(whose, dtype=np.int64) for whose in owners)
    return Dataset(
        "sentiments",
        train,
        test,
        train_owner,
        test_owner,
        chosen,
        labels=SENTIMENTS,
        tokenizer=made.tokenizer,
        by_name=True,
    )


def _prompt(name: str, tokenizer: Named, root: Path, context: int, prompt: str) -> Prompt:
    check_context(name, context)
    return Prompt(tokenizer_of(tokenizer, root), context, prompt)


def _samples(prompt: Prompt, rows: Sequence[tuple[int, str]], classes: int) -> Samples:
    x = prompt.inputs(text for _, text in rows)
    y: Ints = np.asarray([label for label, _ in rows], dtype=np.int64)
    return Samples(torch.from_numpy(x), torch.from_numpy(y), classes)


def _chosen(
    data: str, languages: Sequence[str], known: Sequence[str], codes: Mapping[str, str], least: int
) -> tuple[str, ...]:
    """Languages by their English names, whichever way they are written."""
    told = {name.lower(): name for name in known} | dict(codes)
    found = []
    for language in languages:
        name = told.get(str(language).lower())
        if name is None:
            raise ConfigError(f"{data}: there is no language {language!r}.{nearest(str(language), known)}")
        if name in found:
            raise ConfigError(f"{data}: languages names {name} twice")
        found.append(name)
    if len(found) < least:
        raise ConfigError(f"{data}: languages must name {least} at least, not {len(found)}")
    return tuple(found)


def _tables(place: Path, languages: Sequence[str]) -> dict[tuple[str, str], Table]:
    """The tables by language and part, from the archive or from the folder that it unpacks to."""
    spoken = {language.lower(): language for language in languages}
    raw = {}
    with reading(place):
        if place.is_dir():
            raw = {path: read_bytes(path) for path in place.glob("*/*.csv") if path.parent.name in spoken}
        else:
            with tarfile.open(place) as archive:
                for member in archive:
                    path = Path(member.name)
                    stream = archive.extractfile(member) if path.parent.name in spoken else None
                    if stream is not None and path.suffix == ".csv":
                        raw[place / path] = stream.read()
    return {(spoken[path.parent.name], path.stem): table(found, str(path)) for path, found in raw.items()}
