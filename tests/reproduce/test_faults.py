"""A record is of a run of its own configuration, as far as one can tell without running anything."""

import tomllib
from dataclasses import replace

import pytest
from altered_records import LONGER, asked, configured, record_of

from small_reproductions import RUNS
from unknot.reproduce import findings, reproduce
from unknot.reproduce.faults import fault
from unknot.reproduce.record_file import keep, kept
from unknot.reproduce.reproduction import Reproduction

TIMED = LONGER.replace("base.phases = 4", "").replace("scale.small.phase = 1", "scale.small = {}")
TIMED = TIMED.replace("federation = {", "federation = { seconds = 0.21,").replace("phase = 2", "time = 0.1")


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    return record_of(tmp_path_factory.mktemp("rounds"), LONGER)


@pytest.fixture(scope="module")
def seconds(tmp_path_factory):
    return record_of(tmp_path_factory.mktemp("seconds"), TIMED)


def cut(record, points, requests):
    trace = record.trace
    return replace(
        record, trace=replace(trace, points=trace.points[:points], requests=trace.requests[:requests])
    )


def test_a_sound_record_has_no_fault(rounds, seconds):
    assert (fault(rounds), fault(seconds)) == (None, None)
    assert len(rounds.trace.points) == 4
    assert seconds.guarantee != rounds.guarantee


def test_a_record_that_was_cut_short_is_none_of_its_configuration(rounds, seconds):
    assert "it ends after 3 of 4 rounds" in fault(cut(rounds, 3, 1))
    found = fault(cut(rounds, 1, 0))
    assert "it lacks the request erase client 1 (round 2)" in found
    assert "it ends after 1 of 4 rounds" in found
    assert fault(cut(seconds, len(seconds.trace.points) - 1, 1)) == (
        "its costs a round are not those of its rounds"
    )
    assert "it lacks the request erase client 1 (0.1 s)" in fault(cut(seconds, 1, 0))


def test_a_record_that_lacks_rounds_or_goes_on_too_long_is_none_of_its_configuration(rounds, seconds):
    points = rounds.trace.points
    without = replace(rounds, trace=replace(rounds.trace, points=points[:1] + points[2:]))
    assert "it lacks 1 of its 4 rounds" in fault(without)
    assert fault(configured(rounds, federation={"rounds": 3})) == "it goes on to round 4 of 3"
    assert "seconds" in fault(configured(seconds, federation={"seconds": 0.15}))


@pytest.mark.parametrize(
    "change", [{"kind": "join"}, {"clients": (2,)}, {"clients": (1, 2)}, {"round": 1}, {"round": 3}]
)
def test_another_request_than_is_configured_is_a_fault(rounds, change):
    found = fault(asked(rounds, **change))
    assert "it lacks the request erase client 1 (round 2)" in found
    assert "it has a request that is not configured: " in found


def test_a_request_at_a_time_is_served_at_that_time(seconds):
    assert "not configured: erase client 1 (round" in fault(asked(seconds, time=0.12))


def test_a_request_that_a_last_visit_takes_time_for_is_served_after_it(tmp_path):
    left = record_of(tmp_path, TIMED.replace('method = { name = "rfs" } }', 'method = { name = "pga" } }', 1))
    assert left.trace.requests[0].time > 0.1
    assert fault(left) is None
    assert "not configured" in fault(asked(left, time=0.05))


def test_a_run_that_may_stop_by_a_rule_of_its_own_may_stop_anywhere(rounds):
    goal = configured(rounds, federation={**rounds.config["federation"], "accuracy": 0.9})
    goal = replace(
        goal,
        guarantee=f"{rounds.guarantee}, but for when training stopped at its accuracy, "
        "which the erased data had a part in",
    )
    assert fault(goal) is None
    early = replace(cut(goal, 2, 1), rates=rounds.plain)
    assert fault(early) is None
    both = configured(rounds, federation={"rounds": 9, "seconds": 1.0})
    assert "round" not in fault(both).partition("guarantee")[0]


def test_a_run_that_nobody_is_left_for_ends_there(rounds):
    everybody = ({"erase": [0, 1, 2], "round": 2}, {"erase": 0, "round": 3})
    everyone = asked(rounds, clients=(0, 1, 2), request="erase client 0, client 1, client 2")
    alone = configured(everyone, request=list(everybody))
    assert fault(replace(cut(alone, 2, 1), rates=rounds.plain)) is None


def test_what_another_request_did_before_is_not_lacking(rounds):
    (first,) = rounds.trace.requests
    then = rounds.trace.points[2]
    second = replace(first, clients=(2,), request="erase client 1, client 2", round=3, place=3)
    second = replace(second, time=then.time, client_epochs=then.client_epochs)
    second = replace(second, before=then.value, before_loss=then.loss)
    twice = replace(rounds.trace, requests=(first, second))
    both = configured(rounds, request=[{"erase": 1, "round": 2}, {"erase": [1, 2], "round": 3}])
    assert fault(replace(both, trace=twice)) is None


def test_a_guarantee_that_the_method_no_longer_gives_is_a_fault(rounds):
    older = replace(rounds, guarantee="exact, in every way")
    assert fault(older) == "its guarantee is 'exact, in every way', and today's is 'exact'"


def test_a_line_shows_every_guarantee_that_its_records_have(tmp_path):
    plan = Reproduction.of(tomllib.loads(RUNS), "tiny")
    file = reproduce(plan, out=tmp_path, only=["rfs"])
    first = kept(file)["p/rfs/0"]
    assert findings(plan, "small", file).panels[0].lines[0].guarantee == "exact"
    keep(file, {**first, "guarantee": "exact, in every way"})
    assert findings(plan, "small", file).panels[0].lines[0].guarantee == "exact, in every way / exact"


def test_a_configuration_that_cannot_be_read_today_is_not_judged(rounds):
    assert fault(configured(cut(rounds, 1, 0), train={"lrr": 1})) is None
