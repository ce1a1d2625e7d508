"""Runs that are kept: resume, runs, show, watch, forget, admit, by the folder alone."""

import json
import shutil
import sys
import tomllib
from importlib.util import find_spec

import pytest
from kept_commands import NAMES, break_off, call, shown

from unknot import KNOT, MMT, Clock, Iid, federate, simulate
from unknot.core.errors import ConfigError
from unknot.core.requests import erase
from unknot.core.toml import to_toml
from unknot.experiments import Experiment, run
from unknot.experiments.results import FILES
from unknot.federation import Trace
from unknot.store.database import Database
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import Keyring
from unknot.store.lock import Lock

pytest.importorskip("cryptography")


def holding(folder, name):
    """The files of a folder that have a name in their bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and name.encode() in path.read_bytes()]


def test_a_run_that_is_broken_off_is_resumed_to_the_bit(file, tmp_path, monkeypatch):
    whole = json.loads(call("run", file, "--json").stdout)
    with monkeypatch.context() as patch:
        break_off(patch, 3)
        call("run", file, "--out", tmp_path / "run", "--checkpoint", "0", code=130)
    before = shown(tmp_path / "run")
    there = json.loads(call("run", file, "--json", "--set", "federation.rounds=2").stdout)
    assert (before["state"], before["rounds"]) == ("stopped", 2)
    assert (before["model"], before["lineage"]) == (there["model"], there["lineage"])
    assert before["model_unknown"] == ""
    record = json.loads(call("resume", tmp_path / "run", "--json").stdout)
    for name in ("model", "lineage", "rounds", "costs", "scores"):
        assert record[name] == whole[name], name
    after = shown(tmp_path / "run")
    assert (after["state"], after["rounds"]) == ("finished", 3)
    assert (after["model"], after["lineage"]) == (whole["model"], whole["lineage"])
    assert json.loads((tmp_path / "run" / "record.json").read_text())["model"] == whole["model"]


def test_resume_can_add_rounds(file, tmp_path):
    call("run", file, "--out", tmp_path / "run", "--quiet")
    call("resume", tmp_path / "run", "--rounds", "2", "--quiet")
    longer = json.loads(call("run", file, "--json", "--set", "federation.rounds=5").stdout)
    found = shown(tmp_path / "run")
    assert (found["rounds"], found["model"]) == (5, longer["model"])


def test_no_erased_name_is_in_any_byte_of_the_folder(towns, tmp_path):
    out = tmp_path / "run"
    call("run", towns, "--out", out)
    assert holding(out, NAMES[0]) == []
    assert shown(out)["lineage"] == list(NAMES[1:])
    assert {"record.json", "report.html", "model.safetensors"} <= set(holding(out, NAMES[1]))
    left = call("forget", out, "--client", NAMES[1], "--reason", "moved to Salzburg")
    assert f"request 1: erase {NAMES[1]} (client 1). Nobody runs" in left.stdout
    assert f"unknot resume {out}" in left.stdout
    assert "moved to Salzburg" in call("show", out).stdout
    assert holding(out, "Salzburg") == []
    call("resume", out)
    assert holding(out, NAMES[1]) == []
    assert holding(out, NAMES[2])
    (file_s, outside) = shown(out)["requests"]
    assert (file_s["request"], file_s["by"], file_s["state"]) == ("erase client 0", "its file", "served")
    assert (outside["request"], outside["state"]) == ("erase client 1", "served")
    assert outside["asked"] < outside["served"]
    assert shown(out)["lineage"] == list(NAMES[2:])
    assert "was erased" in call("forget", out, "--client", "#1", code=2).output


def test_once_a_client_is_erased_its_file_may_go_too(towns, tmp_path):
    call("run", towns, "--out", tmp_path / "stays", "--quiet")
    call("run", towns, "--out", tmp_path / "goes", "--quiet")
    call("resume", tmp_path / "stays", "--rounds", "2", "--quiet")
    (tmp_path / "towns" / f"{NAMES[0]}.csv").unlink()
    call("resume", tmp_path / "goes", "--rounds", "2", "--quiet")
    assert shown(tmp_path / "goes")["model"] == shown(tmp_path / "stays")["model"]
    assert shown(tmp_path / "goes")["lineage"] == list(NAMES[1:])
    (tmp_path / "towns" / f"{NAMES[2]}.csv").unlink()
    assert "the data of Wels-on-Traun is not there" in call("resume", tmp_path / "goes", code=2).output


def test_data_that_went_before_its_erasure_was_served_is_to_be_put_back_for_it(towns, tmp_path):
    out, file = tmp_path / "run", tmp_path / "towns" / f"{NAMES[1]}.csv"
    call("run", towns, "--out", out, "--quiet")
    call("forget", out, "--client", NAMES[1])
    text = file.read_text()
    file.unlink()
    told = call("resume", out, code=2).stderr
    assert f"the data of {NAMES[1]} is not there any more" in told
    assert "its erasure was asked for, and waits: it is served with the data in place. Put it back" in told
    assert "unknot forget" not in told
    (tmp_path / "towns" / f"{NAMES[2]}.csv").rename(tmp_path / "away")  # nobody has asked for that
    told = call("resume", out, code=2).stderr
    assert f"the data of {NAMES[2]} is not there any more" in told
    assert "to take data away, ask for it: unknot forget" in told
    (tmp_path / "away").rename(tmp_path / "towns" / f"{NAMES[2]}.csv")
    file.write_text(text)
    call("resume", out, "--quiet")
    file.unlink()
    call("resume", out, "--rounds", "1", "--quiet")


def test_rows_of_erased_samples_may_be_overwritten_and_are_said_to_stay_in_place(towns, tmp_path):
    out, file, ids = tmp_path / "run", tmp_path / "towns" / f"{NAMES[1]}.csv", tmp_path / "ids"
    call("run", towns, "--out", out, "--quiet")
    head, first, *rest = file.read_text().splitlines(keepends=True)
    ids.write_text("[0]")
    call("forget", out, "--client", NAMES[1], "--samples", ids)
    file.write_text("".join([head, *rest]))
    told = call("resume", out, code=2).stderr
    assert "its erasure was asked for, and waits: it is served with the data in place. Put it back" in told
    file.write_text("".join([head, first, *rest]))
    call("resume", out, "--quiet")
    file.write_text("".join([head, *rest]))
    told = call("resume", out, "--rounds", "1", code=2).stderr
    assert "rows stay where they are: those of erased samples may be overwritten, not removed" in told
    assert "unknot forget" not in told
    file.write_text("".join([head, "0,0\n", *rest]))
    call("resume", out, "--rounds", "1", "--quiet")


def test_a_pending_request_does_not_keep_the_name_of_who_was_erased_before(towns, tmp_path):
    out = tmp_path / "run"
    late = f"request=[{{erase = '{NAMES[0]}', round = 99}}]"
    call("run", towns, "--out", out, "--set", late, code=3)
    assert holding(out, NAMES[0])
    call("forget", out, "--client", NAMES[0])
    call("resume", out)
    assert holding(out, NAMES[0]) == []


def test_what_config_toml_says_gives_the_run_again(towns, tmp_path):
    joins = f"request=[{{join = '{NAMES[1]}', round = 1}}]"
    call("run", towns, "--out", tmp_path / "run", "--set", joins, "--quiet")
    assert f'join = "{NAMES[1]}"' in (tmp_path / "run" / "config.toml").read_text()
    again = json.loads(call("run", tmp_path / "run" / "config.toml", "--json").stdout)
    assert again["model"] == shown(tmp_path / "run")["model"]


def test_a_config_toml_that_names_who_was_erased_erases_nobody_else(towns, tmp_path):
    out, many = tmp_path / "run", f"request=[{{erase = ['{NAMES[0]}', '{NAMES[2]}'], round = 1}}]"
    call("run", towns, "--out", out, "--set", many, "--quiet")
    (tmp_path / "towns" / f"{NAMES[0]}.csv").unlink()
    told = call("run", out / "config.toml", "--out", tmp_path / "again", code=2).stderr
    assert "request 1 names who was erased from the run that left this file (number [0, 2])" in told
    assert "take the request out" in told
    call("resume", out, "--rounds", "1", "--quiet")
    assert "erased = [0, 2]" in " ".join((out / "config.toml").read_text().split())


def test_a_record_that_names_who_was_erased_erases_nobody_else(towns, tmp_path):
    out = tmp_path / "run"
    printed = json.loads(call("run", towns, "--out", out, "--json").stdout)
    (tmp_path / "towns" / f"{NAMES[0]}.csv").unlink()
    for more in ([], ["--rounds", "1"]):
        call("resume", out, *more, "--quiet")
        record = json.loads((out / "record.json").read_text())
        assert record["experiment"] == tomllib.loads((out / "config.toml").read_text())
        for found in (printed, record):
            with pytest.raises(ConfigError, match="names who was erased from the run that left this file"):
                Experiment.of(found["experiment"])


def test_what_a_record_says_of_samples_gives_the_run_again(towns, tmp_path):
    out, some = tmp_path / "run", f"request=[{{erase = '{NAMES[1]}', samples = [0, 2], round = 1}}]"
    call("run", towns, "--out", out, "--set", some, "--quiet")
    record = json.loads((out / "record.json").read_text())
    assert record["experiment"]["request"] == [{"erase": NAMES[1], "samples": [0, 2], "round": 1}]
    assert run(Experiment.of(record["experiment"])).model.digest() == record["model"]


def test_names_that_nobody_has_are_refused_with_the_nearest(towns, file, tmp_path):
    call("run", towns, "--out", tmp_path / "named", "--quiet")
    call("run", file, "--out", tmp_path / "plain", "--quiet")
    wrong = call("forget", tmp_path / "named", "--client", "Linz-on-Danub", code=2).output
    assert f"Did you mean '{NAMES[1]}'?" in wrong
    assert "have no names" in call("forget", tmp_path / "plain", "--client", "Graz", code=2).output
    assert "there is no client 9" in call("forget", tmp_path / "plain", "--client", "9", code=2).output
    assert shown(tmp_path / "plain")["requests"] == []


def test_samples_are_read_from_a_file(file, tmp_path):
    out, ids = tmp_path / "run", tmp_path / "ids"
    call("run", file, "--out", out, "--quiet")
    for text in ("0\n1\n", "[1, 2]"):
        ids.write_text(text)
        assert "erase 2 samples of client 2" in call("forget", out, "--client", "2", "--samples", ids).stdout
    ids.write_text("zero")
    assert (
        "line 1: 'zero' is no id of a sample"
        in call("forget", out, "--client", "2", "--samples", ids, code=2).output
    )
    ids.write_text("[0]")
    two = ["--client", "1", "--client", "2"]
    assert "one client" in call("forget", out, *two, "--samples", ids, code=2).output
    call("resume", out, "--quiet")  # of the second, what is gone by then is left out
    assert [one["state"] for one in shown(out)["requests"]] == ["served", "served"]


def test_keys_may_lie_apart(towns, tmp_path):
    out, keys = tmp_path / "run", tmp_path / "keys"
    call("run", towns, "--out", out, "--keys", keys, "--quiet")
    assert not (out / "keys").exists()
    assert shown(out)["lineage"] == ["client 1", "client 2", "client 3"]
    assert shown(out, "--keys", keys)["lineage"] == list(NAMES[1:])
    assert "names are sealed: add --keys FILE" in call("forget", out, "--client", NAMES[1], code=2).output
    call("forget", out, "--client", NAMES[1], "--keys", keys)
    assert f"in {keys}: name them with --keys" in call("resume", out, code=2).output
    call("resume", out, "--keys", keys, "--quiet")
    assert shown(out, "--keys", keys)["lineage"] == list(NAMES[2:])
    other = call("run", towns, "--out", tmp_path / "other", "--keys", keys, code=2)
    assert "keys are for one run" in other.output


def test_force_takes_a_run_away_unless_somebody_runs_it(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    assert f"to go on with it: unknot resume {out}" in call("run", file, "--out", out, code=2).output
    with Lock(out):
        assert "try again in a moment" in call("run", file, "--out", out, "--force", code=2).output
        assert "and writes its results: try again" in call("resume", out, code=2).output
    first = shown(out)
    call("run", file, "--out", out, "--force", "--seed", "7", "--quiet")
    assert shown(out)["model"] != first["model"]
    call("run", file, "--out", out, "--force", "--no-keep", "--quiet")
    assert not (out / "run.db").exists()
    assert (out / "record.json").exists()


def test_force_keeps_the_old_run_where_the_new_one_cannot_be(file, tmp_path):
    call("run", file, "--out", tmp_path / "run", "--quiet")
    wrong = ["--set", "request=[{erase = 9, round = 1}]"]
    call("run", file, "--out", tmp_path / "run", "--force", *wrong, code=2)
    assert shown(tmp_path / "run")["state"] == "finished"


def test_without_cryptography_it_is_said_what_to_do(file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    told = call("run", file, "--out", tmp_path / "run", code=2).output
    assert "in your clone, pip install -e '.[store]'" in told
    assert "--no-keep" in told
    call("run", file, "--out", tmp_path / "run", "--no-keep", "--quiet")
    assert not (tmp_path / "run" / "run.db").exists()


def test_runs_lists_what_is_kept_below_and_what_cannot_be_read(file, tmp_path):
    call("run", file, "--out", tmp_path / "all" / "one", "--quiet")
    (tmp_path / "all" / "two").mkdir()
    (tmp_path / "all" / "two" / "run.db").write_bytes(b"rubbish" * 1000)
    found = json.loads(call("runs", tmp_path / "all", "--json").stdout)
    assert [one["folder"] for one in found] == [str(tmp_path / "all" / name) for name in ("one", "two")]
    assert "error" in found[1]
    text = call("runs", tmp_path / "all").stdout
    assert "finished" in text
    assert "cannot be read" in text
    assert "no runs are kept" in call("runs", tmp_path / "all" / "one" / "state").stdout


@pytest.mark.parametrize("command", ["resume", "show", "watch", "pause", "stop", "forget", "admit"])
@pytest.mark.parametrize("content", [None, b"", b"rubbish" * 1000])
def test_rubbish_is_an_error_in_a_line(tmp_path, command, content):
    more = ["--client", "1"] if command in ("forget", "admit") else []
    if content is not None:
        (tmp_path / "run.db").write_bytes(content)
    told = call(command, tmp_path, *more, code=2).stderr
    assert told.startswith("error: ")
    assert told.count("\n") == 1


def test_what_nobody_runs_cannot_be_paused_stopped_or_waited_for(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    for word in ("pause", "stop"):
        assert f"nobody runs {out}" in call(word, out, code=2).output
    told = call("forget", out, "--client", "1", "--wait", code=2).output
    assert f"unknot resume {out}" in told
    assert shown(out)["requests"] == []
    lines = call("watch", out).stdout.splitlines()
    assert [line.split(",")[1] for line in lines[:3]] == [" round 1", " round 2", " round 3"]
    assert lines[-1].startswith("finished, 3 rounds")


def kept_apart(file, tmp_path, *names):
    """Runs whose keys lie apart: the folder and the keys of each."""
    found = [(tmp_path / name, tmp_path / f"keys-{name}") for name in names]
    for out, keys in found:
        call("run", file, "--out", out, "--keys", keys, "--quiet")
    return found


def test_the_keys_of_another_run_are_refused_by_every_command(towns, tmp_path):
    (out, keys), (other, others) = kept_apart(towns, tmp_path, "a", "b")
    before = [path.read_bytes() for path in (keys, others)]
    for words in (["resume"], ["show"], ["watch"], ["forget", "--client", "1"], ["admit", "--client", "1"]):
        told = call(*words, out, "--keys", others, code=2).stderr
        assert f"{others} has the keys of another run" in told
        assert str(out) in told
        assert told.count("\n") == 1
    call("run", towns, "--out", out, "--keys", others, "--force", code=2)
    assert [path.read_bytes() for path in (keys, others)] == before
    assert [one["by"] for one in shown(out)["requests"]] == ["its file"]
    for place, its in ((out, keys), (other, others)):
        call("resume", place, "--keys", its, "--quiet")


def test_a_file_of_keys_that_is_copied_into_the_folder_of_another_run_is_refused(file, tmp_path):
    for name in ("a", "b"):
        call("run", file, "--out", tmp_path / name, "--quiet")
    shutil.copy(tmp_path / "b" / "keys", tmp_path / "a" / "keys")
    for words in (["resume"], ["show"], ["forget", "--client", "1"]):
        assert "keys of another run" in call(*words, tmp_path / "a", code=2).stderr
    for more in ([], ["--no-keep"]):
        told = call("run", file, "--out", tmp_path / "a", "--force", *more, code=2).stderr
        assert "keys are for one run" in told
    assert (tmp_path / "a" / "keys").read_bytes() == (tmp_path / "b" / "keys").read_bytes()


def test_the_folder_of_the_keys_is_made_and_one_that_cannot_be_is_told_before_anything_is(file, tmp_path):
    keys = tmp_path / "not" / "there" / "keys"
    call("run", file, "--out", tmp_path / "run", "--keys", keys, "--quiet")
    assert keys.parent.stat().st_mode & 0o777 == 0o700
    told = call("run", file, "--out", tmp_path / "other", "--keys", file / "in" / "keys", code=2).stderr
    assert f"{file} is no folder" in told
    assert not (tmp_path / "other").exists()


def test_what_nobody_could_serve_is_not_asked_for(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    keys = (out / "keys").read_bytes()
    (out / "keys").unlink()
    for command in ("forget", "admit"):
        told = call(command, out, "--client", "1", code=2).stderr
        assert "keys is missing" in told
        assert "backup" in told
    (out / "keys").write_bytes(keys)
    assert shown(out)["requests"] == []


def test_a_run_that_was_broken_off_before_it_was_kept_is_begun_again_by_the_same_command(
    file, tmp_path, monkeypatch
):
    out, keys = tmp_path / "run", tmp_path / "keys"
    command = ["run", file, "--out", out, "--keys", keys, "--quiet"]
    with monkeypatch.context() as patch:

        def stopped(self, fed):
            raise KeyboardInterrupt

        patch.setattr(RunKeeper, "checkpoint", stopped)
        call(*command, code=130)
    assert keys.exists()
    told = call("forget", out, "--client", "1", "--keys", keys, code=2).stderr
    assert f"unknot run FILE.toml --out {out}" in told
    assert "begin it again with the same unknot run" in call("resume", out, "--keys", keys, code=2).stderr
    with Database.open(out / "run.db") as db:  # as while the process that began it was there
        leave(db, erase(1), Keyring(keys))
    call(*command)
    found = shown(out)
    assert (found["state"], [one["state"] for one in found["requests"]]) == ("finished", ["served"])


def test_what_a_kept_run_leaves_is_its_owners_alone(file, tmp_path):
    out = tmp_path / "run"
    out.mkdir(mode=0o755)
    call("run", file, "--out", out, "--quiet")
    picture = ["--plot", out / "timeline.png"] if find_spec("matplotlib") else []
    call("resume", out, "--rounds", "1", "--quiet", *picture)
    assert {path.name: path.stat().st_mode & 0o777 for path in out.iterdir() if path.is_file()}.items() >= {
        (name, 0o600) for name in FILES
    }
    assert [path.name for path in out.rglob("*") if path.stat().st_mode & 0o077] == []
    assert out.stat().st_mode & 0o777 == 0o700


def test_what_is_left_without_keeping_the_run_has_the_usual_rights(file, tmp_path):
    out = tmp_path / "run"
    out.mkdir(mode=0o755)
    call("run", file, "--out", out, "--no-keep", "--quiet")
    usual = tmp_path / "usual"
    usual.touch()
    assert {(out / name).stat().st_mode for name in FILES} == {usual.stat().st_mode}
    assert out.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("command", ["resume", "show", "watch", "forget", "admit"])
def test_without_cryptography_every_command_says_so_in_a_line(towns, tmp_path, monkeypatch, command):
    call("run", towns, "--out", tmp_path / "run", "--quiet")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    more = ["--client", NAMES[1]] if command in ("forget", "admit") else []
    told = call(command, tmp_path / "run", *more, code=2).stderr
    assert "the package cryptography is needed" in told
    assert "--no-keep" not in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("method", ["rfs", "federaser", "pga"])
def test_show_says_what_stays_after_an_erasure_and_why(file, tmp_path, method):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet", "--set", f"method.name={method}")
    (tmp_path / "ids").write_text("0\n1\n")
    call("forget", out, "--client", 2)
    call("forget", out, "--client", 3, "--samples", tmp_path / "ids")
    call("resume", out, "--quiet")
    first, second = (one["stays"] for one in shown(out)["erased"])
    assert first[0].startswith("an erased client's number, when it was erased, and who asked")
    assert second[0].startswith("how many samples were erased; which, sealed until their client goes")
    for told in (first, second):
        assert ("the model may still know" in " ".join(told)) == (method != "rfs")
        assert told[-1].startswith("the files that it was read from, and copies")
    assert any("pga is approximate, and keeps what client 2" in line for line in first) == (method == "pga")
    lines = [line.strip() for line in call("show", out).output.splitlines()]
    assert all(lines.count(f"stays: {line}") == 1 for line in (*first, *second))


def test_what_stays_of_several_erasures_is_said_once(towns, tmp_path):
    out = tmp_path / "run"
    call("run", towns, "--out", out, "--quiet")
    for name in NAMES[1:3]:
        call("forget", out, "--client", name)
        call("resume", out, "--quiet")
    found = [one["stays"] for one in shown(out)["erased"]]
    assert len(found) == 3
    assert found[1] == found[2]
    assert set(found[0]) < set(found[1])  # when these were asked, the guarantee does not cover
    assert call("show", out).output.count("stays: ") == len(found[1])


def test_show_says_that_settings_which_are_one_clients_stay_and_which(towns, tmp_path):
    out = tmp_path / "run"
    text = towns.read_text()
    factors = [7.5, *(1.0 for _ in NAMES[1:])]
    towns.write_text(f"{text}\n[clock]\nslowness = 'trace'\nfactors = {factors}\n")
    call("run", towns, "--out", out, "--quiet", "--set", f"data.corrupt={json.dumps(NAMES[:1])}")
    said = shown(out)["erased"][-1]["stays"]
    assert any(
        line.startswith("settings with a value a client: data.corrupt, clock.factors (log") for line in said
    )
    assert "7.5" in (out / "config.toml").read_text()
    other = tmp_path / "other"
    towns.write_text(text)
    call("run", towns, "--out", other, "--quiet")
    assert not any("settings" in line for line in shown(other)["erased"][-1]["stays"])


SETTINGS = {
    "method.assignment": {"method": {"name": "fedcio", "assignment": [[0, 1], [2, 3]]}},
    "method.probabilities": {"method": {"name": "mmt", "probabilities": [0.1, 0.2, 0.3, 0.4]}},
    "method.retrain.probabilities": {
        "method": {
            "name": "knot",
            "clusters": 1,
            "retrain": {"name": "mmt", "probabilities": [0.1, 0.2, 0.3, 0.4]},
        }
    },
    "method.expires": {"method": {"name": "mmt", "tree": "greedy", "expires": [1.0, 2.0, 3.0, 4.0]}},
    "clock.factors": {"clock": {"slowness": "trace", "factors": [1.0, 2.0]}},
    "data.corrupt": {"data": {"partition": "iid", "clients": 4, "samples": 20, "corrupt": [1]}},
    "": {"method": {"name": "knot", "shares": [[0.5, 0.5]], "clusters": 2, "by": "shares"}},
}


@pytest.mark.parametrize("place", SETTINGS)
def test_show_says_of_each_setting_with_a_value_a_client_that_it_stays(place, tmp_path):
    said = {
        "data": {"partition": "iid", "clients": 4, "samples": 20},
        "federation": {"rounds": 2},
        "request": [{"erase": 1, "round": 1}],
        **SETTINGS[place],
    }
    file, out = tmp_path / "a.toml", tmp_path / "run"
    file.write_text(to_toml(said))
    call("run", file, "--out", out, "--quiet")
    told = [line for line in shown(out)["erased"][-1]["stays"] if "settings with" in line]
    assert told == ([f"settings with a value a client: {place} (log, checkpoint, results)"] if place else [])


def test_of_a_run_made_in_python_they_are_told_too(tmp_path):
    data = federate("digits", Iid(clients=4, samples=20))
    method = KNOT(clusters=1, retrain=MMT(probabilities=(0.1, 0.2, 0.3, 0.4)))
    fed = simulate("mlp", data, method, store=tmp_path / "run", clock=Clock(Trace((1.0, 2.0))))
    fed.run(2, requests=erase(1, round=1))
    fed.close()
    [told] = [line for line in shown(tmp_path / "run")["erased"][-1]["stays"] if "settings with" in line]
    assert told.startswith("settings with a value a client: method.retrain.probabilities, clock.factors (")
