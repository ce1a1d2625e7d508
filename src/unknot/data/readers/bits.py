"""Purchase-100 and Location-30 as privacytrustlab publishes them: a label, then bits, a row each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import ConfigError, DataError
from unknot.core.keys import Key
from unknot.data.dataset import Dataset, Ints
from unknot.data.files import check_labels, unreadable, wrong

Files = Mapping[str, Path]
CHUNK = 1 << 22
COMMA, ZERO, NEWLINE = ord(","), ord("0"), ord("\n")


def _chunks(path: Path) -> Iterator[bytes]:
    """The file in pieces of whole lines, each line ended by one newline."""
    rest = b""
    try:
        with path.open("rb") as stream:
            while block := stream.read(CHUNK):
                whole, newline, tail = (rest + block).rpartition(b"\n")
                rest = tail
                if newline:
                    yield whole.replace(b"\r", b"") + newline
    except OSError as error:
        raise unreadable(path, error) from error
    if rest.strip():
        yield rest.replace(b"\r", b"") + b"\n"


def _is_label(text: bytes) -> bool:
    return text.isdigit() and len(text) < 10


def _fault(path: Path, row: int, line: bytes, features: int) -> DataError:
    """What is wrong with a row that is not a label and so many bits."""
    fields = [field.decode(errors="replace") for field in line.split(b",")]
    if len(fields) != features + 1:
        expected = f"{features + 1} columns (a label and {features} bits)"
        return wrong(path, expected, f"{len(fields)} columns in row {row}")
    for column, field in enumerate(fields[1:], start=2):
        if field not in ("0", "1"):
            return wrong(path, "0 or 1", f"{field!r} in row {row}, column {column}")
    return wrong(path, "a whole number as label", f"{fields[0]!r} in row {row}")


def read_bits(path: Path, features: int) -> tuple[NDArray[np.uint8], Ints]:
    """Bits ``[n, features]`` and labels as they stand in the file."""
    bits: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    tail = 2 * features  # a comma and a digit for each bit: the same length in every row
    for chunk in _chunks(path):
        raw = np.frombuffer(chunk, np.uint8)
        ends = np.flatnonzero(raw == NEWLINE)
        starts = np.concatenate([[0], ends[:-1] + 1])
        filled = ends > starts
        starts, ends = starts[filled], ends[filled]
        if not len(ends):
            continue
        short = np.flatnonzero(ends - starts <= tail)
        if len(short):
            first = int(short[0])
            raise _fault(path, len(labels) + first + 1, chunk[starts[first] : ends[first]], features)
        tails = np.lib.stride_tricks.sliding_window_view(raw, tail)[ends - tail]
        values = tails[:, 1::2] - np.uint8(ZERO)
        good = (tails[:, 0::2] == COMMA).all(axis=1) & (values <= 1).all(axis=1)
        for row, (start, end) in enumerate(zip(starts.tolist(), (ends - tail).tolist(), strict=True)):
            text = chunk[start:end].strip(b'"')
            if not good[row] or not _is_label(text):
                raise _fault(path, len(labels) + 1, chunk[start : end + tail], features)
            labels.append(int(text))
        bits.append(values)
    if not bits:
        raise wrong(path, "rows of a label and bits", "an empty file")
    return np.concatenate(bits), np.asarray(labels, dtype=np.int64)


def _test_rows(labels: Ints, share: float, key: Key) -> NDArray[np.bool_]:
    """A share of every class, rounded, drawn by key: the originals have no test part."""
    rows = np.arange(len(labels))
    words = key.words(rows)
    order = np.lexsort((words, labels))
    counts = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(len(labels), dtype=np.bool_)
    chosen[order] = rank < np.repeat(np.floor(counts * share + 0.5), counts)
    return chosen


def _dataset(name: str, path: Path, features: int, classes: int, test_share: float, seed: int) -> Dataset:
    if not 0 < test_share < 1:
        raise ConfigError(f"{name}: test_share must lie between 0 and 1, not {test_share}")
    bits, labels = read_bits(path, features)
    check_labels(path, labels, classes, first=1)
    labels = labels - 1
    test = _test_rows(labels, test_share, Key.root(seed).child("data", name, "test"))
    train_part, test_part = (
        Samples(
            torch.from_numpy(bits[mask].astype(np.float32)), torch.from_numpy(labels[mask].copy()), classes
        )
        for mask in (~test, test)
    )
    return Dataset(name, train_part, test_part)


def purchase100(files: Files, *, test_share: float = 0.2, seed: int = 0) -> Dataset:
    """Bits and a class a row.

    `test_share`: the share of every class that is the test part. `seed`: what it is drawn by.
    """
    return _dataset("purchase100", files["purchase100/dataset_purchase"], 600, 100, test_share, seed)


def location30(files: Files, *, test_share: float = 0.2, seed: int = 0) -> Dataset:
    """Bits and a class a row.

    `test_share`: the share of every class that is the test part. `seed`: what it is drawn by.
    """
    return _dataset("location30", files["location30/bangkok"], 446, 30, test_share, seed)
