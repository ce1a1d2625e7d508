"""What the documents show is run."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from unknot import registry
from unknot.experiments import Experiment, prepare, run
from unknot.federation import Length

ROOT = Path(__file__).parent.parent


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("path", ["README.md", "docs/data.md", "docs/tasks.md"])
def test_the_python_of_a_page_runs(path):
    code = "\n".join(blocks(path, "python"))
    assert code
    exec(compile(code, path, "exec"), {"__name__": "docs"})


def test_the_page_for_others_runs_and_what_it_registers_is_found_by_its_files(monkeypatch):
    for kind in (
        "methods",
        "aggregators",
        "selectors",
        "optimizers",
        "losses",
        "metrics",
        "models",
        "datasets",
        "partitions",
    ):
        monkeypatch.setattr(getattr(registry, kind), "_added", {})
    exec(compile("\n".join(blocks("docs/extending.md", "python")), "extending", "exec"), {"__name__": "docs"})
    files = [tomllib.loads(text) for text in blocks("docs/extending.md", "toml")]
    experiments = [Experiment.of(table) for table in files if "project" not in table]
    assert len(experiments) == len(files) - 1
    assert run(replace(experiments[-1], length=Length(rounds=2))).rounds


def test_the_toml_of_the_readme_is_a_run():
    (text,) = blocks("README.md", "toml")
    fed = prepare(Experiment.of(tomllib.loads(text)))
    assert len(fed.data) == 20
    assert fed.method.name == "rfs"


def test_the_toml_of_the_data_page_is_a_run(tmp_path, monkeypatch):
    for name in ("Graz", "Linz", "test"):
        (tmp_path / "clients").mkdir(exist_ok=True)
        (tmp_path / "clients" / f"{name}.csv").write_text("age,ill\n0.1,0\n0.9,1\n")
    monkeypatch.chdir(tmp_path)
    (text,) = blocks("docs/data.md", "toml")
    history = run(Experiment.of(tomllib.loads(text)))
    assert history.to_dict()["lineage"] == ["Linz"]


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_command_line_of_the_readme_exists():
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"\$ make ([\w-]+)", (ROOT / "README.md").read_text()):
        assert f"\n{command}:" in makefile
