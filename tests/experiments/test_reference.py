"""The page of all keys is what the code says."""

import tomllib
from pathlib import Path

import pytest

from unknot.core.errors import ConfigError
from unknot.experiments import Experiment
from unknot.experiments.reference import page, sections

PAGE = Path(__file__).parents[2] / "docs" / "toml.md"
REQUEST = {"erase": 3, "round": 1}


def test_the_page_in_the_documents_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run make reference"


def test_the_sections_are_those_that_a_file_may_have():
    with pytest.raises(ConfigError, match=r"unknown section \[xyzzy\]") as error:
        Experiment.of({"xyzzy": {}})
    known = str(error.value).partition("Known: ")[2].rstrip(".").split(", ")
    names = [name for section in sections() if "." not in (name := section.name.strip("[]"))]
    assert sorted(known) == sorted([*filter(None, names), "name", "seed", "modules"])


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.name or "top")
def test_every_key_is_explained_and_its_default_is_read(section):
    for key in section.settings:
        assert key.about
        if not key.default or key.name == "shares":
            continue
        line = f"{key.name} = {key.default}"
        table = tomllib.loads(f"{section.name}\n{line}" if section.name else line)
        Experiment.of(table)


@pytest.mark.parametrize(
    "name", ["data", "model", "train", "federation", "select", "clock", "method", "task"]
)
def test_a_key_that_is_not_on_the_page_is_refused(name):
    with pytest.raises(ConfigError, match="xyzzy"):
        Experiment.of({name: {"xyzzy": 1}})
