"""A person's path by the pages alone: in an empty folder, every command runs as listed, in its order."""

import json
import re
import shlex
from pathlib import Path

import pytest
import safetensors.torch
from typer.testing import CliRunner

from unknot.cli import app
from unknot.models import build

ROOT = Path(__file__).parent.parent
SMALLER = {
    r"\bclients = \d+": "clients = 5",
    r"\nalpha = .*\n(?!samples)": "\nalpha = 1.0\nsamples = 40\n",
    r"\bper_round = \d+": "per_round = 5",
    r"\brounds = \d+": "rounds = 4",
    r"\bround = \d+": "round = 2",
}
"""What is made smaller in files for the short form of the path."""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def shrink(folder: Path) -> None:
    for file in folder.glob("*.toml"):
        text = file.read_text()
        for pattern, smaller in SMALLER.items():
            text = re.sub(pattern, smaller, text)
        file.write_text(text)


def follow(page: str, folder: Path, short: bool) -> list[str]:
    """Write the page's files, type its commands; what was typed."""
    for text in blocks(page, "toml"):
        if name := re.match(r"# (\S+\.toml)", text):
            (folder / name[1]).write_text(text)
    typed = re.findall(
        r"^\$ unknot (.*?)(?:\s+#.*)?$", "\n".join(blocks(page, "console")), flags=re.MULTILINE
    )
    for line in typed:
        if short:
            shrink(folder)
        command, _, file = line.partition(" > ")
        result = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "100"})
        assert result.exit_code == 0, f"{line}: {result.output}"
        if file:
            (folder / file).write_text(result.stdout)
    return typed


def test_the_path_of_the_readme_in_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = follow("README.md", tmp_path, short=True)
    assert [line.split()[0] for line in typed] == ["new", "check", "run", "compare"]
    left = {file.name for file in (tmp_path / "runs" / "forget").iterdir()}
    assert left == {"config.toml", "record.json", "model.safetensors", "report.html"}
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
