"""What all commands have in common: the version, Ctrl-C, other encodings, narrow screens, closed pipes."""

import io
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import unknot
from small_reproductions import RUNS
from support import grid
from unknot.cli import app, screen
from unknot.engine.stacked import StackedEngine
from unknot.report.targets import PICTURES

FILE = """
[data]
partition = "iid"
clients = 4
samples = 20
validation = 50
[federation]
rounds = 4
[scenario]
thresholds = [0.1, 0.3]
[[request]]
erase = 1
round = 2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return str(path)


def call(*args, code=0, columns=200):
    result = CliRunner().invoke(app, [*args], env={"COLUMNS": str(columns)})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_the_version_is_said_in_one_way():
    assert call("--version").stdout == f"unknot {unknot.__version__}\n"


def test_without_a_command_the_commands_are_named():
    output = call().stdout
    for command in ("run", "demo", "data", "list", "new", "check", "compare", "audit", "reproduce"):
        assert command in output


ALL = (
    "demo",
    "new",
    "check",
    "run",
    "resume",
    "runs",
    "show",
    "watch",
    "forget",
    "admit",
    "pause",
    "stop",
    "compare",
    "audit",
    "list",
    "data",
    "tree",
    "cluster",
    "game",
    "reproduce",
)


def test_the_commands_come_in_the_order_in_which_a_person_meets_them():
    shown = call("--help").stdout
    places = [shown.index(f"\n│ {command} ") for command in ALL]
    assert places == sorted(places)


@pytest.mark.parametrize("command", ALL)
def test_every_help_ends_with_what_it_exits_with(command):
    last = call(command, "--help").stdout.rpartition("╯")[2]
    assert last.split()[:4] == ["Exit", "status:", "0", "no" if command == "audit" else "all"]
    assert "130 stopped by Ctrl-C" in " ".join(last.split())


@pytest.mark.parametrize("command", ALL)
def test_what_keeps_a_run_says_what_it_exits_with_on_sigterm(command):
    told = " ".join(call(command, "--help").stdout.rpartition("╯")[2].split())
    assert ("of a run that is kept, by SIGTERM" in told) == (command in ("run", "resume"))


@pytest.mark.parametrize("command", ["audit", "run"])
def test_how_a_setting_is_written_stays_in_one_piece(command):
    assert " KEY=VALUE " in call(command, "--help", columns=60).stdout


def test_off_a_terminal_what_is_said_in_a_line_stays_one(file):
    told = call("run", file, "--set", "train.lrr=1", code=2, columns=30).stderr
    assert told.startswith("error: unknown key train.lrr. Did you mean 'lr'?")
    assert told.count("\n") == 1
    lines = call("run", file, "--json", columns=30).stderr + call("run", file, columns=30).stderr
    assert all(line.startswith(("round ", "▾ round ")) for line in lines.splitlines())


def test_the_options_have_the_same_names_everywhere():
    names = {"run": "--plot --device --out --quiet", "audit": "--plot --html --device --quiet"}
    names |= {"compare": "--plot --html --device --seeds --quiet", "reproduce": "--out --device --seeds"}
    names |= {"tree": "--plot", "cluster": "--plot", "game": "--plot", "demo": "--plot --out --quiet"}
    for command, options in names.items():
        output = call(command, "--help").stdout
        assert all(option in output for option in options.split()), command


def test_quiet_says_nothing_but_what_is_wrong(file):
    assert call("run", file, "--quiet").output == ""
    wild = call("run", file, "--quiet", "--set", "train.lr=1e30", code=4)
    assert wild.stdout == ""
    assert wild.stderr.startswith("warning: 7 of 14 updates were set aside")
    assert json.loads(call("run", file, "--quiet", "--json").stdout)["seed"] == 0


def test_what_went_wrong_comes_before_the_tables(file):
    shown = call("run", file, "--set", "train.lr=1e30", code=4).stdout
    assert shown.index("updates were set aside (not finite)") < shown.index("accuracy")


def test_a_stopped_run_says_what_was_kept_and_how_to_go_on(file, tmp_path, monkeypatch):
    train, calls = StackedEngine.train, []

    def stopped(self, *args, **options):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return train(self, *args, **options)

    monkeypatch.setattr(StackedEngine, "train", stopped)
    out, table = tmp_path / "left", tmp_path / "run.csv"
    result = call("run", file, "--out", str(out), "--csv", str(table), code=130, columns=2000)
    assert result.stdout == ""
    said = result.stderr[result.stderr.index("stopped: ") :].strip()
    assert said.startswith(f"stopped: after round 2; the run is kept in {out}")
    assert f"what happened until then is in {table}" in said
    assert said.endswith(f"Go on with: unknot resume {out}")
    assert not (out / "record.json").exists()
    assert len(table.read_text().splitlines()) >= 3
    calls.clear()
    alone = ["run", file, "--no-keep", "--out", str(tmp_path / "alone")]
    said = call(*alone, code=130, columns=2000).stderr.strip()
    assert "no model is kept; nothing was written into" in said
    assert said.endswith("The same command starts from the first round")
    assert not (tmp_path / "alone").exists()


def test_a_stopped_reproduction_goes_on_by_the_same_command(tmp_path, monkeypatch):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("unknot.reproduce.reproduce", stopped)
    (tmp_path / "knot-table2-small.json.gz").write_bytes(b"")
    said = call("reproduce", "knot-table2", "--out", str(tmp_path), code=130).stderr
    assert f"what was finished is in {tmp_path / 'knot-table2-small.json.gz'}" in said
    assert "the same command goes on from there" in said


def test_other_encodings_get_letters_that_look_alike(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    screen.take_any_encoding()
    sys.stdout.write("▾ Gräz – 3 ± 1 … █▌ \udc80 ☂")
    sys.stdout.flush()
    assert raw.getvalue() == b"v Graz - 3 +- 1 ~ #| ? ?"


@pytest.mark.parametrize("columns", [60, 80])
def test_a_run_keeps_to_the_width(file, columns):
    output = call("run", file, columns=columns).stdout
    assert max(map(len, output.splitlines())) <= columns
    assert "…" not in output


def test_a_reader_that_goes_early_is_no_error():
    command = [sys.executable, "-m", "unknot", "list", "--reference"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        found = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, check=False)
    assert found.stderr == b""
    assert found.returncode == screen.GONE


@pytest.mark.parametrize("command", ["run", "check", "compare", "audit", "game", "tree"])
def test_help_reads_as_that_of_other_commands(command):
    shown = call(command, "--help", columns=100).stdout
    assert f"Usage: unknot {command} [OPTIONS] FILE" in shown
    assert "<bool>" not in shown


@pytest.mark.parametrize("command", ["run", "compare", "audit", "game"])
def test_the_help_of_a_picture_names_the_files_that_can_be_drawn(command):
    assert "OUT" + "|".join(PICTURES) in call(command, "--help").stdout


GAME = (
    "psi = [150, 200, 170, 190]\nzeta = [12, 15, 13, 14]\nf_u = [90, 100, 80, 90]\nf_c = [32, 35, 30, 33]\n"
)
PLANS = {
    "game": (GAME + "data = [85, 100, 90]\nperiods = 20\n", ()),
    "cluster": ("client,time,disparity\n" + "".join(f"name-{i},{i},0.{i}\n" for i in range(1, 80)), 2),
    "tree": ("client,probability\n" + "".join(f"name-{i},0.{i}\n" for i in range(1, 60)), ()),
}


@pytest.mark.parametrize(("command", "columns"), grid(PLANS, [60, 80]))
def test_plans_keep_to_the_width(tmp_path, command, columns):
    text, clusters = PLANS[command]
    path = tmp_path / "plan"
    path.write_text(text)
    more = ("--clusters", str(clusters)) if clusters else ()
    output = call(command, str(path), *more, columns=columns).stdout
    assert max(map(len, output.splitlines())) <= columns


@pytest.mark.parametrize("more", [(), ("--long",)])
def test_the_list_of_reproductions_keeps_to_the_width(more):
    lines = call("reproduce", "--list", *more, columns=60).stdout.splitlines()
    assert max(map(len, lines)) <= 60
    assert any(line.startswith("incentive-fig5d") for line in lines)
    assert more or len(lines) < 40


def test_what_a_reproduction_left_out_is_said_even_quietly(tmp_path):
    (tmp_path / "tiny.toml").write_text(RUNS)
    result = call(
        "reproduce", str(tmp_path / "tiny.toml"), "--seeds", "0", "--out", str(tmp_path / "out"), "--quiet"
    )
    assert result.stdout == ""
    assert "warning: left out letters: femnist is not here" in result.stderr


def test_off_a_terminal_a_run_tells_how_far_it_is_in_a_few_lines(file):
    told = call("run", file, "--set", "federation.rounds=20").stderr.splitlines()
    assert sum(line.startswith("round ") and "accuracy" in line for line in told) == 10
    assert "round " not in call("run", file, "--quiet").stderr
