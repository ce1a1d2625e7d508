"""A file's requests go through the same door as those of Python."""

import pytest

import unknot
from unknot.core.errors import ConfigError, RequestError
from unknot.experiments import Experiment


def requests(*tables):
    return Experiment.of({"request": list(tables)}).requests


def test_a_file_and_python_make_the_same_requests():
    assert requests(
        {"erase": 3, "round": 10},
        {"erase": [5, 3], "time": 140},
        {"erase": [7], "samples": [1, 0], "round": 2},
        {"join": 8, "round": 12},
    ) == (
        unknot.erase(3, round=10),
        unknot.erase([3, 5], time=140),
        unknot.erase({7: [0, 1]}, round=2),
        unknot.join(8, round=12),
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"erase": ["x", -1], "round": 1}, "a client's id must be a whole number of at least 0, not -1"),
        ({"erase": [3, 0.5], "round": 1}, "not 0.5"),
        ({"erase": [3, 3], "round": 1}, "client 3 is named twice"),
        ({"erase": True, "round": 1}, "not True"),
        ({"erase": {"x": ["0"]}, "round": 1}, "a sample of x .* not '0'"),
        ({"erase": [[3]], "samples": [0], "round": 1}, r"not \[3\]"),
        ({"erase": -1, "round": 1}, "not -1"),
        ({"erase": 3, "samples": ["0", "1"], "round": 1}, "a sample of client 3 .* not '0'"),
        ({"erase": 3, "samples": "01", "round": 1}, "must be a list of ids, not '01'"),
        ({"erase": 3, "samples": 0, "round": 1}, "must be a list of ids, not 0"),
        ({"erase": 3, "samples": [], "round": 1}, "no samples of client 3"),
        ({"erase": 3, "round": 0.5}, "the round of a request must be a whole number"),
        ({"erase": 3, "time": float("inf")}, "a finite number of seconds, 0 or more, not inf"),
        ({"erase": 3, "time": -1}, "a finite number of seconds"),
        ({"join": 2.5, "round": 1}, "not 2.5"),
        ({"join": [], "round": 1}, "at least one client"),
        ({"erase": 3}, "a round or at a time"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_with_its_place(table, message):
    with pytest.raises(RequestError, match=rf"^request 2: .*{message}"):
        requests({"erase": 0, "round": 0}, table)


def test_samples_are_erased_not_joined():
    with pytest.raises(ConfigError, match="samples are erased, not joined"):
        requests({"join": 3, "samples": [0], "round": 1})
