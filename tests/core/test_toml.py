"""What is written as TOML is read back as it was."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.core.toml import to_toml

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
plain = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), texts)
values = st.recursive(
    plain,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(texts, values, max_size=6))
def test_any_table_comes_back(table):
    assert tomllib.loads(to_toml(table)) == table


def test_sections_requests_and_small_tables_stand_as_a_person_writes_them():
    table = {
        "method": {"name": "knot", "selection": {"name": "dqn", "lr": 1e-05}},
        "name": "demo",
        "request": [{"erase": [3, 4], "round": 12}, {"erase": "Graz", "samples": (1,), "time": None}],
    }
    assert to_toml(table) == (
        'name = "demo"\n\n[method]\nname = "knot"\nselection = { name = "dqn", lr = 1e-05 }\n\n'
        '[[request]]\nerase = [3, 4]\nround = 12\n\n[[request]]\nerase = "Graz"\nsamples = [1]\n'
    )


def test_what_toml_does_not_know_is_named():
    with pytest.raises(ConfigError, match="cannot be written as TOML"):
        to_toml({"train": {"lr": object()}})
