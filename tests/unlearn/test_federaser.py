"""FedEraser: the calibrated step by hand, what is kept, and that its approximation is on record."""

import pytest
import torch

from support import LAYOUT, ToyEngine, serve_now, small_data, toy_federation
from unknot.audit.interference import variants
from unknot.core.errors import ConfigError, StoreFullError, UnknotError
from unknot.core.requests import Target, erase
from unknot.core.training import SGD, Recipe
from unknot.federation import Buffered, Clock, FedBuff, Guarantee, Method, Pareto, Synchronous
from unknot.select import DQN, Balanced, KCenter
from unknot.unlearn import KNOT, RFS, FedEraser

DATA = small_data((5, 8, 3, 6))
RECIPE = Recipe(SGD(0.1), epochs=4)


def layers(vector):
    return [part.reshape(-1) for part in LAYOUT.split(vector).values()]


def test_a_calibrated_round_by_hand():
    """New directions, old lengths, layer by layer, and the data-weighted mean of them."""
    engine = ToyEngine()
    fed = toy_federation(FedEraser(interval=1), DATA, engine, recipe=RECIPE)
    fed.run(2)
    old = {(i, u.client): u for i, call in enumerate(engine.calls) for u in ToyEngine().train(call, DATA)}
    fed.run(1, requests=[erase(1, round=2)])
    calibration = engine.calls[2]
    assert {job.client for job in calibration} == {0, 2, 3}
    assert {job.recipe.epochs for job in calibration} == {2}
    expected = fed.initial.vector.double().clone()
    total = 5 + 3 + 6
    for update in ToyEngine().train(calibration, DATA):
        before = old[0, update.client]
        was = before.weights.vector - before.job.start.vector
        now = update.weights.vector - update.job.start.vector
        step = torch.cat([n / n.norm() * w.norm() for n, w in zip(layers(now), layers(was), strict=True)])
        expected += step.double() * (update.samples / total)
    assert torch.allclose(fed.model.vector.double(), expected, atol=1e-6)


def test_who_was_not_asked_then_steps_as_far_as_the_others_did_on_average():
    """Three of four take part in a round. One of them leaves, and the fourth calibrates in its place."""
    engine = ToyEngine()
    method = FedEraser(interval=1, calibrate="selected")
    fed = toy_federation(method, DATA, engine, recipe=RECIPE, pace=Synchronous(3))
    fed.run(1)
    old = {u.client: u for u in ToyEngine().train(engine.calls[0], DATA)}
    gone, *stay = sorted(old)
    fed.run(1, requests=[erase(gone, round=1)])
    done = ToyEngine().train(engine.calls[1], DATA)
    assert {u.client for u in done} == {0, 1, 2, 3} - {gone}

    def lengths(update):
        return torch.stack([part.norm() for part in layers(update.weights.vector - update.job.start.vector)])

    mean = sum(lengths(old[client]) for client in stay) / 2
    expected = fed.initial.vector.double().clone()
    for update in done:
        wanted = lengths(old[update.client]) if update.client in stay else mean
        parts = zip(layers(update.weights.vector - update.job.start.vector), wanted, strict=True)
        step = torch.cat([part / part.norm() * length for part, length in parts])
        expected += step.double() * (update.samples / sum(u.samples for u in done))
    assert torch.allclose(fed.model.vector.double(), expected, atol=1e-6)


def last_sent(engine, clients):
    """What the last call of an engine gave, of these clients."""
    return [update for update in ToyEngine().train(engine.calls[-1], DATA) if update.client in clients]


@pytest.mark.parametrize("mean", ["weighted", "plain"])
def test_it_begins_from_the_mean_of_what_the_remaining_clients_last_sent(mean):
    engine = ToyEngine()
    fed = toy_federation(FedEraser(1, start="remaining", mean=mean), DATA, engine, recipe=RECIPE)
    fed.run(3)
    sent = last_sent(engine, {0, 2, 3})
    serve_now(fed, erase(1, round=3))
    counts = [update.samples if mean == "weighted" else 1 for update in sent]
    expected = sum(count * u.weights.vector.double() for count, u in zip(counts, sent, strict=True))
    assert torch.allclose(fed.model.vector.double(), expected / sum(counts), atol=1e-6)


def test_where_the_leaver_was_alone_in_the_last_round_it_begins_from_the_model_before():
    fed = toy_federation(FedEraser(1, start="remaining"), DATA, pace=Synchronous(1))
    before = fed.initial
    for _ in range(4):
        before, history = fed.model, fed.run(1)
    serve_now(fed, erase(history.rounds[-1].clients[0], round=4))
    assert torch.allclose(fed.model.vector, before.vector, atol=1e-6)


def test_from_what_remains_the_kept_rounds_are_calibrated_on_top():
    engine = ToyEngine()
    fed = toy_federation(FedEraser(1, start="remaining"), DATA, engine, recipe=RECIPE)
    fed.run(2)
    sent = last_sent(engine, {0, 2, 3})
    start = sum(u.samples * u.weights.vector for u in sent) / sum(u.samples for u in sent)
    fed.run(2, requests=[erase(1, round=2)])
    assert [{job.recipe.epochs for job in call} for call in engine.calls] == [{4}] * 2 + [{2}] * 2
    assert torch.allclose(engine.calls[2][0].start.vector, start, atol=1e-6)


@pytest.mark.parametrize("select", [KCenter(2), Balanced(), DQN()])
def test_selectors_meet_clients_on_the_model_that_it_begins_from(select):
    engine = ToyEngine()
    options = {"pace": Synchronous(2), "select": select, "select_when": "unlearning"}
    fed = toy_federation(FedEraser(1, start="remaining", calibrate="selected"), DATA, engine, **options)
    leaver = fed.run(2).rounds[0].clients[0]
    serve_now(fed, erase(leaver, round=2))
    start = fed.model
    fed.run(1)
    met = engine.calls[2]
    assert {job.client for job in met} == {0, 1, 2, 3} - {leaver}
    assert all(job.start.equal(start) and job.node == "meet" for job in met)


def test_a_start_that_keeps_traces_of_the_leaver_is_on_record():
    """Also where no size is read: the request comes at the end. After a first round there is no trace."""
    for rounds, waived in ((1, []), (2, ["client 1"])):
        fed = toy_federation(FedEraser(interval=100, start="remaining"), DATA)
        history = fed.run(rounds, requests=[erase(1, round=rounds)])
        assert history.waived == waived
        assert 1 not in {unit.client for unit in fed.model.lineage}
        assert "earlier updates" in history.guarantee
    assert fed.model.lineage.waived == {1}


def test_a_second_leaver_is_taken_out_of_a_calibrated_round():
    """The last round is then one of calibrated steps: they count, without the second leaver's."""
    engine = ToyEngine()
    fed = toy_federation(FedEraser(1, start="remaining"), DATA, engine, recipe=RECIPE)
    fed.run(4, requests=[erase(1, round=3)])
    before, after = engine.calls[3][0].start.vector.double(), fed.model.vector.double()
    serve_now(fed, erase(3, round=4))
    assert {unit.client for unit in fed.model.lineage} == {0, 2}
    now = fed.model.vector.double()
    assert not torch.allclose(now, after, atol=1e-4)
    assert (now - before).norm() < 3 * (after - before).norm()
    fed.run(3, requests=[erase({0: [2]}, round=5)])
    assert {unit.client for unit in fed.model.lineage} == {0, 2}


def test_only_the_last_round_is_kept_whole():
    """One number a layer, client and kept round; and a model and the clients' steps."""
    sizes, model = 4 * len(LAYOUT.names) * 4, LAYOUT.size * 4
    fed = toy_federation(FedEraser(1, start="remaining"), DATA)
    for rounds in (1, 2, 3):
        fed.run(1)
        assert fed.keepsakes.nbytes == rounds * sizes + (1 + 4) * model


def test_clusters_begin_from_what_remains_of_them():
    method = KNOT(2, by="random", retrain=FedEraser(1, start="remaining"))
    fed = toy_federation(method, small_data((5, 8, 3, 6, 7, 4)))
    history = fed.run(6, requests=[erase(1, round=3)])
    assert history.waived == ["client 1"]
    (hit,) = history.served[0].restarted
    assert not fed.lanes[hit].model.equal(fed.initial)


def test_everybody_can_be_asked_to_calibrate_whatever_the_pace():
    engine = ToyEngine()
    fed = toy_federation(FedEraser(1, calibrate="all"), DATA, engine, recipe=RECIPE, pace=Synchronous(2))
    leaver = fed.run(2).rounds[0].clients[0]
    fed.run(3, requests=[erase(leaver, round=2)])
    assert [len(call) for call in engine.calls] == [2, 2, 3, 3, 2]


@pytest.mark.parametrize("select", [None, KCenter(2), Balanced(), DQN()])
def test_everybody_may_train_and_some_calibrate(select):
    engine = ToyEngine()
    method = FedEraser(1, calibrate="selected", calibrators=2)
    options = {} if select is None else {"select": select, "select_when": "unlearning"}
    fed = toy_federation(method, DATA, engine, recipe=RECIPE, **options)
    fed.run(4, requests=[erase(1, round=2)])
    rounds = [call for call in engine.calls if call[0].node != "meet"]
    assert [len(call) for call in rounds][:4] == [4, 4, 2, 2]
    assert not {job.client for call in rounds[2:4] for job in call} & {1}


def test_the_kept_rounds_are_gone_through_and_then_training_goes_on_as_before():
    engine = ToyEngine()
    fed = toy_federation(FedEraser(interval=2), DATA, engine, recipe=RECIPE)
    fed.run(12, requests=[erase(1, round=6)])
    epochs = [{job.recipe.epochs for job in call} for call in engine.calls]
    assert epochs == [{4}] * 6 + [{2}] * 3 + [{4}] * 3  # rounds 0, 2 and 4 were kept


def test_what_is_kept_is_one_number_a_layer_and_the_leavers_goes():
    fed = toy_federation(FedEraser(interval=1), DATA)
    fed.run(5)
    assert fed.keepsakes.nbytes == 5 * 4 * len(LAYOUT.names) * 4
    fed.run(1, requests=[erase(1, round=5)])
    assert fed.keepsakes.nbytes == 5 * 3 * len(LAYOUT.names) * 4


def test_the_waiver_is_on_record_and_the_weights_are_clean():
    fed = toy_federation(FedEraser(interval=1), DATA)
    history = fed.run(8, requests=[erase(1, round=4)])
    assert history.waived == ["client 1"]
    assert history.to_dict()["waived"] == ["client 1"]
    assert "approximate" in history.guarantee
    assert 1 not in {unit.client for unit in fed.model.lineage}


def who_knows():
    """Ways in which it depends on a client's data who takes part in a round."""
    yield "k-center", {"select": KCenter(), "pace": Synchronous(2)}
    yield "balanced", {"select": Balanced(), "pace": Synchronous(1)}
    yield "dqn", {"select": DQN(), "pace": Synchronous(1)}
    yield "slowness", {"pace": Buffered(4, 2, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())}


@pytest.mark.parametrize("calibrate", ["kept", "selected"])
@pytest.mark.parametrize(("knows", "parts"), list(who_knows()))
def test_that_who_took_part_depended_on_the_leaver_is_on_record(knows, parts, calibrate):
    """Also where no kept size does: in the first round all start from weights that are nobody's."""
    data = small_data((5, 8, 3, 6, 7, 4, 9, 2))
    depends = []
    for seed, rounds in ((0, 1), (0, 4), (1, 2)):

        def served(given, seed=seed, rounds=rounds):
            options = {"seed": seed, "evaluate_every": 0, **parts}
            fed = toy_federation(FedEraser(1, calibrate=calibrate), given, **options)
            return fed.run(rounds + 3, requests=[erase(1, round=rounds)])

        history = served(data)
        others = [served(other) for other in variants(data, (Target(1, None),)).values()]
        depends.append(any(not history.model.equal(other.model) for other in others))
        if depends[-1]:
            assert history.waived == ["client 1"]
        assert 1 not in history.model.lineage.clients
    assert any(depends)


def test_who_leaves_next_is_found_in_what_it_had_a_part_in_by_being_slow():
    """Who took part is used again: the calibrated model carries those who decided it."""
    data = small_data((5, 8, 3, 6, 7, 4, 9, 2))
    parts = {"pace": Buffered(4, 2, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())}
    fed = toy_federation(FedEraser(1), data, **parts)
    fed.run(1)
    slow = {client for lane in fed.lanes.values() for client in lane.sent}
    fed.run(1, requests=[erase(min(slow), round=1)])
    assert fed.model.lineage.clients >= slow - {min(slow)}


def test_an_exact_method_has_no_keepsakes():
    class Sly(Method):
        name = "sly"
        guarantee = Guarantee.EXACT

        def absorb(self, fed, lane, updates):
            fed.keepsakes.put("x", updates[0].job.unit, updates[0].weights)

    with pytest.raises(UnknotError, match="exact method keeps nothing"):
        toy_federation(Sly(), DATA).run(1)
    assert RFS().exact
    assert KNOT(retrain=RFS()).exact
    assert not KNOT(retrain=FedEraser()).exact


def test_requests_one_after_the_other_samples_and_everybody_but_one():
    data = small_data((5, 8, 3, 6, 7))
    fed = toy_federation(FedEraser(interval=1), data)
    fed.run(14, requests=[erase(1, round=3), erase({0: [2]}, round=6), erase([0, 3, 4], round=9)])
    assert {unit.client for unit in fed.model.lineage} == {2}


def test_it_works_at_an_asynchronous_pace():
    data = small_data((5, 8, 3, 6, 7, 4, 9, 2))
    options = {"pace": Buffered(4, 2, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())}
    fed = toy_federation(FedEraser(interval=1), data, **options)
    history = fed.run(20, requests=[erase(3, round=6)])
    assert history.stopped == "rounds"
    assert 3 not in {unit.client for unit in fed.model.lineage}


def test_a_layer_that_did_not_move_stays():
    """A zero length must not become a division by zero."""

    class Still(ToyEngine):
        def train(self, jobs, data):
            updates = super().train(jobs, data)
            for job, update in zip(jobs, updates, strict=True):
                update.weights.vector[-2:] = job.start.vector[-2:]
            return updates

    fed = toy_federation(FedEraser(interval=1), DATA, Still())
    fed.run(6, requests=[erase(1, round=3)])
    assert torch.isfinite(fed.model.vector).all()


def test_impossible_settings_are_refused():
    wrong = [{"interval": 0}, {"ratio": 0.0}, {"ratio": 1.5}, {"start": "remain"}, {"mean": "median"}]
    wrong += [{"calibrate": "selected", "calibrators": 0}, {"calibrators": 3}, {"calibrators": 0}]
    wrong += [{"calibrate": "all", "calibrators": 3}]
    for options in wrong:
        with pytest.raises(ConfigError):
            FedEraser(**options)
    with pytest.raises(ConfigError, match=r"^FedEraser: calibrators must be at least 1, not 0$"):
        FedEraser(calibrate="selected", calibrators=0)
    with pytest.raises(
        ConfigError, match=r'calibrators = 6 goes with calibrate = "selected", not "kept": leave'
    ):
        FedEraser(calibrators=6)


def test_the_history_stays_within_its_budget_or_training_stops():
    """4 clients × 2 layers × 4 bytes = 32 bytes a kept round, of which erasing a client frees a quarter."""
    fed = toy_federation(FedEraser(interval=2, memory=96 / 2**20), DATA)
    fed.run(6)
    assert fed.keepsakes.nbytes == 3 * 32
    with pytest.raises(StoreFullError) as full:
        fed.run(1)
    assert (full.value.setting, full.value.limit) == ("memory", 96)
    freed = toy_federation(FedEraser(interval=2), DATA)
    freed.run(6)
    serve_now(freed, erase(1, round=6))
    assert freed.keepsakes.nbytes == 3 * 24
    with pytest.raises(ConfigError, match="memory"):
        FedEraser(memory=0)


@pytest.mark.parametrize("seed", range(6))
def test_a_second_request_finds_what_the_first_one_averaged(seed):
    """Sizes of clients that were not asked since are in the model, and these may leave next."""
    data = small_data((5, 8, 3, 6, 7, 4, 9, 2, 6, 5))
    for gone, next_ in ((0, 1), (4, 7), (9, 2)):
        fed = toy_federation(
            FedEraser(interval=2, calibrate="selected"), data, pace=Synchronous(3), seed=seed
        )
        fed.run(12, requests=[erase(gone, round=5), erase(next_, round=7)])
        assert not {unit.client for unit in fed.model.lineage} & {gone, next_}
