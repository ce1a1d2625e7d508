"""Make the built-in digits from MNIST and QMNIST's writer labels; the same bytes every time.

usage: python scripts/make_digits.py [--root DATA] [--out FILE]

Of MNIST's training part, the writers with at least 10 images of every digit; of these the 50 lowest
numbers among the census employees (hsf 0) and the 50 lowest among the students (hsf 4). Of each
writer and digit the first 10 images in MNIST's order: 8 to train with, then 2 to test with.
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unknot.core.places import folders
from unknot.data.files import File, read_npz
from unknot.data.readers.digits import ASSETS
from unknot.data.readers.idx import read_idx

WRITERS_PER_GROUP = 50
GROUPS = (0, 4)
TRAIN, TEST = 8, 2


def choose_writers(
    writer: NDArray[np.int64], group: NDArray[np.int64], label: NDArray[np.int64]
) -> list[int]:
    chosen: list[int] = []
    for wanted in GROUPS:
        rich = [
            int(who)
            for who in np.unique(writer[group == wanted])
            if np.bincount(label[writer == who], minlength=10).min() >= TRAIN + TEST
        ]
        chosen += rich[:WRITERS_PER_GROUP]
    return chosen


def choose_rows(
    chosen: list[int], writer: NDArray[np.int64], label: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    train, test = [], []
    for who in chosen:
        for digit in range(10):
            rows = np.flatnonzero((writer == who) & (label == digit))[: TRAIN + TEST]
            train.append(rows[:TRAIN])
            test.append(rows[TRAIN:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def build(roots: tuple[Path, ...]) -> dict[str, NDArray[np.generic]]:
    """The arrays of digits.npz, by name."""

    def find(name: str) -> Path:
        path = File(f"MNIST/{name}", also=f"MNIST/{name}.gz").find(roots)
        if path is None:
            raise SystemExit(
                f"MNIST/{name} is not in {', '.join(map(str, roots)) or 'any folder: give --root'}"
            )
        return path

    images = read_idx(find("raw/train-images-idx3-ubyte"), 3)
    label = read_idx(find("raw/train-labels-idx1-ubyte"), 1)
    about = read_npz(find("writers.npz"), ("train_writer", "train_hsf"))
    writer = about["train_writer"].astype(np.int64)
    chosen = choose_writers(writer, about["train_hsf"].astype(np.int64), label.astype(np.int64))
    train, test = choose_rows(chosen, writer, label.astype(np.int64))
    arrays: dict[str, NDArray[np.generic]] = {}
    for part, rows in (("train", train), ("test", test)):
        arrays[f"{part}_image"] = images[rows]
        arrays[f"{part}_label"] = label[rows]
        arrays[f"{part}_writer"] = writer[rows].astype("<i2")
        arrays[f"{part}_row"] = rows.astype("<i4")
    return arrays


def pack(arrays: dict[str, NDArray[np.generic]]) -> bytes:
    """An npz file with no date, owner or library default in it: its bytes depend on the arrays alone."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), version=(1, 0))
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            archive.writestr(info, member.getvalue(), compresslevel=9)
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", help="folder that holds MNIST/ (default: $UNKNOT_DATA)")
    parser.add_argument("--out", type=Path, default=ASSETS / "digits.npz")
    options = parser.parse_args()
    made = pack(build(folders(options.root)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(made)
    sys.stdout.write(f"{options.out}: {len(made):,} bytes\n")


if __name__ == "__main__":
    main()
