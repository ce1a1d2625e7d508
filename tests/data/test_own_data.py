"""Clients from arrays, tensors, data sets and texts of one's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

import unknot
from exactness import assert_no_interference
from unknot.core.errors import DataError
from unknot.core.samples import IGNORED
from unknot.text.alphabet import CHARACTERS

RNG = np.random.default_rng(0)
SIZES = {"Graz": 12, "Linz": 9, "Wien": 15}


def pair(n: int, features: int = 4) -> tuple[np.ndarray, np.ndarray]:
    y = RNG.integers(0, 3, n)
    return (RNG.standard_normal((n, features)) + y[:, None]).astype(np.float32), y


HELD = {name: pair(n) for name, n in SIZES.items()}
TEST = pair(20)


class Pairs(Dataset):
    """Map-style: items by number, as people write them."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


def rows_of(data: unknot.FederatedData, client: int | str) -> tuple[torch.Tensor, torch.Tensor]:
    return data.train.take(torch.from_numpy(data[client].rows))


def test_clients_hold_what_they_were_given_under_their_names():
    data = unknot.clients(HELD, test=TEST, validation=pair(5), name="towns")
    assert data.names == {0: "Graz", 1: "Linz", 2: "Wien"}
    for name, (x, y) in HELD.items():
        mine, labels = rows_of(data, name)
        assert np.array_equal(mine.numpy(), x)
        assert labels.tolist() == y.tolist()
    assert (data.train.kind, data.train.classes) == ("classes", 3)
    assert (len(data.test), len(data.validation), data.test_owner) == (20, 5, None)
    assert repr(data).startswith("FederatedData('towns': 36 samples of clients Graz, Linz, Wien, 5 for")


@pytest.mark.parametrize(
    "hold",
    [
        lambda x, y: (x, y),
        lambda x, y: [x, y],
        lambda x, y: (torch.from_numpy(x), torch.from_numpy(y)),
        lambda x, y: (x.tolist(), y.tolist()),
        lambda x, y: (x[::-1][::-1], y.astype(np.uint8)),
        lambda x, y: (x.astype(">f4"), y.astype(">i8")),
        lambda x, y: TensorDataset(torch.from_numpy(x), torch.from_numpy(y)),
        lambda x, y: Pairs(x, y),
        lambda x, y: Subset(Pairs(np.repeat(x, 2, 0), np.repeat(y, 2)), list(range(0, 2 * len(x), 2))),
    ],
    ids=["arrays", "list", "tensors", "lists", "views", "endian", "TensorDataset", "Dataset", "Subset"],
)
def test_however_it_is_given_it_is_the_same_data(hold):
    plain = unknot.clients(HELD, test=TEST)
    data = unknot.clients({name: hold(*held) for name, held in HELD.items()}, test=hold(*TEST))
    for part in ("train", "test"):
        assert torch.equal(getattr(data, part).x.float(), getattr(plain, part).x)
        assert torch.equal(getattr(data, part).y, getattr(plain, part).y)


def test_numbers_do_as_well_as_names():
    mapping = unknot.clients({7: HELD["Graz"], 2: HELD["Linz"]})
    assert mapping.clients == (2, 7)
    assert mapping.names == {}
    assert np.array_equal(rows_of(mapping, 7)[0].numpy(), HELD["Graz"][0])
    assert unknot.clients([HELD["Graz"], HELD["Linz"]]).clients == (0, 1)


def test_changing_an_array_later_changes_nothing_here():
    x, y = pair(6)
    data = unknot.clients([(x, y)], test=(torch.from_numpy(x), y))
    x[:], y[:] = 7, 0
    assert not (data.train.x == 7).any()
    assert not (data.test.x == 7).any()


def test_public_inputs_are_nobodys_and_of_the_same_type():
    x, y = pair(6)
    public = np.ones((3, 4), dtype=np.int64)
    data = unknot.clients({"Graz": (x, y), "Linz": pair(5)}, public=public)
    assert data.public.dtype == data.train.x.dtype
    public[:] = 7
    assert data.public.tolist() == [[1.0] * 4] * 3
    with pytest.raises(unknot.DataError, match="public"):
        unknot.clients({"Graz": (x, y)}, public=np.ones((3, 5)))


def test_whole_numbers_and_truth_values_become_floating_point():
    images = RNG.integers(0, 256, (6, 1, 4, 4), dtype=np.uint8)
    data = unknot.clients([(images, np.arange(6) % 2), (images > 100, np.arange(6) % 2)])
    assert data.train.x.dtype == torch.float32
    assert np.array_equal(data.train.x[:6].numpy(), images)
    assert unknot.clients(
        [(np.zeros((2, 3), np.float64), [0, 1]), (images[:2, 0, 0, :3], [1, 1])]
    ).train.x.dtype == (torch.float64)


@pytest.mark.parametrize(
    ("y", "options", "kind", "classes", "dtype"),
    [
        ([0, 1, 4], {}, "classes", 5, torch.int64),
        ([0, 1, 1], {"classes": 7}, "classes", 7, torch.int64),
        ([True, False, True], {}, "classes", 2, torch.int64),
        ([0.5, 1.0, 2.0], {}, "values", 1, torch.float64),
        (np.float32([[0.5, 1], [2, 3], [4, 5]]), {}, "values", 2, torch.float32),
        ([1, 5, 900_000], {"kind": "values"}, "values", 1, torch.float32),
        ([[0, 1], [1, 1], [0, 0]], {}, "labels", 2, torch.float32),
        ([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], {}, "labels", 2, torch.float64),
        ([[True], [False], [True]], {}, "labels", 1, torch.float32),
        ([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], {"kind": "values"}, "values", 2, torch.float64),
    ],
)
def test_targets_are_what_they_look_like_or_what_is_said(y, options, kind, classes, dtype):
    data = unknot.clients({"Graz": (np.zeros((3, 2)), np.asarray(y))}, **options)
    assert (data.train.kind, data.train.classes, data.train.y.dtype) == (kind, classes, dtype)
    assert np.array_equal(data.train.y.numpy(), np.asarray(y))


def test_all_clients_and_the_server_say_together_what_targets_are():
    x = np.zeros((2, 2))
    zeros, fractions = np.zeros((2, 2)), np.full((2, 2), 0.5)
    assert unknot.clients([(x, zeros), (x, fractions)]).train.kind == "values"
    assert unknot.clients([(x, [0, 1])], test=(x, [5, 0])).train.classes == 6


def test_tokens_stay_whole_numbers():
    tokens = RNG.integers(0, 9, (5, 3))
    text = unknot.clients([(tokens, (tokens + 1) % 9)])
    assert (text.train.x.dtype, text.train.kind, text.train.y.shape) == (torch.int64, "classes", (5, 3))
    masked = (tokens + 1) % 9
    masked[0, 2] = IGNORED
    assert unknot.clients([(tokens, masked)]).train.classes == 9
    sentences = unknot.clients([(tokens, np.arange(5) % 2)], tokens=True)
    assert (sentences.train.x.dtype, sentences.train.classes) == (torch.int64, 2)


# Held out -------------------------------------------------------------------------------------------


def test_what_is_held_out_of_a_client_is_the_clients():
    held_out = {"Wien": pair(4), "Graz": pair(3)}
    data = unknot.clients(HELD, test=held_out, validation={"Linz": pair(2)})
    assert data.test_owner.tolist() == [0] * 3 + [2] * 4
    assert np.array_equal(data.test.subset(data.test_rows[2]).x.numpy(), held_out["Wien"][0])
    assert data.validation_clients == {1}
    data.erase("Wien")
    assert (len(data.test), len(data.validation)) == (3, 2)


def test_without_test_samples_a_run_measures_nothing():
    data = unknot.clients(HELD)
    assert (len(data.test), data.validation) == (0, None)
    history = unknot.simulate("mlp", data).run(1)
    assert history.scores == {}


# Texts ----------------------------------------------------------------------------------------------


def test_each_character_of_a_text_predicts_the_next():
    data = unknot.clients(
        {"Ann": "abcdefg", "Bob": ["hello", "?"]}, vocabulary="abcdefgh", context=3, test="cab"
    )
    x, y = rows_of(data, "Ann")
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert y.tolist() == [[1, 2, 3], [4, 5, 6]]
    x, y = rows_of(data, "Bob")  # "hello" is h, e, and thrice a character that is not in the vocabulary
    assert x.tolist() == [[7, 4, 8], [8, 8, 8]]
    assert y.tolist() == [[4, 8, 8], [8, IGNORED, IGNORED]]
    assert data.train.classes == 9
    assert data.test.x.tolist() == [[2, 0, 8]]
    assert data.test.y.tolist() == [[0, 1, IGNORED]]


def test_nobody_has_a_part_in_the_usual_vocabulary():
    one, other = (unknot.clients({"Ann": text}) for text in ("abc" * 40, "äöü€" * 40))
    assert one.train.classes == other.train.classes == len(CHARACTERS) + 1 == 98
    assert (other.train.x == 97).all()


def test_a_model_learns_from_texts():
    data = unknot.clients({"Ann": "to be or not to be " * 9, "Bob": "hello world, hello" * 9}, context=8)
    whole = {c: unknot.Shard.of([r for r in data[c].rows if (data.train.y[r] >= 0).all()]) for c in data}
    model = nn.Sequential(nn.Embedding(98, 4), nn.Linear(4, 98))
    fed = unknot.simulate(model, data.replaced(shards=whole), engine="loop")
    assert fed.run(1).rounds[0].used == 2


# Names and numbers ----------------------------------------------------------------------------------


def run(data: unknot.FederatedData, *requests: object, **options: object) -> unknot.History:
    recipe = unknot.Recipe(unknot.SGD(0.1), epochs=1, batch_size=4)
    return unknot.simulate("mlp", data, recipe=recipe, seed=3, **options).run(4, requests=requests)


def test_a_federation_with_names_is_bit_for_bit_the_one_with_numbers():
    named = run(
        unknot.clients(HELD, test=TEST),
        unknot.erase("Graz", round=2),
        unknot.join("Wien", round=1),
        method="mmt",
    )
    numbered = run(
        unknot.clients(list(HELD.values()), test=TEST),
        unknot.erase(0, round=2),
        unknot.join(2, round=1),
        method="mmt",
    )
    assert named.model.equal(numbered.model)
    assert [named.told(served) for served in named.served] == ["join Wien", "erase Graz"]
    assert [served.clients for served in named.served] == [served.clients for served in numbered.served]
    record, plain = named.to_dict(), numbered.to_dict()
    assert record["lineage"] == ["Linz", "Wien"]
    assert plain["lineage"] == ["client 1", "client 2"]
    assert record["names"] == {"0": "Graz", "1": "Linz", "2": "Wien"}
    assert plain["names"] == {}
    assert [r["clients"] for r in record["rounds"]] == [r["clients"] for r in plain["rounds"]]


def test_a_record_has_numbers_and_says_what_they_are_called_and_requests_in_words():
    data = unknot.clients(HELD, test=TEST)
    requests = [unknot.erase("Graz", round=2), unknot.join("Wien", round=1)]
    record = unknot.simulate("mlp", data).run(4, requests=requests).to_dict()
    assert record["members"] == {"global": [0, 1]}
    assert [(r["request"], r["clients"]) for r in record["requests"]] == [
        ("join Wien", [2]),
        ("erase Graz", [0]),
    ]


def test_with_ids_a_federation_without_somebody_is_otherwise_the_same():
    ids = {"Graz": 0, "Linz": 1, "Wien": 2}
    rest = {name: held for name, held in HELD.items() if name != "Graz"}
    forgot = run(unknot.clients(HELD, ids=ids), unknot.erase("Graz", round=1))
    never = run(unknot.clients(rest, ids=ids))
    fresh = unknot.simulate(
        "mlp",
        unknot.clients(rest, ids=ids),
        recipe=unknot.Recipe(unknot.SGD(0.1), epochs=1, batch_size=4),
        seed=3,
    )
    assert forgot.model.equal(fresh.run(3).model)
    assert never.model.lineage.clients == {1, 2}
    assert unknot.clients(rest, ids=ids).clients == (1, 2)


@pytest.mark.parametrize("method", ["rfs", "mmt", "sisa"])
def test_exact_methods_stay_exact_with_names(method):
    data = unknot.clients(HELD, test=TEST, validation={"Graz": pair(3), "Linz": pair(3)})
    recipe = unknot.Recipe(unknot.SGD(0.1), epochs=1, batch_size=4)
    request = unknot.erase({"Graz": None}, round=2).resolve(data)
    assert_no_interference(
        lambda variant: unknot.simulate("mlp", variant, method=method, recipe=recipe), data, request, rounds=2
    )


def test_a_pending_request_is_told_by_name():
    fed = unknot.simulate("mlp", unknot.clients(HELD))
    history = fed.run(1, requests=unknot.erase({"Graz": [0, 1]}, round=5))
    assert history.unserved == ["erase 2 samples of Graz at round 5"]
    assert "erase 2 samples of Graz pending" in repr(fed)


def test_what_a_user_meets_has_a_repr_that_tells_something():
    fed = unknot.simulate("mlp", unknot.clients(HELD, test=TEST))
    assert repr(fed) == "Federation(rfs (exact): 3 clients of 'data', 0 rounds so far)"
    history = fed.run(2, requests=unknot.erase("Graz", round=1))
    assert repr(history).startswith("History(rfs, 2 rounds,")
    assert "erase Graz at round 1, test accuracy" in repr(history)
    assert repr(fed).startswith("Federation(rfs (exact): 2 clients of 'data', 2 rounds so far")
    assert repr(fed.model).startswith("Weights(643 numbers of float32, shaped by 2 clients, ")
    both = unknot.Ensemble(((0.5, fed.model), (0.5, fed.model)))
    assert repr(both).startswith("Ensemble(2 models by mean vote, ")
    assert repr(unknot.load("digits")).startswith("Dataset('digits': Samples(8000 of 1×28×28 float32")


NFC, NFD = "Gr\u00e4z", "Gra\u0308z"


def test_a_name_may_be_written_in_either_way_of_its_accents():
    data = unknot.clients(
        {NFD: HELD["Graz"], "Linz": HELD["Linz"]}, test={NFC: TEST, "Linz": TEST}, ids={NFC: 5, "Linz": 2}
    )
    assert data.names == {2: "Linz", 5: NFC}
    assert data.number(NFD) == data.number(NFC) == 5
    assert NFD in data
    history = run(data, unknot.erase(NFD, round=1))
    assert NFD not in history.model.lineage.clients
    assert "Linz" in history.model.lineage.clients


def test_two_names_that_differ_in_how_accents_are_written_are_one():
    with pytest.raises(DataError, match=NFC):
        unknot.clients({NFC: HELD["Graz"], NFD: HELD["Linz"]}, test=TEST)


def test_numbers_beyond_the_range_of_float32_are_refused_by_client():
    x, y = HELD["Linz"]
    far = np.asarray(x, dtype=np.float64).copy()
    far[1, 0] = 1e300
    data = unknot.clients({"Graz": HELD["Graz"], "Linz": (far, y)}, test=TEST)
    with pytest.raises(DataError, match=r"Linz, sample 1: .*float32.*float64"):
        unknot.simulate("mlp", data)
    assert unknot.simulate("mlp", data, dtype="float64").data.train.x.max() == 1e300
