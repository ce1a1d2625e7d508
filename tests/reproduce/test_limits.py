"""A record that no run can have left is found by its values alone, and says which."""

from dataclasses import replace

import pytest
from altered_records import LONGER, asked, record_of

from unknot.core.metrics import METRICS
from unknot.experiments.config import Experiment
from unknot.reproduce.faults import fault
from unknot.reproduce.limits import beyond


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return record_of(tmp_path_factory.mktemp("limits"), LONGER)


def said(record):
    return beyond(Experiment.of(record.config), record)


def column(record, name, values):
    points = tuple(
        replace(point, **{name: value}) for point, value in zip(record.trace.points, values, strict=True)
    )
    return replace(record, trace=replace(record.trace, points=points))


def extra(record, **change):
    return replace(record, extra={**record.extra, **change})


def rated(record, which, **change):
    return replace(record, **{which: replace(getattr(record, which), **change)})


def backwards(record, name):
    return column(record, name, [getattr(point, name) for point in reversed(record.trace.points)])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: replace(r, method="knot"), "its method is 'knot', and its configuration's 'rfs'"),
        (lambda r: replace(r, model=None), "its model is None, which is no digest"),
        (lambda r: replace(r, model="nonsense"), "its model is 'nonsense', which is no digest"),
        (lambda r: replace(r, seconds=-5.0), "it took -5 seconds"),
        (lambda r: replace(r, made="yesterday"), "it was made at 'yesterday', which is no time in UTC"),
        (lambda r: replace(r, trace=replace(r.trace, split="moon")), "its figures are of 'moon'"),
        (lambda r: column(r, "value", [0.5, 7.0, 0.5, 0.5]), "accuracy has 7, which is no accuracy"),
        (lambda r: column(r, "value", [0.5, -1.0, 0.5, 0.5]), "accuracy has -1, which is no accuracy"),
        (lambda r: column(r, "own", [0.5, 1.5, 0.5, 0.5]), "accuracy has 1.5"),
        (lambda r: asked(r, after=1.1), "before or after has 1.1"),
        (lambda r: extra(r, final=9.9), "extra has 9.9, which is no accuracy"),
        (lambda r: extra(r, final=0.9), "extra.final is 0.9, and its last round's is "),
        (lambda r: extra(r, ids=9000.0), "extra.ids is 9000, and by its configuration it is none"),
        (lambda r: extra(r, memory=7.0), "extra.memory is 7, and by its configuration it is 2.0"),
        (lambda r: extra(r, peak=-1.0), "extra.peak is -1"),
        (lambda r: extra(r, f1_after=1.2), "extra.f1_after is 1.2"),
        (lambda r: asked(r, request="erase client 77"), "'erase client 77' has not the words"),
        (lambda r: asked(r, request="join client 1"), "'join client 1' has not the words"),
        (lambda r: asked(r, request="forget Graz"), "'forget Graz' has not the words"),
        (lambda r: asked(r, client_epochs=99.0), "has client_epochs = 99"),
        (lambda r: asked(r, client_epochs=-1.0), "has client_epochs = -1"),
        (lambda r: asked(r, time=9.0), "has time = 9, which does not fit its place"),
        (lambda r: asked(r, before=0.01), "has before = 0.01, and what was measured then is"),
        (lambda r: asked(r, before_loss=9.0), "has before_loss = 9.0, and what was measured then is"),
        (lambda r: backwards(r, "time"), "its time falls"),
        (lambda r: backwards(r, "client_epochs"), "its client_epochs fall"),
        (lambda r: backwards(r, "round"), "its rounds are not in their order"),
        (lambda r: column(r, "client_epochs", [-1.0, 6.0, 9.0, 12.0]), "its client_epochs is below 0"),
        (lambda r: rated(r, "rates", bytes_stored=-1.0), "rates.bytes_stored is below 0"),
        (lambda r: rated(r, "plain", bytes_sent=1e12), "its bytes_sent up to the first request do not fit"),
        (lambda r: rated(r, "plain", bytes_stored=1e12), "its bytes_stored up to the first request"),
    ],
)
def test_what_no_run_leaves_is_a_fault(record, change, words):
    assert (fault(record), said(record)) == (None, None)
    assert words in said(change(record))
    assert fault(change(record))


def test_a_request_lies_where_its_round_is(record):
    (request,) = record.trace.requests
    assert request.place == request.round == 2
    assert "has round = 2, which does not fit its place, 1" in said(asked(record, place=1))


def test_a_request_right_after_another_begins_where_that_left_off(record):
    (first,) = record.trace.requests
    later = replace(first, before=first.after, before_loss=first.after_loss)
    twice = replace(record, trace=replace(record.trace, requests=(first, later)))
    assert said(twice) is None
    wrong = replace(record, trace=replace(record.trace, requests=(first, first)))
    assert f"and what was measured then is {first.after}" in said(wrong)


def test_where_the_data_calls_clients_by_name_a_request_has_any(record):
    assert fault(asked(record, request="erase Graz")) is None


def test_a_request_that_finds_nothing_left_says_so(record):
    assert fault(asked(record, request="erase client 1 (nothing was left to do)")) is None


def test_other_metrics_than_shares_may_be_above_1(record):
    values = [12.0, 11.0, 10.0, 9.0]
    other = column(record, "value", values)
    other = replace(other, trace=replace(other.trace, main=METRICS["perplexity"]()))
    other = extra(asked(other, before=11.0, after=12.0), final=9.0)
    assert fault(other) is None
    assert "perplexity has -1" in fault(column(other, "value", [-1.0, 11.0, 10.0, 9.0]))


def test_lanes_have_rounds_and_times_of_their_own(record):
    """Two lanes in turn, with their names; a lane's own time does not fall."""
    points = record.trace.points
    names = ("a", "a", "b", "b")
    lanes = [
        replace(point, lane=lane, round=number, own=0.5)
        for point, lane, number in zip(points, names, (1, 2, 1, 2), strict=True)
    ]
    two = replace(record, trace=replace(record.trace, points=tuple(lanes)))
    assert "order" not in said(two)
    assert "falls" not in said(two)
    wrong = tuple(replace(point, round=3 - point.round) for point in lanes)
    assert "its rounds are not in their order" in said(replace(two, trace=replace(two.trace, points=wrong)))
    turned = tuple(replace(point, time=-point.time) for point in lanes)
    assert "its time falls" in said(replace(two, trace=replace(two.trace, points=turned)))
