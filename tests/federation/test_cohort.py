"""Federations that run together end as if each had run alone, and cost one call to the engine a step."""

import gc
import signal
import threading
from functools import cache

import pytest
from torch import nn

import unknot
from support import ToyEngine, small_data, toy_federation
from unknot.core.errors import ConfigError, UnknotError
from unknot.engine import make_engine
from unknot.federation.cohort import run_alone, run_together
from unknot.unlearn import FATS, KNOT, METHODS, RFS, FedCIO, make_method

DATA, OTHER_DATA = small_data(), small_data(seed=1)
RECIPE = unknot.Recipe(unknot.SGD(0.1), batch_size=4)
REQUESTS = [unknot.erase(1, round=2), unknot.erase({4: [0, 3]}, round=3)]
SET_UP = {
    "fats": FATS(rho_client=5, rounds=20, local_steps=2, clients=6),
    "fedcio": FedCIO(clusters=2),
    "knot": KNOT(clusters=2),
}
PACES = {
    "synchronous": {},
    "buffered": {"pace": unknot.Buffered(4, 2, 3), "clock": unknot.Clock(unknot.Pareto())},
}
NEED_ROUNDS = {"exact-fun", "fats"}  # they refuse a pace without any
CASES = [
    (name, pace) for name in METHODS for pace in PACES if pace == "synchronous" or name not in NEED_ROUNDS
]
USUAL = {
    name: "buffered" if i % 2 and name not in NEED_ROUNDS else "synchronous" for i, name in enumerate(METHODS)
}
"""At which pace each is always tried."""


def model():
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))


@cache
def engine_of(kind="stacked"):
    """One for all tests: it tries its stacks once."""
    return make_engine(kind, model())


def method_of(name):
    return SET_UP.get(name) or make_method(name)


def real(name="rfs", rounds=4, seed=0, data=DATA, pace="synchronous", recipe=RECIPE):
    """A run of a real model with two erasures in it."""

    def run(engine):
        method = method_of(name)
        fed = unknot.simulate(model, data.lent(), method, recipe, engine=engine, seed=seed, **PACES[pace])
        return fed.running(rounds, requests=REQUESTS)

    return run


def toy(rounds=4, seed=0, data=DATA, requests=(), method=None):
    """A run of a model that takes no time; it gives the federation."""

    def run(engine):
        fed = toy_federation(method or RFS(), data, engine, seed=seed)
        yield from fed.running(rounds, requests=requests)
        return fed

    return run


def together(engine, runs, once=False):
    return run_together([run(engine) for run in runs], once=once)


def record(history):
    """The model, every score, every round's loss: all but the seconds and what the engine did for anybody."""
    return {name: said for name, said in history.to_dict().items() if name not in ("seconds", "environment")}


def assert_as_alone(engine, runs):
    alone = [record(run_alone(run(engine))) for run in runs]
    assert [record(history) for history in together(engine, runs)] == alone
    assert len({history["model"] for history in alone}) == len(runs)


def lone_model(run):
    return run_alone(run(ToyEngine())).model


# As if alone -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pace"),
    [case if case[1] == USUAL[case[0]] else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_every_method_ends_as_if_each_federation_had_run_alone(name, pace):
    assert_as_alone(
        engine_of(), [real(name, rounds, seed, pace=pace) for seed, rounds in enumerate([4, 4, 3])]
    )


@pytest.mark.parametrize(
    ("name", "pace"),
    [case if case == ("rfs", "buffered") else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_the_same_with_the_loop_engine(name, pace):
    runs = [real(name, rounds, seed, pace=pace) for seed, rounds in enumerate([4, 3])]
    assert_as_alone(engine_of("loop"), runs)


def test_federations_that_have_nothing_in_common_go_together():
    others = unknot.Recipe(unknot.SGD(0.05, momentum=0.9), batch_size=3, epochs=2)
    runs = [
        real("mmt", 5),
        real("rfs", 2, seed=1, pace="buffered"),
        real("knot", 4, seed=2, data=OTHER_DATA),
        real("federaser", 3, seed=3, recipe=others),
    ]
    assert_as_alone(engine_of(), runs)


def test_what_one_erases_the_others_still_read():
    """The call is made with the data of the first, which does not have client 1 any more."""
    runs = [toy(5, requests=REQUESTS, data=DATA.lent()), toy(5, seed=1, data=DATA.lent())]
    left, whole = together(ToyEngine(), runs)
    assert left.model.equal(lone_model(toy(5, requests=REQUESTS)))
    assert whole.model.equal(lone_model(toy(5, seed=1)))
    assert 1 in whole.data
    assert 1 not in left.data


def test_updates_belong_to_the_jobs_that_were_asked_for():
    seen = []

    class Watching(RFS):
        def absorb(self, desk, lane, updates):
            seen.extend(type(update.job) for update in updates)
            super().absorb(desk, lane, updates)

    together(ToyEngine(), [toy(1, method=Watching()), toy(1, method=Watching())])
    assert set(seen) == {unknot.core.jobs.Job}
    assert len(seen) == 12


# One call --------------------------------------------------------------------------------------------


def test_a_step_of_all_is_one_call():
    engine = ToyEngine()
    together(engine, [toy(5), toy(3, seed=1), toy(4, seed=2)])
    assert [len(jobs) for jobs in engine.calls] == [18, 18, 18, 12, 6]


def test_data_on_loan_stays_together_after_an_erasure_and_copies_go_apart():
    calls = {}
    for kind, data in {"lent": DATA.lent(), "own": DATA}.items():
        engine = ToyEngine()
        runs = [toy(3, seed, data, REQUESTS[:1]) for seed in range(3)]
        feds = together(engine, runs)
        assert all(fed.model.equal(lone_model(run)) for fed, run in zip(feds, runs, strict=True))
        calls[kind] = [len(jobs) for jobs in engine.calls]
    assert calls == {"lent": [18, 18, 15], "own": [18, 18, 5, 5, 5]}


def test_runs_on_other_tensors_are_other_calls():
    engine = ToyEngine()
    runs = [toy(2), toy(2, data=OTHER_DATA), toy(2, seed=1)]
    feds = together(engine, runs)
    assert [len(jobs) for jobs in engine.calls] == [12, 6, 12, 6]
    assert all(fed.model.equal(lone_model(run)) for fed, run in zip(feds, runs, strict=True))


def test_training_apart_from_the_rounds_is_a_call_of_its_own():
    """KNOT profiles everybody before the first round."""
    engine = ToyEngine()
    together(engine, [toy(1, seed, method=KNOT(clusters=2)) for seed in range(3)])
    profiles = [{job.node for job in jobs} for jobs in engine.calls[:3]]
    assert [len(jobs) for jobs in engine.calls[:3]] == [6] * 3
    assert "global" not in set().union(*profiles)
    assert len(engine.calls) < 6


def test_federations_with_engines_of_their_own_go_together_too():
    engines = [ToyEngine(), ToyEngine()]
    runs = [toy(2)(engines[0]), toy(3, seed=1)(engines[1])]
    assert [fed.model.digest() for fed in run_together(runs)] == [
        lone_model(toy(2)).digest(),
        lone_model(toy(3, seed=1)).digest(),
    ]
    assert [len(engine.calls) for engine in engines] == [2, 3]


def idle(engine):
    """Wants nothing trained."""
    return engine.name
    yield


def test_results_come_in_the_order_of_the_runs_and_none_need_train():
    assert together(ToyEngine(), []) == []
    long, name, short = together(ToyEngine(), [toy(3), idle, toy(1)])
    assert (long.lanes["global"].version, name, short.lanes["global"].version) == (3, "toy", 1)


# Failures --------------------------------------------------------------------------------------------


def failing(error, after=2):
    """A run that trains for some rounds, if any, and then fails."""

    def run(engine):
        if after:
            yield from toy(after)(engine)
        raise error

    return run


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_a_failure_in_one_is_raised_and_the_others_are_closed(error, place, after):
    runs = [run(ToyEngine()) for run in (toy(5), toy(5, seed=1))]
    runs.insert(place, failing(error, after)(ToyEngine()))
    with pytest.raises(type(error)) as raised:
        run_together(runs)
    assert raised.value is error
    assert not any(map(list, runs))


def test_a_failure_of_the_engine_is_raised():
    class Broken(ToyEngine):
        def train(self, jobs, data):
            if len(self.calls) == 2:
                raise UnknotError("out of order")
            return super().train(jobs, data)

    with pytest.raises(UnknotError, match="out of order"):
        together(Broken(), [toy(4), toy(4, seed=1)])


def test_an_engine_that_loses_updates_is_found_out():
    class Losing(ToyEngine):
        def train(self, jobs, data):
            return super().train(jobs, data)[1:]

    with pytest.raises(UnknotError, match="was given 12 jobs and returned 11 updates"):
        together(Losing(), [toy(4), toy(4, seed=1)])


def test_a_call_of_one_alone_fails_where_that_asked_for_it():
    class Broken(ToyEngine):
        def train(self, jobs, data):
            raise ConfigError("out of order")

    def run(engine):
        with pytest.raises(ConfigError, match="out of order"):
            yield from toy(2)(engine)
        return "got over it"

    said, fed = run_together([run(Broken()), toy(4)(ToyEngine())])
    assert said == "got over it"
    assert fed.model.equal(lone_model(toy(4)))


def test_the_others_end_where_they_are_and_clean_up():
    ended = []

    def careful(engine):
        try:
            yield from toy(9)(engine)
        except Exception:
            ended.append("got over it")
        finally:
            ended.append("cleaned up")

    with pytest.raises(ValueError, match="no"):
        together(ToyEngine(), [careful, careful, failing(ValueError("no"))])
    assert ended == ["cleaned up"] * 2


def test_one_that_was_ended_where_it_waited_is_not_gone_on_with():
    left = toy_federation(RFS())
    with pytest.raises(ValueError, match="no"):
        run_together([left.running(9), failing(ValueError("no"))(ToyEngine())])
    with pytest.raises(UnknotError, match="broken off in its middle"):
        left.resume()


def test_an_erasure_that_is_left_half_way_raises_nothing_else():
    """Lanes are put back while it ends; the error that is raised is still the first one."""

    class Profiles(RFS):
        def forget(self, desk, request, touched):
            super().forget(desk, request, touched)
            desk.train_apart([desk.job(desk.lanes["global"], desk.lanes["global"].nodes["global"], 0)])

    runs = [toy(5, requests=REQUESTS[:1], method=Profiles()), failing(ValueError("no"), after=2)]
    with pytest.raises(ValueError, match="no"):
        together(ToyEngine(), runs)


@pytest.fixture
def interruptible():
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("where", ["in the engine", "while a federation works"])
def test_an_interrupt_ends_everything(where, interruptible):
    class Interrupted(ToyEngine):
        def train(self, jobs, data):
            if where == "in the engine" and len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().train(jobs, data)

    def run(engine):
        fed = yield from toy(1)(engine)
        if where == "while a federation works":
            interruptible()
        yield from fed.running(8)

    with pytest.raises(KeyboardInterrupt):
        together(Interrupted(), [toy(9), run, toy(9, seed=1)])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_is_heard_between_steps_also_when_who_began_first_has_ended(interruptible):
    class Pressing(ToyEngine):
        def train(self, jobs, data):
            if len(self.calls) == 3:
                interruptible()
            return super().train(jobs, data)

    fed = toy_federation(RFS(), DATA, Pressing())
    with pytest.raises(KeyboardInterrupt):
        run_together([toy(1, seed=1)(ToyEngine()), fed.running(6)])
    assert fed.resume().model.equal(lone_model(toy(6)))


# What is around it -----------------------------------------------------------------------------------


def test_garbage_is_not_searched_for_within_and_is_again_afterwards():
    searched = []

    class Looks(ToyEngine):
        def train(self, jobs, data):
            searched.append(gc.isenabled())
            return super().train(jobs, data)

    together(Looks(), [toy(3), toy(5, seed=1)])
    assert searched == [False] * 5
    assert gc.isenabled()


class Wiped(ToyEngine):
    """Notes when it is wiped, and when it trains."""

    def __init__(self):
        super().__init__()
        self.log = []

    def train(self, jobs, data):
        self.log.append("train")
        return super().train(jobs, data)

    def wipe(self):
        self.log.append("wipe")


def test_what_an_erasure_wants_dropped_goes_before_the_next_training():
    engine = Wiped()
    together(engine, [toy(3, seed, DATA.lent(), REQUESTS[:1]) for seed in range(3)])
    assert engine.log == ["train", "train", *["wipe"] * 3, "train"]


def test_an_erasure_at_the_end_is_not_forgotten():
    engine = Wiped()
    together(engine, [toy(2, requests=REQUESTS[:1]), toy(2, seed=1)])
    assert engine.log == ["train", "train", "wipe"]


def test_a_federation_goes_on_alone_after_the_cohort():
    engine = Wiped()
    fed, _ = together(engine, [toy(2, requests=REQUESTS), toy(1)])
    fed.run(3)
    assert fed.model.equal(lone_model(toy(5, requests=REQUESTS)))
    assert engine.log.count("wipe") == 2
    assert fed.engine.describe() == {"engine": "toy"}
