import pytest

from unknot.core.errors import RequestError
from unknot.core.requests import Moment, Target, erase, join


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
        lambda: erase(3),
        lambda: erase(3, round=1, time=2.0),
        lambda: erase([], round=1),
        lambda: erase(3, round=-1),
        lambda: erase(3, time=float("nan")),
        lambda: join([], round=1),
        lambda: join([2, 2], round=1),
    ],
)
def test_an_impossible_request_is_refused(make):
    with pytest.raises(RequestError):
        make()
