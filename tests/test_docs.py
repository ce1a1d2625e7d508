"""What the documents show is run."""

import re
import tomllib
from pathlib import Path

import pytest

from unknot.experiments import Experiment, prepare

ROOT = Path(__file__).parent.parent


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("path", ["README.md", "docs/architecture.md", "docs/data.md"])
def test_the_python_of_a_page_runs(path):
    code = "\n".join(blocks(path, "python"))
    assert code
    exec(compile(code, path, "exec"), {"__name__": "docs"})


def test_the_toml_of_the_readme_is_a_run():
    (text,) = blocks("README.md", "toml")
    fed = prepare(Experiment.of(tomllib.loads(text)))
    assert len(fed.data) == 20
    assert fed.method.name == "rfs"


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_command_line_of_the_readme_exists():
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"\$ make ([\w-]+)", (ROOT / "README.md").read_text()):
        assert f"\n{command}:" in makefile
