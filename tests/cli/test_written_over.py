"""``unknot run --force``: a run is not written over while somebody waits for what was asked of it."""

import pytest
from kept_commands import call, shown

pytest.importorskip("cryptography")


@pytest.mark.parametrize("how", [[], ["--no-keep"]])
def test_a_request_that_waits_is_not_dropped(file, tmp_path, how):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    call("forget", out, "--client", "1", "--reason", "asked by post")
    told = call("run", file, "--out", out, "--force", *how, code=2).stderr
    assert "is still to serve what was asked of it (request 1: erase client 1): have it served first" in told
    assert f"unknot resume {out}" in told
    assert "remove the folder yourself" in told
    assert [one["state"] for one in shown(out)["requests"]] == ["waiting"]
    call("resume", out, "--quiet")
    call("run", file, "--out", out, "--force", "--quiet", *how)


def test_who_was_erased_from_it_is_said(file, tmp_path):
    out, ids = tmp_path / "run", tmp_path / "ids"
    ids.write_text("[0]")
    more = ("--set", "request=[{erase = 1, round = 1}]")
    call("run", file, "--out", out, "--quiet", *more)
    call("forget", out, "--client", "2", "--samples", ids)
    call("resume", out, "--quiet")
    told = call("run", file, "--out", out, "--force", "--quiet").stderr
    assert "from the run that is written over, client 1 and samples of client 2 were erased" in told
    assert "the new one trains on whatever data is there now" in told
    assert call("run", file, "--out", out, "--force", "--quiet").stderr == ""


def test_keys_that_lie_apart_and_stay_are_said(file, tmp_path):
    out, keys = tmp_path / "run", tmp_path / "keys.of.run"
    call("run", file, "--out", out, "--keys", keys, "--quiet")
    told = call("run", file, "--out", out, "--force", "--quiet").stderr
    assert f"lie apart, and stay: {keys}" in told
    assert keys.exists()


def test_keys_that_are_named_go_with_their_run(file, tmp_path):
    out, keys = tmp_path / "run", tmp_path / "keys.of.run"
    call("run", file, "--out", out, "--keys", keys, "--quiet")
    before = keys.read_bytes()
    assert call("run", file, "--out", out, "--keys", keys, "--force", "--quiet").stderr == ""
    assert keys.read_bytes() != before
