import json
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from unknot import cli
from unknot.cli import app
from unknot.core.requests import erase
from unknot.core.saved import save_model
from unknot.experiments import Experiment, audited, planted, prepare
from unknot.federation import History
from unknot.federation.history import REGAINED
from unknot.report import audit_page, audit_plot

FILE = """
[data]
partition = "iid"
clients = 4
samples = 20
validation = 50
[train]
batch_size = 10
[federation]
rounds = 4
[[request]]
erase = 1
round = 2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return str(path)


def call(*args: str, code: int = 0):
    result = CliRunner().invoke(app, [*args], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_run_shows_what_was_forgotten_and_what_it_cost(file):
    output = call("run", file).output
    assert "erase client 1" in output
    assert "validation accuracy" in output
    assert "client epochs" in output
    assert "rfs (exact)" in output


def test_clients_of_a_folder_go_by_their_names(tmp_path):
    for name in ("Graz", "Linz", "test"):
        (tmp_path / f"{name}.csv").write_text("age,ill\n0.1,0\n0.9,1\n")
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / "small.toml"
    path.write_text(
        f"[data]\nname = 'folder'\npath = '{tmp_path}'\ntarget = 'ill'\n[federation]\nrounds = 2\n"
        "[[request]]\nerase = 'Graz'\nround = 1\n"
    )
    assert "erase Graz" in call("run", str(path)).output
    record = json.loads(call("run", str(path), "--json").stdout)
    assert (record["lineage"], record["names"]) == (["Linz"], {"0": "Graz", "1": "Linz"})
    wrong = call("run", str(path), "--set", "request=[{erase = 'Gratz', round = 1}]", code=2)
    assert "there is no client 'Gratz'. Did you mean 'Graz'?" in wrong.output


def test_json_is_json_and_nothing_else(file):
    record = json.loads(call("run", file, "--json").stdout)
    assert len(record["rounds"]) == 4
    assert record["requests"][0]["clients"] == [1]
    assert record["lineage"] == ["client 0", "client 2", "client 3"]
    assert record["environment"]["engine"]["engine"] == "stacked"


def test_options_reach_the_run(file):
    def model(*args):
        return json.loads(call("run", file, "--json", *args).stdout)

    assert model("--engine", "loop")["environment"]["engine"]["engine"] == "loop"
    assert model("--seed", "5")["seed"] == 5
    assert len(model("--set", "federation.rounds=3")["rounds"]) == 3
    assert model("--seed", "5")["model"] == model("--seed", "5")["model"] != model()["model"]


def test_a_mistake_is_a_message_not_a_traceback(file):
    result = call("run", file, "--set", "train.epoch=3", code=2)
    assert "Did you mean 'epochs'?" in result.output
    assert "Traceback" not in result.output
    assert (
        "cannot erase client 9" in call("run", file, "--set", "request=[{erase=9, round=1}]", code=2).output
    )
    assert "there is no file" in call("run", "nowhere.toml", code=2).output


def said(result) -> str:
    return " ".join(result.output.split())


def test_the_record_has_what_was_set_in_the_file_and_on_the_command_line(file):
    record = json.loads(call("run", file, "--json", "--set", "train.lr=0.2", "--seed", "3").stdout)
    assert record["experiment"]["train"] == {"batch_size": 10, "lr": 0.2}
    assert record["experiment"]["request"] == [{"erase": 1, "round": 2}]
    assert (record["experiment"]["name"], record["experiment"]["seed"]) == ("small", 3)
    assert record["setup"]["recipe"]["optimizer"]["lr"] == 0.2
    assert record["recoveries"][0]["fraction"] == REGAINED


def test_a_request_that_is_still_pending_is_named_and_has_a_status_of_its_own(file):
    late = "request=[{erase=1, time=1000.0}]"
    text = said(call("run", file, "--set", late, code=3))
    assert "still pending: erase client 1 at 1000 s" in text
    assert "Train for longer, or ask earlier" in text
    record = json.loads(call("run", file, "--set", late, "--json", code=3).stdout)
    assert record["unserved"] == ["erase client 1 at 1000 s"]


def test_a_request_at_a_later_round_is_pending_too(file):
    record = json.loads(call("run", file, "--set", "request=[{erase=1, round=9}]", "--json", code=3).stdout)
    assert record["unserved"] == ["erase client 1 at round 9"]


def test_a_run_that_set_its_updates_aside_is_not_well(file):
    text = said(call("run", file, "--set", "train.lr=1e30", code=4))
    assert "14 of 14 updates were set aside (not finite): the learning rate may be too high" in text
    record = json.loads(call("run", file, "--set", "train.lr=1e30", "--json", code=4).stdout)
    assert len(record["warnings"]) == 1
    both = ["--set", "train.lr=1e30", "--set", "request=[{erase=1, time=1000.0}]"]
    assert "updates were set aside" in said(call("run", file, *both, code=3))


def test_the_demo_has_the_same_statuses(monkeypatch):
    ended = History("rfs", "exact", 0, unserved=["erase client 1 at round 9"])
    monkeypatch.setattr(cli, "_run", lambda *args: (None, ended))
    call("demo", "--json", code=3)
    ended.unserved = []
    call("demo", "--json", code=0)


def test_a_request_that_comes_after_the_end_is_warned_of_at_the_start(file):
    def warned(*settings):
        overrides = [word for setting in settings for word in ("--set", setting)]
        result = CliRunner().invoke(app, ["run", file, "--json", *overrides], env={"COLUMNS": "200"})
        return result.stderr

    late = "'erase client 1' comes at round 5, but the run ends after 4 rounds: it will stay pending"
    assert f"warning: {late}" in warned("request=[{erase=1, round=5}]")
    assert "nothing is left to recover in" in warned("request=[{erase=1, round=4}]")
    seconds = ["federation={seconds=1.0}", "request=[{erase=1, time=2.5}]"]
    assert "comes at 2.5 s, but the run ends after 1 s" in warned(*seconds)
    assert "warning" not in warned()
    assert "warning" not in warned("request=[{erase=1, time=2.5}]")  # nobody knows how long 4 rounds take


def test_the_statuses_are_in_the_help():
    for command in ("run", "demo"):
        text = said(call(command, "--help"))
        for words in ("0 all well", "2 an error", "3 a request is still pending", "4 most updates"):
            assert words in text


def test_what_an_approximate_method_let_pass_is_shown(file):
    federaser = 'method={name="federaser", interval=1}'
    record = json.loads(call("run", file, "--json", "--set", federaser).stdout)
    assert record["waived"] == ["client 1"]
    words = "kept although erased data had a part in it: client 1"
    assert words in said(call("run", file, "--set", federaser))
    assert "kept although" not in said(call("run", file))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot_writes_the_figure_and_says_so(file, tmp_path, ending):
    pytest.importorskip("matplotlib")
    out = tmp_path / f"run [1].{ending}"
    output = call("run", file, "--plot", str(out)).output
    assert output.endswith(f"written: {out}\n")
    assert out.read_bytes().startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    first = out.read_bytes()
    out.unlink()
    json.loads(call("run", file, "--plot", str(out), "--json").stdout)
    assert out.read_bytes() == first


def test_the_demo_can_be_drawn_too(tmp_path):
    pytest.importorskip("matplotlib")
    json.loads(call("demo", "--json", "--plot", str(tmp_path / "demo.png")).stdout)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_said_before_the_run(file, tmp_path, monkeypatch):
    def refused(out):
        output = " ".join(call("run", file, "--plot", str(out), code=2).output.split())
        assert "validation accuracy" not in output
        assert "Traceback" not in output
        return output

    assert "must end in .png, .svg or .pdf" in refused(tmp_path / "run.txt")
    assert "there is no folder" in refused(tmp_path / "nowhere" / "run.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'unknot[plot]'" in refused(tmp_path / "run.png")


def test_the_lists_name_what_there_is():
    assert "digits" in call("data").output
    assert "exact" in call("methods").output
    assert "ok" in call("data", "--verify", "digits").output


def test_every_data_set_is_listed_with_its_place_its_source_and_its_checksum():
    from unknot.data import catalogue

    output = "".join(CliRunner().invoke(app, ["data"], env={"COLUMNS": "400"}).output.split())
    for entry in catalogue():
        for text in (entry.name, *entry.where, entry.how, *entry.checksums.values()):
            assert "".join(text.split()) in output, text


def test_a_narrow_terminal_shows_checksums_whole():
    assert "…" not in call("data").output


def test_help_names_the_commands():
    output = call("--help").output
    for command in ("run", "demo", "data", "methods"):
        assert command in output


def test_game_is_a_command(tmp_path):
    path = tmp_path / "game.toml"
    path.write_text("psi = [150, 200]\nzeta = [12, 15]\nf_u = [90, 100]\nf_c = [32, 35]\ndata = [85, 100]\n")
    assert set(json.loads(call("game", str(path), "--json").stdout)) == {
        "evolutionary",
        "random",
        "round_robin",
        "greedy",
    }
    path.write_text("psy = [1]\n")
    assert "Did you mean 'psi'?" in " ".join(call("game", str(path), code=2).output.split())
    assert "game" in call("--help").output


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
PLAIN = ("--sensitivity", "0", "--others", "60")
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
    save_model(prepare(asked).run(asked.length.rounds, requests=requests).model, tmp_path / "model.pt")
    return str(tmp_path / "model.pt")


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
    options = ("--controls", "9", "--level", "0.1", "--sensitivity", "8", "--shadows", "4", "--queries", "2")
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
    files = "--plot", str(plot), "--page", str(page)
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
    assert text.startswith("still shows: With a 5 % risk of a false alarm, the erased data still shows")


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
    record = audit_of(audited_file, "--backdoor", "--controls", "9", "--level", "0.1")
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
        "0, no trace found",
        "1, it still shows or was over-forgotten",
        "2, an error",
        "4, no power",
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
        (["--model", "nowhere.pt"], "nowhere.pt"),
        (["--plot", "roc.txt"], "must end in .png, .svg or .pdf"),
        (["--page", "page.txt"], "the page's name must end in .html"),
        (["--page", "nowhere/page.html"], "there is no folder nowhere"),
        (["--backdoor", "--page", "page.html"], "not for marks or canaries"),
        (["--canaries", "9", "--plot", "a.png"], "not for marks or canaries"),
        (["--canaries", "9", "--attack", "lira"], "not for marks or canaries"),
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
