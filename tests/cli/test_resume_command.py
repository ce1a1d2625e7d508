"""``unknot resume``: what it refused is said, what is over is left alone, and trackers go on."""

import csv
import json
import os
from pathlib import Path

import pytest
from kept_commands import break_off, call, shown, write_towns

from unknot.core.requests import erase, join
from unknot.core.saved import load_model
from unknot.experiments import Experiment, kept
from unknot.store.keeper import RunKeeper, keeper_of

pytest.importorskip("cryptography")

NAMES = ("Graz-on-Mur", "Linz-on-Danube", "Wels-on-Traun")


@pytest.fixture
def towns(tmp_path):
    """A run's file whose clients have names, and that asks for nothing."""
    return write_towns(tmp_path, NAMES, 2)


def left(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".html")}


@pytest.mark.parametrize("how", [["--quiet"], ["--json"], []])
def test_what_was_refused_is_said_and_why_and_the_status_says_so(file, tmp_path, how):
    out, ids = tmp_path / "run", tmp_path / "ids"
    call("run", file, "--out", out, "--quiet")
    ids.write_text("[123456]")
    call("forget", out, "--client", "2", "--samples", ids)
    call("forget", out, "--client", "1")
    told = call("resume", out, *how, code=3)
    (line,) = [line for line in told.stderr.splitlines() if "refused" in line]
    assert line.startswith("warning: request 1 was refused: client 2 holds no sample 123456")
    assert [one["state"] for one in shown(out)["requests"]] == ["refused", "served"]
    assert "request 1:" not in shown(out)["requests"][0]["refused"]
    assert "was refused" not in call("resume", out).stderr


def test_a_run_that_refuses_a_request_exits_as_one_that_is_resumed(file, tmp_path, monkeypatch):
    going = kept.go_on

    def asked(fed, rounds=None):
        fed.inbox.put(join([1]))
        return going(fed, rounds)

    monkeypatch.setattr(kept, "go_on", asked)
    told = call("run", file, "--out", tmp_path / "run", "--quiet", code=3)
    assert "warning: request 1 was refused: client 1 is a member already" in told.stderr


def test_a_run_that_nobody_is_left_in_is_not_said_to_have_more_rounds(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    assert "--rounds N" in call("resume", out).stderr
    call("forget", out, *(word for client in range(shown(out)["clients"]) for word in ("--client", client)))
    call("resume", out, "--quiet", code=4)
    told = call("resume", out, code=4).stderr
    assert "is over (no clients left), and nothing was asked of it since: its results stay" in told
    assert "--rounds" not in told


def test_what_is_refused_trains_nothing_where_a_run_is_over(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    before = left(out)
    call("admit", out, "--client", "1")
    told = call("resume", out, code=3).stderr
    assert "is over (rounds), and what was asked of it was refused: its results stay as they are" in told
    assert left(out) == before
    assert shown(out)["rounds"] == 3
    call("admit", out, "--client", "1")
    call("resume", out, "--rounds", "2", "--quiet", code=3)
    assert shown(out)["rounds"] == 5


def test_a_request_after_more_rounds_is_trained_for_by_the_rule_of_the_file(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    call("resume", out, "--rounds", "1", "--quiet")
    call("forget", out, "--client", "1")
    call("resume", out, "--quiet")
    assert shown(out)["rounds"] == 3 + 1 + 3
    call("forget", out, "--client", "2")
    call("resume", out, "--rounds", "2", "--quiet")
    assert shown(out)["rounds"] == 7 + 2
    assert [one["state"] for one in shown(out)["requests"]] == ["served", "served"]


def test_the_same_command_after_a_crash_adds_nothing(file, tmp_path, monkeypatch):
    out, more = tmp_path / "run", ("--rounds", "3", "--checkpoint", "0", "--quiet")
    call("run", file, "--out", out, "--quiet")
    with monkeypatch.context() as patch:
        break_off(patch, 2)
        call("resume", out, *more, code=130)
    call("resume", out, *more)
    assert shown(out)["rounds"] == 6


@pytest.mark.parametrize("asked_as_they_end", [False, True])
def test_the_same_command_after_a_crash_before_its_results_adds_nothing_and_writes_them(
    file, tmp_path, monkeypatch, asked_as_they_end
):
    out, more, stepped = tmp_path / "run", ("--rounds", "3"), RunKeeper.stepped

    def asked(keeper, fed, *given):
        stepped(keeper, fed, *given)
        if fed.over and not fed.history.served:
            fed.inbox.put(erase(1))

    call("run", file, "--out", out, "--quiet")
    with monkeypatch.context() as patch:
        patch.setattr("unknot.cli.resume.leave", lambda *_, **__: os._exit(9))
        if asked_as_they_end:  # it is served, and trained for by the rule
            patch.setattr(RunKeeper, "stepped", asked)
        child = os.fork()
        if not child:
            try:
                call("resume", out, *more, "--quiet")
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    rounds = 9 if asked_as_they_end else 6
    assert shown(out)["rounds"] == rounds
    assert "trained before" in call("resume", out, *more).output
    assert shown(out)["rounds"] == rounds
    assert json.loads((out / "record.json").read_text())["model"] == shown(out)["model"]
    call("resume", out, *more, "--quiet")  # once they are there, it is more that is asked for
    assert shown(out)["rounds"] == rounds + 3


def test_more_rounds_whose_results_are_there_but_for_a_page_are_trained_when_asked_for_again(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    call("resume", out, "--rounds", "2", "--quiet")
    (out / "report.html").unlink()
    call("resume", out, "--rounds", "2", "--quiet")
    assert shown(out)["rounds"] == 3 + 2 + 2
    assert (out / "report.html").exists()


def test_how_to_go_on_after_an_interrupt_says_how_many_more_rounds_there_were_to_be(
    file, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    with monkeypatch.context() as patch:
        break_off(patch, 2)
        told = call("resume", out, "--rounds", "4", "--checkpoint", "0", code=130).stderr
    assert f"unknot resume {out} --rounds 4" in " ".join(told.split())


@pytest.mark.parametrize(
    ("more", "asks", "rounds", "last"), [(0, 0, 2, 5), (0, 1, None, 6), (1, 0, 3, 7), (2, 0, 3, 6)]
)
def test_progress_goes_to_the_round_that_the_run_goes_on_to(file, tmp_path, more, asks, rounds, last):
    fed = kept.begin(Experiment.read(file), tmp_path / "run")
    fed.resume()
    if more:  # it was broken off in the midst of more: of one other than is asked for, or of just that
        fed.begin(more if more == 1 else 3)
        fed.step()
    if asks:
        fed.inbox.put(erase(1))
    assert kept.last_round(fed, rounds) == last
    assert len(kept.go_on(fed, rounds).rounds) == last
    fed.close()


@pytest.mark.parametrize("command", ["run", "resume"])
def test_the_help_says_what_status_a_refusal_has(command):
    assert "or one was refused" in " ".join(call(command, "--help").stdout.replace("│", "").split())


def test_a_refusal_calls_clients_by_their_names(towns, tmp_path):
    out = tmp_path / "run"
    call("run", towns, "--out", out, "--quiet")
    call("admit", out, "--client", NAMES[2])
    assert f"request 1 was refused: {NAMES[2]} is a member already" in call("resume", out, code=3).stderr
    assert shown(out)["requests"][-1]["refused"] == f"{NAMES[2]} is a member already"


def test_a_run_that_is_over_and_asked_for_nothing_is_left_as_it_is(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    before = left(out)
    told = call("resume", out)
    assert "is over (rounds), and nothing was asked of it since" in told.stderr
    assert f"unknot resume {out} --rounds N" in told.stderr
    assert told.stdout == ""
    assert call("resume", out, "--quiet").output == ""
    record = json.loads(call("resume", out, "--json").stdout)
    assert record["model"] == shown(out)["model"]
    assert left(out) == before


@pytest.mark.parametrize("name", ["record.json", "report.html", "model.safetensors", "config.toml"])
def test_a_result_that_is_missing_is_written_anew(file, tmp_path, name):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    model = shown(out)["model"]
    (out / name).unlink()
    assert f"written: {out / name}" in call("resume", out).stdout
    assert json.loads((out / "record.json").read_text())["model"] == model


def rows(path):
    with path.open(newline="") as there:
        return list(csv.DictReader(there))


@pytest.mark.parametrize("more", [[], ["--rounds", "1"]])
@pytest.mark.parametrize("joined", [False, True])
def test_results_that_a_full_disk_keeps_from_being_written_are_written_by_the_command_that_is_named(
    file, tmp_path, monkeypatch, more, joined
):
    out, write = tmp_path / "run", Path.write_bytes

    def full(path, content):
        if path.suffix == ".safetensors":
            raise OSError(28, "No space left on device", str(path))
        return write(path, content)

    command = ["run", file, "--out", out]
    if more or joined:
        late = ["--set", "request=[{join = 1, round = 9}]"] if joined else []
        call("run", file, "--out", out, "--quiet", *late, code=3 if joined else 0)
        command = ["resume", out, *more]
        if joined:
            call("admit", out, "--client", "1")
    monkeypatch.setattr(Path, "write_bytes", full)
    told = call(*command, "--quiet", code=2).stderr
    monkeypatch.undo()
    again = f"unknot resume {' '.join([str(out), *more])}"
    assert f"cannot write {out / 'model.safetensors'}: No space left on device" in told
    assert "The run is over, and kept: once that can be written" in told
    assert told.rstrip().endswith(again)
    expected = shown(out)
    call(*again.split()[1:], "--quiet")
    record = json.loads((out / "record.json").read_text())
    assert (record["model"], len(record["rounds"])) == (expected["model"], expected["rounds"])
    assert load_model(out / "model.safetensors").digest() == expected["model"]


def test_a_table_that_is_there_is_gone_on_with(file, tmp_path, monkeypatch):
    table, out = tmp_path / "run.csv", tmp_path / "run"
    with monkeypatch.context() as patch:
        break_off(patch, 3)
        call("run", file, "--out", out, "--csv", table, "--checkpoint", "0", "--quiet", code=130)
    before = table.read_bytes()
    table.write_bytes(before.rstrip())  # as if the last line had been cut
    told = call("resume", out, "--csv", table)
    assert f"written: {table}" in told.stdout
    assert table.read_bytes().startswith(before)
    found = [(row["event"], row["step"]) for row in rows(table)]
    assert found == [("round", "1"), ("round", "2"), ("end", "2"), ("round", "3"), ("end", "3")]


def test_who_breaks_off_a_step_is_told_what_is_kept_and_what_comes_again(file, tmp_path, monkeypatch):
    out, rare = tmp_path / "run", ("--checkpoint", "1000", "--quiet")
    with monkeypatch.context() as patch:
        break_off(patch, 3)
        told = call("run", file, "--out", out, *rare, code=130).stderr
    assert f"stopped: after round 2; the run is kept in {out} as of its last checkpoint (0 rounds); " in told
    assert "the 2 rounds since are computed again. Go on with: unknot resume" in told
    with monkeypatch.context() as patch:
        break_off(patch, 2)
        told = call("resume", out, *rare, code=130).stderr
    assert "after round 1; " in told
    assert "(0 rounds); the round since is computed again" in told
    with monkeypatch.context() as patch:
        break_off(patch, 3)
        told = call("resume", out, "--checkpoint", "0", "--quiet", code=130).stderr
    assert f"stopped: after round 2; the run is kept in {out}. Go on with" in told


def test_a_table_that_is_not_there_has_what_came_since_the_checkpoint(file, tmp_path):
    table, out = tmp_path / "rest.csv", tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    call("resume", out, "--rounds", "2", "--csv", table, "--quiet")
    assert [row["step"] for row in rows(table) if row["event"] == "round"] == ["4", "5"]


def test_another_table_is_not_touched(file, tmp_path):
    table, out = tmp_path / "other.csv", tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    table.write_text("name,age\nAnna,3\n")
    told = call("resume", out, "--rounds", "1", "--csv", table, code=5)
    assert "is another table, with other columns" in told.stderr
    assert table.read_text() == "name,age\nAnna,3\n"


def test_an_error_that_nobody_thought_of_is_told_in_a_line_and_shown_where_on_demand(
    file, tmp_path, monkeypatch
):
    call("run", file, "--out", tmp_path / "run", "--quiet")

    def broken(*_):
        raise ZeroDivisionError("of all\nthings")

    monkeypatch.setattr(kept, "go_on", broken)
    told = call("resume", tmp_path / "run", code=2).stderr
    assert "cannot be gone on with (ZeroDivisionError: 'of all\\nthings')" in told
    monkeypatch.setenv("UNKNOT_TRACEBACK", "1")
    assert isinstance(call("resume", tmp_path / "run", code=1).exception, ZeroDivisionError)


def test_a_run_that_was_broken_off_leaves_the_experiment_that_one_leaves_which_was_not(file, tmp_path):
    experiment = Experiment.read(file)
    fed = kept.begin(experiment, tmp_path / "broken")
    fed.step()
    keeper_of(fed).checkpoint(fed)
    fed.close()
    call("resume", tmp_path / "broken", "--quiet")
    call("run", file, "--out", tmp_path / "whole", "--quiet")
    records = [tmp_path / name / "record.json" for name in ("broken", "whole")]
    broken, whole = (json.loads(record.read_text()) for record in records)
    assert broken["experiment"] == whole["experiment"] != {}


@pytest.mark.parametrize("name", ["record.json", "model.safetensors", "report.html", "config.toml"])
def test_a_result_that_is_damaged_is_written_anew_and_what_is_replaced_is_overwritten(file, tmp_path, name):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    whole = (out / name).read_bytes()
    (out / name).write_bytes(whole[: len(whole) // 2] + b"[" * (name == "config.toml"))
    with open(out / name, "rb") as old:
        call("resume", out, "--quiet")
        assert not any(old.read())
    digest = shown(out)["model"]
    assert json.loads((out / "record.json").read_text())["model"] == digest
    assert load_model(out / "model.safetensors").digest() == digest
    assert (out / name).stat().st_mode & 0o777 == 0o600
