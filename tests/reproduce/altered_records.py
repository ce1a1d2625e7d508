"""A record of a small run, and copies of it in which something is otherwise."""

import tomllib
from dataclasses import replace

from small_reproductions import RUNS
from unknot.reproduce import reproduce
from unknot.reproduce.records import read
from unknot.reproduce.reproduction import Reproduction

LONGER = RUNS.replace("phases = 2", "phases = 4").replace("erase = 1, phase = 1", "erase = 1, phase = 2")


def record_of(folder, text):
    plan = Reproduction.of(tomllib.loads(text), "tiny")
    return next(iter(read(reproduce(plan, out=folder, seeds=[0], only=["rfs"])).records.values()))


def configured(record, **sections):
    return replace(record, config={**record.config, **sections})


def asked(record, **change):
    (request,) = record.trace.requests
    return replace(record, trace=replace(record.trace, requests=(replace(request, **change),)))
