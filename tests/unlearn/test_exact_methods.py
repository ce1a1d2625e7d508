"""Every exact method forgets exactly, after any sequence of leaves, sample erasures and joins."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exact_sequences import DATA, Sequence, catch_up, interference_of, sequences, serve_all, without_leavers
from support import Keeps, ToyEngine, grid, toy_federation, watch
from unknot.core.errors import ConfigError, RequestError, StoreFullError
from unknot.core.requests import erase, join
from unknot.core.training import Recipe
from unknot.federation import Buffered, Clock, FedBuff, Guarantee, Pareto, Served, Synchronous
from unknot.unlearn import (
    BMT,
    FATS,
    KNOT,
    METHODS,
    MMT,
    RFS,
    SISA,
    ExactFun,
    FedCIO,
    FedEraser,
    Rapid,
    Standalone,
)

RECIPE = Recipe(batch_size=2)
FATS_8 = FATS(rho_client=5, rounds=20, local_steps=3, clients=8)  # K = 2
ANYTHING = {
    "rfs": RFS(),
    "rapid": Rapid(),
    "bmt": BMT(),
    "mmt": MMT(),
    "mmt rebuilt": MMT(change="rebuild"),
    "mmt rebuilt, reuse": MMT(change="rebuild", reuse=0.3),
    "mmt, unequal": MMT(probabilities=(0.3, 0.05, 0.2, 0.1, 0.05, 0.1, 0.15, 0.05), change="rebuild"),
    "mmt, three ways": MMT(tree="b-ary", branching=3, change="rebuild"),
    "mmt, budget": MMT(tree="budget", budget=2),
    "mmt, greedy": MMT(tree="greedy", expires=(3, 1, 4, 1, 5, 9, 2, 6)),
    "sisa": SISA(),
    "fedcio": FedCIO(clusters=2),
    "fedcio, ensemble": FedCIO(clusters=3, served="ensemble"),
    "knot, random": KNOT(clusters=3, by="random"),
    "knot, random, mmt": KNOT(clusters=2, by="random", retrain=MMT()),
    "knot, random, rapid": KNOT(clusters=2, by="random", retrain=Rapid(), served="ensemble"),
    "fats": FATS_8,
    "fats, some samples": FATS(rho_client=8, rho_sample=2, rounds=20, local_steps=2, clients=8, samples=8),
    "standalone": Standalone(),
}
GOES_BACK = {"exact-fun, coarse": ExactFun(alpha=1.0), "exact-fun, fine": ExactFun(alpha=0.01)}


class Steady(Clock):
    """Clients differ in speed, but none in how much it reads.

    How much data a leaver had shows in how long it took, and so in when others were asked: that much
    of it stays in an asynchronous schedule whatever is forgotten. Here it is held still, so that a
    leaver without samples can be compared with one that has some.
    """

    def duration(self, client, samples_read, key):
        return super().duration(client, 1, key)


PACES = {
    "all": {"pace": Synchronous(), "clock": Steady()},
    "some": {"pace": Synchronous(per_round=3), "clock": Steady()},
    "async": {"pace": Buffered(4, 2, 3), "aggregate": FedBuff(), "clock": Steady(Pareto())},
}
few = settings(deadline=None, derandomize=True, max_examples=6)
# Each at one pace; at the others when there is time.
SHORT = {
    "rfs": "async",
    "rapid": "all",
    "bmt": "async",
    "mmt": "async",
    "mmt rebuilt": "some",
    "mmt rebuilt, reuse": "async",
    "mmt, unequal": "all",
    "mmt, three ways": "some",
    "mmt, budget": "async",
    "mmt, greedy": "some",
    "sisa": "some",
    "fedcio": "async",
    "fedcio, ensemble": "some",
    "knot, random": "async",
    "knot, random, mmt": "async",
    "knot, random, rapid": "some",
    "fats": "all",
    "fats, some samples": "some",
    "standalone": "async",
}
ASKED = [
    pytest.param(name, pace, marks=[] if pace == SHORT[name] else [pytest.mark.slow], id=f"{name}-{pace}")
    for name in ANYTHING
    for pace in PACES
]


def opened(method, pace="all", engine=None):
    return lambda data: toy_federation(method, data, engine and engine(), recipe=RECIPE, **PACES[pace])


def test_every_exact_method_is_put_to_the_question():
    asked = {type(method) for method in [*ANYTHING.values(), *GOES_BACK.values()]}
    assert asked == {method for method in METHODS.values() if method.guarantee is Guarantee.EXACT}


@pytest.mark.parametrize(("name", "pace"), ASKED)
@few
@given(sequences())
def test_what_is_served_does_not_depend_on_what_was_erased(name, pace, sequence):
    if pace == "async" and name.startswith("fats"):
        return  # it refuses that pace, see below
    report = interference_of(opened(ANYTHING[name], pace), sequence)
    assert report.none, report.gaps


@pytest.mark.parametrize(("name", "pace"), grid(GOES_BACK, ["all", "some"]))
@few
@given(sequences())
def test_exact_fun_serves_the_same_once_it_has_caught_up(name, pace, sequence):
    """How far it goes back depends on what was erased; the model at a given version does not."""
    report = interference_of(opened(GOES_BACK[name], pace), sequence, until=sequence.rounds)
    assert report.none, report.gaps


class HalfForgets(MMT):
    """Broken on purpose: the leaver's own model is dropped, but the ones above it go on."""

    name = "half"

    def forget(self, fed, request, touched):
        lane = fed.lanes["global"]
        for node in lane.nodes.values():
            if node.weights.lineage & fed.ledger.forbidden:
                node.weights = fed.initial.like(node.weights.vector)
        super().forget(fed, request, ())


@pytest.mark.parametrize("method", [Keeps(), HalfForgets()], ids=["keeps", "half forgets"])
@settings(deadline=None, derandomize=True, max_examples=6)
@given(sequence=sequences(joins=False))
def test_the_same_question_fails_a_method_that_is_broken_on_purpose(method, sequence):
    if not sequence.requests or sequence.requests[0].at.round == 0:
        return  # nothing was learned yet: nothing to forget
    assert not interference_of(opened(method), sequence).none


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in clusters"])
def test_the_same_question_fails_federaser(pace, inside):
    """Its steps are as long as those that the leaver had a part in."""
    method = KNOT(clusters=2, by="random", retrain=FedEraser(interval=1)) if inside else FedEraser(interval=1)
    sequence = Sequence((erase([1, 2], round=6),), rounds=14)
    assert not interference_of(opened(method, pace), sequence).none


# As if they had never been there ------------------------------------------------------------------


def versions_at_requests(fed, sequence):
    """The lane's version right after each request was served, in the order of serving."""
    seen = []
    watch(fed, lambda e: seen.append((e, fed.lanes["global"].version)) if isinstance(e, Served) else None)
    serve_all(fed, sequence)
    return seen


@pytest.mark.parametrize("method", [RFS(), Standalone()], ids=["rfs", "standalone"])
@settings(deadline=None, derandomize=True, max_examples=12)
@given(sequence=sequences())
def test_retraining_equals_a_federation_that_never_had_the_leavers(method, sequence):
    fed = opened(method)(DATA)
    seen = versions_at_requests(fed, sequence)
    last = max((i for i, (event, _) in enumerate(seen) if event.restarted), default=-1)
    twin = opened(method)(without_leavers(sequence))
    late = [(event, version) for event, version in seen[last + 1 :] if event.kind == "join"]
    joins = [
        join(client, round=version)
        for event, version in late
        for client in event.clients
        if client not in sequence.leavers
    ]
    if fed.lanes["global"].version:
        twin.run(fed.lanes["global"].version, requests=joins)
        assert fed.model.equal(twin.model)


@pytest.mark.parametrize(("name", "pace"), grid(["fats", *GOES_BACK], ["some", "all"]))
@few
@given(sequence=sequences())
@example(sequence=Sequence((join(6, round=3), erase([0, 1, 2], round=6)), 9))  # back to before the join
def test_going_back_ends_where_a_federation_would_be_that_never_had_the_leavers(name, pace, sequence):
    """Same joins at the same rounds, nobody ever erased."""
    method = {**ANYTHING, **GOES_BACK}[name]
    fed = catch_up(serve_all(opened(method, pace)(DATA), sequence), sequence.rounds)
    twin = opened(method, pace)(without_leavers(sequence))
    joins = [r for r in sequence.joins if not set(r.clients) & sequence.leavers]
    twin.run(sequence.rounds, requests=joins)
    assert fed.model.equal(twin.model)


@settings(deadline=None, derandomize=True, max_examples=12)
@given(sequence=sequences(joins=False))
def test_sisa_is_left_with_the_models_of_those_who_stayed(sequence):
    """Whoever erased samples has a model that began again then."""
    fed = serve_all(opened(SISA())(DATA), sequence)
    twin = serve_all(opened(SISA())(without_leavers(sequence)), type(sequence)((), sequence.rounds))
    began_again = {target.client for target in sequence.erased if target.samples is not None}
    for name, node in twin.lanes["shards"].nodes.items():
        if int(name) not in began_again:
            assert fed.lanes["shards"].nodes[name].weights.equal(node.weights)
    assert set(fed.lanes["shards"].nodes) == set(twin.lanes["shards"].nodes)


@given(sequence=sequences(joins=False, samples=False, most=1))
@settings(deadline=None, derandomize=True, max_examples=12)
def test_fedcio_equals_the_same_clusters_without_the_leavers(sequence):
    """Each cluster on its own: trained for as long as it has been since it began (again)."""
    clusters = ((0, 1, 2), (3, 4, 5), (6, 7))
    fed = serve_all(opened(FedCIO(assignment=clusters))(DATA), sequence)
    left = tuple(tuple(c for c in members if c not in sequence.leavers) for members in clusters)
    for lane, members in zip(fed.lanes.values(), left, strict=True):
        if members and lane.version:
            twin = opened(FedCIO(assignment=left))(without_leavers(sequence))
            twin.run(lane.version)
            assert lane.nodes["global"].weights.equal(twin.lanes[lane.name].nodes["global"].weights)


# What each promises about its cost ----------------------------------------------------------------


def rounds_trained(engine: ToyEngine) -> int:
    return len(engine.calls)


def test_fats_redoes_exactly_the_rounds_from_the_first_that_drew_the_client():
    for client in range(6):
        engine = ToyEngine()
        fed = toy_federation(FATS_8, DATA, engine, recipe=RECIPE)
        fed.run(9)
        drawn = [v for v, clients in fed.lanes["global"].notes["drawn"].items() if client in clients]
        before = rounds_trained(engine)
        history = fed.run(1, requests=[erase(client, round=9)])
        redo = 9 - min(drawn) if drawn else 0
        assert fed.lanes["global"].version == 9 - redo + 1
        assert bool(history.served[0].restarted) == bool(drawn)
        catch_up(fed, 10)
        assert rounds_trained(engine) - before == redo + 1


def test_fats_does_nothing_for_a_sample_that_no_draw_held():
    method = FATS(rho_client=5, rho_sample=0.5, rounds=20, local_steps=1, clients=8, samples=8)
    fed = toy_federation(method, DATA, recipe=RECIPE)
    fed.run(6)
    read = {c: set() for c in DATA.clients}
    for call in fed.engine.calls:
        for job in call:
            read[job.client] |= {int(i) for batch in job.batches for i in batch}
    client, unread = next((c, set(range(len(DATA[c]))) - ids) for c, ids in read.items() if ids)
    sample, trained = min(unread), rounds_trained(fed.engine)
    history = fed.run(1, requests=[erase({client: [sample]}, round=6)])
    assert history.served[0].restarted == ()
    assert history.served[0].costs.jobs == sum(len(call) for call in fed.engine.calls[:trained])
    assert fed.lanes["global"].version == 7
    twin = toy_federation(method, without_leavers_of({client: [sample]}), recipe=RECIPE)
    twin.run(7)
    assert fed.model.equal(twin.model)


def without_leavers_of(erased):
    rest = DATA.fork()
    for client, ids in erased.items():
        rest.erase(client, ids)
    return rest


def test_fats_goes_back_to_the_first_draw_that_held_the_sample():
    engine = ToyEngine()
    fed = toy_federation(FATS_8, DATA, engine, recipe=RECIPE)
    fed.run(8)
    for version, call in enumerate(engine.calls):
        job = call[0]
        sample = int(job.batches[0][0])
        first = min(
            v
            for v, jobs in enumerate(engine.calls[:8])
            for j in jobs
            if j.client == job.client and any(sample in batch for batch in j.batches)
        )
        if version > 2 and first > 0:
            break
    fed.run(1, requests=[erase({job.client: [sample]}, round=8)])
    assert fed.lanes["global"].version == first + 1


def test_exact_fun_trains_nothing_where_the_quantised_model_hides_the_client():
    """With a step as coarse as this, every round's aggregate rounds to the same with and without it."""
    engine = ToyEngine()
    fed = toy_federation(ExactFun(alpha=50.0), DATA, engine, recipe=RECIPE)
    fed.run(6)
    history = fed.run(1, requests=[erase(2, round=6)])
    assert history.served[0].restarted == ()
    assert rounds_trained(engine) == 7
    assert fed.lanes["global"].version == 7
    assert 2 not in {unit.client for unit in fed.model.lineage}


def test_exact_fun_redoes_exactly_the_rounds_from_the_first_that_differs():
    """By hand: go through the rounds without the client until a quantised aggregate differs."""
    method, rounds, gone = ExactFun(alpha=0.2), 8, 2
    with_client = toy_federation(method, DATA, recipe=RECIPE)
    without = toy_federation(method, without_leavers_of({gone: None}), recipe=RECIPE)
    same = 0
    while same < rounds:
        with_client.run(1)
        without.run(1)
        if not with_client.model.equal(without.model):
            break
        same += 1
    assert same < rounds
    engine = ToyEngine()
    fed = toy_federation(method, DATA, engine, recipe=RECIPE)
    fed.run(rounds)
    history = fed.run(1, requests=[erase(gone, round=rounds)])
    # The aggregate of round `same` differs, so the answers to it are the first that must be asked for.
    assert fed.lanes["global"].version == same + 1 + 1
    assert history.served[0].restarted == ("global",)
    catch_up(fed, rounds)
    assert rounds_trained(engine) == rounds + (rounds - same - 1)


@pytest.mark.parametrize("method", [FATS_8, ExactFun()], ids=["fats", "exact-fun"])
def test_methods_that_go_back_refuse_an_asynchronous_pace(method):
    with pytest.raises(ConfigError, match="synchronous"):
        opened(method, "async")(DATA).run(1)


@pytest.mark.parametrize("method", [FATS(rho_client=5, rounds=20, memory=1e-5), ExactFun(memory=1e-5)])
def test_a_history_that_outgrows_its_limit_is_an_error_not_a_surprise(method):
    with pytest.raises(StoreFullError) as full:
        toy_federation(method, DATA, recipe=RECIPE).run(5)
    assert full.value.setting == "memory"
    assert full.value.needed > full.value.limit == 10


# The edges ----------------------------------------------------------------------------------------

EVERYONE = {**ANYTHING, **GOES_BACK}


@pytest.mark.parametrize("name", EVERYONE)
def test_all_but_one_may_leave_and_then_the_last(name):
    fed = opened(EVERYONE[name])(DATA)
    fed.run(6, requests=[erase(range(7), round=3)])
    assert {unit.client for unit in fed.model.lineage} <= {7}
    history = fed.run(2, requests=[erase(7, round=6)])
    assert history.stopped == "no clients left"
    assert not fed.model.lineage
    assert fed.model.equal(fed.initial) or name.startswith("exact-fun")


@pytest.mark.parametrize("name", EVERYONE)
def test_a_client_cannot_be_erased_twice_or_if_unknown(name):
    with pytest.raises(RequestError, match="already erased"):
        opened(EVERYONE[name])(DATA).run(9, requests=[erase(1, round=2), erase(1, round=4)])
    with pytest.raises(RequestError, match="cannot erase client 99"):
        opened(EVERYONE[name])(DATA).run(9, requests=[erase(99, round=2)])


@pytest.mark.parametrize("name", EVERYONE)
@pytest.mark.parametrize("clients", [1, 2])
def test_federations_of_one_and_two_clients_work(name, clients):
    data = DATA.replaced(shards={c: DATA[c] for c in range(clients)})
    method = EVERYONE[name]
    if getattr(method, "clusters", 0) > clients:
        method = replace(method, clusters=clients)
    fed = opened(method)(data)
    fed.run(3)
    if clients == 2:
        fed.run(2, requests=[erase(0, round=3)])
    assert {unit.client for unit in fed.model.lineage} == {clients - 1}


@pytest.mark.parametrize("name", EVERYONE)
def test_a_newcomer_into_a_federation_that_everybody_left_is_welcome(name):
    fed = opened(EVERYONE[name])(DATA)
    fed.run(seconds=0.15, requests=[erase(range(7), time=0.05), join(7, time=0.1)])
    assert fed.members == {7}
    assert {unit.client for unit in fed.model.lineage} == {7}


@given(st.sampled_from([0.0, -1.0]))
def test_impossible_settings_are_refused(value):
    for make in (
        lambda: ExactFun(alpha=value),
        lambda: FATS(rho_client=value),
        lambda: FATS(rounds=int(value)),
        lambda: FedCIO(clusters=int(value)),
        lambda: FedCIO(served="both"),
        lambda: SISA(vote="veto"),
        lambda: MMT(tree="oak"),
        lambda: MMT(change="forget"),
    ):
        with pytest.raises(ConfigError):
            make()
    with pytest.raises(ConfigError, match="exactly one cluster"):
        opened(FedCIO(assignment=((0, 1), (1, 2))))(DATA).run(1)
    with pytest.raises(ConfigError, match="probabilities has 2 entries"):
        opened(MMT(probabilities=(0.5, 0.5)))(DATA).run(1)
