"""From outside: a package with one of each kind, run by name from files and put through the checks."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unknot
from outside_package import PACKAGE, install
from processes import Started
from unknot import registry
from unknot.testing import (
    check_aggregator,
    check_data,
    check_loss,
    check_method,
    check_metric,
    check_model,
    check_optimizer,
    check_partition,
    check_selector,
)

RUNS = Path(__file__).parent / "experiments"
KINDS = {
    "methods": "rewind",
    "selectors": "shifts",
    "aggregators": "cautious",
    "optimizers": "lion",
    "losses": "focal",
    "metrics": "top",
    "models": "two-layers",
    "datasets": "stripes",
    "partitions": "halving",
}
SINGULAR = {"losses": "loss"}
# Every file is run by the command line; each prints its record, and all share one interpreter.
PROGRAM = """
import sys
from unknot.cli import app
for file in sys.argv[1:]:
    try:
        app(["run", file, "--json"], standalone_mode=False)
    except SystemExit as end:
        assert not end.code, (file, end.code)
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    return install(tmp_path_factory.mktemp("site"))


@pytest.fixture
def found(installed, monkeypatch):
    """The package is there, as for whoever has installed it; it is gone again after the test."""
    monkeypatch.syspath_prepend(str(installed))
    yield
    for kind, name in KINDS.items():
        getattr(registry, kind)._loaded.pop(name, None)


def records(files: list[Path], folder: Path) -> list[dict]:
    process = Started(*files, program=PROGRAM, path=[str(folder)])
    said, wrong = process.communicate()
    assert process.returncode == 0, wrong
    return [json.loads(line) for line in said.splitlines()]


def test_each_is_run_by_name_from_a_file(installed, tmp_path):
    """A file for each of them, one with all; and one whose method has no package, but lies beside it."""
    files = sorted(RUNS.glob("*.toml"))
    assert {file.stem for file in files} == {SINGULAR.get(kind, kind[:-1]) for kind in KINDS} | {"all"}
    shutil.copy(PACKAGE / "unknot_outside" / "method.py", tmp_path / "my_rewind.py")
    own = tmp_path / "own.toml"
    own.write_text((RUNS / "method.toml").read_text().replace('"rewind"', '"my_rewind:Rewind"'))
    found = dict(zip([*files, own], records([*files, own], installed), strict=True))
    for file, record in found.items():
        assert record["experiment"]["name"] == file.stem
        assert [served["clients"] for served in record["requests"]] == [[1]], file.stem
        assert record["guarantee"] == "exact", file.stem
        assert not record["warnings"], file.stem
    assert found[own]["model"] == found[RUNS / "method.toml"]["model"]


def test_without_the_package_a_file_says_what_is_missing(tmp_path):
    for file in RUNS.glob("*.toml"):
        with pytest.raises(unknot.ConfigError, match=r"there is no such|no module unknot_outside"):
            unknot.Experiment.read(file)


def test_every_name_is_listed_with_ours(found):
    for kind, name in KINDS.items():
        assert name in getattr(registry, kind).names()
        assert name not in getattr(registry, kind).ours


def test_wrong_options_are_refused_by_the_same_rules(found):
    for table, said in (
        ({"method": {"name": "rewind", "evry": 2}}, r"unknown key method\.evry\. Did you mean 'every'"),
        ({"method": {"name": "rewind", "every": "two"}}, r"method\.every must be a whole number"),
        ({"select": {"name": "shifts", "shift": 2}}, r"unknown key select\.shift\. Did you mean 'shifts'"),
        ({"federation": {"aggregate": "cautious", "share": "half"}}, r"federation\.share must be a number"),
        ({"federation": {"aggregate": "cautius"}}, r"Did you mean 'cautious'"),
        ({"train": {"optimizer": "lion", "betas": [0.9]}}, r"train\.betas must be a list of 2, not of 1"),
        ({"task": {"loss": "focal", "gama": 1}}, r"unknown key task\.gama\. Did you mean 'gamma'"),
        ({"model": {"name": "two-layers", "depth": 2}}, r"unknown key model\.depth"),
        ({"data": {"name": "stripes", "sides": 3}}, r"unknown key data\.sides\. Did you mean 'side'"),
        ({"data": {"partition": "halving"}}, r"data\.clients is missing"),
    ):
        with pytest.raises(unknot.ConfigError, match=said):
            unknot.Experiment.of(table)


CHECKS = {
    "methods": check_method,
    "selectors": check_selector,
    "aggregators": check_aggregator,
    "optimizers": check_optimizer,
    "losses": check_loss,
    "metrics": lambda name: check_metric(name, "classes"),
    "models": check_model,
    "datasets": check_data,
    "partitions": lambda name: check_partition(registry.partitions.make(name, {"clients": 4})),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_passes_the_checks(kind, found):
    CHECKS[kind](KINDS[kind])


def test_in_python_they_are_called_by_name_as_well(found):
    halving = unknot.data.make_partition("halving", clients=4)
    data = unknot.federate(unknot.load("stripes", samples=60), halving)
    fed = unknot.simulate("two-layers", data, "rewind", unknot.Recipe(registry.optimizers.make("lion")))
    history = fed.run(3, requests=[unknot.erase(1, round=2)])
    assert history.method == "rewind"
    assert 1 not in fed.model.lineage.clients


@pytest.mark.slow
def test_an_installer_does_the_same(tmp_path):
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("there is no setuptools to build the package with")
    shutil.copytree(PACKAGE, tmp_path / "package")
    command = "install --quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check"
    subprocess.run(
        [sys.executable, "-m", "pip", *command.split(), "--target", tmp_path / "site", tmp_path / "package"],
        check=True,
    )
    (record,) = records([RUNS / "all.toml"], tmp_path / "site")
    assert record["method"] == "rewind"
