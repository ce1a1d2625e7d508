"""What is around the package: the workflow, the wheel's contents, the site."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOW = (ROOT / ".github" / "workflows" / "tests.yml").read_text()


def test_the_workflow_is_yaml_with_its_five_jobs():
    yaml = pytest.importorskip("yaml")
    whole = yaml.safe_load(WORKFLOW)
    jobs = whole["jobs"]
    assert set(jobs) == {"tests", "oldest", "wheel", "site", "slow"}
    assert all(job["steps"] for job in jobs.values())
    assert whole[True]["schedule"]  # YAML takes "on" for a truth
    weekly = {name for name, job in jobs.items() if job["if"] == "github.event_name == 'schedule'"}
    assert weekly == {"slow"}
    assert any("make test-all" in str(step) for step in jobs["slow"]["steps"])
    assert any("tests/test_project_files.py" in str(step) for step in jobs["site"]["steps"])


def test_the_workflow_has_every_python_and_the_oldest_torch_that_are_promised():
    said = re.search(r"python: \[(.*)\]", WORKFLOW)
    assert said is not None
    promised = [c.split(" :: ")[-1] for c in PROJECT["project"]["classifiers"] if "Python :: 3." in c]
    assert re.findall(r"[\d.]+", said[1]) == promised
    for package, oldest in re.findall(
        r"(torch|numpy)>=([\d.]+)", " ".join(PROJECT["project"]["dependencies"])
    ):
        assert f'"{package}=={oldest}.*"' in WORKFLOW


def test_every_file_that_is_no_python_is_in_the_wheel():
    package = ROOT / "src" / "unknot"
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["unknot"]
    there = {file for pattern in patterns for file in package.glob(pattern)}
    others = {f for f in package.rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc")}
    assert others <= there


def test_what_the_site_is_built_with_is_pinned():
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = PROJECT["project"]["optional-dependencies"]["docs"]
    assert {re.split(r"[>=]", name)[0] for name in wanted} <= pinned


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_asks_nobody_for_anything(tmp_path):
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run([*command, ROOT / "docs", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    asks_in = runpy.run_path(str(ROOT / "scripts" / "screenshots.py"))["asks_in"]
    for page in [*tmp_path.rglob("*.html"), *tmp_path.rglob("*.css")]:
        assert not asks_in(page.read_text()), page
