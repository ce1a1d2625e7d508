"""Ray itself: found at an address or started here, without a dashboard and without a word to anybody."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import unknot
from unknot.core.errors import ConfigError, install

REACHED = 5.0
"""So many seconds an address is given to answer."""
IN_MEMORY = {
    "automatic_object_spilling_enabled": False,
    "local_fs_capacity_threshold": 1e-9,  # any disk counts as full: what finds no room would go there
    "oom_grace_period_s": 10,  # so long it may wait for room
}
SMALL, LARGE, USUAL = 100 << 20, 4 << 30, 0.3
"""Bytes of the smallest object store that Ray starts with, and of one that is large enough; the share of the
memory that Ray gives it."""
ROOMS, CODE = ("core", "engine", "models"), (".py", ".cu", ".cuh")
"""Where the code is that bits depend on, and how its files end."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray warns of a default of its own that will change
}


def imported() -> Any:
    """The package, where it is installed; it tells nobody that it is used."""
    os.environ.update(QUIET)
    try:
        import ray
        import ray.exceptions
        import ray.util.scheduling_strategies
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"engine 'ray' needs {error.name}, which is not installed: {install('ray')}"
        ) from None
    return ray


def connect(address: str | None, cpus: int) -> Any:
    """Ray, connected: to the cluster that this process is part of already, at the address, or of our own.

    One that is started here has this machine's cores (at least `cpus`), listens on 127.0.0.1 alone, to this
    process and its children alone, writes no object to a disk (if /dev/shm has room for its store), and ends
    with the process. `$RAY_ADDRESS` counts where no address is given.
    """
    ray = imported()
    if address is not None and not address.strip():
        raise ConfigError("engine.address is empty: write host:port, or 'auto', or leave it out")
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address not in ("local", "auto", here):
            raise ConfigError(
                f"this process is part of the Ray cluster at {here} already, and engine.address is "
                f"{address!r}: leave the address out, or call ray.shutdown() first"
            )
        return ray
    if address == "local":
        try:
            with _environment(_for_our_own()), _loopback(ray):
                ray.init(
                    address="local",
                    num_cpus=max(cpus, len(os.sched_getaffinity(0))),
                    object_store_memory=_store(),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="ERROR",
                    _system_config=IN_MEMORY,
                )
        except Exception as error:
            why = str(error).strip().partition("\n")[0]
            raise ConfigError(f"Ray cannot be started on this machine: {why}") from error
        return ray
    _check_address(ray, address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        raise ConfigError(_unreached(address, str(error).strip().partition("\n")[0])) from None
    return ray


def _check_address(ray: Any, address: str) -> None:
    """Ray itself tries for minutes, also where a cluster was once, or where something else listens."""
    if "://" in address:
        raise ConfigError(
            f"engine.address is {address!r}: Ray's client is not a way in. Start on a machine of the "
            "cluster, with the address of its head, host:6379, or 'auto'"
        )
    _, colon, port = address.rpartition(":")
    if address != "auto" and (not colon or not port.isdigit() or not 0 < int(port) < 65536):
        raise ConfigError(f"engine.address is {address!r}: write host:port, such as 10.0.0.1:6379, or 'auto'")
    try:  # what "auto" stands for; and this machine is called by the name that others know it by
        found = ray._private.services.canonicalize_bootstrap_address(address)
        host, _, port = found.rpartition(":")
        at = "" if found == address else f"{found}: "
    except Exception as error:
        raise ConfigError(_unreached(address, str(error).strip().partition("\n")[0])) from None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), REACHED) as line:
            if os.environ.get("RAY_USE_TLS", "0") in ("0", "") and not _answers(line):
                raise ConfigError(_unreached(address, f"{at}something listens there, but it is not Ray"))
    except OSError as error:
        raise ConfigError(_unreached(address, at + (error.strerror or str(error)))) from None


def _answers(line: socket.socket) -> bool:
    """Whether it speaks as gRPC does: HTTP/2, which begins with a frame of settings, type 4."""
    line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
    return line.recv(9)[3:4] == b"\4"


def _unreached(address: str, why: str) -> str:
    return (
        f"no Ray cluster is reached at engine.address {address!r} ({why}): start one with 'ray start --head' "
        "and join it from this machine (with RAY_AUTH_MODE and RAY_AUTH_TOKEN, if it asks for a token), or "
        "leave the address out for one of this machine's own"
    )


def _store() -> int | None:
    """How many bytes the object store may have, so that it lies in memory; None: as many as Ray gives it.

    One for which there is no room in /dev/shm, which is small in a container, Ray puts into a file.
    """
    try:
        there = os.statvfs("/dev/shm")
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    fits = int(0.9 * there.f_bavail * there.f_frsize)
    return min(fits, LARGE) if SMALL <= fits < USUAL * memory else None


def _for_our_own() -> dict[str, str]:
    """What the processes of a cluster of our own are started with: our modules, and a token.

    Other people's processes on this machine reach its ports, too. Left to itself Ray would keep a token in
    the home directory; this one is nowhere but in these processes.
    """
    found = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if not any(name.startswith("RAY_AUTH_") for name in os.environ):
        found["RAY_AUTH_TOKEN"] = _token()
    return found


@cache
def _token() -> str:
    """One for all clusters of this process: Ray keeps the first that it sees."""
    return secrets.token_hex(32)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Within: the environment has these values, and processes that are started inherit them.

    Ray adds how it authenticates, which is taken back as well.
    """
    before = {name: os.environ.get(name) for name in (*values, "RAY_AUTH_MODE")}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _loopback(ray: Any) -> Iterator[None]:
    """Within: a cluster that is started has the address 127.0.0.1.

    On Linux Ray takes no word for that, only this switch, which it has for other systems.
    """
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def about_here(device: torch.device) -> dict[str, str]:
    """What bits depend on, of this process: its code, and what computes."""
    found = {
        "unknot": unknot.__version__,
        "its code": _code(),
        "torch": torch.__version__.partition("+")[0],
        "numpy": np.__version__,
        "python": platform.python_version().rpartition(".")[0],
    }
    if device.type == "cuda":
        return found | {"CUDA": cuda() or "", "chip": torch.cuda.get_device_name(device)}
    return found | {"chip": f"{torch.backends.cpu.get_cpu_capability()}, {_processor()}"}


def cuda() -> str | None:
    """The CUDA (or ROCm) that torch was built for, with its libraries; None where for none."""
    return torch.version.cuda or torch.version.hip


@cache
def _code() -> str:
    return digest(Path(unknot.__file__).parent)


def digest(root: Path) -> str:
    """A digest of the code under `root` that bits depend on: a version number may stay while it changes."""
    hasher = hashlib.sha256()
    files = (file for room in ROOMS for file in (root / room).rglob("*") if file.suffix in CODE)
    for file in sorted(files):
        hasher.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return hasher.hexdigest()[:12]


@cache
def _processor() -> str:
    """What the machine calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
