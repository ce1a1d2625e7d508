"""What a kept run leaves beside itself: as the run's log says, and in the words of ``unknot show``."""

import hashlib
import json
import os

import pytest
from kept_commands import FILE, call, shown
from typer.testing import CliRunner

from unknot.cli import app
from unknot.cli.ending import Asked
from unknot.store import files, results
from unknot.store.database import Database
from unknot.store.entries import read_plain
from unknot.store.keyring import Keyring

pytest.importorskip("cryptography")

LEFT = ("config.toml", "record.json", "report.html", "model.safetensors")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text(FILE + "[[request]]\nerase = 3\nround = 2\n")
    return path


@pytest.fixture
def out(file, tmp_path):
    call("run", file, "--out", tmp_path / "run", "--quiet")
    return tmp_path / "run"


def flipped(path):
    """One bit of a byte in its middle, that is a digit's where it has some: it can still be read."""
    content = bytearray(path.read_bytes())
    digits = [i for i, byte in enumerate(content) if 48 <= byte < 56] or range(len(content))
    content[digits[len(digits) // 2]] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", LEFT)
def test_a_result_in_which_one_byte_was_flipped_is_named_and_written_again(out, name):
    before = {one: (out / one).read_bytes() for one in LEFT}
    assert shown(out)["changed"] == []
    assert "its results stay as they are" in call("resume", out).stderr
    flipped(out / name)
    assert shown(out)["changed"] == [name]
    assert f"{name} is not as the run left it" in " ".join(call("show", out).stdout.split())
    told = call("resume", out)
    assert f"{out / name} is not as the run left it, and is written again" in told.stderr
    assert shown(out)["changed"] == []
    after = {one: (out / one).read_bytes() for one in LEFT}
    assert {one for one in LEFT if before[one] != after[one]} <= {
        "record.json",
        "report.html",
    }  # real seconds


def test_a_result_that_is_not_there_was_taken_away_and_is_not_called_changed(out):
    (out / "report.html").unlink()
    assert shown(out)["changed"] == []
    call("resume", out)
    assert (out / "report.html").exists()


def test_who_dies_between_the_results_and_the_note_of_them_leaves_nothing_to_be_called_changed(
    out, monkeypatch
):
    noted = results.note_results

    def killed(db, keyring, folder, names=()):
        if names:
            raise KeyboardInterrupt
        noted(db, keyring, folder)

    with monkeypatch.context() as patch:
        patch.setattr(results, "note_results", killed)
        call("resume", out, "--rounds", 1, "--quiet", code=130)
    assert len(json.loads((out / "record.json").read_text())["rounds"]) == 4
    assert shown(out)["changed"] == []
    assert "its results stay as they are" in call("resume", out).stderr
    flipped(out / "record.json")
    assert shown(out)["changed"] == ["record.json"]


def test_what_the_log_has_of_results_tells_nothing_of_them_once_a_client_was_erased(out):
    """A digest would: whoever guesses a name that was in there sees that it is the one."""
    before = {name: (out / name).read_bytes() for name in LEFT}
    with Database.open(out / "run.db", readonly=True) as db:
        codes = read_plain(db.last("results").body)
    for name, content in before.items():
        assert codes[name] != hashlib.sha256(content).digest()
        assert results._code(Keyring(out / "keys"), out / name) == codes[name]
    call("forget", out, "--client", 1)
    call("resume", out, "--quiet")
    for name, content in before.items():
        (out / name).write_bytes(content)
        assert results._code(Keyring(out / "keys"), out / name) != codes[name]


def test_a_result_may_be_of_any_size(file, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "PIECE", 7)
    call("run", file, "--out", tmp_path / "run", "--quiet")
    assert shown(tmp_path / "run")["changed"] == []


def test_without_the_keys_nothing_is_said_of_results(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--keys", tmp_path / "apart", "--quiet")
    flipped(out / "record.json")
    assert shown(out)["changed"] == []
    assert shown(out, "--keys", tmp_path / "apart")["changed"] == ["record.json"]


def test_after_an_erasure_results_are_those_that_were_written_since(out):
    call("forget", out, "--client", 1)
    assert shown(out)["changed"] == []
    call("resume", out, "--quiet")
    assert shown(out)["changed"] == []
    flipped(out / "record.json")
    assert shown(out)["changed"] == ["record.json"]


def test_the_record_and_the_report_name_requests_by_the_numbers_that_they_were_given(out):
    call("forget", out, "--client", 1)
    call("forget", out, "--client", 2, "--samples", _ids(out.parent, 123456))
    call("resume", out, "--quiet", code=3)
    record = json.loads((out / "record.json").read_text())
    assert [one["request"] for one in record["requests"]] == ["erase client 3", "erase client 1"]
    assert record["asked"] == [None, 1]
    assert record["refused"] == [2]
    page = (out / "report.html").read_text()
    assert "request 1 in unknot show" in page
    assert "Request 2 was refused: unknot show says why." in page


def test_where_nothing_was_asked_from_outside_the_record_says_nothing_of_it(out):
    record = json.loads((out / "record.json").read_text())
    assert not {"asked", "refused"} & record.keys()


def _ids(place, *ids):
    path = place / "ids"
    path.write_text(json.dumps(ids))
    return path


@pytest.mark.slow
def test_killed_at_every_point_of_writing_its_results_a_run_writes_them_when_it_is_gone_on_with(
    file, tmp_path, monkeypatch
):
    """From its end on; before that tests/store kills it everywhere."""
    call("run", file, "--out", tmp_path / "whole", "--quiet")
    expected = json.loads((tmp_path / "whole" / "record.json").read_text())
    write, points, moment = Asked.write, [], 0

    def doomed(*args):
        files.hook = lambda name: points.append(name) or (len(points) == moment and os.kill(os.getpid(), 9))
        try:
            return write(*args)
        finally:
            files.hook = None

    monkeypatch.setattr(Asked, "write", doomed)
    died = True
    while died:
        moment, out = moment + 1, tmp_path / str(moment)
        if not (child := os.fork()):
            os._exit(CliRunner().invoke(app, ["run", str(file), "--out", str(out), "--quiet"]).exit_code)
        died = os.waitpid(child, 0)[1] != 0
        with monkeypatch.context() as calm:
            calm.setattr(Asked, "write", write)
            assert shown(out)["changed"] == []
            call("resume", out, "--quiet")
        found = json.loads((out / "record.json").read_text())
        assert all(found[name] == expected[name] for name in ("model", "rounds", "requests", "costs"))
        assert sorted(
            path.name for path in out.iterdir() if path.suffix in (".toml", ".html", ".safetensors")
        ) == ["config.toml", "model.safetensors", "report.html"]
        assert shown(out)["changed"] == []
    assert moment > 6
