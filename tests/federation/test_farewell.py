"""A leaver's last visit: what an approximate method may do at it, and that all of it is on record."""

import pytest

from exactness import forget_and_go_on
from support import ToyEngine, small_data, toy_federation
from unknot.audit import interference
from unknot.core.errors import ConfigError, ErasedDataError, RequestError
from unknot.core.jobs import Job
from unknot.core.requests import erase, join
from unknot.federation import Buffered, Clock, FedBuff, Guarantee, Method, Pareto, Synchronous
from unknot.federation.cohort import run_alone, run_together
from unknot.unlearn import KNOT, RFS, FedEraser

DATA = small_data((5, 8, 3, 6, 7, 4))


class Parting(Method):
    """At its last visit the leaver trains the model once more, and that is where the others go on."""

    name = "parting"
    guarantee = Guarantee.APPROXIMATE

    def __init__(self, fails=0):
        self.fails = fails
        self.asked = []

    def farewell(self, desk, request):
        self.asked.append({target.client: desk.size(target.client) for target in request.targets})
        for lane in desk.lanes.values():
            there = lane.members & lane.sent
            mine = [t.client for t in request.targets if t.client in there and desk.size(t.client)]
            key = desk.key.child("farewell", lane.name)
            jobs = [Job(desk.ledger.unit(c), lane.model, key.child(c), desk.recipe, "farewell") for c in mine]
            for update in desk.train_apart(jobs) if jobs else ():
                desk.keepsakes.put((lane.name, update.client), None, update.weights)
        if self.fails:
            self.fails -= 1
            next(iter(desk.lanes.values())).nodes["global"].weights = desk.initial
            raise RuntimeError("the line is dead")

    def forget(self, desk, request, touched):
        for lane in touched:
            found = [desk.keepsakes.take((lane.name, target.client)) for target in request.targets]
            weights = next((w for w in found if w is not None), None)
            if weights is not None:
                desk.rewind(lane, lane.version, {"global": weights})


PACES = {
    "sync": {"pace": Synchronous()},
    "buffered": {"pace": Buffered(4, 2, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())},
}


def test_the_data_is_there_at_the_last_visit_and_gone_afterwards():
    class Looks(Parting):
        def forget(self, desk, request, touched):
            with pytest.raises(ErasedDataError):
                desk.size(3)
            super().forget(desk, request, touched)

    method = Looks()
    fed = toy_federation(method, DATA)
    fed.run(4, requests=[erase(3, round=2)])
    assert method.asked == [{3: 6}]
    assert 3 in fed.data.erased


@pytest.mark.parametrize("pace", PACES)
def test_what_was_made_goes_on_without_the_erased_part_of_its_lineage_and_that_is_on_record(pace):
    engine = ToyEngine()
    fed = toy_federation(Parting(), DATA, engine, **PACES[pace])
    history = fed.run(8, requests=[erase(3, round=4)])
    (visit,) = [job for call in engine.calls for job in call if job.node == "farewell"]
    [made] = ToyEngine().train([visit], DATA)
    after = next(call for call in engine.calls if call[0].version == history.served[0].round)
    assert after[0].start.equal(made.weights)
    assert 3 in made.lineage.clients
    assert 3 not in fed.model.lineage.clients
    assert history.waived == history.to_dict()["waived"] == ["client 3"]
    assert "kept although erased data had a part in it: client 3" in repr(history)


def test_a_last_visit_is_billed_and_the_lane_waits_for_it():
    fed = toy_federation(Parting(), DATA)
    plain = toy_federation(RFS(), DATA)
    served = fed.run(4, requests=[erase(3, round=2)]).served[0]
    other = plain.run(4, requests=[erase(3, round=2)]).served[0]
    assert served.costs.jobs == other.costs.jobs + 1
    assert served.costs.samples_read == other.costs.samples_read + 6
    took = fed.state.duration(3, 6) / 1e9
    (trip,) = served.visits
    assert (trip.client, trip.lane) == (3, "farewell")
    assert trip.ended - trip.launched == pytest.approx(took)
    assert served.time == pytest.approx(other.time + took)
    assert fed.history.rounds[2].trips[0].launched == pytest.approx(served.time)
    assert fed.history.apart == []
    assert other.visits == ()


def test_the_interference_audit_sees_it():
    for request in (erase(3, round=3), erase({1: [0, 2]}, round=3)):
        report = interference(
            lambda data, asked=request: forget_and_go_on(toy_federation(Parting(), data), asked, 3).model,
            DATA,
            request.targets,
        )
        assert all(gap > 0 for gap in report.gaps.values())


def test_an_exact_method_cannot_have_one():
    class Sly(RFS):
        def farewell(self, desk, request):
            """Nothing much."""

    with pytest.raises(ConfigError, match="rfs says that it is exact, but it acts at a leaver's last visit"):
        toy_federation(Sly(), DATA)
    late = Method()
    late.guarantee = Guarantee.EXACT
    late.farewell = lambda desk, request: None
    with pytest.raises(ConfigError, match="farewell"):
        toy_federation(late, DATA)
    for method in (RFS(), FedEraser(), KNOT(2, by="random"), KNOT(2, by="random", retrain=FedEraser())):
        assert not method.takes_leave
        toy_federation(method, DATA)


def test_clusters_hand_it_on():
    method = Parting()
    clustered = KNOT(2, by="random", retrain=method)
    assert clustered.takes_leave
    fed = toy_federation(clustered, DATA)
    history = fed.run(5, requests=[erase(3, round=2)])
    assert method.asked == [{3: 6}]
    assert history.waived == ["client 3"]
    assert {trip.client for trip in history.served[0].visits} == {3}
    exact = type("Exact", (Parting,), {"guarantee": Guarantee.EXACT})
    with pytest.raises(ConfigError, match="knot says that it is exact"):
        toy_federation(KNOT(2, by="random", retrain=exact()), DATA)


def test_a_method_without_any_guarantee_may_have_one_too():
    class Anything(Parting):
        guarantee = Guarantee.NONE

    assert toy_federation(Anything(), DATA).run(4, requests=[erase(3, round=2)]).waived == ["client 3"]


def test_some_samples_are_visited_in_their_old_revision():
    method, engine = Parting(), ToyEngine()
    fed = toy_federation(method, DATA, engine)
    history = fed.run(5, requests=[erase({1: [0, 7]}, round=2)])
    assert method.asked == [{1: 8}]
    (visit,) = [job for call in engine.calls for job in call if job.node == "farewell"]
    assert visit.unit in fed.ledger.forbidden
    assert history.waived == ["client 1"]
    assert fed.ledger.unit(1) in fed.model.lineage
    assert visit.unit not in fed.model.lineage


def test_several_make_it_at_once_and_wait_for_the_slowest():
    method = Parting()
    served = toy_federation(method, DATA).run(4, requests=[erase([0, 1, 4], round=2)]).served[0]
    assert method.asked == [{0: 5, 1: 8, 4: 7}]
    assert {trip.client for trip in served.visits} == {0, 1, 4}
    assert len({trip.launched for trip in served.visits}) == 1
    assert served.time == pytest.approx(max(trip.ended for trip in served.visits))


def test_who_is_no_member_makes_none():
    method = Parting()
    fed = toy_federation(method, DATA)
    fed.run(4, requests=[join(5, round=3), erase([4, 5], round=2)])
    assert method.asked == [{4: 7}]
    assert fed.data.erased == {4, 5}
    alone = Parting()
    toy_federation(alone, DATA).run(4, requests=[join(5, round=3), erase(5, round=2)])
    assert alone.asked == []


def test_a_member_that_was_never_asked_leaves_nothing_behind():
    scout = toy_federation(Parting(), DATA, pace=Synchronous(1))
    idle = min(set(range(6)) - {c for record in scout.run(2).rounds for c in record.clients})
    method = Parting()
    history = toy_federation(method, DATA, pace=Synchronous(1)).run(4, requests=[erase(idle, round=2)])
    assert method.asked == [{idle: len(DATA[idle])}]
    assert history.waived == []
    assert history.served[0].visits == ()


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize(
    "again", [[], [erase(3, round=3)], [erase({3: [1]}, round=4)]], ids=["going on", "asked again", "in part"]
)
def test_one_that_failed_leaves_nothing_half_done_and_is_made_again(pace, again):
    smooth = toy_federation(Parting(), DATA, **PACES[pace])
    smooth.run(7, requests=[erase(3, round=3)])
    rough = toy_federation(Parting(fails=2), DATA, **PACES[pace])
    with pytest.raises(RuntimeError, match="line is dead"):
        rough.run(7, requests=[erase(3, round=3)])
    before = rough.model
    assert 3 in before.lineage.clients  # nothing is erased yet, and nothing was changed
    assert len(rough.data[3]) == 6
    assert rough.keepsakes.nbytes == 0
    now = rough.now
    with pytest.raises(RuntimeError, match="line is dead"):
        rough.run(4, requests=again)
    assert rough.model.equal(before)
    history = rough.run(4)
    assert rough.pending == ()
    (served,) = history.served
    assert served.clients == (3,)
    launched = [trip.launched for trip in served.visits]
    assert len(launched) == 3  # each was work, and took its time
    assert launched == sorted(set(launched))
    assert rough.now > now
    if pace == "sync":
        assert rough.model.equal(smooth.model)


def test_one_that_failed_is_the_first_to_be_served():
    fed = toy_federation(Parting(fails=1), DATA)
    with pytest.raises(RuntimeError):
        fed.run(7, requests=[erase(3, round=3)])
    with pytest.raises(RequestError, match="client 3 was already erased"):
        fed.run(4, requests=[erase([3, 4], round=3)])
    history = fed.run(4, requests=[erase(4, time=0.0)])
    assert [served.clients for served in history.served] == [(3,), (4,)]


@pytest.mark.parametrize("pace", PACES)
def test_a_run_in_parts_is_the_run_in_one(pace):
    whole, parts = (toy_federation(Parting(), DATA, **PACES[pace]) for _ in range(2))
    requests = [erase(3, round=3), erase({1: [0]}, round=5)]
    whole.run(9, requests=requests)
    parts.run(3, requests=requests)
    for rounds in (1, 1, 4):
        parts.run(rounds)
    assert parts.model.equal(whole.model)
    assert parts.now == whole.now


def test_federations_in_step_say_farewell_as_if_each_were_alone():
    def run(seed, engine):
        fed = toy_federation(Parting(), DATA, engine, seed=seed)
        return fed.running(5, requests=[erase(3, round=2 + seed)])

    alone = [run_alone(run(seed, ToyEngine())) for seed in range(3)]
    engine = ToyEngine()
    together = run_together([run(seed, engine) for seed in range(3)])
    for one, other in zip(alone, together, strict=True):
        assert one.model.equal(other.model)
        assert one.served == other.served
        assert other.waived == ["client 3"]
