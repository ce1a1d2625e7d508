"""One run over simulated time: rows, bars, bands by value; the file; the tables of several lanes."""

import io
import math
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from support import small_data, toy_federation
from unknot.core.errors import ConfigError
from unknot.core.jobs import Score
from unknot.core.requests import erase
from unknot.experiments import Experiment, prepare
from unknot.federation import Begun, Costs, Ended, History, Round, Served, Trip
from unknot.report import activity, timeline
from unknot.report.activity import Bar, Gone, Part, Row
from unknot.report.progress import Live
from unknot.report.summary import summary
from unknot.unlearn import RFS


def score(accuracy, split="validation"):
    return {} if accuracy is None else {split: Score({"accuracy": accuracy}, 1.0, 100)}


def round_(lane, number, time, served, own, *trips, jobs=0):
    return Round(
        lane=lane,
        round=number,
        version=number,
        time=time,
        clients=tuple(sorted(client for client, *_ in trips)),
        staleness=0.0,
        train_loss=1.0,
        used=len(trips),
        set_aside={},
        scores=score(served),
        costs=Costs(jobs),
        own=score(own),
        trips=tuple(Trip(client, lane, *when) for client, *when in trips),
    )


def request(
    time,
    *clients,
    place,
    kind="erase",
    restarted=(),
    trips=(),
    before=0.6,
    after=0.3,
    jobs=0,
    samples=(),
    entered=None,
):
    return Served(
        kind=kind,
        asked=tuple((client, None) for client in clients),
        clients=clients,
        time=time,
        round=2,
        place=place,
        restarted=restarted,
        cancelled=(),
        purged=0,
        before=score(before),
        after=score(after),
        costs=Costs(jobs),
        trips=trips,
        samples=samples,
        entered=entered or {},
    )


A, B = "cluster 2", "cluster 10"


def knot() -> History:
    """Two clusters. Client 5 is in both, 9 was only profiled; 1 leaves at 20 s, 5 is under way then."""
    made = History(Begun("knot", "exact", 0))
    made.rounds = [
        round_(B, 1, 6.0, 0.2, 0.15, (5, 2.0, 6.0), (4, 2.0, 5.0), jobs=2),
        round_(A, 1, 10.0, 0.4, 0.5, (1, 2.0, 10.0), jobs=3),
        round_(B, 2, 14.0, 0.6, 0.7, (4, 6.0, 14.0), jobs=4),
        round_(B, 3, 24.0, 0.5, 0.75, (4, 14.0, 24.0), jobs=5),
        round_(A, 2, 30.0, 0.4, 0.1, (5, 20.0, 30.0), jobs=6),
        round_(A, 3, 40.0, 0.6, 0.8, (5, 30.0, 40.0), jobs=7),
        round_("joint", 1, 50.0, 0.9, 0.9, (4, 40.0, 50.0), (5, 40.0, 45.0), jobs=9),
    ]
    cut = (Trip(5, A, 10.0, 20.0), Trip(1, A, 12.0, 20.0))
    made.served = [request(20.0, 1, place=3, restarted=(A,), trips=cut, jobs=4)]
    made.ended = Ended(
        apart=tuple(Trip(client, "profile", 0.0, 2.0) for client in (1, 4, 5, 9)),
        scores={
            "validation": Score({"accuracy": 0.9}, 0.3, 100),
            "test": Score({"accuracy": 0.85}, 0.4, 100),
        },
    )
    return made


def plain() -> History:
    made = History(Begun("rfs", "exact", 0))
    made.rounds = [round_("global", n, 2.0 * n, 0.1 * n, None, (0, 2.0 * n - 2, 2.0 * n)) for n in (1, 2, 3)]
    return made


# Rows and bars.


def test_rows_are_grouped_by_lane_then_client_and_clusters_count_as_numbers():
    assert activity.lanes(knot()) == [A, B]
    assert activity.rows(knot()) == [Row(A, 1), Row(A, 5), Row(B, 4), Row(B, 5), Row(activity.NOWHERE, 9)]


def test_a_client_of_two_clusters_has_a_row_in_each_with_the_work_for_each():
    history = knot()
    of = activity.rows(history)
    mine = [i for i, row in enumerate(of) if row.client == 5]
    assert mine == [1, 3]
    work = [b for b in activity.bars(history, of) if b.kind == "lane" and b.row in mine]
    assert work == [Bar(3, "lane", 2.0, 6.0), Bar(1, "lane", 20.0, 30.0), Bar(1, "lane", 30.0, 40.0)]


def test_every_trip_is_one_bar_of_its_kind():
    history = knot()
    drawn = activity.bars(history, activity.rows(history))
    assert [sum(bar.kind == kind for bar in drawn) for kind in ("apart", "lane", "joint", "cut")] == [
        4,
        7,
        2,
        2,
    ]
    assert Bar(4, "apart", 0.0, 2.0) in drawn  # never asked by a cluster: a row at the end
    assert {bar.row for bar in drawn if bar.kind == "joint"} == {1, 2}  # a client's first row


def test_trips_cut_short_end_at_the_request():
    history = knot()
    cut = [bar for bar in activity.bars(history, activity.rows(history)) if bar.kind == "cut"]
    assert cut == [Bar(1, "cut", 10.0, 20.0), Bar(0, "cut", 12.0, 20.0)]
    assert {bar.end for bar in cut} == {history.served[0].time}


def test_a_restart_is_at_the_request_and_only_lanes_have_one():
    history = knot()
    history.served.append(request(35.0, 4, place=5, restarted=("some node of a tree", B)))
    assert activity.restarts(history) == [(20.0, A), (35.0, B)]


def test_an_erased_client_is_gone_from_the_request_on():
    history = knot()
    of = activity.rows(history)
    assert activity.gone(history, of) == [Gone(0, 20.0, 50.0)]
    history.served[0] = request(20.0, 1, place=3, kind="join")
    assert activity.gone(history, of) == []


def test_a_client_that_loses_samples_stays_and_is_marked_where_it_is():
    history = knot()
    history.served = [
        request(20.0, 5, place=3, samples=(3,)),
        request(26.0, 4, 5, place=4, samples=(1, 2)),
        request(28.0, 1, 4, place=4, samples=(None, 6)),
    ]
    of = activity.rows(history)
    assert activity.gone(history, of) == [Gone(0, 28.0, 50.0)]
    assert activity.parts(history, of) == [
        *(Part(1, 20.0), Part(3, 20.0)),  # client 5 is in two clusters
        *(Part(1, 26.0), Part(2, 26.0), Part(3, 26.0)),
        Part(2, 28.0),
    ]
    assert [activity.sign(served) for served in history.served] == ["samples", "samples", "erase"]


def test_what_was_erased_is_said_once_a_client():
    history = knot()
    history.served = [
        request(20.0, 5, place=3, samples=(3,)),
        request(26.0, 4, 5, place=4, samples=(1, 2)),
        request(28.0, 1, 4, place=4),
    ]
    of = activity.rows(history)
    assert activity.erased(history, of) == {0: "client 1", 1: "5 samples of client 5", 2: "client 4"}


def test_members_that_were_never_asked_are_in_their_lane():
    history = knot()
    history.begun = replace(history.begun, members={A: (1, 5), B: (4, 5, 7)})
    history.served[0] = request(20.0, 8, place=3, kind="join", entered={A: (8,)})
    of = activity.rows(history)
    assert of == [*(Row(A, c) for c in (1, 5, 8)), *(Row(B, c) for c in (4, 5, 7)), Row(activity.NOWHERE, 9)]
    history.members[B] = (4, 5, 7, 9)  # profiled, and then never asked
    assert activity.rows(history)[-1] == Row(B, 9)


# Accuracies.


def test_the_band_is_the_least_and_greatest_of_the_latest_own_accuracies():
    """Cluster 2: 0.5 from 10 s, none from 20 s, 0.1 from 30 s, 0.8 from 40 s. Cluster 10: 0.15, 0.7, 0.75."""
    found = activity.band(knot())
    assert [time for time, _, _ in found] == [6.0, 10.0, 14.0, 20.0, 24.0, 30.0, 40.0]
    known = {time: (low, high) for time, low, high in found if not math.isnan(low)}
    assert known == {10.0: (0.15, 0.5), 14.0: (0.5, 0.7), 30.0: (0.1, 0.75), 40.0: (0.75, 0.8)}
    assert all(math.isnan(high) for time, _, high in found if time not in known)


def test_a_lane_that_begins_again_has_no_accuracy_until_it_is_measured():
    times, values = zip(*activity.own_curves(knot())[A], strict=True)
    assert times == (10.0, 20.0, 30.0, 40.0)
    assert math.isnan(values[1])
    assert [values[i] for i in (0, 2, 3)] == [0.5, 0.1, 0.8]


def test_one_lane_has_no_band_and_joint_rounds_are_no_second():
    alone = knot()
    alone.rounds = [record for record in alone.rounds if record.lane != A]
    alone.served = []
    for history in (alone, plain()):
        assert activity.own_curves(history) == {}
        assert activity.band(history) == []


def test_the_served_curve_falls_at_the_request():
    points = activity.served_curve(knot())
    assert points[2:6] == [(14.0, 0.6), (20.0, 0.6), (20.0, 0.3), (24.0, 0.5)]


def test_at_one_moment_what_was_recorded_first_came_first():
    history = plain()
    history.rounds = [round_("global", n, 2.0, 0.1 * n, None, (0, 0.0, 2.0), jobs=0) for n in (1, 2)]
    history.served = [request(2.0, 3, place=1, before=0.1, after=0.05, jobs=0)]
    assert [value for _, value in activity.served_curve(history)] == [0.1, 0.1, 0.05, 0.2]


def test_a_lane_behind_the_others_time_does_not_take_what_is_served_back_in_time():
    history = knot()
    late = round_(A, 4, 45.0, 0.95, 0.9, (5, 40.0, 45.0), jobs=10)
    history.rounds = [*history.rounds, late]
    assert activity.served_curve(history)[-2:] == [(50.0, 0.9), (50.0, 0.95)]
    assert activity.own_curves(history)[A][-1] == (45.0, 0.9)


# The file.


def test_rows_of_a_lane_lie_together_with_a_gap_to_the_next():
    sheet = timeline.Sheet(knot())
    steps = [b - a for a, b in zip(sheet.heights, sheet.heights[1:], strict=False)]
    assert [step > 1 for step in steps] == [False, True, False, True]
    assert sheet.spans[B] == (sheet.heights[2], sheet.heights[3])
    assert sheet.title == "knot: 4 clients in 2 clusters, 7 rounds"
    assert timeline.Sheet(plain()).title == "rfs: 1 client, 3 rounds"


def test_the_title_says_what_was_trained_on_what():
    history = plain()
    setup = {"model": {"name": "mlp"}, "data": {"name": "digits"}}
    history.begun = replace(history.begun, setup=setup)
    assert timeline.Sheet(history).title == "rfs: mlp on digits, 1 client, 3 rounds"
    history.setup["model"]["name"] = ""
    assert timeline.Sheet(history).title == "rfs: digits, 1 client, 3 rounds"


def test_names_that_would_touch_are_left_out():
    assert timeline.apart({"a": 0.0, "b": 0.4, "c": 1.0, "d": 3.0}, 1.0) == ["a", "c", "d"]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_run_gives_the_same_bytes(tmp_path, ending):
    pytest.importorskip("matplotlib")
    one, two = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    timeline.draw_run(knot(), one)
    timeline.draw_run(knot(), two)
    assert one.read_bytes() == two.read_bytes()
    assert b"CreationDate" not in one.read_bytes()  # in a PDF it changes once a second only
    other = knot()
    other.served = []
    timeline.draw_run(other, two)
    assert one.read_bytes() != two.read_bytes()


def test_the_picture_has_each_thing_that_happened_and_no_other(tmp_path):
    pytest.importorskip("matplotlib")

    def words(history):
        timeline.draw_run(history, tmp_path / "run.svg")
        return set(re.findall(r"<!-- (.+?) -->", (tmp_path / "run.svg").read_text()))

    every = {
        "a cluster's own model",
        "clusters, worst to best",
        "training, by cluster",
        "clients, by cluster",
        "profiling",
        "joint round",
        "called back by a request",
        "begins again",
        "erased client",
    }
    found = words(knot())
    assert found >= every | {A, B, activity.NOWHERE, "erased", "a client is erased", "simulated time (s)"}
    hatched = re.findall(r"<path [^>]*clip-path[^>]*fill: url", (tmp_path / "run.svg").read_text())
    assert len(hatched) == 2, "what was called back is hatched, and nothing else is"
    assert "samples are erased" not in found
    history = knot()
    history.served.append(request(35.0, 5, place=5, samples=(3,)))
    found = words(history)
    assert found >= {"3 samples erased", "samples are erased", "a client is erased", "erased"}
    svg = (tmp_path / "run.svg").read_text()
    assert svg.count("<!-- 3 samples erased -->") == 1
    history.served = history.served[1:]
    assert not words(history) & {"a client is erased", "erased client", "erased"}
    found = words(plain())
    assert not found & every
    assert found >= {"served model, measured at the dots", "training", "clients", "0"}
    assert "global" not in found, "one lane alone needs no name"


def test_many_clients_have_no_ids_and_an_svg_stays_small(tmp_path):
    pytest.importorskip("matplotlib")
    history = plain()
    history.rounds = [
        round_("global", n, float(n + 1), 0.5, None, *((c, float(n), n + 0.9) for c in range(450)))
        for n in range(20)
    ]
    timeline.draw_run(history, tmp_path / "many.svg")
    text = (tmp_path / "many.svg").read_text()
    assert "<!-- 449 -->" not in text
    assert len(text) < 500_000


@pytest.mark.parametrize("accuracy", [None, math.nan])
def test_a_run_that_was_never_measured_has_no_panel_for_it(tmp_path, accuracy):
    pytest.importorskip("matplotlib")
    history = plain()
    history.rounds = [round_("global", 1, 1.0, accuracy, None, (0, 0.0, 1.0))]
    timeline.draw_run(history, tmp_path / "run.svg")
    text = (tmp_path / "run.svg").read_text()
    assert ('id="axes_1"' in text, 'id="axes_2"' in text) == (True, False)
    assert "<!-- simulated time (s) -->" in text
    assert "served model" not in text


@pytest.mark.parametrize(
    ("history", "file", "words"),
    [
        (History(Begun("rfs", "exact", 0)), "run.png", "nothing to draw: the run has no rounds"),
        (plain(), "run.txt", "must end in .png, .svg or .pdf"),
        (plain(), "no/such/run.png", "there is no folder"),
    ],
)
def test_errors(tmp_path, history, file, words):
    pytest.importorskip("matplotlib")
    with pytest.raises(ConfigError, match=words):
        timeline.draw_run(history, tmp_path / file)


# The terminal.


def shown(history):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(summary(history))
    return console.export_text()


def test_the_summary_shows_what_could_be_served_and_marks_what_is():
    history = knot()
    assert "what could be served" not in shown(history)
    test = {"test": Score({"accuracy": 0.8}, 0.5, 100)}
    choices = {"mean": score(0.7) | test, "joint": history.scores, "twin": history.scores}
    history.ended = replace(history.ended, choices=choices)
    lines = [re.findall(r"[^\s│]+", line) for line in shown(history).splitlines()]
    assert ["mean", "70.0%", "1.000", "80.0%", "0.500"] in lines
    assert ["joint", "◂", "served", "90.0%", "0.300", "85.0%", "0.400"] in lines
    assert ["twin", "90.0%", "0.300", "85.0%", "0.400"] in lines  # the first of equals is the one


def test_the_summary_counts_rounds_in_lanes_and_joint_ones_apart():
    assert "6 in 2 lanes, 1 joint" in shown(knot())
    assert re.search(r"rounds +│ +3 │", shown(plain()))


def test_the_summary_says_whose_round_a_request_came_in():
    history = knot()
    history.served = [replace(history.served[0], lanes=(A,)), request(35.0, 8, place=5, kind="join")]
    text = shown(history)
    assert f"erase client 1  at round 2 of {A}, 20.0 s" in text
    assert "join client 8  at round 2 of the furthest lane, 35.0 s" in text
    # 0.6 before, 0.3 after; 0.6 again at 40 s: the second round of cluster 2 since, the first of cluster 10.
    assert "99% of it regained in 2 rounds, 20.0 s" in text
    alone = plain()
    alone.served = [request(4.0, 1, place=2, before=0.2, after=0.2)]
    assert "erase client 1  at round 2, 4.0 s" in shown(alone)
    assert "99% of it was still there right after" in shown(alone)


def parted() -> History:
    """Client 0 works for a last time from 4 to 5 s, and what it made is used."""
    made = plain()
    visits = (Trip(0, "farewell", 4.0, 5.0),)
    made.served = [replace(request(5.0, 0, place=2), visits=visits)]
    made.ended = replace(made.ended, waived=("client 0",))
    return made


def test_a_last_visit_and_what_was_kept_of_it_are_shown():
    history = parted()
    rows = activity.rows(history)
    assert rows == [Row("global", 0)]
    assert Bar(0, "visit", 4.0, 5.0) in activity.bars(history, rows)
    text = shown(history)
    assert "at a last visit, client 0 worked for the method that forgets" in text
    assert "kept although erased data had a part in it: client 0" in text
    title = timeline.Sheet(history).title
    assert title == "rfs: 1 client, 3 rounds\nkept although erased data had a part in it: client 0"
    for plainly in (shown(plain()), timeline.Sheet(plain()).title):
        assert "kept although" not in plainly


def test_a_last_visit_is_in_the_picture_and_its_legend(tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "run.svg"
    timeline.draw_run(parted(), out)
    text = out.read_text()
    assert "last visit" in text
    assert "kept although erased data had a part in it: client 0" in text


def test_progress_says_names_as_they_are_with_brackets_too():
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    served = next(event for event in knot().events if isinstance(event, Served))
    live = Live(console, 4)
    live.begin(Begun("knot", "exact", 0, setup={"metrics": ["f1"]}, names={7: "a[/]b[red]"}))
    live(replace(served, kind="join", asked=((7, None),)))
    assert "join a[/]b[red]" in console.export_text()


def test_progress_counts_the_rounds_of_all_lanes():
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    live = Live(console, 4)
    (task,) = live._progress.tasks
    history = knot()
    live.begin(
        Begun("knot", "exact", 0, setup={"metrics": ["f1", "accuracy"]}, members={A: (1, 5), B: (4, 5)})
    )
    assert task.fields["metric"] == "f1"
    seen = []
    for event in history.events:
        live(event)
        seen.append((task.description, task.completed))
    # Cluster 10 has had 1 round, then cluster 2 its first; at the end both have had 3 of the 4.
    assert seen[0] == (f"{B}, round 1", 1.0)
    assert seen[1] == (f"{A}, round 1", 1.0)
    assert seen[2] == (f"{B}, round 2", 1.5)
    assert seen[-1] == ("joint, round 1", 3.0)


def rows_of_bars(history, width=80):
    """The words of each row above the result, and how long its bar is."""
    console = Console(file=io.StringIO(), width=width)
    console.print(summary(history))
    head, *lines = console.file.getvalue().strip().splitlines()
    lines = lines[: lines.index(next(line for line in lines if not line.strip()))]
    return head, [(line.rstrip("█▏▎▍▌▋▊▉ ").split(), line.count("█")) for line in lines]


def test_bars_go_down_to_what_was_served_right_after_a_request():
    history = plain()
    history.served = [request(2.0, 3, place=1, before=0.1, after=0.05, jobs=0)]
    head, rows = rows_of_bars(history)
    assert "accuracy" in head
    bars = {" ".join(words[:-3]): (words[-1], long) for words, long in rows}
    assert [name for name in bars if name.startswith("▾")] == ["▾ round 2"]
    assert bars["▾ round 2"][0] == "5.0%"
    assert bars["▾ round 2"][1] == min(long for _, long in bars.values())
    assert {name for name in bars if "▾" not in name} == {"round 1", "round 2", "round 3"}


def test_rounds_of_several_lanes_are_named_by_lane_and_many_are_some_of_them():
    _, rows = rows_of_bars(knot())
    assert all(" ".join(words).startswith(("▾", "cluster", "joint")) for words, _ in rows)
    history = plain()
    history.rounds = [replace(history.rounds[-1], round=n) for n in range(1, 101)]
    _, rows = rows_of_bars(history)
    assert 10 <= len(rows) <= 20
    assert rows[-1][0][:2] == ["round", "100"]


# The page.


def test_the_run_of_the_page_can_be_run_and_its_picture_is_there():
    docs = Path(__file__).parents[2] / "docs"
    (text,) = re.findall(r"```toml\n(.*?)```", (docs / "timelines.md").read_text(), flags=re.DOTALL)
    fed = prepare(Experiment.of(tomllib.loads(text)))
    assert (fed.method.name, len(fed.data)) == ("knot", 20)
    picture = (docs / "pictures" / "timeline.svg").read_text()
    assert "<!-- knot: mlp on digits, 20 clients in 3 clusters, 57 rounds -->" in picture
    assert "<!-- erased -->" in picture


def test_names_that_would_touch_are_said_in_one_place_and_none_is_left_out():
    assert timeline.together({"a": 1.0, "b": 1.5, "c": 2.1, "d": 4.0}, line=1.0) == [["a", "b", "c"], ["d"]]


def test_clients_are_drawn_by_their_names():
    data = small_data(sizes=(5, 4, 6)).replaced(names={0: "Graz", 1: "A town with a very long name"})
    history = toy_federation(RFS(), data).run(3, requests=[erase("Graz", round=1), erase({1: [0]}, round=2)])
    sheet = timeline.Sheet(history)
    assert sheet.called_clients == ["Graz", "A town with a v…", "client 2"]
    assert sheet.erased == {0: "erased", 1: "1 sample erased"}, "its name stands on the left, once"
