"""A person's path by the pages alone: in an empty folder, every command runs as listed, in its order."""

import importlib.util
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import safetensors.torch
from typer.testing import CliRunner

from language_files import write_language_world
from pages import ROOT, blocks, write_files
from unknot import reproduce
from unknot.cli import app
from unknot.cli import run as running
from unknot.experiments.starter import starter
from unknot.models import build

SMALLER = {
    r"\bclients = \d+": "clients = 7",
    r"\nalpha = .*\n(?!samples)": "\nalpha = 1.0\nsamples = 40\n",
    r"\bper_round = \d+": "per_round = 5",
    r"\bminimum = \d+": "minimum = 3",
    r"\brounds = \d+": "rounds = 4",
    r"\bround = \d+": "round = 2",
    r"\bseconds = \d+": "seconds = 30",
    r"\btime = [\d.]+": "time = 20.0",
    r"\bsamples = \d{3}": "samples = 40",
    r"\bperiods = \d+": "periods = 30",
}
"""What is made smaller in files for the short form of the path."""
SHORTER = {
    r"--seeds 0-2": "--seeds 0",
    r"--secrets 8": "--secrets 2",
    r"^audit ": "audit --controls 3 --level 0.5 --sensitivity 0 ",
    r"^demo --text": "demo --text --help",  # run, and small, by tests/cli/test_demo_text.py
}
"""What is made less in commands."""


FOLDER = {"config.toml", "record.json", "model.safetensors", "report.html"}
FOLDER |= {"run.db", "keys", "lock", "state", "weights"}
"""What lies in the folder of a run that is over."""


def shrink(folder: Path) -> None:
    for file in folder.glob("*.toml"):
        text = file.read_text()
        for pattern, smaller in SMALLER.items():
            text = re.sub(pattern, smaller, text)
        file.write_text(text)


def commands(page: str) -> list[str]:
    """What a page has people type, an `unknot` each, without it."""
    text = "\n".join(blocks(page, "console")).replace("\\\n", " ")
    return re.findall(r"^\$ unknot (.*?)(?:\s+#.*)?$", text, flags=re.MULTILINE)


def follow(page: str, folder: Path, short: bool) -> list[str]:
    """Write the page's files, type its commands; what was typed."""
    write_files(page, folder)
    typed = commands(page)
    type_in(typed, folder, short)
    return typed


def type_in(typed: list[str], folder: Path, short: bool) -> None:
    for line in typed:
        command, _, file = line.partition(" > ")
        if short:
            shrink(folder)
            for pattern, less in SHORTER.items():
                command = re.sub(pattern, less, command)
        result = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "100"})
        assert result.exit_code == 0, f"{line}: {result.output}"
        if file:
            (folder / file).write_text(result.stdout)


def is_for_long(command: str) -> bool:
    """Whether it reproduces something: minutes, or hours with data sets that must be there."""
    return command.startswith("reproduce") and "--list" not in command


PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "docs").rglob("*.md")
    if page.name != "tutorial.md" and commands(str(page.relative_to(ROOT)))
)


MANY_MODELS = ("docs/audits.md", "docs/which-method.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page in MANY_MODELS else page
        for page in PAGES
        if not all(map(is_for_long, commands(page)))
    ],
)
def test_the_commands_of_a_page_run_in_short(page, tmp_path, monkeypatch):
    """In a folder with the files that the page shows, and ones to begin with where it speaks of yours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNKNOT_DATA", str(write_language_world(tmp_path)))
    for name in ("my.toml", "forget.toml"):
        (tmp_path / name).write_text(starter("rfs"))
    for name in ("docs/results", "docs/pictures", "experiments"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "results" / "which-method.toml", "docs/results")
    shutil.copy(ROOT / "src" / "unknot" / "experiments" / "demo.toml", "experiments")
    for folder in ("docs/results", "experiments"):
        shrink(tmp_path / folder)
    monkeypatch.setattr(running, "files", lambda _: tmp_path)
    without = "" if importlib.util.find_spec("tensorboard") else r" --tensorboard \S+"
    typed = [re.sub(without, "", line) for line in commands(page) if not is_for_long(line)]
    write_files(page, tmp_path)
    type_in(typed, tmp_path, short=True)
    for line in typed:
        for written in re.findall(r"(?:--(?:plot|html|csv|out)|>) (\S+)", line):
            assert (tmp_path / written).exists(), written


def test_what_pages_reproduce_is_there():
    for page in PAGES:
        for line in filter(is_for_long, commands(page)):
            words = [word for word in shlex.split(line) if word != "--check"]
            plan = reproduce.load(words[1]) if words[1] in reproduce.names() else None
            if plan is None:  # all the pages of a folder are checked
                assert (ROOT / words[1]).is_dir(), line
                continue
            assert "paper" not in words or "paper" in plan.scales, line


@pytest.mark.slow
def test_a_reproduction_runs_as_its_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = [line for page in ("docs/reproductions.md", "docs/incentives.md") for line in commands(page)]
    small = [line for line in typed if is_for_long(line) and not {"paper", "--check"} & set(line.split())]
    type_in(small, tmp_path, short=False)
    assert len(small) == 2
    assert list((tmp_path / "runs").glob("*.json.gz"))


def test_the_path_of_the_readme_in_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = follow("README.md", tmp_path, short=True)
    assert [line.split()[0] for line in typed] == ["new", "check", "run", "compare"]
    left = {file.name for file in (tmp_path / "runs" / "forget").iterdir()}
    assert left - {"run.db-wal", "run.db-shm", ".lock-keys"} == FOLDER
    exec(compile("\n".join(blocks("README.md", "python")), "README.md", "exec"), {"__name__": "readme"})
    build("mlp", (8,), classes=2).load_state_dict(safetensors.torch.load_file("model.safetensors"))


def test_what_the_readme_does_with_own_data_ends_regained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    exec(compile("\n".join(blocks("README.md", "python")), "README.md", "exec"), names)
    history = names["history"]
    assert history.recovery(history.served[0]).reached


def test_the_path_of_the_tutorial_in_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = follow("docs/tutorial.md", tmp_path, short=True)
    assert [line.split()[0] for line in typed] == ["new", "check", "run", "compare"]
    assert (tmp_path / "compare.html").exists()


@pytest.mark.slow
def test_the_path_of_the_readme_as_listed_ends_regained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["demo"]).exit_code == 0
    follow("README.md", tmp_path, short=False)
    record = json.loads((tmp_path / "runs" / "forget" / "record.json").read_text())
    assert all(recovery["reached"] for recovery in record["recoveries"])
    assert record["recoveries"]
    model = build("mlp", (1, 28, 28), classes=10)
    model.load_state_dict(
        safetensors.torch.load_file(str(tmp_path / "runs" / "forget" / "model.safetensors"))
    )


@pytest.mark.slow
def test_the_path_of_the_tutorial_as_listed_ends_regained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow("docs/tutorial.md", tmp_path, short=False)
    record = json.loads((tmp_path / "runs" / "small" / "record.json").read_text())
    assert all(recovery["reached"] for recovery in record["recoveries"])
