"""What a file's table is asked and told before it becomes values."""

import pytest

from unknot.core.errors import ConfigError
from unknot.data import Iid
from unknot.experiments import Experiment
from unknot.federation import Trace


def test_overrides_are_toml_values_or_bare_words():
    made = Experiment.of(
        {"train": {"lr": 0.5}},
        [
            "train.lr=0.25",
            "seed=3",
            "data.partition=iid",
            "data.clients=4",
            "clock.slowness=trace",
            "clock.factors=[1, 2.5]",
            'model.name="lenet5"',
        ],
    )
    assert made.setup.recipe.optimizer.lr == 0.25
    assert made.seed == 3
    assert made.data.partition == Iid(clients=4)
    assert made.setup.clock.slowness == Trace((1.0, 2.5))
    assert made.model.name == "lenet5"


def test_an_override_leaves_the_table_alone():
    table = {"train": {"lr": 0.5}}
    Experiment.of(table, ["train.lr=0.25"])
    assert table == {"train": {"lr": 0.5}}


@pytest.mark.parametrize("override", ["train.lr", "=3", "a..c=3", "train..lr=3"])
def test_a_wrong_override_is_refused(override):
    with pytest.raises(ConfigError, match=r"section\.key=value"):
        Experiment.of({}, [override])


def test_a_name_that_no_file_can_hold_is_refused():
    with pytest.raises(ConfigError, match=r"name is 'a\\udcffb': its letter 2"):
        Experiment.of({}, ["name=a\udcffb"])


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"name": "\udc80"}, "name"),
        ({"data": {"root": "a\udc80"}}, "data.root"),
        ({"data": {"corrupt": ["a", "\udc80"]}}, r"data.corrupt\[1\]"),
        ({"request": [{"erase": "\udc80", "round": 1}]}, "request 1.erase"),
        ({"\udc80": 1}, "a key of the file"),
    ],
)
def test_a_text_that_no_file_could_hold_is_refused_by_its_place(table, where):
    with pytest.raises(ConfigError, match=rf"^{where} is '.*udc80': its letter \d is none that UTF-8 has"):
        Experiment.of(table)
