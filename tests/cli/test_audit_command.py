"""``unknot audit``: its options, what it shows, and what it exits with."""

import json
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.core.requests import erase
from unknot.core.saved import save_model
from unknot.experiments import Experiment, audited, planted, prepare
from unknot.report import audit_page, audit_plot


def call(*args: str, code: int = 0):
    result = CliRunner().invoke(app, [*args], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def said(result) -> str:
    return " ".join(result.output.split())


AUDITED = """
[data]
partition = "iid"
clients = 3
samples = 30
validation = 20
[train]
lr = 0.05
batch_size = 10
[federation]
rounds = 2
[[request]]
erase = 1
round = 1
"""


FEW = ("--controls", "9", "--level", "0.1")
PLAIN = ("--sensitivity", "0", "--others", "60", *FEW)


LONG = ("--set", "federation.rounds=12", "--set", "train.epochs=3")


@pytest.fixture
def audited_file(tmp_path):
    path = tmp_path / "audited.toml"
    path.write_text(AUDITED)
    return str(path)


def audit_of(file, *args, code=0):
    return json.loads(call("audit", file, "--json", *args, code=code).stdout)


def saved(file, tmp_path, *settings, requests=()):
    """A model of this experiment that was never asked to forget."""
    asked = replace(Experiment.read(file, settings), requests=requests)
    save_model(
        prepare(asked).run(asked.length.rounds, requests=requests).model, tmp_path / "model.safetensors"
    )
    return str(tmp_path / "model.safetensors")


def test_an_audit_begins_with_what_it_comes_to(audited_file):
    text = said(call("audit", audited_file, *PLAIN))
    assert text.startswith("no trace found: What is served is, bit for bit, a model that was trained without")
    about = (
        "audited: client 1 erased by rfs (exact); 30 of 30 erased samples and 60 others of the same classes"
    )
    assert about in text
    for words in (
        "trace",
        "kept",
        "served",
        "controls",
        "another control",
        "models that kept the erased data",
    ):
        assert words in text


def test_the_options_of_an_audit_reach_it(audited_file):
    options = (*FEW, "--sensitivity", "8", "--shadows", "4", "--queries", "2")
    attacks = ("--attack", "rmia", "--attack", "ulira", "--others", "30", "--seed", "5")
    record = audit_of(audited_file, *options, *attacks)
    assert (record["controls"], record["level"], record["others"]) == (9, 0.1, 30)
    assert record["seeds"]["controls"] == list(range(6, 15))
    assert len(record["seeds"]["left in"]) == 2 * len(record["seeds"]["shadows"]) == 8
    assert len(record["seeds"]["unlearned"]) == 9
    assert [finding["attack"] for finding in record["findings"]] == ["trace", "RMIA"]
    assert record["ulira"]["unlearned"] == 4
    once, plain = (audit_of(audited_file, *PLAIN, *more) for more in (("--queries", "3"), ()))
    assert once["findings"] != plain["findings"]
    assert plain["sensitivity"] is None
    assert set(plain["seeds"]) == {"served", "controls", "kept"}


def test_a_picture_and_a_page_are_written_beside_the_tables_or_the_json(audited_file, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    plot, page = tmp_path / "roc.svg", tmp_path / "page [1].html"
    files = "--plot", str(plot), "--html", str(page)
    audit_of(audited_file, *PLAIN, *files)
    assert plot.read_bytes().startswith(b"<?xml")
    assert page.read_text().startswith("<!doctype html>")
    monkeypatch.setattr(audit_plot, "draw", lambda found, file: None)
    monkeypatch.setattr(audit_page, "page", lambda found: "a page")
    output = call("audit", audited_file, *PLAIN, *files).output
    assert output.endswith(f"written: {plot}\nwritten: {page}\n")
    assert page.read_text() == "a page"


def test_what_still_shows_has_a_status_of_its_own(audited_file, tmp_path):
    model = saved(audited_file, tmp_path, *LONG[1::2])
    text = said(call("audit", audited_file, *PLAIN, *LONG, "--model", model, code=1))
    assert text.startswith("still shows: With a 10 % risk of a false alarm, the erased data still shows")


def test_where_nothing_was_shown_the_status_says_so(audited_file, tmp_path):
    model = saved(audited_file, tmp_path)
    idle = ("--set", "train.lr=1e-6")
    record = audit_of(audited_file, *PLAIN, *idle, "--model", model, code=4)
    assert record["outcome"] == "no power"
    assert not record["same"]


def test_a_model_that_was_saved_is_audited_as_the_runs_own(audited_file, tmp_path):
    model = saved(audited_file, tmp_path, requests=(erase(1, round=1),))
    own, given = (audit_of(audited_file, *PLAIN, *more) for more in ((), ("--model", model)))
    assert own["same"]
    assert given == {**own, "seconds": given["seconds"], "model": given["model"], "guarantee": ""}
    assert "fingerprint" in given["model"]


def test_an_audit_says_what_an_approximate_method_kept(audited_file):
    options = ("--set", 'method={name="federaser", interval=1}', "--set", "federation={rounds=4}")
    options += ("--set", "request=[{erase=1, round=2}]")
    record = audit_of(audited_file, *PLAIN, *options)
    assert record["waived"] == ["client 1"]
    assert record["guarantee"].startswith("approximate: the sizes of old updates")


def test_a_backdoor_audit_says_who_answers_to_the_mark(audited_file):
    text = said(call("audit", audited_file, "--backdoor"))
    assert "audited: client 1 erased, all of it marked as class 0" in text
    assert text.endswith("bit for bit, a model that was trained without the erased data.")
    record = audit_of(audited_file, "--backdoor", *FEW)
    assert (len(record["controls"]), record["level"], record["outcome"]) == (9, 0.1, "no trace found")


def test_a_canary_audit_says_who_knows_the_coins(audited_file):
    text = said(call("audit", audited_file, "--canaries", "30"))
    assert "a coin's choice of 30 canaries among its samples" in text
    record = audit_of(audited_file, "--canaries", "20", "--level", "0.1")
    assert (record["served"]["number"], record["level"], record["outcome"]) == (20, 0.1, "no trace found")


@pytest.mark.parametrize("outcome", ["still shows", "over-forgotten", "no trace found", "no power"])
@pytest.mark.parametrize("kind", ["--backdoor", "--canaries=10"])
def test_the_statuses_of_marks_and_canaries_are_those_of_an_audit(audited_file, monkeypatch, kind, outcome):
    class Found:
        def to_dict(self):
            return {"outcome": outcome}

    for name in ("backdoor", "with_canaries"):
        monkeypatch.setattr(planted, name, lambda *args, **options: Found())
    status = {"no trace found": 0, "no power": 4}.get(outcome, 1)
    assert audit_of(audited_file, kind, code=status) == {"outcome": outcome}


def test_the_statuses_of_an_audit_are_in_its_help():
    text = said(call("audit", "--help"))
    for words in (
        "0 no trace found",
        "1 it still shows or was over-forgotten",
        "2 an error",
        "4 no power",
    ):
        assert words in text


def test_without_a_picture_an_audit_needs_nothing_to_draw_with(audited_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    audit_of(audited_file, *PLAIN)


def test_an_audit_takes_any_name(audited_file):
    assert audit_of(audited_file, *PLAIN, "--set", 'name="[/b] x"')["experiment"] == "[/b] x"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "request=[]"], "erase requests, and with no others"),
        (["--attack", "lyra"], "there is no attack 'lyra'; there are lira, "),
        (["--attack", "lira", "--shadows", "7"], "in pairs"),
        (["--attack", "lira", "--shadows", "4", "--others", "800"], "4 shadow models are too few"),
        (["--controls", "18"], "a level of 5 % needs at least 19 controls, not 18"),
        (["--backdoor", "--controls", "18"], "a level of 5 % needs at least 19 controls, not 18"),
        (["--level", "0.01"], "a level of 1 % needs at least 99 controls, not 19"),
        (["--canaries", "10", "--level", "2"], "between 0 and 1; not 2"),
        (["--canaries", "1"], "at least 2 canaries"),
        (["--others", "5000"], "2000 test samples: an audit cannot take 5000"),
        (["--queries", "10"], "1 to 9 queries"),
        (["--model", "nowhere.safetensors"], "nowhere.safetensors"),
        (["--plot", "roc.txt"], "must end in .png, .svg or .pdf"),
        (["--html", "page.txt"], "the page's name must end in .html"),
        (["--html", "nowhere/page.html"], "there is no folder nowhere"),
        (["--backdoor", "--html", "page.html"], "not for marks, canaries"),
        (["--canaries", "9", "--plot", "a.png"], "not for marks, canaries"),
        (["--canaries", "9", "--attack", "lira"], "not for marks, canaries"),
        (["--canaries", "9", "--backdoor"], "ask for one of them"),
    ],
)
def test_what_cannot_be_audited_is_said_before_anything_is_trained(
    audited_file, monkeypatch, options, sentence
):
    monkeypatch.setattr(audited, "train_all", None)
    monkeypatch.setattr(planted, "train", None)
    result = call("audit", audited_file, *options, code=2)
    assert sentence in said(result)
    assert "Traceback" not in result.output


@pytest.mark.parametrize("more", [("--backdoor", *FEW), ("--canaries", "10")])
def test_planted_audits_keep_to_the_width(audited_file, more):
    result = CliRunner().invoke(app, ["audit", audited_file, *more], env={"COLUMNS": "60"})
    assert result.exit_code in (0, 1, 4), result.output
    assert max(map(len, result.stdout.splitlines())) <= 60
    assert "…" not in result.stdout


def test_a_stopped_audit_says_what_was_kept(audited_file, monkeypatch):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(audited, "audit", stopped)
    assert "stopped: no verdict was reached, and no model is kept" in said(
        call("audit", audited_file, code=130)
    )
