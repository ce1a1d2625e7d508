import numpy as np
import pytest
import torch

from unknot.core.errors import RequestError
from unknot.core.requests import Erase, Join, Moment, Target, erase, join


def test_requests_read_as_they_are_written():
    assert erase(3, round=10).targets == (Target(3),)
    assert erase([5, 3], time=1.5).targets == (Target(3), Target(5))
    assert erase({3: [0, 1], 4: None}, round=0).targets == (Target(3, (0, 1)), Target(4))
    assert str(erase({3: [0, 1], 4: None}, round=0)) == "erase 2 samples of client 3, client 4"
    assert str(join([7, 2], round=1)) == "join client 2, client 7"
    assert erase(3, round=10).at == Moment(round=10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: erase(3, round=1, time=2.0),
        lambda: erase([], round=1),
        lambda: erase(3, round=-1),
        lambda: erase(3, time=float("nan")),
        lambda: join([], round=1),
        lambda: join([2, 2], round=1),
        lambda: erase([3, 3], round=1),
        lambda: erase({3: []}, round=1),
        lambda: erase({3: [1, np.int64(1)]}, round=1),
        lambda: erase({3: "12"}, round=1),
        lambda: erase({3: {1: 2}}, round=1),
        lambda: Erase((), Moment(round=1)),
        lambda: Erase((Target(1), Target(1)), Moment(round=1)),
        lambda: Join((1, 1), Moment(round=1)),
    ],
)
def test_an_impossible_request_is_refused(make):
    with pytest.raises(RequestError):
        make()


THREE = [3, np.int64(3), np.uint8(3), np.array(3), torch.tensor(3)]


@pytest.mark.parametrize("three", THREE, ids=repr)
def test_whatever_is_a_whole_number_names_a_client_and_a_sample(three):
    requests = [
        erase(three, round=three),
        erase([three], round=3),
        Erase((Target(three),), Moment(three)),
    ]
    assert all(request == erase(3, round=3) for request in requests)
    assert join(three, round=3) == join([three], round=3) == Join((three,), Moment(3)) == join(3, round=3)
    assert erase({3: [three]}, round=3).targets == (Target(3, (3,)),)
    for request in requests:
        assert type(request.targets[0].client) is int
        assert type(request.at.round) is int
    assert type(Target(three, (three,)).samples[0]) is int
    assert type(join(three, round=3).clients[0]) is int


@pytest.mark.parametrize(
    "several",
    [
        (5, 3),
        {5, 3},
        range(3, 6, 2),
        np.array([5, 3]),
        torch.tensor([5, 3]),
        [np.int64(5), 3],
        {3: 0, 5: 0}.keys(),
    ],
    ids=repr,
)
def test_ids_come_in_any_collection_and_go_on_in_order(several):
    assert erase(several, round=1) == erase([3, 5], round=1)
    assert join(several, round=1).clients == (3, 5)
    assert erase({0: several}, round=1).targets == (Target(0, (3, 5)),)


def test_a_generator_of_ids_is_read_once():
    assert erase((k for k in (5, 3)), round=1) == erase([3, 5], round=1)
    assert erase({0: (k for k in (5, 3))}, round=1).targets == (Target(0, (3, 5)),)
    assert join((k for k in (5, 3)), round=1).clients == (3, 5)


NO_IDS = [
    "x",
    "0",
    b"\x00",
    0.5,
    True,
    np.bool_(True),
    None,
    -1,
    -1.0,
    np.int64(-3),
    float("nan"),
    float("inf"),
    np.array(0.5),
    2**63,
    [[0]],
]


@pytest.mark.parametrize("wrong", NO_IDS, ids=repr)
def test_what_is_no_id_is_refused_by_name(wrong):
    found = "must be a whole number of at least 0, not"
    makes = [
        lambda: Target(wrong),
        lambda: Join((wrong,), Moment(round=1)),
        lambda: Target(3, (0, wrong)),
        lambda: erase({3: [wrong]}, round=1),
    ]
    if not isinstance(wrong, str):  # a text is a client's name
        makes += [lambda: erase([wrong], round=1), lambda: join([wrong], round=1)]
    if not isinstance(wrong, list | str):
        makes += [lambda: erase(wrong, round=1), lambda: join(wrong, round=1)]
        makes += [lambda: erase({wrong: None}, round=1)] * (not isinstance(wrong, np.ndarray))
    for make in makes:
        with pytest.raises(RequestError, match=found):
            make()


def test_an_array_of_truth_values_names_nobody():
    """A mask is not a list of ids: read as one, it would erase clients 0 and 1."""
    for mask in (np.array([True, False]), torch.tensor([True, False])):
        with pytest.raises(RequestError, match="not True"):
            erase(mask, round=1)


@pytest.mark.parametrize("round", [0.5, -1, True, "3", float("inf"), float("nan"), [3]], ids=repr)
def test_a_round_is_a_whole_number(round):
    with pytest.raises(RequestError, match="the round of a request must be a whole number"):
        erase(3, round=round)


@pytest.mark.parametrize(
    "time", [float("inf"), float("nan"), -0.1, -1, True, "3", [3], np.float32("inf")], ids=repr
)
def test_a_time_is_a_finite_number_of_seconds(time):
    with pytest.raises(RequestError, match="the time of a request must be a finite number"):
        erase(3, time=time)


@pytest.mark.parametrize("time", [140, 140.0, np.float32(140), np.array(140)], ids=repr)
def test_any_number_of_seconds_becomes_a_plain_one(time):
    at = erase(3, time=time).at
    assert at == Moment(time=140.0)
    assert type(at.time) is float
