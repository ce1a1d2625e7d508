"""What a method notes of a lane is structure: it is looked at when it is put in, and when it is written."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pytest
import torch

from support import small_data, toy_federation
from unknot import plain_data
from unknot.core.form import NotPlain
from unknot.core.lineage import Unit
from unknot.core.requests import erase
from unknot.core.weights import Layout, Weights
from unknot.federation import Guarantee
from unknot.federation.lanes import ClientSet
from unknot.federation.notes import Notes
from unknot.federation.snapshot import dump, load
from unknot.topology import build
from unknot.unlearn import PGA, RFS

WEIGHTS = Weights(torch.ones(2), Layout(("a",), ((2,),)))


class Level(IntEnum):
    HIGH = 3


@plain_data
@dataclass
class Holder:
    held: object = None


NUMBERS = {
    "weights": WEIGHTS,
    "a tensor": torch.ones(2),
    "an array": np.ones(2),
    "a NumPy number": np.float64(0.5),
}


@pytest.mark.parametrize("what", NUMBERS)
@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: [0, {"in": (x,)}], Holder], ids=["", "deep", "class"]
)
def test_numbers_made_of_data_are_refused_by_their_place(what, wrap):
    notes = Notes("global")
    with pytest.raises(NotPlain, match=r"^lane 'global' notes\['mine'\].*desk\.archive.*desk\.keepsakes"):
        notes["mine"] = wrap(NUMBERS[what])
    with pytest.raises(NotPlain, match=r"notes\['mine'\]"):
        notes.update(mine=wrap(NUMBERS[what]))
    with pytest.raises(NotPlain, match=r"notes\['mine'\]"):
        notes.setdefault("mine", wrap(NUMBERS[what]))
    assert not notes


@pytest.mark.parametrize("value", [Level.HIGH, object(), iter([]), lambda: 1], ids=lambda v: type(v).__name__)
def test_what_has_no_written_form_or_would_become_plainer_is_refused(value):
    with pytest.raises(NotPlain, match=r"notes\['mine'\]\['a'\] is a"):
        Notes("global")["mine"] = {"a": value}
    with pytest.raises(NotPlain, match="a note of lane 'global' goes by a text, not by 3"):
        Notes("global")[3] = 1


def test_structure_is_taken_as_it_is():
    tree, first = build("star", [1, 2, 3]), {}
    notes = Notes("global", {"tree": tree})
    notes.update(first=first, plain=[None, True, 1, 0.5, "a", b"b", (1,), {2}, frozenset([3]), Unit(4)])
    assert notes["tree"] is tree
    assert notes.setdefault("first", {}) is first
    assert list(notes) == ["tree", "first", "plain"]
    assert notes.pop("first") is first
    assert len(notes) == 2


class Nests(RFS):
    name = "nests"

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        lane.notes.setdefault("sent", {}).update({u.client: u.weights for u in updates})


def test_what_was_put_in_later_is_refused_when_the_run_is_written():
    fed = toy_federation(Nests(), small_data())
    fed.run(1)
    with pytest.raises(NotPlain, match=r"lane 'global' notes\['sent'\]\[0\] are weights: .*desk\.archive"):
        fed.snapshot()


def test_one_list_in_the_notes_of_two_lanes_is_one_in_a_copy():
    fed = toy_federation(RFS(), small_data())
    fed.begin(1)
    shared = [1]
    fed.lanes["global"].notes["a"] = shared
    fed.state.add_lane("other", [1]).notes["b"] = shared
    content, tensors, private = dump(fed)
    other = toy_federation(RFS(), small_data())
    other.restore(load(other, content, lambda digest: tensors[digest].tensor.clone(), private))
    assert other.lanes["global"].notes["a"] is other.lanes["other"].notes["b"]
    assert other.lanes["global"].notes["a"] == shared


def test_a_lane_and_a_node_have_no_attributes_of_somebodys_own():
    fed = toy_federation(RFS(), small_data())
    fed.begin(1)
    lane = fed.lanes["global"]
    for thing in (lane, lane.main):
        with pytest.raises(AttributeError):
            thing.turn = 1
    lane.notes = {"a": 1}
    assert isinstance(lane.notes, Notes)
    with pytest.raises(NotPlain):
        lane.notes = {"a": torch.ones(1)}


def test_members_are_gone_through_in_order_however_they_came_about():
    large = set(range(100))
    large.difference_update(set(range(100)) - {1, 8, 3, 33})
    assert list(ClientSet(large)) == [1, 3, 8, 33]
    fed = toy_federation(RFS(), small_data([3] * 40))
    fed.begin(2, requests=erase([client for client in range(40) if client not in (1, 8, 33)], round=1))
    while not fed.over:
        fed.step()
    lane = fed.lanes["global"]
    assert list(lane.members) == list(lane.main.members) == list(fed.desk.members) == [1, 8, 33]
    lane.members = {33, 1, 8}
    assert list(lane.members) == [1, 8, 33]
    assert list(lane.members - {8}) == [1, 33]
    assert list(lane.members & {33, 8}) == [8, 33]
    assert lane.members.pop() == 1
    lane.members |= {2}
    assert list(lane.members) == [2, 8, 33]


class Fails(RFS):
    name = "fails"
    guarantee = Guarantee.EXACT

    def forget(self, desk, request, touched):
        for lane in touched:
            lane.notes["half"] = True
            lane.notes["list"].append(2)
            lane.sent.clear()
            lane.main.members.clear()
        raise RuntimeError("no")


def test_a_request_that_failed_leaves_notes_and_members_as_they_were():
    fed = toy_federation(Fails(), small_data())
    fed.run(1)
    lane = fed.lanes["global"]
    lane.notes["list"] = [1]
    sent = set(lane.sent)
    with pytest.raises(RuntimeError):
        fed.run(1, requests=erase(1))
    assert dict(lane.notes) == {"list": [1]}
    assert lane.sent == sent
    assert lane.main.members == set(range(6)) - {1}


def test_pga_notes_who_took_part_and_no_shares_of_samples():
    fed = toy_federation(PGA(), small_data())
    fed.run(2)
    assert dict(fed.lanes["global"].notes) == {"last": [0, 1, 2, 3, 4, 5]}
    fed.run(1, requests=erase(1))
    shares = [
        name
        for name, kept in fed.state.keepsakes.entries()
        if kept.unit is not None and kept.unit.client == 1
    ]
    assert not shares


def test_notes_within_notes_are_put_back_when_a_method_fails():
    class Fails(RFS):
        def forget(self, desk, request, touched):
            for lane in touched:
                lane.notes["tree"]["a"].append("gone")
            super().forget(desk, request, touched)
            if not failed:
                failed.append(True)
                raise MemoryError

    failed: list[bool] = []
    fed = toy_federation(Fails())
    fed.run(1)
    (lane,) = fed.lanes.values()
    lane.notes["tree"] = {"a": [0]}
    with pytest.raises(MemoryError):
        fed.run(1, requests=erase(1))
    assert lane.notes["tree"] == {"a": [0]}
    fed.resume()
    (lane,) = fed.lanes.values()
    assert lane.notes["tree"] == {"a": [0, "gone"]}
