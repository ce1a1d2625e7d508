"""Files of records: small, whole or not at all, of any age, and each record says where it comes from."""

import gzip
import json
import multiprocessing
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

from small_reproductions import runs
from unknot.core.errors import DataError
from unknot.reproduce import findings, origin, reproduce
from unknot.reproduce.findings import _words
from unknot.reproduce.measures import _real_seconds
from unknot.reproduce.page import Made, doubt, foot
from unknot.reproduce.record_file import keep, kept
from unknot.reproduce.records import read, rounded, same


def item(key, **more):
    return {"key": key, **more}


def test_the_same_records_give_the_same_bytes_whenever_and_under_any_name(tmp_path):
    files = [tmp_path / "a.json.gz", tmp_path / "b.json.gz"]
    for file in files:
        keep(file, item("x", value=1), item("y", value=[0.5] * 100))
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert first[4:8] == b"\0\0\0\0"  # no date
    assert [entry["key"] for entry in json.loads(gzip.decompress(first))["runs"]] == ["x", "y"]
    assert len(first) < 200
    assert not list(tmp_path.glob("*.part"))


def test_an_interrupted_write_leaves_the_records_as_they_were(tmp_path):
    file = tmp_path / "a.json.gz"
    keep(file, item("x", value=1))
    before = file.read_bytes()
    with pytest.raises(TypeError):
        keep(file, item("y", value=object()))
    assert file.read_bytes() == before


def _write(file, who):
    for i in range(5):
        keep(file, {"key": f"{who}/{i}", "config": {}})


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    pytest.importorskip("fcntl")
    file = tmp_path / "x-paper.json.gz"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(file, who)) for who in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(kept(file)) == 10
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_numbers_of_a_run_have_eight_digits_and_whole_numbers_all():
    assert rounded({"a": [1 / 3, None, 123456789, "x"], "b": (2.0,)}, 8) == {
        "a": [0.33333333, None, 123456789, "x"],
        "b": [2.0],
    }


def test_configurations_are_the_same_whatever_their_names_and_how_numbers_are_written():
    assert same({"name": "a", "x": {"k": 10, "l": (1, 2)}}) == same({"x": {"l": [1, 2.0], "k": 10.0}})
    assert same({"x": 10}) != same({"x": 10.5})
    assert same({"x": True}) != same({"x": "true"})


# Damaged files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"x", b"[]", b'{"format": 7}'], ids=["x", "list", "format"])
def test_a_file_that_is_not_of_records_is_an_error_that_names_it(tmp_path, content):
    file = tmp_path / "a.json.gz"
    for written in (content, gzip.compress(content)):
        file.write_bytes(written)
        with pytest.raises(DataError, match=r"a\.json\.gz"):
            kept(file)


def test_a_setting_may_be_without_end(tmp_path):
    keep(tmp_path / "a.json.gz", item("x", config={"cap": float("inf")}))
    assert kept(tmp_path / "a.json.gz")["x"]["config"]["cap"] == float("inf")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    file = reproduce(runs(), out=tmp_path_factory.mktemp("done"), seeds=[0], only=["rfs"])
    return kept(file)["p/rfs/0"]


def test_a_record_is_read_back_as_it_was_written(tmp_path, done):
    keep(tmp_path / "a.json.gz", done)
    (record,) = read(tmp_path / "a.json.gz").records.values()
    assert json.loads(json.dumps(record.to_dict())) == done
    assert [one.trips for one in record.history.events] == [()] * 3


@pytest.mark.parametrize("part", ["rounds", "requests", "ended"])
def test_what_is_wrong_with_a_record_is_told_with_what_takes_it_out_when_it_is_typed(tmp_path, done, part):
    folder = tmp_path / "it's here"
    file = folder / "a.json.gz"
    history = {name: value for name, value in done["history"].items() if name != part}
    if part == "ended":
        history["stopped"] = 7
    keep(file, {**done, "history": history}, {**done, "key": "p/slow/0"})
    with pytest.raises(DataError, match=r"a\.json\.gz: the record p/rfs/0 is damaged") as error:
        read(file)
    typed = shlex.split(str(error.value).partition("once it is taken out: ")[2])
    assert typed[:2] == ["python", "-c"]
    subprocess.run([sys.executable, *typed[1:]], check=True)
    assert list(read(file).records) == ["p/slow/0"]


# Where a record comes from ----------------------------------------------------------------------


def test_a_run_has_its_commit_whether_that_is_all_its_configuration_machine_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr(origin, "_code", lambda: ("abc", False))
    file = reproduce(runs(), out=tmp_path, seeds=[0], only=["rfs"])
    (record,) = read(file).records.values()
    assert (record.commit, record.clean) == ("abc", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record.made)
    assert record.config["train"]["lr"] == 0.1
    assert record.machine["torch"]
    found = findings(runs(), "small", file, [0])
    assert found.commits == (f"abc ({record.made[:10]})",)
    assert found.doubts == ("from abc with changes to it: everything",)


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_is_that_of_the_checkout_that_has_the_code(tmp_path):
    code = tmp_path / "src" / "unknot" / "reproduce" / "origin.py"
    code.parent.mkdir(parents=True)
    code.write_text("a = 1\n")
    assert origin._checkout(code) is None, "no repository"
    git(tmp_path, "init", "-q")
    (tmp_path / "other").write_text("b")
    git(tmp_path, "add", "other")
    git(tmp_path, "commit", "-qm", "one")
    assert origin._checkout(code) is None, "a repository that does not know the code"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "two")
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    assert origin._checkout(code) == (head, True)
    (tmp_path / "other").write_text("c")
    assert origin._checkout(code) == (head, True), "what is no code does not count"
    code.write_text("a = 2\n")
    assert origin._checkout(code) == (head, False)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            '{"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef"}}',
            ("0123456789ab", True),
        ),
        ('{"url": "file:///x", "dir_info": {}}', None),
        (None, None),
    ],
)
def test_installed_from_a_repository_it_knows_the_commit(said, expected, monkeypatch, tmp_path):
    place = origin.CODE.parents[2]

    class Installed:
        def locate_file(self, name):
            return place / name

        def read_text(self, name):
            return said

    monkeypatch.setattr(origin.metadata, "distribution", lambda name: Installed())
    assert origin._installed() == expected
    monkeypatch.setattr(origin, "CODE", tmp_path / "unknot" / "reproduce" / "origin.py")
    assert origin._installed() is None, "another copy is installed than runs"


class Sheet:
    def __init__(self, commit, clean=None, made=None, machine=None):
        self.commit, self.clean, self.made, self.machine = commit, clean, made, machine or {}


def test_the_foot_of_a_page_says_what_ran_where_if_machines_differ():
    gpu, cpu = (Sheet("a", True, machine={"cpu": name}) for name in ("gpu", "cpu"))
    made = [Made("MNIST", "KNOT", cpu if seed == 1 else gpu, seed) for seed in range(3)]
    made += [Made("MNIST", "FedAvg", gpu, seed) for seed in range(3)] + [Made("Texts", "KNOT", cpu, 0)]
    assert foot(made, lambda machine: machine["cpu"])["machines"] == (
        "cpu: MNIST: KNOT (seed 1); Texts",
        "gpu: MNIST: FedAvg, KNOT (seeds 0, 2)",
    )
    assert foot(made[:1], lambda machine: machine["cpu"])["machines"] == ("gpu",)


def test_of_runs_side_by_side_the_path_is_not_told():
    machine = {"cpu": "c", "cores": 2, "torch": "2", "engine": "stacked", "path": "fused", "device": "cpu"}
    assert _words(machine) == "c, 2 cores, torch 2, stacked engine (fused) on cpu"
    assert (
        _words({**machine, "together": 3}) == "c, 2 cores, torch 2, stacked engine on cpu, runs side by side"
    )


def test_real_seconds_are_told_of_runs_alone_on_one_kind_of_machine():
    def record(seconds, **machine):
        return SimpleNamespace(
            history=SimpleNamespace(seconds={"total": seconds}), machine={"cpu": "c", **machine}
        )

    assert _real_seconds([record(1.0), record(3.0)]).mean == 2.0
    assert _real_seconds([record(1.0, together=2), record(3.0)]) is None
    assert _real_seconds([record(1.0, gpu="g"), record(3.0)]) is None


def test_the_foot_of_a_page_names_the_lines_that_cannot_be_traced():
    good, changed, none = Sheet("a", True, "2026-01-01T00:00:00Z"), Sheet("b", False), Sheet(None)
    made = [
        Made("MNIST", "KNOT", good),
        Made("MNIST", "KNOT", none),
        Made("MNIST", "FedAvg", good),
        Made("CIFAR", "KNOT", changed),
        Made("Texts", "KNOT", none),
    ]
    said = foot(made, lambda machine: "a machine")
    assert said["doubts"] == ("from b with changes to it: CIFAR", "without a commit: MNIST: KNOT; Texts")
    assert said["commits"] == ("a (2026-01-01)", "b")
    assert foot(made[:1], str)["doubts"] == ()
    assert foot(made[1:2], str)["doubts"] == ("without a commit: everything",)
    odd = [Made("MNIST", "KNOT", Sheet(*marks)) for marks in (("", True), ("main", True), ("a", "no"))]
    assert [doubt(item.record) for item in odd] == [
        "without a commit",
        "from 'main', which names no commit",
        "from a with changes to it",
    ]
    seeds = [Made("MNIST", "KNOT", none if i else good, i) for i in range(3)]
    assert foot(seeds, str)["doubts"] == ("without a commit: MNIST (seeds 1, 2)",)
    draws = [Made("", f"draw {i}", none if i else good) for i in range(3)]
    assert foot(draws, str)["doubts"] == ("without a commit: draw 1, draw 2",)
