"""Who is still there goes by name in all that a kept run leaves and prints; who was erased, by number."""

import csv
import json

import pytest
from kept_commands import NAMES, call, write_towns

pytest.importorskip("cryptography")

LINZ, WIEN = NAMES[1], NAMES[3]
REQUESTS = f"""
[[request]]
erase = '{LINZ}'
samples = [0, 1]
round = 1
[[request]]
join = ['{WIEN}']
round = 2
"""
TOLD = [f"erase 2 samples of {LINZ}", f"join {WIEN}"]
OWN = ("seconds", "experiment", "environment")


@pytest.fixture
def stays(tmp_path):
    """A run's file in which some samples are erased, and somebody joins: nobody leaves."""
    return write_towns(tmp_path, NAMES, 4, REQUESTS + "[scenario]\nthresholds = [0.5]\n")


def holding(folder, name):
    """The files of a folder that have a name in their bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and name.encode() in path.read_bytes()]


def without(record, names=OWN):
    return {name: value for name, value in record.items() if name not in names}


def test_the_record_of_a_kept_run_is_that_of_the_same_run_without_a_folder(stays, tmp_path):
    out = tmp_path / "run"
    plain = json.loads(call("run", stays, "--json").stdout)
    kept = json.loads(call("run", stays, "--json", "--out", out).stdout)
    assert [one["request"] for one in kept["requests"]] == TOLD
    assert [one["request"] for one in kept["recoveries"]] == TOLD[:1]
    assert without(kept) == without(plain)
    assert json.loads((out / "record.json").read_text()) == kept


def test_so_does_its_table_of_a_tracker(stays, tmp_path):
    for out in ([], ["--out", tmp_path / "run"]):
        call("run", stays, "--quiet", "--csv", tmp_path / "run.csv", *out)
        with (tmp_path / "run.csv").open(newline="") as lines:
            found = [one["request"] for one in csv.DictReader(lines) if one["event"] in ("erase", "join")]
        assert found == TOLD


def test_who_is_erased_later_is_a_number_in_all_that_was_asked_of_it(stays, tmp_path):
    out = tmp_path / "run"
    call("run", stays, "--quiet", "--out", out)
    assert {"record.json", "report.html"} <= set(holding(out, LINZ))
    call("forget", out, "--client", LINZ)
    told = json.loads(call("resume", out, "--json").stdout)
    assert LINZ not in json.dumps(told)
    asked = [one["request"] for one in told["requests"]]
    assert asked == ["erase 2 samples of client 1", f"join {WIEN}", "erase client 1"]
    assert holding(out, LINZ) == []
    assert "record.json" in holding(out, WIEN)
