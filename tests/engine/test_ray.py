"""Over the actors of a Ray cluster: the same bits as in process, whoever dies; nothing of anybody stays."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import unknot
from engine_worlds import RECIPES, make_data, make_jobs, make_model, own_start, same
from support import small_data
from unknot.cli import app
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError, UnknotError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.samples import Samples
from unknot.core.task import Task
from unknot.core.weights import Weights
from unknot.engine import make_engine
from unknot.engine.ray import cluster, crew, parcels, roster
from unknot.engine.ray.crew import Crew, Dead
from unknot.engine.ray.parcels import Head, calls, pieces, put_in
from unknot.engine.ray.worker import Worker, born, ended, packed_engine, parts
from unknot.federation.cohort import run_alone, run_together
from unknot.unlearn import FATS, KNOT, METHODS, FedCIO, make_method

RECIPE = unknot.Recipe(unknot.SGD(0.1), batch_size=4)
REQUESTS = [unknot.erase(1, round=2), unknot.erase({4: [0, 3]}, round=3)]
SET_UP = {
    "fats": FATS(rho_client=5, rounds=20, local_steps=2, clients=6),
    "fedcio": FedCIO(clusters=2),
    "knot": KNOT(clusters=2),
}
PLAIN = make_model("mlp")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))


@pytest.fixture(scope="module")
def ray():
    """A cluster of two workers of this machine's own, which is gone afterwards."""
    found = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    if found.is_initialized():
        pytest.skip("this process is part of a Ray cluster already")
    yield found
    found.shutdown()


@pytest.fixture(scope="module")
def plain(ray):
    """For the small images; while it is there, engines for other models share its workers."""
    return make_engine("ray", PLAIN, workers=2)


@pytest.fixture(scope="module")
def engine(plain):
    return make_engine("ray", network(), workers=2)


@pytest.fixture(scope="module")
def in_process():
    return make_engine("stacked", network(), threads=2)


def record(history):
    return {name: said for name, said in history.to_dict().items() if name not in ("seconds", "environment")}


def running_on(engine, name="rfs", rounds=4, data=None, requests=REQUESTS):
    method = SET_UP.get(name) or make_method(name)
    fed = unknot.simulate(network, data or small_data(), method, RECIPE, engine=engine)
    return fed.running(rounds, requests=requests)


def run_on(*args, **options):
    return run_alone(running_on(*args, **options))


# The same bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_a_run_with_erasures_has_the_bits_of_the_engine_in_process(engine, in_process, name):
    there, here = run_on(engine, name), run_on(in_process, name)
    assert record(there) == record(here)
    assert there.model.equal(here.model)


@pytest.mark.parametrize("recipe", ["sgd", "sgd-momentum", "adam", "adahessian", "adagrad"])
@pytest.mark.parametrize("starts", ["one", "own"])
def test_updates_have_the_same_bits_and_the_order_of_the_jobs(plain, recipe, starts):
    data = make_data("mlp", [*(5, 0, 9, 4), *[3] * 30])
    jobs = make_jobs(PLAIN, RECIPES[recipe], data.clients)
    if starts == "own":
        jobs = [own_start(job) if job.client % 3 else job for job in jobs]
    there = plain.train(jobs, data)
    assert [update.job for update in there] == jobs
    assert all(map(same, there, make_engine("stacked", PLAIN, threads=2).train(jobs, data)))
    assert all(update.lineage == update.job.lineage for update in there)


def test_drawn_batches_and_several_clients_together_are_trained_the_same(plain):
    data = make_data("mlp")
    start, key = Weights.of(PLAIN), Key.root(5)
    drawn = (np.array([0, 2]), np.array([4, 1, 3]))
    jobs = [
        Job(Unit(0), start, key, RECIPES["sgd"], batches=drawn),
        Job(Unit(2), start, key, RECIPES["sgd"], others=(Unit(4), Unit(6))),
        Job(Unit(3, 2), start, key, RECIPES["adam"], version=3),
    ]
    assert all(map(same, plain.train(jobs, data), make_engine("stacked", PLAIN).train(jobs, data)))


def test_scores_and_answers_have_the_same_bits(plain):
    generator = Key.root(9).generator()
    x = torch.from_numpy(generator.standard_normal((2100, 1, 7, 7), dtype=np.float32))
    samples = Samples(x, torch.from_numpy(generator.integers(0, 3, 2100)), 3)  # five slices for two workers
    first = Weights.of(PLAIN)
    both = Ensemble(((0.3, first), (0.7, first * 0.5)), "majority")
    here = make_engine("stacked", PLAIN)
    for model in (first, both):
        assert plain.evaluate(model, samples) == here.evaluate(model, samples)
        assert torch.equal(plain.predict(model, samples), here.predict(model, samples))


def test_every_metric_has_the_same_value(ray, plain):
    generator = Key.root(9).generator()
    x = torch.from_numpy(generator.standard_normal((20000, 1, 7, 7), dtype=np.float32))
    samples = Samples(x, torch.from_numpy(generator.integers(0, 3, 20000)), 3)
    names = [name for name, kind in unknot.registry.metrics.ours.items() if "classes" in kind.kinds]
    task = Task(metrics=tuple(unknot.registry.metrics.make(name) for name in names))
    there, here = make_engine("ray", PLAIN, workers=2, task=task), make_engine("stacked", PLAIN, task=task)
    assert there.evaluate(Weights.of(PLAIN), samples) == here.evaluate(Weights.of(PLAIN), samples)


def test_the_loop_in_double_precision_and_losses_of_ones_own_go_along(ray, plain):
    def loss(outputs, targets):
        return (outputs.logsumexp(-1) - outputs.gather(-1, targets[:, None])[:, 0]) * 1.5

    data = make_data("mlp")
    recipe = unknot.Recipe(unknot.SGD(0.1), batch_size=4, loss=unknot.core.loss.as_loss(loss))
    jobs = make_jobs(PLAIN, recipe, [0, 2, 3], torch.float64)
    options = {"dtype": torch.float64}
    there = make_engine("ray", PLAIN, workers=2, inner="loop", **options)
    assert all(map(same, there.train(jobs, data), make_engine("loop", PLAIN, **options).train(jobs, data)))
    assert all(map(same, there.train(jobs, data), make_engine("loop", PLAIN, **options).train(jobs, data)))


def test_federations_in_step_share_the_workers(engine, in_process):
    def all_on(engine):
        return run_together([running_on(engine, name) for name in ("rfs", "bmt")])

    assert list(map(record, all_on(engine))) == list(map(record, all_on(in_process)))


def test_errors_of_workers_are_met_as_if_they_had_been_here(plain):
    data = make_data("mlp")
    bad = [Job(Unit(0), Weights.of(PLAIN), Key.root(5), RECIPES["sgd"], batches=(np.arange(6),))]
    with pytest.raises(ConfigError, match="a batch drawn for client 0 has 6 to 6 samples"):
        plain.train(bad, data)
    with pytest.raises(ConfigError, match="no samples"):
        plain.evaluate(Weights.of(PLAIN), data.train.subset(np.empty(0, dtype=np.int64)))
    with pytest.raises(ConfigError, match="mix"):
        make_engine("ray", nn.Sequential(nn.Flatten(), Mixing(), nn.Linear(49, 3)), workers=2).examine(
            data.train
        )


class Mixing(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


# Who dies -----------------------------------------------------------------------------------------


def kill_at(monkeypatch, what: str, times: int = 1) -> list[int]:
    """From now on: when a worker is sent such a call, it is killed right after it, so many times."""
    killed: list[int] = []
    found = roster.Member.call

    def call(member, name, *arguments):
        if name == what and len(killed) < times and member.about["pid"] not in killed:
            killed.append(member.about["pid"])
            os.kill(member.about["pid"], signal.SIGSTOP)  # it gets the call, and never answers
            ref = found(member, name, *arguments)
            os.kill(member.about["pid"], signal.SIGKILL)
            return ref
        return found(member, name, *arguments)

    monkeypatch.setattr(roster.Member, "call", call)
    return killed


slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize("what", ["train", "wipe", slow("tallies"), slow("receive")])
def test_a_worker_killed_in_a_round_an_evaluation_or_an_erasure_changes_no_bit(
    engine, in_process, what, monkeypatch
):
    killed = kill_at(monkeypatch, what)
    history = run_on(engine, "mmt")
    assert len(killed) == 1
    assert record(history) == record(run_on(in_process, "mmt"))
    assert born(killed[0]) is None


@pytest.mark.slow
def test_when_all_workers_die_others_are_started_and_no_bit_changes(engine, in_process, monkeypatch):
    killed = kill_at(monkeypatch, "train", times=2)
    history = run_on(engine)
    assert len(killed) == 2
    assert record(history) == record(run_on(in_process))


@pytest.mark.slow
@pytest.mark.parametrize(("what", "of"), [("train", "of the same work"), ("receive", "as they were given")])
def test_work_that_every_worker_dies_of_is_given_up(engine, monkeypatch, what, of):
    killed = kill_at(monkeypatch, what, times=20)
    with pytest.raises(UnknotError, match=f"3 workers died one after the other {of}.*memory"):
        run_on(engine)
    assert len(killed) <= 8


def crew_of(many: int) -> Crew:
    """One whose workers answer at once, and are replaced when they are lost."""

    def member() -> roster.Member:
        return roster.Member(None, "node", {})

    def lose(gone: roster.Member) -> None:
        there.remove(gone)
        there.append(member())

    there = [member() for _ in range(many)]
    found = object.__new__(Crew)
    found.full = ()
    found._gone = deque()
    found.roster = SimpleNamespace(there=there, lose=lose, look=lambda: None)
    found.ray = SimpleNamespace(wait=lambda refs, **_: (refs[:1], refs[1:]))
    found.get = lambda member, ref: "done"
    return found


def prepare_by(fails) -> tuple[list[roster.Member], object]:
    """What kills those that `fails` says, one a call; who died of it so far."""
    died: list[roster.Member] = []

    def prepare(members):
        for member in members:
            if fails(member):
                died.append(member)
                assert len(died) < 100, "it never ends"
                raise Dead(member, RuntimeError("...\nkilled"))

    return died, prepare


@pytest.mark.parametrize("many", [1, 2, 16])
def test_data_that_every_worker_dies_of_is_given_up(many):
    died, prepare = prepare_by(lambda member: True)
    said = (
        r"3 workers died .* given the model and the data \(killed\): most likely they have too little memory"
    )
    with pytest.raises(UnknotError, match=said):
        crew_of(many).work([lambda member: object()] * 20, prepare, lambda call, result: None)
    assert 3 <= len(died) <= 2 * many + 1


def test_a_machine_that_goes_with_many_workers_as_they_are_given_data_is_no_reason_to_give_up():
    workers = crew_of(8)
    on_it = set(workers.roster.there[2:])
    died, prepare = prepare_by(on_it.__contains__)
    said = [""] * 20
    workers.work([lambda member: object()] * 20, prepare, said.__setitem__)
    assert set(died) == on_it
    assert set(said) == {"done"}


def test_no_worker_and_none_to_be_had_is_said(engine, monkeypatch):
    crowd = engine._crew.roster
    monkeypatch.setattr(crowd, "there", [])
    monkeypatch.setattr(crowd, "_coming", {})
    monkeypatch.setattr(crowd, "_start", lambda: None)
    with pytest.raises(UnknotError, match="no worker is left on the Ray cluster"):
        engine.train(make_jobs(network(), RECIPES["sgd"], [0]), small_data())


def test_a_worker_that_comes_later_is_used(engine):
    """As when a machine joins: the crew had counted on one, and the cluster has room for two."""
    crowd = engine._crew
    engine.describe()
    gone = crowd.members()[-1]
    crowd.roster.lose(gone)
    end = time.monotonic() + 60
    while len(crowd.members()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    assert len(crowd.members()) == 2
    assert gone not in crowd.members()
    data = small_data()
    engine.train(make_jobs(network(), RECIPES["sgd"], data.clients), data)
    assert all(crowd_member.samples[engine._number] for crowd_member in crowd.members())


# What stays ---------------------------------------------------------------------------------------

MARK = 1234.5


def marked(worker) -> int:
    """How many numbers of the worker's tensors are the mark; run in the worker."""
    import gc

    gc.collect()
    tensors = [value for value in gc.get_objects() if issubclass(type(value), torch.Tensor)]
    return sum(int((t.detach() == 1234.5).sum()) for t in tensors if t.dtype.is_floating_point)


def in_memory(pid: int, pattern: bytes) -> int:
    """How often a pattern stands in what a process can read, the object store's memory with it."""
    found = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            first, last = (int(part, 16) for part in span.split("-"))
            if rights.startswith("r") and not line.rstrip().endswith(("[vvar]", "[vsyscall]", ".so")):
                try:
                    memory.seek(first)
                    found += memory.read(last - first).count(pattern)
                except (OSError, ValueError, OverflowError):
                    continue
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_once_a_request_is_served_no_worker_holds_the_erased_rows(plain, dtype):
    data = small_data()
    data.train.x[torch.from_numpy(data[1].rows)] = MARK
    engine = make_engine("ray", network(), workers=2, dtype=dtype)
    held = []

    def note(event):
        if isinstance(event, unknot.Round):
            workers = [member.handle for member in engine._crew.members()]
            held.append(sum(engine._crew.ray.get([w.__ray_call__.remote(marked) for w in workers])))

    dtype_name = str(dtype).removeprefix("torch.")
    fed = unknot.simulate(network, data, "rfs", RECIPE, engine=engine, dtype=dtype_name, observers=[note])
    fed.run(4, requests=[unknot.erase(1, round=2)])
    assert len(held) >= 4
    assert min(held[:2]) > 0
    assert max(held[2:]) == 0


def placed(monkeypatch) -> list[torch.Size]:
    """From now on: the shapes of the inputs that are placed with a worker."""
    shapes, found = [], roster.Member.call

    def call(member, name, *arguments):
        if name == "settle":
            shapes.append(arguments[2].x)
        return found(member, name, *arguments)

    monkeypatch.setattr(roster.Member, "call", call)
    return shapes


def test_when_something_is_erased_workers_lose_that_and_keep_the_rest(engine, in_process, monkeypatch):
    sent = placed(monkeypatch)
    data = small_data()
    feds = [unknot.simulate(network, data, "rfs", RECIPE, engine=some) for some in (engine, in_process)]
    there, here = (fed.run(4, requests=REQUESTS) for fed in feds)
    assert record(there) == record(here)
    assert max(Counter(sent).values()) <= 2  # to each of two workers once, before anything was erased
    now = feds[0].data.train
    held = [held_by(member.handle, engine) for member in engine._crew.members()]
    assert {tuple(x.shape) for xs in held for x in xs} == {tuple(now.x.shape), tuple(data.test.x.shape)}
    assert all(torch.equal(x, now.x) for xs in held for x in xs if x.shape == now.x.shape)
    assert not now.x.equal(data.train.x)


def held_by(handle, engine):
    """The inputs that a worker holds for an engine."""
    number = engine._number

    def inputs(worker):
        return [samples.x.numpy() for samples in worker._desks[number].samples.values()]

    return [torch.from_numpy(x.copy()) for x in engine._crew.ray.get(handle.__ray_call__.remote(inputs))]


@pytest.mark.parametrize("share", ["fork", "lent"])
def test_what_one_run_erases_another_run_with_the_same_samples_still_has(engine, in_process, share):
    def models(engine):
        data = small_data()
        kept = unknot.simulate(network, data, "rfs", RECIPE, engine=engine)
        erased = unknot.simulate(network, getattr(data, share)(), "rfs", RECIPE, engine=engine)
        first = erased.run(3, requests=unknot.erase(1, round=2)).model
        return [first, kept.run(2).model, erased.run(3, requests=unknot.erase(3, round=4)).model]

    assert all(there.equal(here) for there, here in zip(models(engine), models(in_process), strict=True))


def test_workers_lose_the_samples_of_other_runs_with_what_is_erased(engine):
    """They still have the rows: if they go on, they send them again."""
    data = small_data()
    other, fed = (unknot.simulate(network, data, "rfs", RECIPE, engine=engine) for _ in range(2))
    other.run(1)
    fed.run(2, requests=unknot.erase(1, round=2))
    held = [x for member in engine._crew.members() for x in held_by(member.handle, engine)]
    of_train = [x for x in held if len(x) == len(data.train)]
    assert of_train
    assert not any(x[data[1].rows].any() for x in of_train)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_rows_pass_the_object_store_unreadable_and_are_overwritten_where_they_were_read(engine):
    generator = Key.root(11).generator()
    x = torch.from_numpy(generator.standard_normal((20000, 8), dtype=np.float32))
    samples = Samples(x, torch.zeros(20000, dtype=torch.int64), 3)
    pattern = x[777].numpy().tobytes()
    engine.wipe()  # and whoever has died is missed
    members = engine._crew.members()
    engine._place(samples, engine._token(samples), members)
    pids = [member.about["pid"] for member in members]
    assert {in_memory(pid, pattern) for pid in pids} == {1}  # the copy that is read, and no other
    engine.wipe()
    assert {in_memory(pid, pattern) for pid in pids} == {0}


def test_samples_that_are_gone_here_are_gone_there(engine):
    start = Weights.of(network())
    samples = small_data().test
    samples = Samples(samples.x.clone().fill_(MARK), samples.y, 3)
    engine.predict(start, samples)
    member = next(m for m in engine._crew.members() if m.samples.get(engine._number))
    before = set(member.samples[engine._number])
    del samples
    assert member in engine._crew.members()
    assert member.samples[engine._number] < before
    assert engine._crew.ray.get(member.handle.__ray_call__.remote(marked)) == 0


def test_a_worker_that_does_not_answer_a_wipe_is_killed_before_it_returns(engine, monkeypatch):
    monkeypatch.setattr(crew, "REACHED", 1.0)
    data = small_data()
    engine.train(make_jobs(network(), RECIPES["sgd"], data.clients), data)
    member = engine._crew.members()[0]
    pid = member.about["pid"]
    os.kill(pid, signal.SIGSTOP)
    engine.wipe()
    assert member not in engine._crew.roster.there
    assert born(pid) is None


def test_a_worker_is_ended_by_its_birth_and_not_by_its_number_alone():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert ended(process.pid, "another one's", 5.0)
        assert process.poll() is None
        assert ended(process.pid, born(process.pid), 5.0)
        assert process.wait() == -signal.SIGKILL
    finally:
        process.kill()


# What is said -------------------------------------------------------------------------------------


def test_it_says_where_the_work_is(engine, in_process):
    run_on(engine)
    told = engine.describe()
    assert told["engine"] == "ray"
    assert told["workers"] == len(told["where"]) >= 1
    assert told["address"].startswith("127.0.0.1:")
    assert {"host", "node", "pid", "chip"} == set(told["where"][0])
    assert told["inner"]["engine"] == "stacked"
    assert told["path"] == told["inner"]["path"] == "fused"


def test_the_command_line_runs_on_it_and_shows_where(plain, tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(
        "[data]\npartition = 'iid'\nclients = 4\nsamples = 20\nvalidation = 50\n[train]\nbatch_size = 10\n"
        "[federation]\nrounds = 3\n[[request]]\nerase = 1\nround = 2\n"
    )

    def model(*options: str) -> str:
        done = CliRunner().invoke(app, ["run", str(file), "--json", *options])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)["model"]

    ray = ("--engine", "ray", "--set", "engine.workers=2")
    assert model(*ray) == model()
    shown = CliRunner().invoke(app, ["run", str(file), *ray], env={"COLUMNS": "120"}).output
    assert re.search(r"ray / fused / cpu, \d workers? on 1 machine \(127\.0\.0\.1:", shown)


def test_an_address_on_the_command_line_means_ray(monkeypatch, tmp_path):
    pytest.importorskip("ray")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    file = tmp_path / "small.toml"
    file.write_text("[federation]\nrounds = 1\n")
    done = CliRunner().invoke(app, ["run", str(file), "--ray-address", "somewhere"])
    assert done.exit_code == 2
    assert "write host:port" in " ".join(done.output.split())


def test_a_bad_address_is_refused_at_once(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address, said in (
        (f"127.0.0.1:{port}", f"no Ray cluster is reached at engine.address '127.0.0.1:{port}'"),
        ("no.such.host.invalid:6379", "no Ray cluster is reached"),
        ("somewhere", "write host:port"),
        ("host:port", "write host:port"),
        ("ray://head:10001", "Ray's client is not a way in"),
    ):
        with pytest.raises(ConfigError, match=said):
            make_engine("ray", network(), address=address)


def test_what_listens_but_is_not_ray_is_refused_at_once(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.create_server(("", 0)) as other:

        def greet():
            line, _ = other.accept()
            with line:
                line.recv(64)
                line.sendall(b"HTTP/1.0 400 Bad request")

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(ConfigError, match="something listens there, but it is not Ray"):
            make_engine("ray", network(), address=f"127.0.0.1:{other.getsockname()[1]}")


def test_a_cluster_that_was_there_once_is_refused_at_once(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        was = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda _: was)
    with pytest.raises(ConfigError, match=r"'auto' \(.*refused\): start one with 'ray start --head'"):
        make_engine("ray", network(), address="auto")


@pytest.mark.parametrize(
    ("free", "given"), [(64 << 20, None), (1 << 30, int(0.9 * (1 << 30))), (1 << 50, None)]
)
def test_the_object_store_is_as_large_as_fits_into_memory(monkeypatch, free, given):
    """Where there is too little for any, and where there is plenty, Ray says how large it is."""
    there = os.statvfs_result((1, 1, free, free, free, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: there)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PHYS_PAGES": 1 << 24, "SC_PAGE_SIZE": 4096}[name])
    assert cluster._store() == given


def test_another_cluster_than_the_one_that_this_process_is_part_of_is_refused(engine):
    with pytest.raises(ConfigError, match="part of the Ray cluster at 127"):
        make_engine("ray", network(), address="10.1.2.3:6379")


def test_settings_that_do_not_go_together_are_refused(engine):
    for options, said in (
        ({"workers": 0}, "workers must be at least 1"),
        ({"inner": "stakced"}, "Did you mean 'stacked'"),
        ({"inner": "loop", "rows": 3}, "does not take rows"),
        ({"workers": 500}, "do not fit into the Ray cluster"),
        (
            {"gpus": 1, "workers": 500},
            r"500 workers with 1 CPU and 1 GPU each do not fit .* has \d+ CPUs and",
        ),
        ({"device": "cuda", "gpus": 0}, "gpus = 0 does not go with the device 'cuda'"),
        ({"gpus": 2}, "gpus = 2: a worker takes one GPU or none; for more GPUs ask for more workers"),
        ({"gpus": -1}, "gpus = -1: a worker takes one GPU or none"),
        ({"device": "cuda:1"}, "device = 'cuda:1': with Ray each worker has a GPU of its own: say 'cuda'"),
        ({"device": "meta"}, "device = 'meta': with Ray workers train on 'cpu' or 'cuda'"),
    ):
        with pytest.raises(ConfigError, match=said):
            make_engine("ray", network(), **options)


def test_a_model_that_cannot_be_sent_is_refused_in_words(engine):
    model = network()
    model.lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"Sequential cannot be sent to workers: .*lock"):
        make_engine("ray", model, workers=2)


def test_too_little_memory_is_said_with_what_to_do(engine, ray, monkeypatch):
    def full(value):
        raise ray.exceptions.ObjectStoreFullError("full")

    def exhausted(ref):
        raise ray.exceptions.RayTaskError("train", "...", MemoryError("64 GiB wanted"))

    with monkeypatch.context() as patch:
        patch.setattr(ray, "put", full)
        with pytest.raises(ConfigError, match=r"no room for 0\.0 MiB .*--object-store-memory"):
            engine.predict(Weights.of(network()), small_data().test)
    with monkeypatch.context() as patch:  # what is too large to go with a call, Ray puts there, too
        patch.setattr(roster.Member, "call", lambda *_: full(None))
        with pytest.raises(ConfigError, match="no room for what goes to the workers: give it more"):
            engine.describe()
    member = engine._crew.members()[0]
    monkeypatch.setattr(ray, "get", exhausted)
    with pytest.raises(ConfigError, match=r"has too little memory \(64 GiB wanted\): ask for fewer workers"):
        engine._crew.get(member, None)


def test_without_ray_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"needs ray, which is not installed: .*pip install -e '\.\[ray\]'"):
        make_engine("ray", network())


def test_a_worker_with_other_code_or_without_ours_is_refused(engine):
    about = engine._crew.members()[0].about
    for what in ("torch", "its code", "unknot", "numpy", "python"):
        other = {**about, "same": {**about["same"], what: "1.0"}}
        with pytest.raises(ConfigError, match=rf"has {what} 1\.0, and here it is"):
            engine._crew.roster._check_same(other)
    gone = RuntimeError("...\nModuleNotFoundError: No module named 'unknot'")
    with pytest.raises(ConfigError, match="has no module 'unknot': install unknot"):
        engine._crew.roster._refuse_birth(gone)


@pytest.mark.parametrize(("here", "said"), [("13.0", "and here it is 13.0"), (None, "and on a it is 13.0")])
def test_a_gpu_worker_whose_torch_has_another_cuda_is_refused(monkeypatch, here, said):
    """Where torch has none here, the first worker's counts."""
    monkeypatch.setattr(torch.version, "cuda", here)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "one of ours")
    crowd = roster.Roster(Machines(), "somewhere", None, 1, 1)

    def about(host, cuda):
        monkeypatch.setattr(torch.version, "cuda", cuda)
        same = cluster.about_here(torch.device("cuda"))
        monkeypatch.setattr(torch.version, "cuda", here)
        return {"host": host, "same": same}

    crowd._check_same(about("a", "13.0"))
    with pytest.raises(ConfigError, match=f"the worker on b has CUDA 12.6, {said}"):
        crowd._check_same(about("b", "12.6"))


def test_a_worker_that_sees_more_gpus_than_its_own_is_refused_in_words(monkeypatch):
    monkeypatch.setattr("unknot.engine.alike", lambda: (["cpu", "cpu"], ""))
    packed = packed_engine(pickle.dumps, "stacked", network(), {"device": "cuda", "threads": 1})
    with pytest.raises(ConfigError, match=r"sees several GPUs.*RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"):
        Worker([], 1, "cpu").open(1, packed)


class Machines:
    """In place of Ray: machines with 4 cores each, "a" and "b" with chips of two kinds; all goes at once."""

    def __init__(self) -> None:
        ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
        self.exceptions, self.util = ray.exceptions, ray.util
        self.on: dict[int, str] = {}
        self.started = 0

    def nodes(self):
        kinds = {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 4.0}}
        return [{"NodeID": node, "Labels": {"ray.io/node-id": node}, **kinds} for node in "ab"]

    def remote(self, _):
        return SimpleNamespace(
            options=lambda **options: SimpleNamespace(remote=partial(self._start, options))
        )

    def _start(self, options, *_):
        strategy = options["scheduling_strategy"]
        barred = strategy.hard[0].operator.values if strategy else ()
        free = {node: 4 - list(self.on.values()).count(node) for node in "ab" if node not in barred}
        self.started += 1
        number = self.started
        self.on[number] = max(free, key=lambda node: free[node])
        assert free[self.on[number]]
        told = SimpleNamespace(remote=lambda: ("about", number))
        return SimpleNamespace(
            about=told, number=number, __ray_call__=SimpleNamespace(remote=lambda _: number)
        )

    def wait(self, refs, **_):
        return refs, []

    def get(self, ref):
        if isinstance(ref, int):
            return self.on[ref]
        node = self.on[ref[1]]
        return {"host": node, "pid": ref[1], "same": {"chip": node}}

    def kill(self, handle):
        del self.on[handle.number]


@pytest.mark.parametrize("workers", [None, 4])
def test_on_machines_of_two_kinds_those_of_the_other_kind_are_asked_once(workers):
    machines = Machines()
    crowd = roster.Roster(machines, "somewhere", workers, 1, 0)

    def look():
        for _ in range(10):
            crowd._looked = -roster.LOOK
            crowd.look()
        assert [member.node for member in crowd.there] == ["a"] * 4

    look()
    assert machines.started <= 8
    before = machines.started
    crowd.lose(crowd.there[0])
    look()
    assert machines.started == before + 1
    assert crowd.told()["left_out"] == ["b: b, where the others have a"]


# The parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 40, 1 << 20])
def test_samples_come_out_of_their_pieces_and_cannot_be_read_on_the_way(piece, monkeypatch):
    monkeypatch.setattr(parcels, "PIECE", piece)
    samples = small_data().train
    room, raw = Head.of(samples).empty(), parcels.as_bytes(samples.x).tobytes()
    for part, closed in pieces(samples):
        assert len(closed) < 16 or closed.tobytes() not in raw
        put_in(room, part, closed)
    assert torch.equal(room.x, samples.x)
    assert torch.equal(room.y, samples.y)


@pytest.mark.parametrize(("jobs", "workers", "rows"), [(10, 2, 10), (100, 2, 10), (7, 16, 10), (1, 2, 10)])
def test_a_round_is_cut_so_that_stacks_stay_whole_and_workers_end_together(jobs, workers, rows):
    steps = [1 + place % 5 for place in range(jobs)]
    cut = calls(steps, ["one"] * jobs, workers, rows)
    assert sorted(place for call in cut for place in call) == list(range(jobs))
    assert len(cut) >= min(jobs, workers)
    work = [0] * workers
    for call in cut:  # whoever is idle takes the next
        work[work.index(min(work))] += sum(steps[place] for place in call)
    assert max(work) <= sum(steps) / workers + rows * max(steps) / 2 + max(steps)


def test_jobs_of_other_recipes_are_in_other_stacks():
    cut = calls([1] * 8, ["a", "b"] * 4, 2, 4)
    assert all(len({place % 2 for place in call}) == 1 for call in cut)


def test_workers_have_whole_slices():
    assert parts(2100, 2) == [slice(0, 1024), slice(1024, 2560)]
    assert parts(12, 2) == [slice(0, 512)]
    assert parts(1024, 3) == [slice(0, 512), slice(512, 1024)]


def test_the_code_that_bits_depend_on_has_a_digest():
    here = cluster.about_here(torch.device("cpu"))
    assert len(here["its code"]) == 12
    assert here["unknot"] == unknot.__version__


@pytest.mark.parametrize(
    "file", ["engine/cuda/linear.cu", "engine/cuda/convolution.cu", "core/weights.py", "models/__init__.py"]
)
def test_changed_code_changes_the_digest(tmp_path, file):
    root = Path(unknot.__file__).parent
    for room in cluster.ROOMS:
        shutil.copytree(root / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    before = cluster.digest(tmp_path)
    assert before == cluster.digest(root)
    with open(tmp_path / file, "a", encoding="utf-8") as more:
        more.write("\n")
    assert cluster.digest(tmp_path) != before


def test_all_code_of_the_rooms_is_in_the_digest():
    root = Path(unknot.__file__).parent
    files = [file for room in cluster.ROOMS for file in (root / room).rglob("*") if file.is_file()]
    assert {file.suffix for file in files if file.parent.name != "__pycache__"} == set(cluster.CODE)


def test_samples_that_come_again_overwrite_the_first_copy():
    """Another worker died before it could say that it had them, and all are given them again."""
    samples = Samples(torch.full((10, 8), 1234.5), torch.zeros(10, dtype=torch.int64), 3)
    head, worker = Head.of(samples), Worker([], 1, "cpu")
    worker.open(1, packed_engine(pickle.dumps, "stacked", nn.Sequential(nn.Linear(8, 3)), {"threads": 1}))
    copies = []
    for _ in range(2):
        for piece, closed in pieces(samples):
            worker.receive(1, 7, head, piece, closed)
        worker.settle(1, 7, head)
        copies.append(worker._desks[1].samples[7].x)
    assert not copies[0].any()
    assert (copies[1] == 1234.5).all()


def test_an_empty_address_is_no_cluster_of_this_machines_own():
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=r"engine\.address is empty"):
        cluster.connect(" ", 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_machine_without_gpus_is_told_how_workers_use_theirs():
    with pytest.raises(ConfigError, match=r"this machine has cpu.*engine\.gpus = 1"):
        unknot.simulate("mlp", small_data(), engine="ray", device="cuda")
