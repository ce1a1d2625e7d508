"""What `show` and `runs` say where a run and its keys do not fit together, as after a backup was put back."""

import json
import shutil

import pytest
from kept_commands import NAMES, call, shown, write_towns

pytest.importorskip("cryptography")


def test_keys_that_are_missing_are_said_to_be_in_words_and_for_programs(towns, tmp_path):
    out = tmp_path / "run"
    call("run", towns, "--out", out, "--quiet")
    assert "keys missing" not in call("show", out).stdout
    (out / "keys").unlink()
    why = f"{out / 'keys'} is missing, and without its keys {out} cannot be gone on with: take it from its "
    why += "backup"
    assert why in call("resume", out, code=2).stderr
    for words in (["show", out], ["runs", tmp_path]):
        told = " ".join(call(*words).stdout.split())
        assert why in told
        assert "finished, cannot be gone on with" in told
    told = " ".join(call("show", out).stdout.split())
    assert "keys missing, so that no name can be read" in told
    for found in (shown(out), *json.loads(call("runs", tmp_path, "--json").stdout)):
        assert (found["again"], found["keys_wrong"]) == (None, why)


def test_a_folder_that_is_older_than_its_keys_is_said_to_be_without_a_hint_that_is_refused(tmp_path):
    out, runs = tmp_path / "run", tmp_path / "runs"
    call("run", write_towns(tmp_path, NAMES, 3), "--out", out, "--quiet")
    assert (shown(out)["keys_wrong"], shown(out)["again"]) == ("", f"unknot resume {out}")
    shutil.copytree(out, runs / "old")
    shutil.copytree(out, runs / "older")
    call("forget", runs / "old", "--client", NAMES[2])
    call("forget", out, "--client", NAMES[1])
    call("resume", out, "--quiet")
    for old in ("old", "older"):
        shutil.copy(out / "keys", runs / old / "keys")
        refused = call("resume", runs / old, "--quiet", code=2).stderr.removeprefix("error: ").strip()
        assert "is older than its keys: it knows nothing of the erasure of client 1" in refused
        found = shown(runs / old)
        assert (found["again"], found["keys_wrong"]) == (None, refused)
        for words in (["show", runs / old], ["runs", runs]):
            told = " ".join(call(*words).stdout.split())
            assert refused in told
            assert "unknot resume" not in told
            assert "cannot be gone on with" in told
    told = call("run", tmp_path / "towns.toml", "--out", runs / "old", "--force", code=2).stderr
    assert f"(request 1: erase {NAMES[2]}): {runs / 'old'} is older than its keys" in told


def test_of_one_that_is_erased_anew_when_it_is_gone_on_with_that_is_said(file, tmp_path):
    out, old = tmp_path / "run", tmp_path / "old"
    call("run", file, "--out", out, "--quiet")
    shutil.copytree(out, old)
    call("forget", out, "--client", "1")
    call("resume", out, "--quiet")
    shutil.copy(out / "keys", old / "keys")
    found = shown(old)
    assert found["again"] == f"unknot resume {old}"
    assert "is older than its keys: it knows nothing of the erasure of client 1; where" in found["keys_wrong"]
    assert found["keys_wrong"] in " ".join(call("show", old).stdout.split())
    call("resume", old, "--quiet")
    assert shown(old)["keys_wrong"] == ""


def test_one_from_before_samples_were_erased_is_said_to_be_refused(file, tmp_path):
    out, old, ids = tmp_path / "run", tmp_path / "old", tmp_path / "ids"
    ids.write_text("[0]")
    call("run", file, "--out", out, "--quiet")
    shutil.copytree(out, old)
    call("forget", out, "--client", "1", "--samples", ids)
    call("resume", out, "--quiet")
    shutil.copy(out / "keys", old / "keys")
    found = shown(old)
    assert found["again"] is None
    assert f"{old} is a copy from before samples were erased (of these: 1)" in found["keys_wrong"]
    assert found["keys_wrong"] in call("resume", old, code=2).stderr
