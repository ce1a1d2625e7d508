"""``unknot run`` and ``unknot demo``: what is shown, drawn and exited with."""

import json
import sys
from importlib.resources import files

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.cli import run as running
from unknot.federation import Begun, Ended, History
from unknot.federation.history import REGAINED

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

    short = model("--engine", "loop", "--set", "federation.rounds=3")
    assert short["environment"]["engine"]["engine"] == "loop"
    assert len(short["rounds"]) == 3
    fifth = model("--seed", "5")
    assert fifth["seed"] == 5
    assert fifth["model"] == model("--seed", "5")["model"] != model()["model"]


def test_a_mistake_is_a_message_not_a_traceback(file):
    result = call("run", file, "--set", "train.epoch=3", code=2)
    assert "Did you mean 'epochs'?" in result.output
    assert "Traceback" not in result.output
    assert (
        "cannot erase client 9" in call("run", file, "--set", "request=[{erase=9, round=1}]", code=2).output
    )
    assert "cannot read nowhere.toml" in call("run", "nowhere.toml", code=2).output


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


def test_a_run_that_diverged_but_stayed_finite_is_not_well(file, tmp_path):
    out = tmp_path / "left"
    result = call("run", file, "--set", "train.lr=30.0", "--out", out, "--quiet", code=4)
    assert "has diverged" in said(result)
    assert "has diverged" in json.loads((out / "record.json").read_text())["warnings"][0]
    page = (out / "report.html").read_text()
    assert page.index('class="notice bad"') < page.index("has diverged") < page.index("Exact")
    assert "has diverged" in said(call("compare", file, "--method", "rfs", "--set", "train.lr=30.0", code=4))


def test_the_demo_has_the_same_statuses(monkeypatch):
    ended = History(Begun("rfs", "exact", 0), ended=Ended(unserved=("erase client 1 at round 9",)))
    monkeypatch.setattr(running, "_run", lambda *args: (None, ended, ()))
    call("demo", "--json", code=3)
    ended.ended = Ended()
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
    assert "comes at" not in warned("request=[{erase=1, time=2.5}]")  # nobody knows how long 4 rounds take


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


def shorten_the_demo(folder, monkeypatch):
    text = (files("unknot") / "experiments" / "demo.toml").read_text()
    shorter = {"rounds = 30": "rounds = 3", "round = 12": "round = 2", "lenet5": "mlp"}
    for long, short in {**shorter, "alpha = 0.5": "alpha = 0.5\nsamples = 40"}.items():
        assert long in text
        text = text.replace(long, short)
    (folder / "experiments").mkdir()
    (folder / "experiments" / "demo.toml").write_text(text)
    monkeypatch.setattr(running, "files", lambda _: folder)


def test_off_a_terminal_the_demo_tells_how_far_both_trainings_are(tmp_path, monkeypatch):
    shorten_the_demo(tmp_path, monkeypatch)
    result = call("demo")
    first, second = result.stderr.split(
        "training a federation that never had the erased client, to compare\n"
    )
    assert first.startswith("round 1: ")
    assert second.startswith("round 1: ")
    assert "the same model, bit for bit" in result.stdout
    assert call("demo", "--quiet").stderr == ""


@pytest.mark.parametrize("length", ["in short", pytest.param("as it comes", marks=pytest.mark.slow)])
def test_the_demo_can_be_drawn_too(tmp_path, monkeypatch, length):
    pytest.importorskip("matplotlib")
    if length == "in short":
        shorten_the_demo(tmp_path, monkeypatch)
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
    assert "pip install -e '.[plot]'" in refused(tmp_path / "run.png")


def test_data_in_a_folder_is_called_by_the_folders_name_and_has_bars_of_any_letters(tmp_path):
    place = tmp_path / "hospitals"
    place.mkdir()
    for name in ("a", "b", "test", "validation"):
        (place / f"{name}.csv").write_text("size,ill\n1,0\n2,1\n3,0\n")
    file = tmp_path / "ill.toml"
    told = f'[data]\nname = "folder"\npath = {str(place)!r}\ntarget = "ill"\n[federation]\nrounds = 2\n'
    file.write_text(told)
    whole, plain = (
        CliRunner(charset=charset).invoke(app, ["run", str(file)]) for charset in ("utf-8", "ascii")
    )
    assert whole.exit_code == plain.exit_code == 0, (whole.output, plain.output, plain.exception)
    assert whole.stdout.startswith("ill: hospitals, mlp")
    assert "█" in whole.stdout
    assert "of the served model (v right after" in plain.stdout
    assert "#" in plain.stdout
