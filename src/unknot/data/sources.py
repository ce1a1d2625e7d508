"""Every data set by name: what it is, which files it needs, how to get them, who reads them.

The checksums are of the files' uncompressed contents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.core.registry import datasets
from unknot.data.dataset import Dataset
from unknot.data.files import File
from unknot.data.own_texts import table_of_texts
from unknot.data.readers import bits, cifar, digits, idx, languages, leaf, speech


@dataclass(frozen=True)
class Source:
    """A data set that can be loaded.

    `home` is set when its files come with the package, `natural_clients` when its rows have owners.
    """

    name: str
    description: str
    how: str
    files: tuple[File, ...]
    read: Callable[..., Dataset]
    home: Path | None = None
    natural_clients: bool = False


def _idx(folder: str, *sums: str) -> tuple[File, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(
        File(f"{folder}/raw/{name}-ubyte", sha256, also=f"{folder}/raw/{name}-ubyte.gz")
        for name, sha256 in zip(names, sums, strict=True)
    )


_MNIST = _idx(
    "MNIST",
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)
_FASHION_MNIST = _idx(
    "FashionMNIST",
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
)
_CIFAR10 = tuple(
    File(path, sha256)
    for path, sha256 in zip(
        (*cifar.TRAIN10, cifar.TEST10),
        (
            "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        ),
        strict=True,
    )
)

_ALL = (
    Source(
        "digits",
        "8,000 + 2,000 of MNIST's digits by 100 writers, built in",
        "It comes with unknot; install unknot again if it is missing.",
        (File("digits.npz", "42013acb205022bee6d11edf0e462f6098ab6258115a614e93ee89c3673dc7ae"),),
        digits.digits,
        digits.ASSETS,
        natural_clients=True,
    ),
    Source(
        "mnist",
        "MNIST: 60,000 + 10,000 handwritten digits",
        "Download the four idx files from MNIST's home page or a mirror, or let torchvision do it, and put "
        "them, gzipped or not, into MNIST/raw.",
        _MNIST,
        idx.mnist,
    ),
    Source(
        "mnist-writers",
        "MNIST by writer: 539 writers in the training part, 297 others in the test part",
        "MNIST/raw as for mnist; and from QMNIST's extended labels (its authors' page) the writer of each "
        "MNIST image, saved with numpy as the arrays train_writer and test_writer of MNIST/writers.npz.",
        (
            *_MNIST,
            File("MNIST/writers.npz"),
        ),
        idx.mnist_writers,
        natural_clients=True,
    ),
    Source(
        "fashion-mnist",
        "Fashion-MNIST: 60,000 + 10,000 pieces of clothing",
        "Download the four idx files from its authors' page (Zalando Research), or let torchvision do it, "
        "and put them, gzipped or not, into FashionMNIST/raw.",
        _FASHION_MNIST,
        idx.fashion_mnist,
    ),
    Source(
        "cifar10",
        "CIFAR-10: 50,000 + 10,000 small photographs, 10 classes",
        "Download the binary version (cifar-10-binary) from its author's page at the University of Toronto "
        "and unpack it. The Python version is not read: it is pickled, and unpickling can run code.",
        _CIFAR10,
        cifar.cifar10,
    ),
    Source(
        "cifar100",
        "CIFAR-100: 50,000 + 10,000 small photographs, 100 classes",
        "Download the binary version (cifar-100-binary) from its author's page at the University of Toronto "
        "and unpack it. The Python version is not read: it is pickled, and unpickling can run code.",
        tuple(File(f"{cifar.CIFAR100}/{part}.bin") for part in ("train", "test")),
        cifar.cifar100,
    ),
    Source(
        "purchase100",
        "Purchase-100: what 197,324 shoppers bought, 600 bits, 100 classes",
        "Download dataset_purchase from privacytrustlab's datasets page, unpack it, and put it into "
        "purchase100.",
        (File("purchase100/dataset_purchase"),),
        bits.purchase100,
    ),
    Source(
        "location30",
        "Location-30: where 5,010 people checked in, 446 bits, 30 classes",
        "Download the location data (bangkok) from privacytrustlab's datasets page, unpack it, and put it "
        "into location30.",
        (File("location30/bangkok", "2ca8f7fc231251e089823e44d39f2d1eed124574cc351c7f80368cfe631dd718"),),
        bits.location30,
    ),
    Source(
        "femnist",
        "FEMNIST: handwritten digits and letters by writer, 62 classes",
        "Get LEAF, run its femnist preprocessing (non-i.i.d., split by sample), and put the resulting JSON "
        "files into femnist/data/train and femnist/data/test.",
        tuple(File(f"femnist/data/{part}") for part in ("train", "test")),
        leaf.femnist,
        natural_clients=True,
    ),
    Source(
        "shakespeare",
        "Tiny Shakespeare: 1.1 million characters by speaker, next-character or next-token prediction",
        "Download tinyshakespeare (input.txt of char-rnn's example data) and save it as "
        "shakespeare/tinyshakespeare.txt.",
        (
            File(
                "shakespeare/tinyshakespeare.txt",
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        ),
        speech.shakespeare,
        natural_clients=True,
    ),
    Source(
        "langid",
        "Language identification (papluca): texts in 20 languages, 500 of each to test with",
        "Download train.csv, valid.csv and test.csv of papluca's language-identification and put them into "
        "langid; without train.csv, valid.csv is trained on.",
        (
            File(languages.LANGID["train"], optional=True),
            File(
                languages.LANGID["valid"], "e0de8be0ab02445906efdbdc30bfc30534a6a224a78c21cea4b35e3bb7f5645b"
            ),
            File(
                languages.LANGID["test"], "cb7dfe272142815573b735b5d555d42d28d0d648187020f2d2eb3eebd772e759"
            ),
        ),
        languages.langid,
    ),
    Source(
        "sentiments",
        "Multilingual sentiments (tyqiangz): texts in 12 languages, negative, neutral or positive",
        "Download tyqiangz's multilingual-sentiments and put it into sentiment, packed as "
        "multilingual-sentiments.tar.xz or as its folder data, with a folder of train.csv, valid.csv and "
        "test.csv for each language.",
        (
            File(
                languages.ARCHIVE,
                "c4250350ccab4e5181de552038ee411e90f4c349bef1584c2ec74588892484ba",
                also="sentiment/data",
            ),
        ),
        languages.sentiments,
        natural_clients=True,
    ),
    Source(
        "texts",
        "Texts of your own: a CSV or JSONL file with a text a row, its label, and whose it is",
        "It is a file of yours: name it by path = ...",
        (),
        table_of_texts,
        natural_clients=True,
    ),
)


def source_of(name: str, thing: Any) -> Source:
    """A data set by whatever has its name: a source, a function that makes one, one that is there already."""
    if isinstance(thing, Source):
        return thing
    about = "" if isinstance(thing, Dataset) else (thing.__doc__ or "").strip().partition("\n")[0]
    return Source(name, about, "It needs no files.", (), lambda _, **options: _made(name, thing, options))


def _made(name: str, thing: Any, options: Mapping[str, Any]) -> Dataset:
    made = thing if isinstance(thing, Dataset) else datasets.called(name, thing, (), options)
    if not isinstance(made, Dataset):
        raise ConfigError(
            f"data set {name!r}: what it makes is a {type(made).__name__}, no unknot.data.Dataset"
        )
    return made


def _check(said: str, thing: object) -> None:
    if not isinstance(thing, Source | Dataset) and not callable(thing):
        raise ConfigError(f"{said} is no function that gives an unknot.data.Dataset")


SOURCES: Mapping[str, Source] = datasets.open(
    {source.name: source for source in _ALL},
    check=_check,
    reserved=("partition", "root", "options"),
    signature=lambda thing: partial(thing.read, None) if isinstance(thing, Source) else thing,
)
