"""What a method of one's own remembers never costs a kept run, nor leaves anything of who was erased."""

import pytest
import torch

from support import small_data, toy_federation
from unknot.core.digests import raw
from unknot.core.form import NotPlain
from unknot.core.requests import erase
from unknot.federation import Guarantee, Method, Synchronous
from unknot.store.keeper import RunKeeper


class Again(Method):
    name = "again"
    guarantee = Guarantee.EXACT

    def forget(self, desk, request, touched):
        for lane in touched:
            desk.restart(lane)


class KeepsOne(Again):
    """Keeps what client 0 sent first as nobody's: that stays through erasures, on record."""

    guarantee = Guarantee.APPROXIMATE

    def absorb(self, desk, lane, updates):
        for update in updates:
            if update.client == 0 and "kept" not in lane.notes:
                desk.keepsakes.put("first", None, update.step)
                lane.notes["kept"] = True
        super().absorb(desk, lane, updates)

    def serve(self, desk):
        first = desk.keepsakes.get("first")
        return super().serve(desk) if first is None else super().serve(desk) + first


class NotesFirsts(Again):
    """Keeps everybody's first step where no erasure clears it."""

    def absorb(self, desk, lane, updates):
        firsts = lane.notes.setdefault("firsts", {})
        for update in updates:
            firsts.setdefault(update.client, update.step)
        super().absorb(desk, lane, updates)


def build(method):
    return toy_federation(method, small_data(), pace=Synchronous(6))


def test_a_keepsake_of_nobody_outlives_the_key_of_who_shaped_it(tmp_path):
    whole = build(KeepsOne())
    whole.run(4, requests=erase(0, round=2))
    fed = build(KeepsOne())
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.begin(4, requests=erase(0, round=2))
    while not fed.history.served:
        fed.step()
    keeper.close()
    other = build(KeepsOne())
    keeper = RunKeeper.go_on(other, tmp_path / "run", every=0.0)
    history = other.resume()
    keeper.close()
    assert history.model.digest() == whole.history.model.digest()
    assert history.waived == ["client 0"]


def test_numbers_in_notes_never_reach_the_disk(tmp_path):
    fed = build(NotesFirsts())
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    with pytest.raises(NotPlain, match=r"notes\['firsts'\]\[0\] are weights: .*desk\.archive"):
        fed.run(3)
    keeper.close()
    noted = [raw(torch.clone(step.vector)).tobytes() for step in fed.lanes["global"].notes["firsts"].values()]
    held = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert noted
    assert not any(numbers in held for numbers in noted)
