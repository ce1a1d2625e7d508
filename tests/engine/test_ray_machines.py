"""On a Ray cluster that was there before: it is joined, a machine that comes is used, one that goes is missed
by no bit, and one without the package is refused. Machines are nodes of their own on this one."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", ROOT / "tests" / "engine")))
pytestmark = pytest.mark.slow

BEGIN = """\
import os, signal, sys, time
from torch import nn
from engine_worlds import RECIPES, make_jobs, same
from support import small_data
from unknot.core.errors import ConfigError
from unknot.engine import make_engine

network = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
data = small_data()
jobs = make_jobs(network, RECIPES["sgd"], data.clients)
right = make_engine("stacked", network).train(jobs, data)
engine = make_engine("ray", network, address=sys.argv[1])

def tell():
    print(all(map(same, engine.train(jobs, data), right)), engine.describe()["workers"], flush=True)

"""


@pytest.fixture
def ray():
    """The command, beside this Python."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    return Path(sys.executable).with_name("ray")


@contextmanager
def node(ray: Path, *arguments: str, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A machine of one core, which is switched off afterwards."""
    command = [ray, "start", "--block", "--num-cpus=1", "--disable-usage-stats", *arguments]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=env, start_new_session=True, text=True, **quiet)
    try:
        yield process
    finally:
        off(process)


def off(process: subprocess.Popen[str]) -> None:
    """All processes of its session, at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def environment(path: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**ours, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@contextmanager
def head(ray: Path, env: dict[str, str]) -> Iterator[str]:
    """The address of a cluster of one machine that listens."""
    host = socket.gethostbyname(socket.gethostname())
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    where = (f"--node-ip-address={host}", f"--port={port}", "--include-dashboard=false")
    with node(ray, "--head", *where, env=env):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            status = [ray, "status", f"--address={host}:{port}"]
            if not subprocess.run(status, env=env, capture_output=True, check=False).returncode:
                break
        yield f"{host}:{port}"


def test_a_machine_that_joins_is_used_and_one_that_goes_changes_no_bit(ray):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    env = {**environment(HERE), **token}
    script = BEGIN + textwrap.dedent("""\
        tell()
        sys.stdin.readline()
        end = time.monotonic() + 60
        while len(engine._crew.members()) < 2 and time.monotonic() < end:
            time.sleep(0.2)
        tell()
        sys.stdin.readline()
        tell()
        engine.wipe()
        tell()
        """)
    with head(ray, env) as address:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", script, address], env=env, text=True, **pipes) as run:
            assert run.stdin is not None
            assert run.stdout is not None
            said = (line.strip() for line in run.stdout if line.startswith(("True", "False")))
            assert next(said) == "True 1"
            with node(ray, f"--address={address}", env=env) as more:
                print(file=run.stdin, flush=True)
                assert next(said) == "True 2"
                off(more)
                print(file=run.stdin, flush=True)
                assert next(said) == "True 1"
                assert next(said) == "True 1"


def test_a_cluster_without_the_package_is_refused_in_words(ray, tmp_path):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    (tmp_path / "unknot").mkdir()
    (tmp_path / "unknot" / "__init__.py").write_text("")  # one that has nothing in it
    script = BEGIN + textwrap.dedent("""\
        try:
            tell()
        except ConfigError as error:
            print(error)
        """)
    with head(ray, {**environment(str(tmp_path)), **token}) as address:
        command = [sys.executable, "-c", script, address]
        env = {**environment(HERE), **token}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "a worker on the Ray cluster has no module 'unknot" in done.stdout, done.stderr
    assert "install unknot, the same version, on every machine" in done.stdout


def test_a_machine_of_another_kind_is_left_out_and_asked_once(ray):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    env = {**environment(HERE), **token}
    script = BEGIN + textwrap.dedent("""\
        import ray
        killed, kill = [], ray.kill
        ray.kill = lambda handle: (killed.append(handle), kill(handle))
        tell()
        sys.stdin.readline()
        end = time.monotonic() + 60
        while not killed and time.monotonic() < end:
            engine._crew.members()
            time.sleep(0.1)
        end = time.monotonic() + 8
        while time.monotonic() < end:
            engine._crew.members()
            time.sleep(0.1)
        tell()
        roster = engine._crew.roster
        print(f"True {len(killed)} {len(roster._coming)} {roster.told()['left_out']}", flush=True)
        """)
    with head(ray, env) as address:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", script, address], env=env, text=True, **pipes) as run:
            assert run.stdin is not None
            assert run.stdout is not None
            said = (line.strip() for line in run.stdout if line.startswith(("True", "False")))
            assert next(said) == "True 1"
            with node(ray, f"--address={address}", env={**env, "ATEN_CPU_CAPABILITY": "default"}):
                print(file=run.stdin, flush=True)
                assert next(said) == "True 1"
                told = next(said)
    assert told.startswith("True 1 0 [")
    assert ": DEFAULT, " in told
    assert told.count("where the others have") == 1


def test_a_cluster_with_other_kernels_is_refused_in_words(ray, tmp_path):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    kernels = tmp_path / "src" / "unknot" / "engine" / "cuda" / "linear.cu"
    kernels.write_text(kernels.read_text(encoding="utf-8").replace("+=", "-="), encoding="utf-8")
    script = BEGIN + textwrap.dedent("""\
        try:
            tell()
        except ConfigError as error:
            print(error)
        """)
    with head(ray, {**environment(str(tmp_path / "src")), **token}) as address:
        command = [sys.executable, "-c", script, address]
        env = {**environment(HERE), **token}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "has its code " in done.stdout, done.stderr
    assert "bits would depend on where a job is trained" in done.stdout
