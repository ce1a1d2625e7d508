"""What a run would serve at its last checkpoint is said by its folder alone, whether it is over or not."""

import pytest
from kept_runs import NAMES, build, story

from support import ToyEngine, small_data, toy_federation
from unknot.core.requests import erase
from unknot.federation import Guarantee
from unknot.store.database import Database
from unknot.store.entries import read_named
from unknot.store.keeper import RunKeeper
from unknot.store.look import RUNNING, STOPPED, look
from unknot.store.watching import Watching
from unknot.unlearn import RFS

CASES = [
    ("rfs", "sync"),
    ("knot", "buffered"),
    ("knot mmt", "buffered"),
    ("sisa", "sync"),
    ("fedcio", "buffered"),
    ("standalone", "sync"),
    ("exact-fun", "sync"),
    ("federaser", "sync"),
]


def steps(fed, rounds: int) -> None:
    """So many of a run that is longer."""
    fed.begin(4)
    while len(fed.history.rounds) < rounds:
        fed.step()


@pytest.mark.parametrize(("method", "pace"), CASES)
def test_a_run_that_is_not_over_has_the_model_of_its_last_checkpoint(method, pace, tmp_path):
    fed = build(method, pace)
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    steps(fed, 3)
    running = look(tmp_path / "run")
    keeper.close()
    stopped = look(tmp_path / "run")
    assert (running.state, stopped.state) == (RUNNING, STOPPED)
    for found in (running, stopped):
        assert found.model == fed.model.digest()
        assert found.lineage == fed.model.lineage.describe()
        assert found.model_unknown == ""


def test_it_is_that_of_a_run_which_ends_there(tmp_path):
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    steps(fed, 2)
    keeper.close()
    whole = build("rfs", "sync").run(2)
    found = look(tmp_path / "run")
    assert (found.rounds, found.model, found.lineage) == (
        2,
        whole.model.digest(),
        whole.model.lineage.describe(),
    )


def test_without_keys_it_is_the_same_by_numbers(tmp_path):
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", keys=tmp_path / "keys", every=0.0)
    steps(fed, 2)
    keeper.close()
    (tmp_path / "keys").rename(tmp_path / "elsewhere")
    found = look(tmp_path / "run")
    assert found.model == fed.model.digest()
    assert found.lineage == [f"client {client}" for client in sorted(fed.model.lineage.clients)]


@pytest.mark.parametrize("method", ["rfs", "sisa", "knot"])
def test_after_an_erasure_it_is_that_of_after_it(method, tmp_path):
    fed = build(method, "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)  # kept for the erasure alone
    fed.begin(4, requests=[erase(1, round=2)])
    while not fed.history.served:
        fed.step()
    keeper.close()
    found = look(tmp_path / "run")
    assert found.model == fed.model.digest()
    assert found.lineage == fed.model.lineage.describe()
    assert not any(NAMES[1] in line or line.startswith("client 1") for line in found.lineage)


def test_before_anything_is_kept_it_is_said_why_there_is_none(tmp_path):
    keeper = RunKeeper.create(build("rfs", "sync"), tmp_path / "run", every=0.0)
    found = look(tmp_path / "run")
    keeper.close()
    assert (found.model, found.lineage, found.model_unknown) == (None, None, "nothing was kept yet")


def test_of_a_method_that_cannot_say_what_it_serves_the_run_is_kept_all_the_same(tmp_path, monkeypatch):
    def serve(self, desk):
        raise RuntimeError(f"{NAMES[1]} is in the way")

    fed = build("rfs", "sync")
    fed.work.every = 0
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(RFS, "serve", serve)
        steps(fed, 2)
    keeper.close()
    found = look(tmp_path / "run")
    assert (found.rounds, found.model, found.lineage) == (2, None, None)
    assert found.model_unknown == "the method had nothing that it could serve then (RuntimeError)"


def test_a_checkpoint_that_is_damaged_or_gone_is_said_and_all_else_is_shown(tmp_path):
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    steps(fed, 2)
    keeper.close()
    with Database.open(tmp_path / "run" / "run.db", readonly=True) as db:
        state = tmp_path / "run" / "state" / f"{read_named(db.last('checkpoint').body).state}.state"
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)
    found = look(tmp_path / "run")
    assert (found.rounds, found.model, found.lineage) == (2, None, None)
    assert "damaged" in found.model_unknown
    state.unlink()
    found = look(tmp_path / "run")
    assert (found.rounds, found.model) == (2, None)
    assert state.name in found.model_unknown


def test_who_looks_on_never_has_that_of_an_earlier_checkpoint(tmp_path):
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    steps(fed, 1)
    watching = Watching(tmp_path / "run")
    assert watching.look()[0].model == fed.model.digest()
    fed.step()
    assert watching.look()[0].model in (None, fed.model.digest())
    keeper.close()


class Blends(RFS):
    """Serves the model blended with a snapshot of every third round, which stays through erasures."""

    name, guarantee = "blends", Guarantee.APPROXIMATE

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        if lane.rounds % 3 == 2:
            desk.keepsakes.put("old", None, lane.nodes["global"].weights)

    def serve(self, desk):
        now = super().serve(desk)
        old = desk.keepsakes.get("old")
        return now if old is None or not desk.trained(now) else now * 0.5 + old * 0.5


class Busy(RFS):
    """Serves the model, for which it draws, and has a client train: that is nothing to remember."""

    def serve(self, desk):
        lane = desk.lanes["global"]
        desk.ledger.draw(0, desk.ids(0)[:1])
        desk.train_apart([desk.job(lane, lane.nodes["global"], 0)])
        return super().serve(desk)


@pytest.mark.parametrize("method", [Blends, Busy])
def test_to_look_what_would_be_served_leaves_no_record(method, tmp_path):
    def ended(folder=None):
        fed = toy_federation(method(), small_data(), ToyEngine(), evaluate_every=0)
        keeper = None if folder is None else RunKeeper.create(fed, folder, every=0.0)
        told = story(fed.run(9, requests=[erase(1, round=4)]))
        if keeper is not None:
            keeper.close()
        return told, fed.state.ledger.entries()

    assert ended(tmp_path / "run") == ended()


def test_it_says_what_would_be_let_pass_for_it(tmp_path):
    fed = toy_federation(Blends(), small_data(), ToyEngine(), evaluate_every=0)
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.begin(9, requests=[erase(1, round=4)])
    while not (fed.history.served and fed.lanes["global"].rounds == 5):
        fed.step()
    keeper.close()
    found = look(tmp_path / "run")
    assert not fed.state.waived
    assert found.model == fed.model.digest()
    assert found.lineage == fed.model.lineage.describe()
    assert fed.state.waived  # for here it was given out
