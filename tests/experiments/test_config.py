import pytest

from unknot.core.errors import ConfigError
from unknot.core.recipe import SGD, AdaHessian, AdamW
from unknot.core.requests import Target
from unknot.data import Iid
from unknot.experiments import Experiment
from unknot.federation import Buffered, FedAvg, FedBuff, Pareto, Synchronous, Trace
from unknot.unlearn import RFS, Rapid

FULL = """
name = "everything"
seed = 7

[data]
name = "mnist"
partition = "iid"
clients = 100
samples = 500
validation = 1000
normalize = "unit"

[model]
name = "mlp"
hidden = [80, 40]

[train]
optimizer = "adamw"
lr = 0.002
betas = [0.8, 0.99]
epochs = 5
batch_size = 64
clip = 10

[federation]
rounds = 40
pace = "buffered"
per_round = 30
minimum = 15
staleness_bound = 4
exponent = 1
accuracy = 0.9
window = 3
deviation = 0.01
evaluate_on = ["validation", "test"]

[clock]
slowness = "pareto"
alpha = 1
cap = 10
latency = 2

[method]
name = "rapid"
lr = 0.1

[engine]
dtype = "float64"
threads = 1

[[request]]
erase = [3, 5]
round = 10

[[request]]
erase = 7
samples = [0, 1]
time = 140

[[request]]
join = 8
round = 12
"""


def test_a_whole_file_becomes_values(tmp_path):
    file = tmp_path / "file.toml"
    file.write_text(FULL)
    made = Experiment.read(file)
    assert (made.name, made.seed) == ("everything", 7)
    assert made.data.partition == Iid(clients=100, samples=500)
    assert made.data.options == {"normalize": "unit"}
    assert made.data.validation == 1000
    assert made.model.options == {"hidden": (80, 40)}
    assert made.setup.recipe.optimizer == AdamW(lr=0.002, betas=(0.8, 0.99))
    assert (made.setup.recipe.epochs, made.setup.recipe.batch_size, made.setup.recipe.clip) == (5, 64, 10.0)
    assert made.setup.pace == Buffered(30, 15, 4)
    assert made.setup.aggregate == FedBuff(exponent=1.0)
    assert (made.length.rounds, made.length.accuracy, made.length.window) == (40, 0.9, 3)
    assert made.setup.evaluate_on == ("validation", "test")
    assert made.setup.clock.slowness == Pareto(alpha=1.0, cap=10.0)
    assert made.setup.clock.latency == 2.0
    assert made.method == Rapid(AdaHessian(lr=0.1))
    assert (made.engine.dtype, made.engine.threads) == ("float64", 1)
    assert [request.at.round for request in made.requests] == [10, None, 12]
    assert made.requests[0].targets == (Target(3), Target(5))
    assert made.requests[1].targets == (Target(7, (0, 1)),)


def test_defaults_make_a_run():
    made = Experiment.of({})
    assert made.setup.pace == Synchronous()
    assert made.setup.aggregate == FedAvg()
    assert made.setup.recipe.optimizer == SGD()
    assert isinstance(made.method, RFS)
    assert made.length.rounds == 20


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


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"trian": {}}, r"unknown key the file's\.trian.*Did you mean 'train'"),
        ({"train": {"epoch": 3}}, r"unknown key train\.epoch\. Did you mean 'epochs'"),
        ({"train": {"epochs": "five"}}, r"train\.epochs must be a whole number, not 'five'"),
        ({"train": {"epochs": True}}, r"train\.epochs must be a whole number"),
        ({"train": {"epochs": 0}}, "epochs must be at least 1"),
        ({"train": {"lr": -1}}, "lr must be positive"),
        ({"train": {"optimizer": "sdg"}}, "Did you mean 'sgd'"),
        ({"train": {"optimizer": "adam", "momentum": 0.9}}, "belongs to optimizer = 'sgd'"),
        ({"train": {"optimizer": "adam", "betas": [0.9]}}, "must be a list of 2, not of 1"),
        ({"train": 3}, r"must be a section: \[train\]"),
        ({"federation": {"minimum": 3}}, "belongs to pace = 'buffered'"),
        ({"federation": {"pace": "buffered", "per_round": 3}}, r"federation\.minimum is missing"),
        ({"federation": {"pace": "buffered", "per_round": 3, "minimum": 4}}, "minimum <= per_round"),
        ({"federation": {"round": 3}}, "Did you mean 'rounds'"),
        ({"clock": {"slowness": "pareto", "alpha": 0}}, "alpha > 0"),
        ({"clock": {"cap": 3}}, "belongs to slowness = 'pareto'"),
        ({"data": {"name": "mnits"}}, "Did you mean 'mnist'"),
        ({"data": {"partition": "dirichlett"}}, "Did you mean 'dirichlet'"),
        ({"data": {"alhpa": 3}}, "Did you mean 'alpha'"),
        ({"data": {"alpha": -1}}, "alpha"),
        ({"method": {"name": "rsf"}}, "Did you mean 'rfs'"),
        ({"method": {"name": "rfs", "lr": 3}}, r"unknown key method\.lr"),
        ({"engine": {"name": "stack"}}, "Did you mean 'stacked'"),
        ({"engine": {"dtype": "float16"}}, "float"),
        ({"request": [{"erase": 3}]}, "a round or at a time"),
        ({"request": [{"round": 3}]}, "needs 'erase' or 'join'"),
        ({"request": [{"erase": 3, "join": 4, "round": 1}]}, "needs 'erase' or 'join'"),
        ({"request": [{"erase": "three", "round": 1}]}, "whole number"),
        ({"request": [{"erase": [1, 2], "samples": [0], "round": 1}]}, "one client"),
        ({"request": [{"erase": 1, "rounds": 1}]}, "Did you mean 'round'"),
        ({"seed": "x"}, "seed must be a whole number"),
    ],
)
def test_a_wrong_file_says_what_to_change(table, message):
    with pytest.raises(ConfigError, match=message):
        Experiment.of(table)


@pytest.mark.parametrize("override", ["train.lr", "=3", "a.b.c=3", "train..lr=3"])
def test_a_wrong_override_is_refused(override):
    with pytest.raises(ConfigError, match=r"section\.key=value"):
        Experiment.of({}, [override])


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no file .*nothing\.toml"):
        Experiment.read(tmp_path / "nothing.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = 3")
    with pytest.raises(ConfigError, match="not valid TOML"):
        Experiment.read(broken)


def test_an_option_of_another_method_is_explained_as_such():
    with pytest.raises(ConfigError, match=r"method\.tree belongs to mmt, but method.name is 'bmt'"):
        Experiment.of({"method": {"name": "bmt", "tree": "huffman"}})
    with pytest.raises(ConfigError, match=r"unknown key method\.treee\. Did you mean 'tree'"):
        Experiment.of({"method": {"name": "mmt", "treee": "huffman"}})
