"""Reproductions that count simulated time: from histories made by hand to measures, curves and findings."""

import math
import tomllib
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from unknot.core.errors import ConfigError
from unknot.core.jobs import Score
from unknot.core.metrics import METRICS
from unknot.core.requests import erase
from unknot.experiments.courses import lanes_between
from unknot.experiments.scenario import LearningCurve, scenario
from unknot.federation.events import Begun, Costs, Ended, Round, Served
from unknot.federation.history import History
from unknot.report.times import start_rows
from unknot.reproduce import findings, load, records_file, reproduce
from unknot.reproduce import records as stored
from unknot.reproduce.reproduction import Reproduction

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PERPLEXITY = METRICS["perplexity"]()

PANEL = {"published": {}, "thresholds": [0.6], "metric": "accuracy", "labels": {}}
PLAN = """
title = "Clusters recover sooner"
figure = "Figure 0"
claim = "The paper finds that clusters save time."
seeds = [0, 1]
axis = "time"
baseline = "fedbuff"
bars = ["seconds", "speedup"]

[base]
request = [{ erase = 3, time = 10 }]
data = { partition = "iid", clients = 8, samples = 40, validation = 0, test_samples = 40 }
train = { lr = 0.1, batch_size = 20 }
federation = { pace = "buffered", per_round = 6, minimum = 3, seconds = 20, evaluate_on = ["test"] }
clock = { slowness = "uniform", low = 1, high = 3, seconds_per_sample = 0.01 }
engine = { threads = 1 }

[scale.small]

[[claims]]
says = "Clusters take at least 45 % less time"
measure = "seconds"
less = 0.45
lines = ["random"]
than = "fedbuff"

[[panel]]
name = "digits"
title = "digits"
thresholds = [0.6]
published = { random = "72 % less" }

[[line]]
name = "fedbuff"
label = "FedBuff"
method = { name = "rfs" }

[[line]]
name = "random"
label = "random clusters"
method = { name = "knot", clusters = 2, by = "random" }
"""


def plan(change=lambda table: None, name="timed") -> Reproduction:
    table = tomllib.loads(PLAN)
    change(table)
    return Reproduction.of(table, name)


def score(value: float | None, perplexity: bool, validation: float | None = None) -> dict[str, Score]:
    """On test data and, where not said otherwise as well, on validation data."""

    def one(value: float) -> Score:
        if perplexity:
            return Score({"accuracy": 0.5}, math.log(value), 100)
        return Score({"accuracy": value}, 1.0, 100)

    if value is None:
        return {}
    return {"test": one(value), "validation": one(value if validation is None else validation)}


def history(*events, perplexity=False) -> History:
    """Of (time, served) or (time, served, lane, own); a request is (time, before, after, restarted lanes)."""
    made = History(Begun("knot", "exact", 0))
    done: dict[str, int] = {}
    for jobs, event in enumerate(events, start=1):
        time, value, *more = event
        costs = Costs(jobs=jobs, client_epochs=2.0 * jobs, bytes_down=jobs, bytes_stored=1)
        if more and not isinstance(more[0], str):
            after, lanes = more
            served = {
                "before": score(value, perplexity),
                "after": score(after, perplexity),
                # Serving trains nothing: the jobs are those of the round before.
                "costs": Costs(jobs=jobs - 1, client_epochs=2.0 * jobs - 2),
            }
            place = {"time": float(time), "round": max(done.values(), default=0), "place": len(made.rounds)}
            who = {"kind": "erase", "asked": ((3, None),), "clients": (3,)}
            made.served.append(Served(restarted=lanes, cancelled=(), purged=0, **who, **place, **served))
            continue
        lane, own = more or ("global", None)
        done[lane] = done.get(lane, 0) + 1
        made.rounds.append(
            Round(
                lane=lane,
                round=done[lane],
                version=done[lane],
                time=float(time),
                clients=(0,),
                staleness=0.0,
                train_loss=1.0,
                used=1,
                set_aside={},
                scores=score(value, perplexity),
                costs=costs,
                own=score(own, perplexity),
            )
        )
    return made


LANES = (
    (4, 0.50, "a", 0.40),
    (6, 0.70, "b", 0.60),
    (10, 0.70, 0.45, ("a",)),
    (12, 0.62, "b", 0.66),
    (14, 0.58, "a", 0.20),
    (16, 0.65, "b", 0.67),
    (18, 0.59, "a", 0.55),
    (20, 0.66, "b", 0.66),
    (22, 0.70, "a", 0.60),
    (24, 0.72, "b", 0.665),
)

STEADY = (*LANES, (26, 0.73, "b", 0.66), (28, 0.74, "a", 0.62), (30, 0.75, "b", 0.68))
"""With five reports of b since the request, at 26 s, and six at 30 s."""


# Measures ---------------------------------------------------------------------------------------


def test_first_reached_reached_for_good_and_the_stopping_rule():
    (outcome,) = scenario(history(*STEADY), [0.4, 0.6, 0.665, 0.68, 0.9]).outcomes
    there, some, most, late, never = outcome.reached
    assert outcome.time == 10.0
    assert (there.seconds, there.kept) == (0.0, 0.0)  # 0.45 right after the request
    assert (some.seconds, some.kept) == (2.0, 10.0)  # 0.62 at 12 s, lost at 14 and 18 s, kept from 20 s
    assert (late.seconds, late.kept) == (12.0, 12.0)
    assert (never.seconds, never.kept, never.stopped) == (None, None, None)
    # b's own since the request: 0.66, 0.67, 0.66, 0.665, 0.66 (at 26 s), 0.68 (at 30 s).
    assert some.stopped == 16.0
    assert most.stopped == late.stopped == 20.0
    (early,) = scenario(history(*LANES), [0.6]).outcomes
    assert early.reached[0].stopped is None  # four reports are no window, however many the others had
    assert LearningCurve.of(history(*LANES)).watched(0) is None
    assert LearningCurve.of(history(*STEADY)).watched(0) == 16.0


def test_a_lane_that_has_reported_once_is_not_steady_because_others_report():
    """Else its one value would stand in for five, and how steady it is would say nothing."""
    often = ((11.0 + i / 2, 0.6, "b", 0.55) for i in range(6))
    made = history(*LANES[:3], (10.5, 0.6, "a", 0.66), *often, (20, 0.6, "a", 0.67))
    fifty, sixty = scenario(made, [0.5, 0.6]).outcomes[0].reached
    assert (fifty.stopped, sixty.stopped) == (None, None)
    assert LearningCurve.of(made).watched(0) == 3.0  # b could have met it then, were it the best


def test_the_stopping_rule_goes_by_validation_data_and_the_last_aggregation_is_on_test_data():
    made = history(*STEADY)
    for record in made.rounds:
        record.own["validation"] = Score({"accuracy": record.own["test"].value + 0.1}, 1.0, 100)
    (outcome,) = LearningCurve.of(made).outcomes([0.6, 0.77, 0.79])
    some, more, never = outcome.reached
    # b on validation data: 0.76 at 26 s, when 0.73 is served on test data; 0.78 at 30 s, 0.75 served.
    assert (some.stopped, some.aggregated) == (16.0, 0.73)
    assert (more.stopped, more.aggregated) == (20.0, 0.75)
    assert (never.stopped, never.aggregated) == (None, None)


def test_without_validation_data_nothing_is_said_of_the_stopping_rule(tmp_path):
    made = [history(*LANES), history(*LANES)]
    for record in (record for one in made for record in one.rounds):
        record.scores.pop("validation"), record.own.pop("validation")
    trace = LearningCurve.of(made[0])
    assert not trace.judged
    assert trace.outcomes([0.6])[0].reached[0].stopped is None
    assert trace.outcomes([0.6])[0].reached[0].seconds == 2.0
    (line,) = found(tmp_path, {"random": made}).panels[0].lines
    assert not line.judged
    header, (row,) = start_rows({**PANEL, "lines": [asdict(line)]}, None)
    said = dict(zip(header, row, strict=True))
    assert said["from start to 60 %"] == "12.0 ± 0.0"
    assert (said["from start to stopping rule"], said["served then"]) == ("–", "–")


def test_what_is_below_at_the_end_was_not_kept():
    (outcome,) = scenario(history(*LANES[:7]), [0.6]).outcomes
    assert (outcome.reached[0].seconds, outcome.reached[0].kept) == (2.0, None)


def test_a_single_lane_stops_by_what_is_served():
    # Deviation over 0.62, 0.58, 0.65, 0.66, 0.66 is 0.031; over the last five, 0.65 to 0.66, 0.005.
    values = (0.62, 0.58, 0.65, 0.66, 0.66, 0.65, 0.66)
    served = history((5, 0.7), (10, 0.7, 0.1, ()), *((12 + i, value) for i, value in enumerate(values)))
    assert scenario(served, [0.6]).outcomes[0].reached[0].stopped == 8.0


def test_another_request_ends_what_is_followed():
    twice = history(*LANES[:5], (15, 0.58, 0.1, ("a", "b")), *STEADY[5:])
    first, second = scenario(twice, [0.6]).outcomes
    assert (first.reached[0].seconds, first.reached[0].kept) == (2.0, None)
    # From 15 s: 0.65 at 16 s, 0.59 at 18 s, 0.66 at 20 s; b's own five reports end at 30 s, on
    # 0.67, 0.66, 0.665, 0.66, 0.68.
    assert (second.reached[0].seconds, second.reached[0].kept, second.reached[0].stopped) == (1.0, 5.0, 15.0)


def test_less_perplexity_is_better():
    made = history(
        (5, 50.0, "a", 60.0),
        (10, 50.0, 200.0, ("a",)),
        (12, 90.0, "b", 88.0),
        (14, 130.0, "a", 300.0),
        (16, 95.0, "b", 87.5),
        (18, 80.0, "a", 120.0),
        (20, 70.0, "b", 88.0),
        (22, 70.0, "b", 87.0),
        (24, 70.0, "b", 87.8),
        perplexity=True,
    )
    trace = LearningCurve.of(made)
    (outcome,) = trace.outcomes([100.0, 87.6, 60.0], metric=PERPLEXITY)
    hundred, close, never = outcome.reached
    assert (outcome.before, outcome.after, outcome.end) == pytest.approx((50.0, 200.0, 70.0))
    assert (hundred.rounds, hundred.seconds, hundred.kept, hundred.stopped) == (1, 2.0, 6.0, 14.0)
    assert (close.seconds, close.stopped) == (8.0, None)  # steady at 24 s, at 87.8; 87 was at 22 s
    assert (never.seconds, never.kept, never.stopped) == (None, None, None)


def test_a_model_that_has_diverged_is_worse_than_any_threshold():
    for loss in (math.nan, math.inf, 1e9):
        made = history((5, 0.5), (10, 0.5, 0.1, ()), (12, 0.1))
        made.rounds[-1].scores["test"] = Score({"accuracy": 0.1}, loss, 100)
        (outcome,) = LearningCurve.of(made).outcomes([1e6], metric=PERPLEXITY)
        assert outcome.end > 1e40
        assert outcome.reached[0].kept is None


# Over time --------------------------------------------------------------------------------------


def found(tmp_path, histories, change=lambda table: None):
    """The findings from histories by line, one a seed."""
    made = plan(change)
    file = records_file(made, "small", tmp_path)
    for run in made.runs("small"):
        if run.seed < len(histories.get(run.line.name, ())):
            stored.add(file, stored.Record.of(run, histories[run.line.name][run.seed], {}))
    return findings(made, "small", file)


def at(curve, moment):
    """Mean, low and high at the last point of the grid up to a moment."""
    place = int(np.searchsorted(curve.at, moment, side="right")) - 1
    return pytest.approx((curve.mean[place], curve.low[place], curve.high[place]))


def test_step_functions_of_the_seeds_on_one_grid(tmp_path):
    seeds = [history((0, 0.2), (10, 0.4), (20, 0.6)), history((5, 0.3), (15, 0.5), (30, 0.7))]
    (line, *_) = found(tmp_path, {"fedbuff": seeds}).panels[0].lines
    curve = line.curve
    assert (curve.at[0], curve.at[-1], len(curve.at)) == (5.0, 20.0, 300)
    assert at(curve, 5.0) == (0.25, 0.2, 0.3)
    assert at(curve, 12.0) == (0.35, 0.3, 0.4)
    assert at(curve, 20.0) == (0.55, 0.5, 0.6)
    assert not line.lanes


def test_the_band_is_from_the_least_to_the_greatest_lane(tmp_path):
    other = [(*event[:3], event[3] + 0.1) if isinstance(event[2], str) else event for event in LANES]
    (line,) = found(tmp_path, {"random": [history(*LANES), history(*other)]}).panels[0].lines
    assert line.lanes
    assert at(line.curve, 7.0) == (0.7, 0.45, 0.65)
    assert 10.0 in line.curve.at  # what the request did at once is on the grid
    assert at(line.curve, 10.0) == (0.45, 0.65, 0.65)  # a begins again, and b is as it was
    assert at(line.curve, 13.0) == (0.62, 0.71, 0.71)
    assert at(line.curve, 15.0) == (0.58, 0.25, 0.71)
    assert len(line.curve.at) <= 301


def test_a_seed_in_which_no_cluster_began_again_had_nothing_to_unlearn(tmp_path):
    untouched = [
        (*event[:3], ()) if len(event) == 4 and isinstance(event[3], tuple) else event for event in LANES
    ]
    (line,) = found(tmp_path, {"random": [history(*LANES), history(*untouched)]}).panels[0].lines
    assert line.spared == (1,)
    (line,) = found(tmp_path / "2", {"random": [history(*untouched), history(*untouched)]}).panels[0].lines
    assert line.spared == (), "records of before it was noted are alike"


def test_where_all_lanes_begin_again_there_is_what_is_served():
    trace = LearningCurve.of(history(*LANES[:2], (10, 0.7, 0.1, ("a", "b")), *LANES[3:]))
    low, high = lanes_between(trace, METRICS["accuracy"], np.array([9.0, 11.0, 12.5]))
    assert low.tolist() == [0.4, 0.1, 0.66]
    assert high.tolist() == [0.6, 0.1, 0.66]


# From records to findings -----------------------------------------------------------------------


SLOW = ((5, 0.7), (10, 0.7, 0.1, ()), (30, 0.5), (50, 0.65))
SLOWER = ((5, 0.7), (10, 0.7, 0.1, ()), (30, 0.5), (54, 0.65))
SOONER = (*LANES[:3], (20, 0.61, "b", 0.6))


def test_measures_by_line_and_over_the_baseline(tmp_path):
    made = [history(*STEADY), history(*SOONER)]
    choices = {
        "mean": {
            "test": Score({"accuracy": 0.72}, 1.0, 100),
            "validation": Score({"accuracy": 0.1}, 9.0, 10),
        },
        "best": {"test": Score({"accuracy": 0.66}, 1.0, 100)},
    }
    made[0].ended = Ended(scores={"test": Score({"accuracy": 0.72}, 1.0, 100)}, choices=choices)
    result = found(tmp_path, {"fedbuff": [history(*SLOW), history(*SLOWER)], "random": made})
    fedbuff, random = result.panels[0].lines
    assert fedbuff.by_seed["seconds"] == {0: 40.0, 1: 44.0}
    assert fedbuff.by_seed["total"] == {0: 50.0, 1: 54.0}
    assert fedbuff.by_seed["speedup"] == {0: 1.0, 1: 1.0}
    assert fedbuff.by_seed["stopped"] == fedbuff.by_seed["finished"] == {0: None, 1: None}
    assert random.by_seed["finished"] == {0: 26.0, 1: None}
    assert random.by_seed["aggregated"] == {0: 0.73, 1: None}
    assert random.by_seed["before"] == {0: 0.7, 1: 0.7}
    assert random.by_seed["seconds"] == {0: 2.0, 1: 10.0}
    assert random.by_seed["kept"] == {0: 10.0, 1: 10.0}
    assert random.by_seed["speedup"] == {0: 50 / 12, 1: 54 / 20}
    assert random.by_seed["final"] == {0: 0.72, 1: None}
    assert {name: stat.mean for name, stat in random.choices.items()} == {"mean": 0.72, "best": 0.66}
    (after,) = random.after
    assert (after.request, after.time) == ("leave 3", 10.0)
    assert (after.seconds[0].mean, after.total.mean, after.kept.mean) == (6.0, 16.0, 10.0)
    assert (after.stopped.mean, after.stopped.n, after.stopped.asked) == (16.0, 1, 2)
    (verdict,) = result.verdicts
    assert verdict.detail == "FedBuff 42.0, random clusters 6.0"
    assert verdict.comparisons[0].difference.mean == pytest.approx(86, abs=1)


def test_a_drawn_case_that_does_not_arrive_counts_until_the_end_of_its_own_run(tmp_path):
    """After one client has left 0.6 is there in 2 s, after the other not in 50 s."""
    draws = {"probabilities": [0.7, 0.3], "count": 10}
    made = plan(lambda t: t.update(draws=draws, seeds=[0]))
    counts = made.draws.leavers(0)
    assert len(counts) == 2, "both are drawn"
    begins = ((5, 0.7), (10, 0.7, 0.1, ()))
    there, never = history(*begins, (12, 0.7), (20, 0.7)), history(*begins, (12, 0.2), (60, 0.2))
    file = records_file(made, "small", tmp_path)
    for run in (run for run in made.runs("small") if run.line.name == "fedbuff"):
        first = run.case == "client 0 leaves"
        stored.add(file, stored.Record.of(run, there if first else never, {}))
    (line,) = findings(made, "small", file).panels[0].lines
    assert line.by_seed["seconds"] == {0: None}
    arrived, late = counts[0] / 10, counts[1] / 10
    assert line.partly["seconds"] == {0: pytest.approx(arrived * 2.0 + late * 50.0)}
    assert line.partly["total"] == {0: pytest.approx(arrived * 12.0 + late * 60.0)}
    assert line.partly["rounds"] == {0: pytest.approx(arrived * 1 + late * 2)}
    assert line.partly["stopped"] == {}, "no case arrives"
    assert line.ends["seconds"] == {0: pytest.approx(arrived * 10.0 + late * 50.0)}


def test_a_panel_by_perplexity(tmp_path):
    made = history((5, 50.0), (10, 50.0, 200.0, ()), (12, 90.0), perplexity=True)
    made.ended = Ended(scores={"test": Score({"accuracy": 0.5}, math.log(90), 100)})
    metric = {"metric": "perplexity", "thresholds": [100]}
    result = found(tmp_path, {"fedbuff": [made]}, lambda table: table["panel"][0].update(metric))
    (line,) = result.panels[0].lines
    assert (line.measures["seconds"].mean, line.measures["final"].mean) == pytest.approx((2.0, 90.0))
    assert line.after[0].first.mean == pytest.approx(200.0)
    assert at(line.curve, 10.0) == (200.0, 200.0, 200.0)
    assert result.panels[0].metric == "perplexity"


def test_without_the_baseline_there_is_no_speedup(tmp_path):
    (line,) = found(tmp_path, {"random": [history(*LANES)]}).panels[0].lines
    assert line.by_seed["speedup"] == {0: None}
    assert "speedup" not in line.measures


# What a file means ------------------------------------------------------------------------------


def first(change=lambda table: None):
    return plan(change).runs("small", [0])[0].experiment


def test_requests_by_time_and_by_round():
    assert first().requests == (erase(3, time=10.0),)
    assert (first().length.seconds, first().length.rounds) == (20.0, None)
    several = [{"erase": [5, 2], "round": 4}, {"erase": 3, "time": 12.5}]
    assert first(lambda t: t["base"].update(request=several)).requests == (
        erase([2, 5], round=4),
        erase(3, time=12.5),
    )
    mixed = {"phase": 6, "phases": 2, "request": [{"erase": 1, "phase": 1}, {"erase": 2, "time": 3}]}
    made = first(lambda t: t["base"].update(mixed))
    assert made.requests == (erase(1, round=6), erase(2, time=3.0))
    assert made.length.rounds == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["base"].update(request=[{"erase": 1}]), "a phase, a round or a time"),
        (lambda t: t["base"].update(request=[{"erase": 1, "time": 2, "round": 1}]), "give one of them"),
        (lambda t: t["base"].update(request=[{"erase": 1, "phase": 1}]), "phases, how many, are missing"),
        (lambda t: t["base"].update(request=[{"erase": 1, "time": 1, "after": 2}]), "counts from a phase"),
        (lambda t: t["base"].update(phases=2), "but phase, the rounds of one, is missing"),
        (lambda t: t["base"]["federation"].pop("seconds"), "how long?"),
        (lambda t: t.update(axis="hours"), "axis"),
        (lambda t: t.update(baseline="fedbuf"), "Did you mean 'fedbuff'"),
        (lambda t: t.pop("baseline"), "name it as baseline"),
        (lambda t: t["panel"][0].update(metric="perplexities"), "Did you mean 'perplexity'"),
        (lambda t: t["claims"][0].update(than="fedbuf"), "Did you mean 'fedbuff'"),
    ],
)
def test_a_wrong_file_says_what_to_change(change, message):
    with pytest.raises(ConfigError, match=message):
        first(change)


# Records ----------------------------------------------------------------------------------------


def test_what_another_reproduction_has_run_is_not_run_again(tmp_path):
    told = []
    short = {"seconds": 2, "evaluate_every": 0}

    def shared(table):
        table["base"]["federation"].update(short)
        table["base"].update(request=[])

    def using(table):
        shared(table)
        table["uses"] = ["first"]

    reproduce(plan(shared, "first"), out=tmp_path, seeds=[0], tell=told.append)
    assert len(told) == 2
    told.clear()
    second = plan(using, "second")
    file = reproduce(second, out=tmp_path, seeds=[0], tell=told.append)
    assert told == []
    assert not file.exists()
    lines = findings(second, "small", file, [0]).panels[0].lines
    assert [line.name for line in lines] == ["fedbuff", "random"]

    def changed(table):
        using(table)
        table["line"][1]["train"] = {"lr": 0.2}

    reproduce(plan(changed, "second"), out=tmp_path, seeds=[0], tell=told.append)
    assert told == ["2 of 2: digits/random/0"]  # only what is the same is taken over
    assert set(stored.read(file).records) == {"digits/random/0"}
    assert len(findings(plan(changed, "second"), "small", file, [0]).panels[0].lines) == 2
    told.clear()
    reproduce(plan(shared, "third"), out=tmp_path, seeds=[0], only=["fedbuff"], tell=told.append)
    assert told == ["1 of 1: digits/fedbuff/0"]  # and only by who says so


def test_records_from_before_there_were_lanes_still_count():
    file = RESULTS / "exact-fig7-paper.json.gz"
    result = findings(load("exact-fig7"), "paper", file)
    assert [len(panel.lines) for panel in result.panels] == [3, 3, 3]
    record = next(iter(stored.read(file).records.values()))
    assert {point.own for point in record.trace.points} == {None}
    written = stored.kept(file)[record.key]["trace"]
    assert [point.value for point in record.trace.points] == written["accuracy"]
    assert [point.client_epochs for point in record.trace.points] == written["client_epochs"]
    assert result.panels[0].lines[0].choices == {}
    assert result.axis == "rounds"


# Everything together ----------------------------------------------------------------------------


def test_from_a_file_to_a_page_and_a_figure(tmp_path):
    pytest.importorskip("matplotlib")
    from unknot.report.reproduction import write

    made = plan()
    file = reproduce(made, out=tmp_path)
    result = findings(made, "small", file)
    fedbuff, random = result.panels[0].lines
    assert (fedbuff.lanes, random.lanes) == (False, True)
    assert random.curve.at[-1] <= 20.0
    assert 10.0 in random.curve.at
    assert all(low <= high for low, high in zip(random.curve.low, random.curve.high, strict=True))
    assert {"mean", "ensemble"} <= set(random.choices)
    assert random.measures["final"].n == 2
    page, png, _ = write(result.to_dict(), tmp_path, "unknot reproduce timed.toml")
    text = page.read_text()
    assert "| random clusters | 72 % less |" in text
    assert "accuracy over simulated time" in text
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_panel_with_other_thresholds_shows_the_runs_of_the_first(tmp_path):
    def twice(table):
        table["base"]["federation"]["seconds"] = 12
        table["panel"].append({"name": "higher", "title": "a higher target", "thresholds": [0.7]})

    told = []
    file = reproduce(plan(twice), out=tmp_path, seeds=[0], tell=told.append)
    assert [text.split(": ")[1] for text in told] == ["digits/fedbuff/0", "digits/random/0"]
    panels = findings(plan(twice), "small", file, [0]).panels
    assert [panel.thresholds for panel in panels] == [(0.6,), (0.7,)]
    assert [len(panel.lines) for panel in panels] == [2, 2]


# Layers and likeness ----------------------------------------------------------------------------


def test_a_line_drops_settings_and_a_panel_changes_them_for_a_line():
    def change(table):
        table["line"][0].update(federation={"pace": "synchronous"}, drops=["federation.minimum"])
        table["panel"][0]["lines"] = {"random": {"federation": {"minimum": 2}}}

    fedavg, random = plan(change).runs("small", [0])
    assert (fedavg.experiment.setup.pace.per_round, hasattr(fedavg.experiment.setup.pace, "minimum")) == (
        6,
        False,
    )
    assert random.experiment.setup.pace.minimum == 2
    with pytest.raises(ConfigError, match="Did you mean 'random'"):
        plan(lambda t: t["panel"][0].update(lines={"randon": {}}))


def test_a_reproduction_like_another_has_its_setting_and_uses_its_runs():
    other, made = load("knot-fig5"), load("knot-table2")
    assert made.uses == ("knot-fig5", "knot-fig6a")
    assert [line.name for line in made.lines] == ["fedbuff", "federaser", "random", "knot"]
    assert (made.axis, made.base, made.seeds) == (other.axis, other.base, other.seeds)
    assert made.claims != other.claims
    text = load("knot-fig6a")
    tables = {(r.panel.name, r.line.name): r.table for plan in (text, other) for r in plan.runs("paper", [0])}
    shared = [run for run in made.runs("paper", [0]) if run.line.name != "federaser"]
    assert shared
    for run in shared:
        there = tables[run.panel.name, run.line.name]
        assert {k: v for k, v in run.table.items() if k != "name"} == {
            k: v for k, v in there.items() if k != "name"
        }
    panels = {panel.name: panel for panel in made.panels}
    assert set(panels["cifar10"].published) == {"fedbuff", "federaser", "random", "knot"}
    assert "fedavg" not in panels["cifar10"].lines  # a line that is not here
    assert load("knot-fig6b").panels[1].published == {}  # replaced, not merged
    with pytest.raises(ConfigError, match="Did you mean 'knot-fig5'"):
        Reproduction.of({"like": "knot-fig55"}, "mine")
