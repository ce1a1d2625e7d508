"""What commands say of kept runs: who is meant, who holds one, and how it is gone on with."""

import json
import os
import re
import shutil
import sqlite3
import unicodedata
from importlib.util import find_spec

import pytest
from kept_commands import NAMES, break_off, call, shown, write_towns
from rich.console import Console
from typer.testing import CliRunner

from support import ToyEngine, small_data, toy_federation
from unknot.cli import app
from unknot.core.errors import RunStopped
from unknot.report import runs as report
from unknot.store import Database
from unknot.store.inbox import asker
from unknot.store.keeper import RunKeeper, keeper_of
from unknot.store.lock import Lock
from unknot.store.look import look
from unknot.store.naming import named_in
from unknot.unlearn import RFS

pytest.importorskip("cryptography")


def in_python(folder, rounds=2, names=None):
    """A federation that was run, and is still held, as in a notebook."""
    data = small_data((5, 8, 3, 6))
    fed = toy_federation(RFS(), data if names is None else data.replaced(names=names), ToyEngine())
    RunKeeper.create(fed, folder)
    fed.run(rounds)
    return fed


def test_a_run_that_is_over_is_finished_also_while_a_process_holds_it(tmp_path):
    out = tmp_path / "run"
    fed = in_python(out)
    found = shown(out)
    assert (found["state"], found["holder"]["pid"]) == ("finished", os.getpid())
    for words in (["show", out], ["runs", tmp_path]):
        assert f"finished, held by process {os.getpid()}" in call(*words).stdout
    idle = f"process {os.getpid()} holds {out} and is idle"
    served = "it is served when that process goes on (fed.run or fed.resume), or once it has let go"
    for command in ("forget", "admit"):
        told = call(command, out, "--client", "1", "--wait", code=2).stderr
        assert f"{idle}: {served} (fed.close())" in told
    assert shown(out)["requests"] == []
    left = call("forget", out, "--client", "1").stdout
    assert f"erase client 1. P{idle[1:]}: {served} (fed.close())" in left
    for word in ("pause", "stop"):
        assert f"there is nothing to {word}" in call(word, out, code=2).stderr
    assert idle in call("resume", out, code=2).stderr
    assert call("watch", out).stdout.splitlines()[-1].startswith("finished, held by process")
    fed.run(1)
    assert shown(out)["requests"][0]["state"] == "served"
    fed.begin(3)
    fed.step()
    keeper_of(fed).checkpoint(fed)
    assert shown(out)["state"] == "running"
    fed.close()


def ways_to_rest():
    def stopped(fed, out):
        fed.begin(5)
        fed.step()
        with Database.open(out / "run.db") as db:
            db.ask("stop", b"", "somebody")
        with pytest.raises(RunStopped):
            fed.resume()

    def interrupted(fed, out):
        fed.begin(5)
        fed.step()
        keeper_of(fed).interrupted = True
        with pytest.raises(KeyboardInterrupt):
            fed.resume()
        keeper_of(fed).interrupted = False

    def failed(fed, out):
        fed.begin(5)
        fed.step()
        fed.engine.train, train = None, fed.engine.train
        with pytest.raises(TypeError):
            fed.resume()
        fed.engine.train = train

    def built(fed, out):
        fed.begin(5)
        fed.step()
        keeper_of(fed).checkpoint(fed)
        fed.close()
        again = toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())
        RunKeeper.go_on(again, out)
        return again

    def stepped(fed, out):
        """By hand, and a step failed."""
        fed.begin(5)
        fed.step()
        fed.engine.train, train = None, fed.engine.train
        with pytest.raises(TypeError):
            fed.step()
        fed.engine.train = train

    return [stopped, interrupted, failed, stepped, built]


@pytest.mark.parametrize("rest", ways_to_rest(), ids=lambda rest: rest.__name__)
def test_a_run_that_nobody_goes_on_with_is_not_said_to_run_while_a_process_holds_it(tmp_path, rest):
    out = tmp_path / "run"
    fed = in_python(out)
    fed = rest(fed, out) or fed
    found = shown(out)
    assert (found["state"], found["holder"]["pid"]) == ("stopped", os.getpid())
    assert f"stopped, held by process {os.getpid()}" in call("show", out).stdout
    assert "to go on: in process" in call("show", out).stdout
    idle = f"process {os.getpid()} holds {out} and is idle"
    assert idle in call("forget", out, "--client", "1", "--wait", code=2).stderr
    assert (
        f"P{idle[1:]}: it is served when that process goes on" in call("forget", out, "--client", "1").stdout
    )
    for word in ("pause", "stop"):
        assert f"there is nothing to {word}" in call(word, out, code=2).stderr
    assert idle in call("resume", out, code=2).stderr
    assert call("watch", out).stdout.splitlines()[-1].startswith("stopped, held by process")
    if rest.__name__ not in ("failed", "stepped"):
        fed.step()
        keeper_of(fed).checkpoint(fed)
        assert shown(out)["state"] == "running"
        fed.resume()
        assert shown(out)["requests"][-1]["state"] == "served"
    fed.close()


def test_a_run_that_is_over_rests_also_where_its_end_failed_or_it_was_stepped_by_hand(tmp_path, monkeypatch):
    fed = in_python(tmp_path / "failed")
    with monkeypatch.context() as patch:
        patch.setattr(fed, "_finish", None)
        with pytest.raises(TypeError):
            fed.run(1)
    stepped = in_python(tmp_path / "stepped")
    stepped.begin(1)
    while not stepped.over:
        stepped.step()
    for one, name in ((fed, "failed"), (stepped, "stepped")):
        assert shown(tmp_path / name)["state"] == "finished"
        assert "there is nothing to pause" in call("pause", tmp_path / name, code=2).stderr
        assert len(one.run(1).rounds) == 4
        one.close()


def test_a_command_that_writes_its_results_is_waited_for_and_no_notebook_is_spoken_of(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    with Lock(out):
        ends = f"process {os.getpid()} has come to the end of {out}, and writes its results"
        told = [call("resume", out, code=2).stderr]
        assert f"{ends}: try again in a moment" in told[0]
        told.append(call("forget", out, "--client", "1", "--wait", code=2).stderr)
        told.append(call("forget", out, "--client", "1").stdout)
        assert f"P{ends[1:]}. Once it has ended, to have it served: unknot resume {out}" in told[-1]
        told.append(call("run", file, "--out", out, code=2).stderr)
        assert "try again in a moment" in told[-1]
        told += [call(*words).stdout for words in (["show", out], ["runs", tmp_path], ["watch", out])]
        assert all(
            f"finished, process {os.getpid()} writes its results, 1 request" in one for one in told[-3:]
        )
        assert f"to go on, once process {os.getpid()} has ended: unknot resume {out}" in told[-3]
        assert not any("fed." in one or "idle" in one for one in told)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--rounds", "7", "--csv", "x.csv"], "--rounds, --csv"),
        (["--json", "--checkpoint", "1"], "--json, --checkpoint"),
        (["--device", "cpu"], "--device"),
        (["--engine", "loop"], "--engine"),
        pytest.param(
            ["--plot", "x.png"],
            "--plot",
            marks=pytest.mark.skipif(not find_spec("matplotlib"), reason="draws"),
        ),
        (["--tensorboard", "x", "--mlflow", "y", "--wandb", "z"], "--tensorboard, --mlflow, --wandb"),
    ],
)
def test_a_paused_run_is_not_let_go_with_options_that_it_cannot_take_over(
    tmp_path, monkeypatch, options, named
):
    monkeypatch.chdir(tmp_path)
    fed = in_python(tmp_path / "run")
    fed.begin(3)
    fed.step()
    keeper_of(fed).checkpoint(fed)
    call("pause", "run")
    told = call("resume", "run", *options, code=2)
    assert told.stdout == ""
    assert f"run is paused, and process {os.getpid()} holds it, which cannot be given {named}:" in told.stderr
    assert "unknot resume run without options lets it go on" in told.stderr
    assert [one["kind"] for one in shown("run")["requests"]] == ["pause"]
    fed.close()


def test_a_paused_run_is_let_go_with_options_that_change_nothing_there(tmp_path):
    out = tmp_path / "run"
    fed = in_python(out)
    fed.begin(3)
    fed.step()
    keeper_of(fed).checkpoint(fed)
    call("pause", out)
    call("resume", out, "--quiet", "--own-code", "--keys", out / "keys")
    assert [one["kind"] for one in shown(out)["requests"]] == ["pause", "go"]
    assert "2: resume; by " in call("show", out).stdout  # as it was typed
    fed.close()


def test_who_waits_is_told_when_the_process_is_idle_before_it_is_served(tmp_path, monkeypatch):
    from unknot.store import inbox

    out = tmp_path / "run"
    fed = in_python(out)
    fed.begin(3)
    fed.step()
    keeper_of(fed).checkpoint(fed)
    look = inbox.wait_for

    def ends(*args, **options):
        if shown(out)["state"] == "running":
            with monkeypatch.context() as patch:
                patch.setattr(keeper_of(fed).post, "take", lambda *_: [])
                fed.resume()
        return look(*args, timeout=0.0)

    monkeypatch.setattr(inbox, "wait_for", ends)
    told = call("forget", out, "--client", "1", "--wait", code=3).stderr
    assert "the run ended before it was served" in told
    fed.close()


@pytest.mark.parametrize("read", [True, False])
def test_who_waits_is_told_what_a_reader_keeps_from_going(tmp_path, monkeypatch, read):
    from unknot.store import erasing, inbox

    out, look = tmp_path / "run", inbox.wait_for
    fed = in_python(out)
    fed.begin(3)
    fed.step()
    keeper_of(fed).checkpoint(fed)
    monkeypatch.setattr(erasing, "PATIENCE", 0.0)

    def serves(*args, **options):
        reader = sqlite3.connect(out / "run.db")
        if read:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM log").fetchall()
        fed.step()
        reader.close()
        return look(*args, timeout=0.0)

    monkeypatch.setattr(inbox, "wait_for", serves)
    told = call("forget", out, "--client", "1", "--wait").stdout
    still = "a reader of run.db kept run.db-wal from being emptied: that comes once the reader has ended"
    assert "what was kept of it on the disk is gone" in told
    assert (still in told) is (still in call("show", out).stdout) is read
    fed.close()
    assert still not in call("show", out).stdout


def test_a_run_made_in_python_is_gone_on_with_there(tmp_path):
    out = tmp_path / "run"
    in_python(out).close()
    again = (
        f"build the federation again in Python, unknot.simulate(..., store={str(out)!r}), and call resume()"
    )
    told = call("forget", out, "--client", "1").stdout
    assert again in told
    assert "unknot resume" not in told
    assert again in call("forget", out, "--client", "2", "--wait", code=2).stderr
    told = call("show", out).stdout
    assert again in told
    assert "unknot resume" not in told
    assert "finished, 1 request waits" in call("runs", tmp_path).stdout
    call("resume", out, code=2)


def test_a_name_is_found_however_its_accents_are_written(tmp_path):
    out = tmp_path / "run"
    in_python(out, names={0: "Köln", 1: "Graz", 2: "Málaga", 3: "Wien"}).close()
    assert "erase Köln" in call("forget", out, "--client", unicodedata.normalize("NFD", "Köln")).stdout
    assert "erase Málaga" in call("forget", out, "--client", "Málaga").stdout


def test_where_clients_have_names_a_number_must_say_that_it_is_one(tmp_path):
    out = tmp_path / "run"
    in_python(out, names={0: "1", 1: "2", 2: "3", 3: "10"}).close()
    told = call("forget", out, "--client", "0", code=2).stderr
    assert "there is no client '0'" in told
    assert "#0" in told
    assert shown(out)["requests"] == []
    assert "erase 1 (client 0)." in call("forget", out, "--client", "#0").stdout
    assert "erase 2 (client 1)." in call("forget", out, "--client", "2").stdout
    assert "there is no client 9" in call("forget", out, "--client", "#9", code=2).stderr
    assert "(never there, or erased" in call("forget", out, "--client", "Graz", code=2).stderr


def test_a_name_that_begins_with_a_hash_is_written_with_one_more_and_shown_so_to_people(tmp_path):
    out, names = tmp_path / "run", {0: "#3", 1: "##3", 2: "#north", 3: "Wien"}
    fed = in_python(out, names=names)
    fed.close()
    written = {0: "##3", 1: "###3", 2: "##north", 3: "Wien"}
    for client, name in written.items():
        assert f"erase {name} (client {client})." in call("forget", out, "--client", name).stdout
    told = call("show", out).stdout
    assert f"shaped by {', '.join(written.values())}\n" in told
    assert all(f"erase {name};" in told for name in written.values())
    assert [one["request"] for one in shown(out)["requests"]] == [f"erase {n}" for n in names.values()]
    (listed,) = json.loads(call("runs", tmp_path, "--json").stdout)
    assert listed["lineage"] == shown(out)["lineage"] == list(names.values())
    for wrong in ("#north", "####3", "3", "#"):
        told = call("forget", out, "--client", wrong, code=2).stderr.replace("\n", " ")
        assert f"Known: {', '.join(sorted(written.values()))}." in told, wrong
        assert re.search("a name that begins with '#' is written with one more|a number is written", told)


def test_a_number_that_somebody_else_there_is_called_by_is_refused_with_what_both_are_called(tmp_path):
    out = tmp_path / "run"
    in_python(out, names={0: "#1", 1: "Wien", 2: "#2", 3: "#9"}).close()
    for command in ("forget", "admit"):
        told = call(command, out, "--client", "#1", code=2).stderr.replace("\n", " ")
        assert "who is called so is '##1', who has number 1 is 'Wien'" in told
    assert (
        "who has number 9 was erased, or never there" in call("forget", out, "--client", "#9", code=2).stderr
    )
    assert shown(out)["requests"] == []
    assert "erase ##2 (client 2)." in call("forget", out, "--client", "#2").stdout  # both are one
    assert "erase ##9 (client 3)." in call("forget", out, "--client", "#3").stdout


def test_a_log_that_was_changed_is_said_to_be_where_a_run_is_shown_and_listed(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    assert shown(out)["log"] == "whole"
    assert "whole: every entry fits the one before it" in call("show", out).stdout
    with sqlite3.connect(out / "run.db") as changed:
        changed.execute(
            "UPDATE log SET body = x'00' WHERE number = (SELECT min(number) FROM log WHERE kind = 'event')"
        )
    changed.close()
    said = re.compile(
        "run.db: entry [0-9]+ of the log is damaged, or was changed: take the file from a backup"
    )
    assert said.search(shown(out)["log"])
    assert shown(out)["again"] is None
    assert said.search(json.loads(call("runs", tmp_path, "--json").stdout)[0]["log"])
    for words in (["show", out], ["runs", tmp_path]):
        told = " ".join(call(*words).stdout.split())
        assert "not whole, so that nothing above is certain" in told
        assert "unknot resume" not in told
        assert said.search(told)
    assert said.search(call("resume", out, code=2).stderr)


def test_where_they_have_none_both_ways_of_writing_a_number_do(tmp_path):
    out = tmp_path / "run"
    in_python(out).close()
    assert "erase client 3." in call("forget", out, "--client", "#3").stdout
    assert "erase client 2." in call("forget", out, "--client", "2").stdout
    for wrong in ("#", "#-1", "##1", "#x"):
        assert "have no names" in call("forget", out, "--client", wrong, code=2).stderr


def test_who_is_named_twice_is_refused(towns, tmp_path):
    out = tmp_path / "run"
    call("run", towns, "--out", out, "--quiet")
    for who in (NAMES[1], "#1"):
        told = call("forget", out, "--client", NAMES[1], "--client", who, code=2).stderr
        assert f"{NAMES[1]} is named twice" in told
    assert [one["by"] for one in shown(out)["requests"]] == ["its file"]


def test_every_hint_names_keys_that_lie_apart(towns, tmp_path, monkeypatch):
    out, keys = tmp_path / "run", tmp_path / "keys"
    again = f"unknot resume {out} --keys {keys}"
    with monkeypatch.context() as patch:
        break_off(patch, 3)
        told = call("run", towns, "--out", out, "--checkpoint", "0", "--keys", keys, code=130).stderr
    assert again in told
    assert again in call("show", out).stdout
    assert "keys kept apart" in call("show", out).stdout
    assert "keys kept apart" not in call("show", out, "--keys", keys).stdout
    assert again in call("forget", out, "--client", "#2").stdout
    told = call("forget", out, "--client", "#3", "--reason", "by post", code=2).stderr
    assert f"the keys of {out} are kept apart from it: add --keys FILE, or leave --reason out" in told
    told = call("forget", out, "--client", NAMES[2], code=2).stderr
    assert "names are sealed: add --keys FILE, or give the number that the client has in this run" in told
    assert not re.search("#[0-9]", told)  # it would be taken for the number that was looked for
    assert again in call("forget", out, "--client", "#1", "--wait", code=2).stderr
    assert f"to go on with it: {again}\n" in call("run", towns, "--out", out, "--keys", keys, code=2).stderr
    call("resume", out, "--keys", keys, "--quiet")
    assert f"{again} --rounds N" in call("resume", out, "--keys", keys).stderr


def test_the_folder_can_be_copied_from_a_narrow_list(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = "runs/a-rather-long-name-of-a-run-2"
    call("run", file, "--out", out, "--quiet")
    for columns in ("20", "60", "100"):
        result = CliRunner().invoke(app, ["runs"], env={"COLUMNS": columns})
        assert out in result.stdout.split(), columns


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_runs_are_listed_readably_on_a_screen_of_any_width(file, tmp_path, monkeypatch, columns):
    monkeypatch.chdir(tmp_path)
    for out in ("runs/a", "runs/hospital-2"):
        call("run", file, "--out", out, "--quiet")
    call("forget", "runs/a", "--client", "1")
    lines = CliRunner().invoke(app, ["runs"], env={"COLUMNS": str(columns)}).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) == {60: 7, 80: 6, 100: 4, 200: 3}[columns]  # of one, what waits may take two
    dates = [
        line for line in lines if re.search(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}[+-]", line)
    ]
    assert len(dates) == 2
    if columns > 80:
        assert all(line.endswith(" kB") for line in dates)


def test_a_finished_run_with_a_request_says_that_it_waits(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    call("forget", out, "--client", "1")
    assert "finished, 1 request waits" in call("runs", tmp_path).stdout
    call("forget", out, "--client", "2")
    assert "finished, 2 requests wait" in call("show", out).stdout
    call("resume", out, "--quiet")
    assert "wait" not in call("runs", tmp_path).stdout


def test_a_stopped_run_with_requests_says_that_those_wait_which_resuming_serves(file, tmp_path, monkeypatch):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        break_off(patch, 3)
        more = ("--set", "request=[{erase = 3, round = 2}]")
        call("run", file, "--out", out, "--checkpoint", "0", *more, code=130)
    assert "wait" not in call("runs", tmp_path).stdout  # what its file asks for comes by itself
    for client in (0, 1):
        call("forget", out, "--client", client)
    for words in (["show", out], ["runs", tmp_path], ["watch", out]):
        assert "stopped, 2 requests wait" in call(*words).stdout


def test_a_folder_that_is_older_than_its_keys_is_refused_with_one_thing_to_do(tmp_path):
    out, old = tmp_path / "run", tmp_path / "old"
    call("run", write_towns(tmp_path, NAMES, 3), "--out", out, "--quiet")
    shutil.copytree(out, old)
    call("forget", out, "--client", NAMES[1])
    call("resume", out, "--quiet")
    shutil.copy(out / "keys", old / "keys")
    for words in (["resume", old], ["forget", old, "--client", NAMES[2]], ["admit", old, "--client", "#1"]):
        told = call(*words, code=2).stderr
        assert "is older than its keys: it knows nothing of the erasure of client 1" in told
        assert "Put a copy from after that erasure there, or begin the run anew, without the data of" in told
        assert "unknot forget" not in told
        assert "begun with" not in told
    assert shown(old)["requests"] == []


@pytest.mark.parametrize("command", ["forget", "admit"])
def test_ctrl_c_says_by_what_one_knows_whether_the_request_stays(file, tmp_path, monkeypatch, command):
    from unknot.store import naming

    def stopped(*_):
        raise KeyboardInterrupt

    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    monkeypatch.setattr(naming, "shown_in", stopped)
    so = "the request stays if its number was printed; unknot show says"
    assert so in call(command, out, "--client", "1", code=130).stderr
    assert so in " ".join(call(command, "--help").stdout.split())


def test_what_was_removed_is_told_without_packs_and_zeros(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet", "--set", "request=[{erase = 1, round = 1}]")
    told = next(line for line in call("show", out).stdout.splitlines() if "; removed " in line)
    assert "in which cluster" in call("show", out).stdout
    assert "pack" not in told
    assert " 0 " not in told.partition("; removed ")[2]


def test_a_request_whose_client_is_gone_says_when_it_was_served_or_why_it_was_refused(file, tmp_path):
    out, ids = tmp_path / "run", tmp_path / "ids"
    call("run", file, "--out", out, "--quiet")
    ids.write_text(str(shown_ids(file)[0]))
    call("admit", out, "--client", "1", "--reason", "again")
    call("forget", out, "--client", "1", "--samples", ids)
    call("resume", out, "--quiet", code=3)
    before = shown(out)["requests"]
    call("forget", out, "--client", "1")
    call("resume", out, "--quiet")
    refused, served, _ = shown(out)["requests"]
    assert (refused["clients"], refused["reason"], refused["refused"]) == ([], "", "a member already")
    assert served["request"] == "erase …"
    for name in ("state", "served", "round", "time", "asked", "by", "number"):
        assert served[name] == before[1][name] is not None, name
    text = call("show", out).stdout
    rest = "; whom it named is not kept since one of them was erased"
    assert f"; refused: a member already{rest}" in text
    assert re.search(rf"2: erase …; by .*; served 2.* \(round {served['round']}, .* s\){rest}", text)


def shown_ids(file):
    """The ids of client 1's samples."""
    from unknot.experiments import Experiment
    from unknot.experiments.simulate import data_of

    return data_of(Experiment.read(file))[1].ids.tolist()


def test_a_reason_that_is_no_text_is_refused_in_words(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    told = call("forget", out, "--client", "1", "--reason", "asked by M\udcfcller", code=2).stderr
    assert "--reason is no text in UTF-8, from character 11 on" in told
    assert shown(out)["requests"] == []


def test_a_name_is_cut_where_it_is_shown_and_not_where_a_run_goes_by_it(tmp_path):
    out, name = tmp_path / "run", "n" * 2001
    in_python(out, names={0: name, 1: "Graz", 2: "Linz", 3: "Wien"}).close()
    assert named_in(out)[0] == name
    assert name not in call("forget", out, "--client", name).stdout
    assert look(out).requests[0].request == f"erase {name[:2000]}"
    assert shown(out)["requests"][0]["request"] == f"erase {name}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1\n2\n3x\n", ", line 3: '3x' is no id of a sample"),
        ("1\n-1\n", ", line 2: '-1' is no id of a sample"),
        ("99999999999999999999", ", line 1: '99999999999999999999' is no id of a sample"),
        ("5\n\n5\n", ", line 3: 5 is there twice, first in line 1"),
        ("[1, 2.5]", ", item 2: '2.5' is no id of a sample"),
        ("[1, ", " must have the ids of samples, whole numbers: one a line"),
        ("\n", " is empty"),
    ],
)
def test_what_is_wrong_with_a_file_of_samples_is_said_with_its_place(file, tmp_path, text, told):
    out, ids = tmp_path / "run", tmp_path / "ids"
    call("run", file, "--out", out, "--quiet")
    ids.write_text(text)
    assert f"{ids}{told}" in call("forget", out, "--client", "1", "--samples", ids, code=2).stderr
    assert shown(out)["requests"] == []


@pytest.mark.parametrize("text", ["\ufeff1\n2\n", "1 2", "[1, 2]", "\ufeff[1, 2]"])
def test_samples_are_read_however_an_editor_writes_them(file, tmp_path, text):
    out, ids = tmp_path / "run", tmp_path / "ids"
    call("run", file, "--out", out, "--quiet")
    ids.write_text(text, encoding="utf-8")
    assert "erase 2 samples of client 1" in call("forget", out, "--client", "1", "--samples", ids).stdout


def test_of_several_who_was_erased_before_is_left_out_and_that_is_said(file, tmp_path):
    out, ids = tmp_path / "run", tmp_path / "ids"
    call("run", file, "--out", out, "--quiet", "--set", "request=[{erase = 1, round = 1}]")
    ids.write_text("1")
    told = call("forget", out, "--client", "1", "--client", "2")
    assert f"left out: client 1 was erased from {out}" in told.stderr
    assert "request 1: erase client 2." in told.stdout
    for command, who, more in (
        ("forget", ["1"], []),
        ("admit", ["1", "2"], []),
        ("forget", ["1", "2"], ["--samples", ids]),
    ):
        named = [word for one in who for word in ("--client", one)]
        assert "client 1 was erased" in call(command, out, *named, *more, code=2).stderr
    call("resume", out, "--quiet")
    assert [(one["clients"], one["state"]) for one in shown(out)["requests"]] == [
        ([1], "served"),
        ([2], "served"),
    ]


def test_of_several_by_name_one_that_was_erased_before_is_as_unknown_as_one_that_never_was(towns, tmp_path):
    out = tmp_path / "run"
    call("run", towns, "--out", out, "--quiet")
    for unknown in (NAMES[0], "Nobody"):
        told = call("forget", out, "--client", unknown, "--client", NAMES[1], code=2).stderr
        assert f"there is no client {unknown!r} in {out} (never there, or erased" in told.replace("\n", " ")
    assert [one["number"] for one in shown(out)["requests"]] == [None]
    assert "left out" in call("forget", out, "--client", "#0", "--client", NAMES[1]).stderr


def test_a_join_that_waits_is_not_asked_for_twice(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet", "--set", "request=[{join = 1, round = 9}]", code=3)
    call("admit", out, "--client", 1)
    told = call("admit", out, "--client", 1, code=2).stderr
    assert told.startswith(
        "error: join client 1: that is asked for already, and still to be served (request 1)"
    )


def test_who_asked_stays_as_the_name_of_the_user(file, tmp_path, monkeypatch):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    for client, user in ((1, "frieda"), (2, "max")):
        monkeypatch.setenv("LOGNAME", user)
        call("forget", out, "--client", client)
    monkeypatch.setenv("LOGNAME", "somebody-else")
    call("resume", out, "--quiet")
    assert [(one["by"], one["state"]) for one in shown(out)["requests"]] == [
        ("frieda", "served"),
        ("max", "served"),
    ]
    assert "erase client 1; by frieda" in call("show", out).stdout


@pytest.mark.parametrize("error", [OSError, KeyError])
def test_who_asks_without_a_name_is_unknown(monkeypatch, error):
    def nobody():
        raise error("no such user")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert asker() == "unknown"


def test_a_folder_of_samples_is_refused_in_words(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    told = call("forget", out, "--client", "1", "--samples", "", code=2).stderr
    assert told.startswith("error: --samples must name a file with the ids of samples, one a line")


def test_times_have_their_zone_and_numbers_are_written_in_one_way(file, tmp_path, monkeypatch):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    moment = re.compile(r"last kept \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d")
    assert moment.search(call("show", out).stdout)
    many = {**shown(out), "rounds": 4000}
    told = CliRunner().invoke(app, ["runs", str(out)], env={"COLUMNS": "300"}).stdout
    assert re.search(r"\d\d:\d\d[+-]\d\d:\d\d", told)
    with (console := Console(width=300)).capture() as printed:
        console.print(report.table([many]), report.sheet(many))
    assert printed.get().count("4,000") == 2


def test_a_path_that_is_read_is_told_without_detours(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    file = write_towns(tmp_path, NAMES, 2)
    file.write_text(file.read_text().replace(str(tmp_path / "towns"), "../towns"))
    monkeypatch.chdir(tmp_path / "here")
    call("run", file, "--out", tmp_path / "run", "--quiet")
    assert f"reads {tmp_path / 'towns'}\n" in call("resume", tmp_path / "run").stderr


def test_a_client_that_waits_to_be_forgotten_is_not_asked_for_twice(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    call("forget", out, "--client", 1)
    told = call("forget", out, "--client", 1, code=2).stderr
    assert told.startswith(
        "error: erase client 1: that is asked for already, and still to be served (request 1)"
    )
    assert f"unknot show {out}" in told
    assert told.count("\n") == 1
    assert [one["state"] for one in shown(out)["requests"]] == ["waiting"]
    call("resume", out, "--quiet")
    assert [one["state"] for one in shown(out)["requests"]] == ["served"]
