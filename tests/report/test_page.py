"""A run as a page: what went wrong first, everything that is there, nothing that can break out of it."""

import io
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from rich.console import Console

import unknot
from support import small_data, toy_federation
from unknot import erase, join
from unknot.experiments import Experiment, run
from unknot.federation import History
from unknot.report import activity, page_pictures
from unknot.report.page import page
from unknot.report.page_pictures import Sheet, _Forest, _merged
from unknot.report.summary import summary
from unknot.unlearn import BMT, KNOT, MMT, PGA, RFS, SISA, ExactFun, FedCIO

VOID = ("meta", "br", "hr")
NASTY = "<script>alert(1)</script>"


class Outline(HTMLParser):
    """Whether tags are closed in order, and what can be read."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.lines = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and self.open[-1] != "style":
            self.lines.append(data.strip())

    @property
    def text(self):
        return " ".join(self.lines).replace("\N{NO-BREAK SPACE}", " ")


def record_of(method=None, rounds=4, requests=(), **options):
    fed = toy_federation(method or RFS(), **options)
    return json.loads(json.dumps(fed.run(rounds, requests=requests).to_dict()))


def read(record):
    return Outline(page(record))


@pytest.mark.parametrize(
    ("method", "requests"),
    [
        (RFS(), [erase(1, round=2), erase({2: [0]}, round=3)]),
        (KNOT(clusters=2, served="joint"), [erase(1, round=2)]),
        (PGA(), [erase(1, round=2)]),
        (MMT(), [join(4, round=2), erase(1, round=3)]),
    ],
    ids=["rfs", "knot", "pga", "mmt"],
)
def test_a_record_is_read_back_whole(method, requests):
    record = record_of(method, requests=requests)
    again = History.of(record)
    assert again.to_dict() == record


def test_a_page_has_what_a_run_gave_and_cost():
    seen = read(record_of(requests=[erase(1, round=2)]))
    for text in ("Exact", "How good it was", "Requests, and what each cost", "Who was at work", "The model"):
        assert text in seen.lines
    for text in (
        "erase client 1",
        "validation accuracy (%)",
        "simulated seconds",
        "client epochs",
        "99% of it",
    ):
        assert text in seen.text
    assert "safetensors.torch.load_file" in seen.text
    assert seen.tags.count("details") == 2  # there is no file that this run came from
    assert "Influence tree" not in seen.text
    assert "script" not in seen.tags


def test_no_request_leaves_the_page():
    text = page(record_of())
    for word in ("http://", "https://", "src=", "href=", "url(", "@import"):
        assert word not in text
    assert "default-src &#x27;none&#x27;" in text


def test_what_went_wrong_comes_first_and_is_marked():
    record = record_of(requests=[erase(1, round=99)])
    record["warnings"] = ["90 of 96 updates were set aside (not finite)"]
    text = page(record)
    first = text.index('class="notice bad"')
    assert first < text.index("still pending".capitalize()) < text.index("90 of 96 updates")
    assert text.index("90 of 96 updates") < text.index("Exact")
    assert text.count('class="notice bad"') == 2


def test_what_an_approximate_method_kept_is_said():
    seen = read(record_of(PGA(), requests=[erase(1, round=2)]))
    assert "Kept although erased data had a part in it: client 1." in seen.lines
    assert "Approximate" in seen.lines
    assert "at a last visit, client 1 worked for the method that forgets" in seen.lines


def test_a_name_is_harmless():
    data = unknot.clients(
        {name: (torch.rand(4, 8), torch.tensor([0, 1, 2, 0])) for name in (NASTY, "Graz", "a & b")},
        test=(torch.rand(4, 8), torch.tensor([0, 1, 2, 0])),
        validation=(torch.rand(4, 8), torch.tensor([0, 1, 2, 0])),
    )
    for method in (RFS(), KNOT(clusters=1), MMT(), PGA()):
        record = record_of(method, data=data, requests=[erase(NASTY, round=2)])
        assert json.loads(json.dumps(History.of(record).to_dict()))["requests"] == record["requests"]
        record["experiment"] = {"name": NASTY, "data": {"name": "</style>" + NASTY}}
        record["warnings"], record["unserved"] = [NASTY], [NASTY]
        seen = read(record)
        assert "script" not in seen.tags
        assert seen.tags.count("style") == 1
        assert NASTY in seen.text


@pytest.mark.parametrize(
    ("names", "rows"), [({0: "7", 1: "Graz"}, ["7", "Graz", "client 7"]), ({}, ["0", "1", "7"])]
)
def test_a_client_without_a_name_is_no_bare_number_among_names(names, rows):
    history = toy_federation(RFS(), small_data(sizes=(5, 4, 6))).run(2)
    history.begun = replace(history.begun, members=dict.fromkeys(history.members, (0, 1, 7)))
    history.rounds.clear()
    history.begun = replace(history.begun, names=names)
    assert Sheet(history).called == rows


def test_where_nothing_was_measured_that_is_said():
    data = small_data()
    record = record_of(data=data.replaced(validation=None), requests=[erase(1, round=2)])
    seen = read(record)
    assert any("Nothing was measured" in line for line in seen.lines)
    assert "right after" not in seen.text


def test_numbers_that_are_none_do_not_stop_a_page():
    record = record_of(requests=[erase(1, round=2)])
    for one in record["rounds"]:
        one["train_loss"] = one["scores"]["validation"]["metrics"]["accuracy"] = None
    assert "How good it was" in read(record).lines


def test_an_observer_that_was_set_aside_is_named():
    record = record_of()
    record["set_aside_observers"] = [{"observer": "Mine", "when": "round 2", "error": "KeyError: 3"}]
    assert "The observer Mine was set aside at round 2: KeyError: 3." in read(record).lines


def test_an_own_metric_is_shown_as_it_was_meant():
    record = record_of()
    record["metric"], record["metric_share"] = "profit", False
    for one in [*record["rounds"], record]:
        for score in one["scores"].values():
            score["metrics"]["profit"] = score["metrics"].pop("accuracy") * 1000
    assert "validation profit" in read(record).text


def test_clusters_have_a_row_each():
    seen = read(record_of(FedCIO(clusters=3), requests=[erase(1, round=2)]))
    assert "Clusters" in seen.lines
    for name in ("cluster 0", "cluster 1", "cluster 2", "left: 1"):
        assert name in seen.lines


@pytest.mark.parametrize("method", [MMT(), BMT()], ids=["mmt", "bmt"])
def test_an_influence_tree_is_drawn(method):
    record = record_of(method, requests=[erase(1, round=2)])
    text = page(record)
    assert "Influence tree" in text
    nodes = record["nodes"]["global"]
    assert sorted(nodes[0]) == [0, 1, 2, 3, 4, 5]
    assert text.count("<rect ") >= len(nodes)
    held = sum(1 in node for node in nodes)
    assert text.count("holds what was erased of client 1") == held


@pytest.mark.parametrize("method", [SISA(), ExactFun(), RFS()], ids=["sisa", "exact-fun", "rfs"])
def test_where_there_is_no_tree_none_is_drawn(method):
    assert "Influence tree" not in page(record_of(method))


def test_nested_sets_lie_side_by_side_within_their_own():
    nodes = [(0, 1, 2, 3, 4), (3, 4), (0, 2), (0,), (1,), (2,), (3,), (4,)]
    forest = _Forest.of(nodes)
    assert len(forest.places) == len(nodes)
    for _, start, members in forest.places:
        assert sorted(forest.order[start : start + len(members)]) == list(members)
    levels = {members: level for level, _, members in forest.places}
    assert (levels[(0, 1, 2, 3, 4)], levels[(0, 2)], levels[(0,)], levels[(1,)]) == (0, 1, 2, 1)
    assert _Forest.of([(0, 1, 2), (0, 1), (1, 2)]) is None  # not nested
    assert _Forest.of([(0,), (1,), (2,)]) is None  # no root
    assert _Forest.of([(0, 1)]) is None


def test_short_trips_that_all_but_touch_are_one_bar():
    assert _merged([(4, 6), (0, 3), (20, 21), (100, 200), (201, 300)], 2) == [
        (0, 6),
        (20, 21),
        (100, 200),
        (201, 300),
    ]
    assert _merged([(5, 5)], 2) == [(5, 6)]


def grown(rounds, clients):
    """A record of so many rounds in which every other client takes part."""
    record = record_of(requests=[erase(1, round=2)])
    one = record["rounds"][0]
    record["rounds"] = [
        {
            **one,
            "round": i + 1,
            "time": i + 1.0,
            "trips": [
                {"client": c, "lane": "global", "launched": i + 0.003 * c, "ended": i + 0.9}
                for c in range(i % 2, clients, 2)
            ],
        }
        for i in range(rounds)
    ]
    record["members"] = {"global": list(range(clients))}
    record["requests"][0] |= {"time": rounds / 2, "place": rounds // 2}
    return record


def test_very_many_clients_are_counted():
    seen = read(grown(4, page_pictures.ROWS + 1))
    assert "clients at work" in seen.text
    assert len(page(grown(4, page_pictures.ROWS))) > 20_000


@pytest.mark.slow
def test_a_thousand_rounds_of_a_hundred_clients_stay_small():
    assert len(page(grown(1000, 100))) < 1_000_000


def test_axes_of_shares_have_no_magnifying_glass():
    record = record_of()
    for one in record["rounds"]:
        one["scores"]["validation"]["metrics"]["accuracy"] = 0.101 + 0.0001 * one["round"]
    chart = page_pictures.quality(Sheet(History.of(record)))
    assert ">5<" in chart or ">6<" in chart
    assert ">10.11<" not in chart


def test_clusters_are_drawn_by_how_long_their_clients_take_and_the_erased_are_open():
    history = History.of(record_of(KNOT(clusters=2), requests=[erase(1, round=2)]))
    drawn = page_pictures.clusters(Sheet(history))
    took = activity.durations(history)
    assert drawn.count('overflow="visible"') == sum(row.client in took for row in activity.rows(history))
    assert drawn.count("fill: var(--paper)") == drawn.count(", erased</title>") == 1
    assert page_pictures.clusters(Sheet(History.of(record_of()))) is None


def test_a_page_and_the_end_of_a_run_say_what_is_trained_over_what():
    made = Experiment.of(
        {
            "data": {"partition": "iid", "clients": 3, "samples": 20, "validation": 20},
            "model": {"name": "mlp", "hidden": [8], "lora": {"rank": 2, "targets": ["1"]}},
            "federation": {"rounds": 1},
        }
    )
    history = run(made)
    record = json.loads(json.dumps(history.to_dict()))
    about = record["setup"]["model"]
    trained, frozen = 2 * (784 + 8), 784 * 8 + 8 + 8 * 10 + 10
    assert (about["parameters"], about["frozen"]) == (trained, frozen)
    assert about["base"] == history.model.layout.base.digest
    assert about["adapters"] == {"rank": 2, "on": ["1"]}
    seen = read(record).text
    assert f"mlp: {trained:,} parameters trained over {frozen:,} frozen, base {about['base'][:8]}" in seen
    assert f"{trained:,} parameters are trained (LoRA of rank 2 on 1) and are in the file" in seen
    assert about["base"] in seen
    assert "strict=False" in seen
    console = Console(record=True, width=80, file=io.StringIO())
    console.print(summary(history))
    told = console.export_text()
    for words in (
        f"{trained:,} parameters",
        "LoRA of rank 2 on 1",
        f"{frozen:,} frozen, base {about['base'][:8]}",
    ):
        assert words in told


def test_where_nothing_is_frozen_nothing_is_said_of_a_base():
    record = record_of()
    assert {name: record["setup"]["model"][name] for name in ("frozen", "base", "adapters")} == {
        "frozen": 0,
        "base": None,
        "adapters": None,
    }
    seen = read(record).text
    assert "frozen" not in seen.split("Settings and environment")[0]
    assert "strict" not in seen
    del (
        record["setup"]["model"]["base"],
        record["setup"]["model"]["frozen"],
        record["setup"]["model"]["adapters"],
    )
    assert "parameters" in read(record).text  # a record of before there were any
