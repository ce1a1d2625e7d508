"""Everything that has a name can be found, with how to write it."""

import re
import tomllib
from pathlib import Path

import pytest

import unknot
from unknot import registry
from unknot.core.errors import ConfigError
from unknot.core.registry import Registry
from unknot.experiments import Experiment, catalogue
from unknot.experiments.catalogue import KINDS, as_toml, in_words, kind_of, thing, things

DOCS = Path(__file__).parents[2]
OURS = [(kind, name) for kind in KINDS.values() for name in catalogue.names_of(kind)]


def test_every_registry_is_a_kind():
    registries = [known for known in vars(registry).values() if isinstance(known, Registry)]
    assert len(KINDS) == len(registries)
    assert {id(kind.names) for kind in KINDS.values()} == {id(known) for known in registries}


@pytest.mark.parametrize(("kind", "name"), OURS, ids=lambda one: getattr(one, "name", one))
def test_what_is_shown_for_a_file_is_read_and_so_is_every_default(kind, name):
    found = thing(kind, name)
    Experiment.of(tomllib.loads(found.toml))
    section = tomllib.loads(found.toml)[kind.section]
    if isinstance(section[kind.key], str):  # its options stand beside it
        defaults = tomllib.loads(
            "\n".join(f"{one.name} = {one.example}" for one in found.settings if one.example)
        )
        Experiment.of({kind.section: {**section, **defaults}})


@pytest.mark.parametrize(("kind", "name"), OURS, ids=lambda one: getattr(one, "name", one))
def test_everything_is_told_and_its_page_is_there(kind, name):
    found = thing(kind, name)
    assert found.about.endswith((".", ":")), found.about
    assert all(one.about and one.type for one in found.settings)
    page, _, anchor = found.page.partition("#")
    heads = re.findall(r"^#+ (.*)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    assert not anchor or anchor in [head.lower().replace(" ", "-") for head in heads]


def test_methods_say_what_they_promise():
    found = {one.name: one for one in things(KINDS["methods"])}
    assert (found["mmt"].guarantee, found["mmt"].promise) == ("exact", "exact")
    assert found["knot"].promise.startswith("exact, but for")
    assert found["pga"].guarantee == "approximate"


def test_a_part_without_a_name_has_its_options_in_the_same_section():
    options = {one.name: one for one in thing(KINDS["selectors"], "dqn").settings}
    assert "settings" not in options
    assert options["epsilon"].default == "0.1"


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("methods", "methods"),
        ("method", "methods"),
        ("optimisers", "optimizers"),
        ("optimizer", "optimizers"),
        ("loss", "losses"),
        ("data", "data"),
        ("datasets", "data"),
        ("clock", "clocks"),
    ],
)
def test_a_kind_goes_by_the_words_that_people_use(word, name):
    assert kind_of(word).name == name


def test_a_misspelt_kind_or_name_is_told_the_nearest():
    with pytest.raises(ConfigError, match=r"called 'metods'\. Did you mean 'methods'\?"):
        kind_of("metods")
    with pytest.raises(ConfigError, match=r"no optimiser 'adma'\. Did you mean 'adam'\?"):
        thing(KINDS["optimizers"], "adma")


def test_what_a_program_adds_is_listed_with_where_it_comes_from(monkeypatch):
    monkeypatch.setattr(registry.aggregators, "_added", {})

    @registry.aggregators("cautious")
    def cautious(current, updates, version, ledger, *, share: float):
        """A share of the mean. `share`: how much of it."""

    found = thing(KINDS["aggregators"], "cautious")
    assert (found.package, found.page) == (__name__.partition(".")[0], "")
    assert (found.settings[0].about, found.settings[0].required) == ("How much of it.", True)
    assert 'aggregate = "cautious"\nshare = 1.0' in found.toml


def test_a_package_that_cannot_be_loaded_is_a_row_with_its_error(monkeypatch):
    class Entry:
        name, value, dist = "broken", "nowhere.at_all:Thing", None

        def load(self):
            raise ImportError("no module nowhere")

    monkeypatch.setattr(registry.methods, "_entries", lambda: [Entry()])
    found = {one.name: one for one in things(KINDS["methods"])}
    assert "no module nowhere" in found["broken"].error
    assert not found["rfs"].error
    assert "error" in found["broken"].to_dict()


def test_types_and_values_in_words_and_in_toml():
    assert in_words(int | None) == "whole number"
    assert in_words(int | float) == "number"
    assert in_words(tuple[float, float]) == "list of 2 numbers"
    assert in_words(tuple[int | str, ...]) == "list of whole numbers or texts"
    assert in_words(unknot.core.training.Optimizer) == "name of an optimiser"
    assert (
        as_toml({"name": 'a "b"', "over": [1, 0.5, True]}) == '{ name = "a \\"b\\"", over = [1, 0.5, true] }'
    )


def test_what_is_shown_as_toml_is_read_back():
    value = {"a b": "two\nlines", "n": [1, 0.5, True, float("inf")]}
    assert tomllib.loads(f"x = {as_toml(value)}")["x"] == value
