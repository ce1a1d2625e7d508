"""The record of a run: what came after a request, what it took, what went wrong, what it was made of."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

import unknot
from support import small_data, toy_federation
from unknot.core.errors import ConfigError
from unknot.core.jobs import Score
from unknot.core.metrics import Metric
from unknot.core.requests import erase
from unknot.experiments import Experiment, run
from unknot.federation import Begun, Costs, Ended, History, Round, Served
from unknot.federation.describe import describe, plain
from unknot.federation.events import NOTHING_LEFT
from unknot.federation.history import REGAINED
from unknot.select import DQN, KCenter
from unknot.unlearn import RFS


def score(accuracy):
    return {} if accuracy is None else {"validation": Score({"accuracy": accuracy}, 1.0, 100)}


def round_(lane, number, time, accuracy, jobs=0, used=2, **set_aside):
    return Round(
        lane=lane,
        round=number,
        version=number,
        time=time,
        clients=(0,),
        staleness=0.0,
        train_loss=1.0,
        used=used,
        set_aside={name.replace("_", " "): count for name, count in set_aside.items()},
        scores=score(accuracy),
        costs=Costs(jobs, 2.0 * jobs),
    )


def served(place, time, before, after, jobs=0, number=1):
    return Served(
        kind="erase",
        asked=((3, None),),
        clients=(3,),
        time=time,
        round=number,
        place=place,
        restarted=(),
        cancelled=(),
        purged=0,
        before=score(before),
        after=score(after),
        costs=Costs(jobs, 2.0 * jobs),
    )


def history(rounds, *requests):
    return History(Begun("knot", "exact", 0), list(rounds), list(requests))


# The request is the slow lane's, after its first round; the fast one has had four by then.
LANES = history(
    [
        *(round_("fast", n, float(n), 0.5 + n / 10, n) for n in (1, 2, 3, 4)),
        round_("slow", 1, 4.5, 0.9, 5),
        round_("slow", 2, 8.0, 0.4, 6),
        round_("fast", 5, 9.0, 0.6, 7),
        round_("fast", 6, 10.0, 0.895, 8),
        round_("slow", 3, 11.0, 0.9, 9),
    ],
    served(5, 5.0, 0.9, 0.3, 5),
)


# Names ------------------------------------------------------------------------------------------


def asked(kind, *who, left=None):
    """A run of one request for these, each with how many samples; of `left` something was left to do."""
    clients = tuple(client for client, _ in who) if left is None else left
    made = history([], replace(served(0, 1.0, 0.9, 0.3), kind=kind, asked=who, clients=clients))
    made.begun = replace(made.begun, names={0: "Wien", 2: "client 5"})
    return made


@pytest.mark.parametrize(
    ("made", "words", "numbers"),
    [
        (asked("erase", (0, 2)), "erase 2 samples of Wien", "erase 2 samples of client 0"),
        (asked("erase", (0, None), (1, None)), "erase Wien, client 1", "erase client 0, client 1"),
        (asked("join", (0, None), (2, None), left=(2,)), "join Wien, client 5", "join client 0, client 2"),
        (
            asked("erase", (2, 1), left=()),
            f"erase 1 sample of client 5{NOTHING_LEFT}",
            f"erase 1 sample of client 2{NOTHING_LEFT}",
        ),
    ],
)
def test_a_request_has_words_with_names_for_who_has_one_and_by_number(made, words, numbers):
    assert (made.told(made.served[0]), made.served[0].request) == (words, numbers)
    assert words in repr(made)
    found = made.to_dict()
    assert {one["request"] for one in (*found["requests"], *found["recoveries"])} == {words}
    again = History.of(json.loads(json.dumps(found)))
    assert (again.told(again.served[0]), again.to_dict()) == (words, found)


def test_who_writes_down_what_happens_has_a_number_for_who_leaves():
    made = asked("erase", (0, None))
    assert made.begun.told(made.served[0]) == "erase client 0"
    some = replace(made.served[0], asked=((0, 1),), samples=(1,))
    assert made.begun.told(some) == "erase 1 sample of Wien"


# Recovery ---------------------------------------------------------------------------------------


def test_the_rounds_of_a_recovery_are_the_most_of_one_lane_since_the_request():
    (request,) = LANES.served
    found = LANES.recovery(request)
    assert (found.fraction, found.target) == (REGAINED, pytest.approx(REGAINED * 0.9))
    # 0.895 is the fast lane's second since: 10 - 5 s, and 2 × (8 - 5) epochs.
    assert (found.reached, found.rounds, found.seconds, found.client_epochs) == (True, 2, 5.0, 6.0)
    whole = LANES.recovery(request, 1.0)
    assert (whole.reached, whole.rounds, whole.seconds) == (True, 2, 6.0)
    never = LANES.recovery(request, 2.0)
    assert (never.reached, never.rounds, never.seconds, never.client_epochs) == (False, 2, 6.0, 8.0)


def test_rounds_of_a_lane_with_fewer_of_them_come_after_a_request_too():
    """The fast lane has had four rounds, and stands still from then on; the slow one has its second."""
    made = history(LANES.rounds[:6], served(5, 5.0, 0.9, 0.3, 5, number=4))
    found = made.recovery(made.served[0])
    assert (found.reached, found.rounds, found.seconds, found.client_epochs) == (False, 1, 3.0, 2.0)
    assert made.recovery(made.served[0], 0.4).reached


def test_what_was_never_lost_takes_nothing_to_regain():
    made = history(LANES.rounds, served(5, 5.0, 0.9, 0.9, 5))
    found = made.recovery(made.served[0])
    assert (found.reached, found.rounds, found.seconds, found.client_epochs) == (True, 0, 0.0, 0.0)


def test_the_record_has_the_fraction_that_the_text_has():
    (found,) = LANES.to_dict()["recoveries"]
    assert found == asdict(LANES.recovery(LANES.served[0]))
    assert found["fraction"] == REGAINED


def test_events_are_in_the_order_in_which_they_happened_whatever_lanes_take_for_the_time():
    behind = round_("slow", 4, 9.5, 0.9, 9)  # it waited at 9 s while the other went on to 11 s
    made = history([*LANES.rounds, behind], *LANES.served, served(9, 11.0, 0.9, 0.2, 9))
    assert made.events == [
        *made.rounds[:5],
        made.served[0],
        *made.rounds[5:9],
        made.served[1],
        behind,
    ]
    assert made.since_request == [behind]
    assert LANES.since_request == LANES.rounds[5:]
    assert history(LANES.rounds).since_request == LANES.rounds


@pytest.fixture(scope="module")
def clusters():
    """Three clusters at a buffered pace; client 1 loses samples, client 5 leaves, client 7 comes."""
    table = {
        "data": {"partition": "iid", "clients": 9, "samples": 30, "validation": 50},
        "train": {"lr": 0.1, "batch_size": 10},
        "federation": {"seconds": 8.0, "pace": "buffered", "per_round": 6, "minimum": 1},
        "clock": {"slowness": "pareto", "cap": 8.0},
        "method": {"name": "knot", "clusters": 3, "by": "random"},
        "request": [
            {"erase": 1, "samples": [0, 1, 2], "time": 3.0},
            {"erase": 5, "time": 4.0},
            {"join": 7, "time": 5.0},
        ],
    }
    return table, run(Experiment.of(table))


def test_a_request_counts_the_rounds_of_the_lanes_that_it_concerns(clusters):
    _, made = clusters
    done = [
        {name: sum(r.lane == name for r in made.rounds[: request.place]) for name in made.members}
        for request in made.served
    ]
    assert all(len(set(counts.values())) > 1 for counts in done), "the lanes are not apart: nothing is shown"
    for request, counts in zip(made.served, done, strict=True):
        assert all(r.time <= request.time for r in made.rounds[: request.place])
        assert all(r.time >= request.time for r in made.rounds[request.place :])
        assert request.round == max(counts[name] for name in request.lanes or counts)
    assert [request.lanes for request in made.served[:2]] == [
        tuple(name for name, clients in made.members.items() if client in clients) for client in (1, 5)
    ]
    assert any(
        request.round < max(counts.values()) for request, counts in zip(made.served, done, strict=True)
    )
    assert made.served[2].lanes == ()


def test_the_record_says_who_is_where_and_what_was_erased_of_whom(clusters):
    _, made = clusters
    some, whole, late = made.served
    assert sorted(client for clients in made.members.values() for client in clients) == [
        *range(7),
        8,
    ]
    assert (some.samples, some.parts, some.leavers, some.left) == ((3,), {1: 3}, (), {})
    assert (whole.samples, whole.parts, whole.leavers) == ((None,), {}, (5,))
    assert whole.left == {whole.lanes[0]: (5,)}
    assert (late.samples, late.leavers, late.parts, late.left) == ((), (), {}, {})
    assert list(late.entered.values()) == [(7,)]


# What it was made of ----------------------------------------------------------------------------


def test_a_run_from_a_file_can_be_repeated_from_its_record(clusters):
    table, made = clusters
    record = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert record["experiment"] == table
    again = run(Experiment.of(record["experiment"]))
    assert again.to_dict()["model"] == record["model"]
    changed = run(Experiment.of(record["experiment"], ["train.lr=0.2", "seed=3"]))
    assert (changed.experiment["train"]["lr"], changed.experiment["seed"]) == (0.2, 3)
    assert table["train"]["lr"] == 0.1


def test_a_changed_copy_of_an_experiment_does_not_pass_for_its_file():
    from dataclasses import replace

    made = Experiment.of({"seed": 4})
    assert made.table == {"seed": 4}
    assert replace(made, name="x").table == {}
    assert made == replace(made)


def test_a_run_from_python_says_how_it_was_set_up():
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=4, samples=20), validation=50)
    fed = unknot.simulate("mlp", data, method="fedcio", seed=7, select=KCenter(groups=2))
    setup = fed.run(1, requests=[]).to_dict()["setup"]
    json.dumps(setup, allow_nan=False)
    assert setup["method"] | {"name": "fedcio"} == setup["method"]
    assert setup["method"]["clusters"] == fed.method.clusters
    assert setup["recipe"]["optimizer"]["kind"] == "SGD"
    assert setup["recipe"]["optimizer"]["lr"] == fed.state.recipe.optimizer.lr
    assert setup["pace"] == {"kind": "Synchronous", "per_round": None}
    assert setup["aggregate"] == {"kind": "FedAvg"}
    assert setup["clock"]["slowness"] == {"kind": "Constant", "factor": 1.0}
    assert setup["select"] == {"kind": "KCenter", "groups": 2, "when": "always"}
    assert setup["seed"] == 7
    assert (
        sum(math.prod(shape) for shape in setup["model"]["layout"].values()) == setup["model"]["parameters"]
    )
    assert setup["data"] | {"name": "digits", "clients": 4, "samples": 80, "validation": 50} == setup["data"]


def test_what_was_learned_is_no_setting():
    class Learned:
        lineage = frozenset({3})

    found = plain(DQN(policy=Learned()))
    assert set(found) == {"kind", "settings"}
    assert plain((1, math.inf, {"a": {2}}, describe)) == [1, "inf", {"a": [2]}, {"kind": "describe"}]


# Warnings ---------------------------------------------------------------------------------------


def test_a_run_most_of_whose_updates_were_set_aside_says_so():
    bad = history([round_("global", n, float(n), 0.1, used=0, not_finite=4) for n in range(1, 6)])
    assert bad.warnings == ["20 of 20 updates were set aside (not finite): the learning rate may be too high"]
    assert bad.to_dict()["warnings"] == bad.warnings
    half = history([round_("global", n, float(n), 0.1, used=2, wrong_shape=2) for n in range(1, 6)])
    assert half.warnings == ["10 of 20 updates were set aside (wrong shape)"]
    less = history([round_("global", n, float(n), 0.1, used=3, wrong_shape=2) for n in range(1, 6)])
    assert less.warnings == []


def test_what_is_set_aside_since_the_last_request_counts_by_itself():
    well = [round_("global", n, float(n), 0.9, used=4) for n in range(1, 9)]
    ill = [round_("global", n, float(n), 0.1, used=1, not_finite=3) for n in (9, 10)]
    assert history(well + ill).warnings == []
    (text,) = history(well + ill, served(8, 8.0, 0.9, 0.1)).warnings
    assert text.startswith("6 of 8 updates since the last request were set aside (not finite)")


def test_a_lane_that_has_come_to_a_stand_is_named():
    well = [round_("cluster 0", n, float(n), 0.9, used=9) for n in range(1, 9)]
    stands = [
        round_("cluster 1", 1, 1.0, 0.9, used=1),
        round_("cluster 1", 2, 2.0, 0.9, used=0, not_finite=1),
        round_("cluster 1", 3, 3.0, 0.9, used=0),  # it asked a client that holds nothing
        *(round_("cluster 1", n, float(n), 0.9, used=0, not_finite=1) for n in (4, 5)),
    ]
    (text,) = history(well + stands).warnings
    assert text.startswith("cluster 1 used no update in its last 3 rounds (not finite)")
    assert history(well + stands[:-1]).warnings == []
    empty = [round_("cluster 1", n, float(n), 0.9, used=0) for n in range(1, 9)]
    assert history(well + empty).warnings == []


def test_a_diverging_rate_ends_with_a_warning_and_a_usual_one_without():
    def warned(rate):
        table = {
            "data": {"partition": "iid", "clients": 4, "samples": 20, "validation": 20},
            "train": {"lr": rate, "batch_size": 5},
            "federation": {"rounds": 4},
        }
        return run(Experiment.of(table))

    assert warned(0.1).warnings == []
    (text,) = warned(1e30).warnings
    assert text.startswith("16 of 16 updates were set aside (not finite)")


def ended(loss, initial=None, seen=()):
    made = history([round_("global", n, float(n), 0.1) for n in range(1, 1 + len(seen))])
    for record, one in zip(made.rounds, seen, strict=True):
        record.scores["validation"] = Score({"accuracy": 0.1}, one, 100)
    began = {} if initial is None else {"validation": Score({"accuracy": 0.1}, initial, 100)}
    made.ended = Ended(scores={"validation": Score({"accuracy": 0.1}, loss, 100)}, initial=began)
    return made


def test_a_loss_of_ten_times_that_of_the_initial_model_is_a_run_that_diverged():
    assert ended(512.19, 2.36, [0.45]).warnings == [
        "the loss on the validation data is 512.2 at the end, more than 10 times the 2.36 of the model that "
        "it began with: it has diverged; the learning rate may be too high"
    ]
    assert ended(2.36, 2.36, [0.01]).warnings == []  # it begins again
    assert ended(23.0, 2.36, [0.01]).warnings == []
    assert ended(9e5, 1e5).warnings == []  # of a regression
    assert ended(1.0, -3.0).warnings == ended(1.0, 0.0).warnings == []


def test_where_the_initial_model_was_not_measured_the_least_loss_counts():
    (text,) = ended(4.6, seen=[2.0, 0.45, 3.0]).warnings
    assert "more than 10 times the 0.45 that it had been" in text
    assert ended(4.4, seen=[2.0, 0.45]).warnings == ended(4.4).warnings == []


@pytest.mark.parametrize("rate", [0.1, 30.0])
def test_a_run_whose_numbers_stay_finite_says_that_it_diverged(rate):
    made = unknot.simulate("mlp", DATA, recipe=unknot.Recipe(unknot.SGD(rate))).run(
        3, requests=[unknot.erase(1, round=3)]
    )
    assert made.warnings == []  # at the end it begins again
    made = unknot.simulate("mlp", DATA, recipe=unknot.Recipe(unknot.SGD(rate))).run(3)
    assert made.initial["validation"].loss == pytest.approx(2.3, abs=0.2)
    assert [("diverged" in text) for text in made.warnings] == [True] * (rate > 1)
    assert History.of(made.to_dict()).warnings == made.warnings


def test_a_regression_that_learns_has_not_diverged():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    y = 50.0 + x.sum(1)
    data = unknot.clients({"a": (x[:30], y[:30]), "b": (x[30:], y[30:])}, validation=(x, y), test=(x, y))
    made = unknot.simulate("mlp", data, recipe=unknot.Recipe(unknot.SGD(0.001))).run(
        4, requests=[unknot.erase("a", round=4)]
    )
    assert made.warnings == []


def nowhere(outputs, targets):
    return math.nan


DATA = unknot.federate("digits", unknot.Iid(clients=3, samples=20))


def test_a_metric_that_is_no_number_is_said_once_and_reaches_nothing():
    fed = unknot.simulate("mlp", DATA, metrics=[nowhere, "accuracy"])
    history = fed.run(3, goal=0.1, window=2, deviation=1.0)
    assert (history.stopped, len(history.rounds)) == ("rounds", 3)
    assert [w for w in history.warnings if "nowhere" in w] == history.warnings
    assert history.warnings[0].startswith("the metric 'nowhere' is no finite number (nan on the validation")
    assert len(history.warnings) == 1
    assert history.warnings[0] in repr(history)
    assert history.to_dict()["scores"]["test"]["metrics"]["nowhere"] is None


def test_one_value_that_is_no_number_keeps_a_run_from_being_settled():
    length = unknot.Length(5, accuracy=0.5, window=2, deviation=0.1)
    assert not length.reached(history([round_("a", 1, 1, math.inf), round_("a", 2, 2, 0.9)]))
    assert length.reached(history([round_("a", 1, 1, 0.9), round_("a", 2, 2, 0.9)]))
    assert history([]).metric.best([math.nan, 0.5]) == 0.5


def test_when_everybody_is_erased_it_is_said_in_a_sentence():
    made = unknot.simulate("mlp", DATA).run(3, requests=[unknot.erase([0, 1, 2], round=1)])
    told = "no clients are left, everybody was erased: the run ended before its time, and what is served has "
    assert made.warnings == [told + "learned from nobody"]
    assert made.warnings[0] in repr(made)


def test_what_a_setup_or_a_length_does_not_have_is_named():
    with pytest.raises(ConfigError) as caught:
        unknot.simulate("mlp", DATA, metric=["accuracy"])
    assert (caught.value.key, caught.value.nearest) == ("metric", "metrics")
    for wrong, right in (("round", "rounds"), ("request", "requests")):
        with pytest.raises(ConfigError) as caught:
            unknot.simulate("mlp", DATA).run(3, **{wrong: 3})
        assert (caught.value.key, caught.value.nearest) == (wrong, right)


class Lenient(Metric):
    """A metric of somebody's own, which says itself what counts as regained."""

    name, kinds, share = "lenient", ("classes",), True

    def tally(self, said):
        return 1.0

    def value(self, tallies):
        return 0.5

    def regained(self, before, fraction):
        return 0.25


def test_a_metric_of_ones_own_says_what_is_regained():
    history = toy_federation(RFS(), small_data(), metrics=(Lenient(),)).run(2, requests=erase(1, round=1))
    assert [one.target for one in history.recoveries] == [0.25]
