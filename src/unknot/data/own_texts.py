"""Texts of your own: lists in memory, or a table with a column of texts, of labels, and of whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import ConfigError, DataError, nearest
from unknot.core.ids import one_way
from unknot.core.keys import Key
from unknot.data.dataset import Dataset, Ints
from unknot.data.tables import Table, read_table
from unknot.data.text import SLOT, Named, Prompt, check_context, tokenizer_of, windows
from unknot.text.alphabet import Tokenizer


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
    given = {"text": texts, "label": labels, "client": owners}
    columns = {role: cells for role, cells in given.items() if cells is not None}
    if lengths := {role: len(cells) for role, cells in columns.items() if len(cells) != len(texts)}:
        raise DataError(f"{name}: {len(texts)} texts, but {lengths}")
    rows = tuple(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    table = Table(name, rows, tuple(f"text {row}" for row in range(len(texts))))
    made = tokenizer_of(tokenizer)
    return _made(
        name, table, {role: role for role in columns}, made, context, prompt, classes, test_share, seed
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
    given = {"text": text, "label": label, "client": client}
    columns = {role: column for role, column in given.items() if column is not None}
    table, made = read_table(Path(path)), tokenizer_of(tokenizer, Path(path).parent)
    return _made(Path(path).stem, table, columns, made, context, prompt, classes, test_share, seed)


def _made(
    name: str,
    table: Table,
    columns: Mapping[str, str],
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
    if "label" not in columns and (prompt != SLOT or classes):
        raise ConfigError(f"{name}: prompt and classes are for texts with labels: name their column")
    found = {role: table.column(column) for role, column in columns.items()}
    for role, cells in found.items():
        for row, cell in enumerate(cells):
            if not cell.strip():
                raise DataError(f"{table.where(row)}: the {role} is empty; fill it in, or leave the row out")
    texts = found["text"]
    names: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    owner: Ints | None = None
    if "client" in found:
        whose = [_one_way(one) for one in found["client"]]
        names = tuple(dict.fromkeys(whose))
        number = {one: i for i, one in enumerate(names)}
        owner = np.asarray([number[one] for one in whose], dtype=np.int64)
    if "label" not in found:
        x, y, row_of = windows(tokenizer.encode_all(texts), context, tokenizer.pad)
        many, groups = tokenizer.size, np.zeros(len(texts), dtype=np.int64)
    else:
        labels = [_one_way(label) for label in found["label"]]
        called = tuple(_one_way(str(one)) for one in classes) or _sorted(labels)
        for row, label in enumerate(labels):
            if label not in called:
                raise DataError(f"{table.where(row)}: {label!r} is no label.{nearest(label, called)}")
        y, many = np.asarray([called.index(label) for label in labels], dtype=np.int64), len(called)
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


def _sorted(labels: Sequence[str]) -> tuple[str, ...]:
    """What classes there are: whole numbers in their order, before words in theirs."""
    numbers = sorted({word for word in labels if word.isdecimal()}, key=lambda word: (int(word), word))
    return (*numbers, *sorted(set(labels).difference(numbers)))


def held_out(groups: Ints, names: Sequence[str], share: float, key: Key) -> NDArray[np.bool_]:
    """A share of every group, rounded, one at least of two or more; by what the group itself has alone."""
    chosen = np.zeros(len(groups), dtype=np.bool_)
    for group in np.unique(groups).tolist():
        rows = np.flatnonzero(groups == group)
        many = min(len(rows) - 1, max(1, int(len(rows) * share + 0.5)))
        called = names[group] if names else "all"
        chosen[rows[key.child(called).smallest(np.arange(len(rows)), many)]] = True
    return chosen
