"""Wrong shapes, types and labels: the client is named, what was found, and what was expected."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import unknot
from unknot.core.errors import ConfigError, DataError

X, Y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 2, 1])
GOOD = (X, Y)


def spoilt(place, value) -> np.ndarray:
    x = X.copy()
    x[place] = value
    return x


class Items(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Endless(Dataset):
    def __getitem__(self, i):
        return X[0], 0


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(X[0], 0)])


class Frame:
    """A table without targets of its own, as pandas has."""

    def __len__(self):
        return 4

    def __getitem__(self, column):
        raise KeyError(column)

    def __array__(self):
        return X


HOLDINGS = {
    "a table alone": (Frame(), "Frame"),
    "inputs alone": (X, "ndarray"),
    "three things": ((X, Y, Y), "tuple"),
    "nothing": (None, "NoneType"),
    "a mapping": ({"x": X, "y": Y}, "dict"),
    "lengths differ": ((X, Y[:3]), r"\(4, 3\).*\(3,\)"),
    "no samples": ((X[:0], Y[:0]), r"\(0, 3\)"),
    "no features": ((np.zeros((4, 0)), Y), r"\(4, 0\)"),
    "inputs of one axis": ((X[:, 0], Y), r"\(4,\).*X.reshape\(-1, 1\)"),
    "a single number": ((np.float64(3), Y), r"\(\)"),
    "a single target": ((X, np.int64(3)), r"\(\)"),
    "NaN": ((spoilt((2, 1), np.nan), Y), "sample 2: feature 1 is nan"),
    "infinity": ((spoilt((1, 0), -np.inf), Y), "sample 1: feature 0 is -inf"),
    "objects": ((X.astype(object), Y), "inputs .*object"),
    "texts among inputs": ((X.astype(str), Y), "inputs .*<U"),
    "dates": ((np.zeros((4, 1), "datetime64[s]"), Y), "inputs .*datetime64"),
    "complex inputs": ((X + 1j, Y), "inputs .*complex"),
    "complex tensor": ((torch.zeros(4, 3, dtype=torch.complex64), Y), "inputs .*complex"),
    "gaps": ((np.ma.masked_array(X, X > 5), Y), "inputs .*MaskedArray"),
    "ragged inputs": (([[1, 2], [3]], [0, 1]), "inputs .*lengths"),
    "texts as labels": ((X, np.array(["a", "b", "a", "b"])), "targets .*<U"),
    "objects as labels": ((X, np.array([0, None, 1, 1])), "targets .*object"),
    "negative label": ((X, np.array([0, -1, 2, 1])), "sample 1: label -1"),
    "targets of three axes": ((X, np.zeros((4, 1, 2))), r"\(4, 1, 2\)"),
    "a table that is not 0 and 1": ((X, np.array([[0, 2]] * 4)), r"y.argmax\(1\)"),
    "values that are not finite": ((X, np.array([0.5, np.nan, 1, 2])), "sample 1: label nan"),
    "whole numbers like values": ((X, np.array([1, 20, 300, 400_000])), '400000.*"values"'),
    "an iterable data set": (Stream(), "Dataset"),
    "a data set without a length": (Endless(), "Dataset"),
    "a data set without items": (Items([]), "Dataset"),
    "items that are no pairs": (Items([X[0], X[1]]), "item 0"),
    "items of three": (Items([(X[0], 0, 1)]), "item 0"),
    "items of other shapes": (Items([(X[0], 0), (X[1, :2], 1)]), r"\[3\] .*\[2\]"),
    "items that are no numbers": (Items([(X[0], "cat")]), "item 0"),
    "three tensors": (TensorDataset(*[torch.zeros(2, 2)] * 3), "item 0"),
    "an empty text": (["", "a"], "text"),
}


@pytest.mark.parametrize("what", HOLDINGS)
def test_what_no_client_can_hold_is_refused_by_its_name(what):
    held, message = HOLDINGS[what]
    with pytest.raises(DataError, match=rf"^Graz\b.*{message}"):
        unknot.clients({"Graz": held})
    with pytest.raises(DataError, match=rf"^client 5\b.*{message}"):
        unknot.clients({5: held})


APART = {
    "other features": ((X[:, :2], Y), r"^Linz: x of shape \(2,\) per sample, but Graz: of shape \(3,\)"),
    "other targets": ((X, np.eye(4, 3)), r"^Linz: y of shape \(3,\) per sample, but Graz: of shape \(\)"),
    "values among classes": ((X, Y / 2), "^Linz: targets are floating-point numbers, but Graz: whole ones"),
    "texts among numbers": ("some words", "^Linz: texts, but Graz: numbers"),
}


@pytest.mark.parametrize("what", APART)
@pytest.mark.parametrize("part", ["Linz", "test", "validation"])
def test_clients_and_the_server_hold_the_same_kind_of_samples(what, part):
    held, message = APART[what]
    clients, options, who = {"Graz": GOOD}, {part: held}, f"the {part} samples"
    if part == "Linz":
        clients, options, who = {"Graz": GOOD, "Linz": held}, {}, "Linz"
    with pytest.raises(DataError, match=message.replace("Linz", who)):
        unknot.clients(clients, **options)


OPTIONS = {
    "an unknown kind": ({"kind": "class"}, "no targets of kind 'class'. Did you mean 'classes'"),
    "too few classes": ({"classes": 2}, r"^Graz, sample 2: label 2, but there are 2 classes \(0 to 1\)"),
    "no classes": ({"classes": 0}, "classes is 0"),
    "labels of one axis": (
        {"kind": "labels"},
        "two axes",
    ),
    "tokens that are no whole numbers": ({"tokens": True}, "^Graz: tokens are whole numbers, but the inputs"),
    "ids of others": ({"ids": {"Linz": 0}}, "ids has no number for 'Graz'"),
    "ids that are none": ({"ids": {"Graz": -1}}, "not -1"),
    "test samples of strangers": (
        {"test": {"Gratz": GOOD}},
        "of 'Gratz', who is no client. Did you mean 'Graz'",
    ),
    "a test set of other shape": ({"test": (X[:2], Y)}, "^the test samples: .*2, 3.*4,"),
    "a client's test set": ({"test": {"Graz": (X, Y[:1])}}, "^Graz, test samples: .*4, 3.*1,"),
    "a wrong label in the test set": ({"classes": 3, "test": (X, Y + 1)}, "^test sample 2: label 3"),
    "an empty vocabulary": ({"vocabulary": ""}, "a vocabulary is a text of characters, each of them once"),
    "a vocabulary with twins": ({"vocabulary": "aba"}, "each of them once, not 'aba'"),
}


@pytest.mark.parametrize("what", OPTIONS)
def test_options_that_do_not_fit_are_refused(what):
    options, message = OPTIONS[what]
    with pytest.raises(DataError, match=message):
        unknot.clients({"Graz": GOOD}, **options)


def test_a_window_has_a_token_at_least():
    with pytest.raises(ConfigError, match="context"):
        unknot.clients({"Graz": "some words"}, context=0)


def test_classes_are_whole_numbers():
    for options in ({"classes": 3}, {"kind": "classes"}):
        with pytest.raises(
            DataError, match=r"^Graz: targets are floating-point numbers, but classes are whole"
        ):
            unknot.clients({"Graz": (X, Y.astype(float))}, **options)
    with pytest.raises(DataError, match="texts predict characters: leave kind, classes and tokens out"):
        unknot.clients({"Graz": "some words"}, classes=5)


ROSTERS = {
    "nobody": ({}, "clients are a mapping .* found dict"),
    "nobody in a list": ([], "clients are a mapping"),
    "one text": ("Graz", "a mapping from names to what each holds.* found str"),
    "an array": (X, "found ndarray"),
    "an empty name": ({"": GOOD}, "must be a text in one line"),
    "a name of two lines": ({"Graz\n": GOOD}, r"not 'Graz\\n'"),
    "a name with a space before it": ({" Graz": GOOD}, "neither begins nor ends with a space"),
    "names and numbers": ({"Graz": GOOD, 3: GOOD}, "not 'Graz'"),
    "what is neither": ({None: GOOD}, "not None"),
    "half a client": ({0.5: GOOD}, "not 0.5"),
}


@pytest.mark.parametrize("what", ROSTERS)
def test_clients_that_cannot_be_called_are_refused(what):
    held, message = ROSTERS[what]
    with pytest.raises(DataError, match=message):
        unknot.clients(held)


def test_ids_tell_clients_apart():
    with pytest.raises(DataError, match=r"the same number, .*'Graz': 3, 'Linz': 3"):
        unknot.clients({"Graz": GOOD, "Linz": GOOD}, ids={"Graz": 3, "Linz": 3})


def test_an_item_that_cannot_be_read_is_named_with_its_cause():
    class Pictures(Items):
        def __getitem__(self, i):
            if i == 2:
                raise OSError("no such picture")
            return X[i], 0

    with pytest.raises(DataError, match=r"Graz: item 2 .*no such picture") as caught:
        unknot.clients({"Graz": Pictures([(X[0], 0)] * 3)})
    assert isinstance(caught.value.__cause__, OSError)
