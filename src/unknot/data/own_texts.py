"""Texts of your own: lists in memory, or a table with a column of texts, of labels, and of whose they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import ConfigError, DataError, nearest
from unknot.core.ids import one_way
from unknot.core.keys import Key
from unknot.data.dataset import Dataset, Ints
from unknot.data.tables import read_columns
from unknot.data.text import SLOT, Named, Prompt, check_context, tokenizer_of, windows
from unknot.text.alphabet import Tokenizer

Where = Callable[[int], str]


def texts(
    texts: Sequence[str],
    labels: Sequence[str | int] | None = None,
    owners: Sequence[str | int] | None = None,
    *,
    tokenizer: str | Path | Tokenizer = "bytes",
    context: int = 64,
    prompt: str = SLOT,
    classes: Sequence[str] = (),
    test_share: float = 0.1,
    seed: int = 0,
    name: str = "texts",
) -> Dataset:
    """A data set of `texts` that you have in memory, for `federate`.

    With `labels`, a sample is a text in its `prompt` and a class; without, every token of a text predicts the
    next, and a sample is a window of `context` tokens. `owners` say whose each text is: with ``ByOwner()``
    they are the clients, by name.

    `tokenizer`: "bytes", "characters", a file or folder, or one that is made already. `context`: tokens a
    sample; a text that is too long for its prompt is cut at its end. `prompt`: what a model with labels is
    given, with {text} where the text goes. `classes`: what labels there are, in the order of their numbers;
    left out: those that are found, sorted. `test_share`: the share of every owner's texts (or of every
    class's, where nobody owns them) that is tested with, drawn by `seed`. `name`: what the data set is
    called.
    """
    for what, given in (("labels", labels), ("owners", owners)):
        if given is not None and len(given) != len(texts):
            raise DataError(f"{name}: {len(texts)} texts, but {len(given)} {what}")
    if not len(texts):
        raise DataError(f"{name}: there are no texts")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"{name}, text {row}: expected a text, found {type(text).__name__}")
    return _made(
        name,
        texts,
        None if labels is None else [str(label) for label in labels],
        None if owners is None else [str(owner) for owner in owners],
        lambda row: f"{name}, text {row}",
        tokenizer_of(tokenizer),
        context,
        prompt,
        classes,
        test_share,
        seed,
    )


def table_of_texts(
    files: Mapping[str, Path],
    *,
    path: Path,
    text: str = "text",
    label: str | None = None,
    client: str | None = None,
    tokenizer: Named = "bytes",
    context: int = 64,
    prompt: str = SLOT,
    classes: tuple[str, ...] = (),
    test_share: float = 0.1,
    seed: int = 0,
) -> Dataset:
    """A `.csv` file whose first row names the columns, or a `.jsonl` file with names and values in each line.

    `path`: the file, from the working directory unless it is absolute. `text`: the column of texts. `label`:
    the column of labels; left out: every token of a text predicts the next. `client`: the column that says
    whose a text is; these are then the clients, by name. `tokenizer`: "bytes", "characters", or a file or
    folder of one; with a pretrained model, left out: the model's own. `context`: tokens a sample; a text that
    is too long for its prompt is cut at its end. `prompt`: what a model with labels is given, with {text}
    where the text goes. `classes`: what labels there are, in the order of their numbers; left out: those that
    are found, sorted. `test_share`: the share of every client's texts (or of every class's, where nobody owns
    them) that is tested with. `seed`: what it is drawn by.
    """
    roles = [("text", text), ("label", label), ("client", client)]
    named = [(role, column) for role, column in roles if column is not None]
    found = read_columns(Path(path), [column for _, column in named])
    cells = {role: [row[i] for row in found.rows] for i, (role, _) in enumerate(named)}
    for role in cells.keys() - {"text"}:
        for row, cell in enumerate(cells[role]):
            if not cell.strip():
                raise DataError(
                    f"{found.where(row)}: the {role} is missing; fill it in, or leave the row out"
                )
    return _made(
        Path(path).stem,
        cells["text"],
        cells.get("label"),
        cells.get("client"),
        found.where,
        tokenizer_of(tokenizer, Path(path).parent),
        context,
        prompt,
        classes,
        test_share,
        seed,
    )


def _made(
    name: str,
    texts: Sequence[str],
    labels: Sequence[str] | None,
    owners: Sequence[str] | None,
    where: Where,
    tokenizer: Tokenizer,
    context: int,
    prompt: str,
    classes: Sequence[str],
    test_share: float,
    seed: int,
) -> Dataset:
    check_context(name, context)
    if not 0 < test_share < 1:
        raise ConfigError(f"{name}: test_share must lie between 0 and 1, not {test_share}")
    if labels is None and (prompt != SLOT or classes):
        given = "prompt" if prompt != SLOT else "classes"
        raise ConfigError(
            f"{name}: {given} is for texts with labels: name their column, or leave {given} out"
        )
    for row, text in enumerate(texts):
        if not text.strip():
            raise DataError(f"{where(row)}: the text is empty; leave the row out")
    names: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    owner: Ints | None = None
    if owners is not None:
        whose = [_one_way(one) for one in owners]
        names = tuple(dict.fromkeys(whose))
        number = {one: i for i, one in enumerate(names)}
        owner = np.asarray([number[one] for one in whose], dtype=np.int64)
    if labels is None:
        x, y, row_of = windows(tokenizer.encode_all(texts), context, tokenizer.pad)
        if not len(x):
            raise DataError(f"{name}: there is no text of two tokens or more, so nothing to predict")
        many, groups = tokenizer.size, np.zeros(len(texts), dtype=np.int64)
    else:
        labels = [_one_way(label) for label in labels]
        called = _classes(name, labels, [_one_way(str(one)) for one in classes])
        y, many = _numbers(labels, called, where), len(called)
        x, row_of, groups = Prompt(tokenizer, context, prompt).inputs(texts), np.arange(len(texts)), y
    key = Key.root(seed).child("data", "texts", "test")
    tested = held_out(groups if owner is None else owner, names or called, test_share, key)[row_of]
    train, test = (
        Samples(torch.from_numpy(x[rows]), torch.from_numpy(y[rows]), many) for rows in (~tested, tested)
    )
    return Dataset(
        name,
        train,
        test,
        None if owner is None else owner[row_of][~tested],
        None if owner is None else owner[row_of][tested],
        names,
        labels=called,
        tokenizer=tokenizer,
        by_name=True,
    )


def _one_way(name: str) -> str:
    """An owner's or a class's name without the blanks around it, which nobody sees in a table."""
    return one_way(name.strip())


def _classes(name: str, labels: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """What classes there are: whole numbers in their order, before words in theirs."""
    if given:
        if len(set(given)) < len(given):
            raise ConfigError(f"{name}: classes names {max(given, key=list(given).count)!r} twice")
        return tuple(given)
    numbers = sorted((word for word in set(labels) if word.isdecimal()), key=lambda word: (int(word), word))
    found = [*numbers, *sorted(set(labels) - set(numbers))]
    if len(found) < 2:
        raise DataError(f"{name}: all labels are {found[0]!r}; with one class there is nothing to learn")
    return tuple(found)


def _numbers(labels: Sequence[str], classes: Sequence[str], where: Where) -> Ints:
    number = {word: i for i, word in enumerate(classes)}
    for row, label in enumerate(labels):
        if label not in number:
            raise DataError(f"{where(row)}: {label!r} is no label.{nearest(label, classes)}")
    return np.asarray([number[label] for label in labels], dtype=np.int64)


def held_out(groups: Ints, names: Sequence[str], share: float, key: Key) -> NDArray[np.bool_]:
    """A share of every group, rounded, one at least of two or more; by what the group itself has alone."""
    chosen = np.zeros(len(groups), dtype=np.bool_)
    for group in np.unique(groups).tolist():
        rows = np.flatnonzero(groups == group)
        many = min(len(rows) - 1, max(1, int(len(rows) * share + 0.5)))
        called = names[group] if names else "all"
        chosen[rows[key.child(called).smallest(np.arange(len(rows)), many)]] = True
    return chosen
