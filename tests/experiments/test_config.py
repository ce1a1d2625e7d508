import dataclasses
import tomllib

import pytest

from unknot.core.errors import ConfigError
from unknot.core.requests import Target
from unknot.core.training import (
    SGD,
    Adagrad,
    AdaHessian,
    AdamW,
    ConstantRate,
    Cosine,
    Recipe,
    RMSprop,
    StepDecay,
)
from unknot.data import Iid
from unknot.experiments import Experiment, prepare
from unknot.federation import (
    Buffered,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedBuff,
    FedYogi,
    Median,
    NormClipping,
    Pareto,
    Synchronous,
    TrimmedMean,
)
from unknot.unlearn import PGA, RFS, Distillation, Rapid

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


def test_approximate_methods_and_public_samples_by_name():
    table = {"data": {"clients": 4, "public": 50}, "method": {"name": "distillation", "temperature": 2}}
    made = Experiment.of(table)
    assert made.method == Distillation(temperature=2.0)
    assert len(prepare(made).data.public) == 50
    climbs = Experiment.of({"method": {"name": "pga", "radius": 2, "stop": 3}})
    assert climbs.method == PGA(radius=2.0, stop=3.0)
    assert prepare(climbs).data.public is None
    rapid = Experiment.of({"method": {"name": "rapid", "optimizer": "sgd", "lr": 0.5, "momentum": 0.9}})
    assert rapid.method == Rapid(SGD(0.5, 0.9))  # keys that other methods have, too


def trained_by(text):
    return Experiment.of(tomllib.loads(text)).setup.recipe


def test_a_schedule_is_a_name_or_a_table():
    assert trained_by('[train]\nschedule = "constant"').schedule == ConstantRate()
    inline = '[train]\nlr = 0.5\nschedule = { name = "cosine", length = 100, over = "rounds", warmup = 5 }'
    assert trained_by(inline) == Recipe(SGD(0.5), schedule=Cosine(100, over="rounds", warmup=5))
    below = '[train]\nepochs = 3\n[train.schedule]\nname = "step"\nevery = 10\nfactor = 0.5'
    assert trained_by(below) == Recipe(epochs=3, schedule=StepDecay(10, 0.5))


def test_every_field_of_the_recipe_and_every_optimiser_is_a_key_of_the_section():
    text = "epochs = 2\nbatch_size = 4\nclip = 1\nproximal = 0.1\nmax_steps = 3\nradius = 2\nascent = true"
    text = f'[train]\noptimizer = "rmsprop"\nmomentum = 0.5\ncentered = true\n{text}\n'
    made = trained_by(text + '[train.schedule]\nname = "cosine"\nlength = 4')
    usual = Recipe()
    assert made.optimizer == RMSprop(momentum=0.5, centered=True)
    for field in dataclasses.fields(Recipe):
        if field.name == "loss":  # it stands in [task]
            continue
        assert getattr(made, field.name) != getattr(usual, field.name), (
            f"read Recipe.{field.name} from TOML here"
        )
    assert trained_by('[train]\noptimizer = "adagrad"\nlr_decay = 0.1').optimizer == Adagrad(lr_decay=0.1)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ('"cosin"', "'cosine'"),
        ('"cosine"', "train.length is missing"),
        ("{ length = 3 }", "unknown key train.schedule.length"),
        ('{ name = "step", every = 3, length = 5 }', "train.schedule.length belongs to"),
        ('{ name = "cosine", length = 3.5 }', "train.schedule.length must be a whole number"),
        ("3", "schedule must be of the kind schedule, or the name of one .*: 3 is no"),
    ],
)
def test_a_schedule_that_is_none_is_explained(schedule, said):
    with pytest.raises(ConfigError, match=said):
        trained_by(f"[train]\nschedule = {schedule}")


@pytest.mark.parametrize(
    ("name", "options", "made"),
    [
        ("fedadam", {"server_lr": 1, "betas": [0.5, 0.9], "tau": 0.1}, FedAdam(1.0, (0.5, 0.9), 0.1)),
        ("fedyogi", {"exponent": 0}, FedYogi(exponent=0.0)),
        ("fedadagrad", {"beta": 0.3, "by_samples": False}, FedAdagrad(beta=0.3, by_samples=False)),
        ("median", {}, Median()),
        ("trimmed-mean", {"trim": 0.2}, TrimmedMean(0.2)),
        ("norm-clipping", {"bound": 3}, NormClipping(3.0)),
    ],
)
def test_an_aggregator_by_its_name(name, options, made):
    setup = Experiment.of({"federation": {"aggregate": name, **options}}).setup
    assert setup.aggregate == made
    assert type(setup.aggregate) is type(made)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"trian": {}}, r"unknown section \[trian\]\. Did you mean 'train'"),
        ({"sed": 3}, r"unknown key sed\. Did you mean 'seed'"),
        ({"request": {"erase": 3}}, r"write \[\[request\]\] instead of \[request\]"),
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
        ({"federation": {"aggregate": "norm-clipping"}}, r"federation\.bound is missing"),
        ({"federation": {"aggregate": "medina"}}, "Did you mean 'median'"),
        ({"federation": {"trim": 0.2}}, "belongs to aggregate = 'trimmed-mean', but aggregate is 'fedavg'"),
        ({"federation": {"aggregate": "fedadam", "betas": [0.9]}}, "must be a list of 2, not of 1"),
        ({"clock": {"slowness": "pareto", "alpha": 0}}, "alpha > 0"),
        ({"clock": {"cap": 3}}, "belongs to slowness = 'pareto'"),
        ({"data": {"name": "mnits"}}, "Did you mean 'mnist'"),
        ({"data": {"partition": "dirichlett"}}, "Did you mean 'dirichlet'"),
        ({"data": {"alhpa": 3}}, "Did you mean 'alpha'"),
        ({"data": {"alpha": -1}}, "alpha"),
        ({"method": {"name": "rsf"}}, "Did you mean 'rfs'"),
        (
            {"method": {"name": "rfs", "lr": 3}},
            r"method\.lr belongs to method\.name = 'pga' or 'distillation'",
        ),
        ({"engine": {"name": "stack"}}, "Did you mean 'stacked'"),
        ({"engine": {"dtype": "float16"}}, "float"),
        ({"request": [{"erase": 3}]}, "a round or at a time"),
        ({"request": [{"round": 3}]}, "needs 'erase' or 'join'"),
        ({"request": [{"erase": 3, "join": 4, "round": 1}]}, "needs 'erase' or 'join'"),
        ({"request": [{"erase": 0.5, "round": 1}]}, "whole number"),
        ({"request": [{"erase": [1, 2], "samples": [0], "round": 1}]}, "one client"),
        ({"request": [{"erase": 1, "rounds": 1}]}, "Did you mean 'round'"),
        ({"seed": "x"}, "seed must be a whole number"),
    ],
)
def test_a_wrong_file_says_what_to_change(table, message):
    with pytest.raises(ConfigError, match=message):
        Experiment.of(table)


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*nothing\.toml"):
        Experiment.read(tmp_path / "nothing.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = 3")
    with pytest.raises(ConfigError, match="not valid TOML"):
        Experiment.read(broken)


def test_an_option_of_another_method_is_explained_as_such():
    with pytest.raises(
        ConfigError, match=r"method\.tree belongs to method\.name = 'mmt', but method\.name is 'bmt'"
    ):
        Experiment.of({"method": {"name": "bmt", "tree": "huffman"}})
    with pytest.raises(ConfigError, match=r"unknown key method\.treee\. Did you mean 'tree'"):
        Experiment.of({"method": {"name": "mmt", "treee": "huffman"}})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"method": {"nmae": "rfs"}}, "unknown key method.nmae. Did you mean 'name'?"),
        ({"select": {"nmae": "uniform"}}, "unknown key select.nmae. Did you mean 'name'?"),
        ({"train": {"optimizer": {"nmae": "sgd"}}}, "unknown key train.optimizer.nmae. Did you mean 'name'?"),
        ({"request": [{"erase": 1, "rond": 1}]}, "unknown key 'rond' in request 1. Did you mean 'round'?"),
        ({"request": [3]}, r"request 1 must be a table, \[\[request\]\]"),
        ({"data": {"name": "folder", "path": "x", "clients": 3}}, "data.clients says how .* leave it out"),
    ],
)
def test_a_slip_is_answered_in_words_for_people(table, words):
    with pytest.raises(ConfigError, match=words):
        Experiment.of(table)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            {"model": {"name": "torch.nn:Linear"}},
            r"making it failed: Linear\(\(1, 28, 28\), 10\) gave TypeError",
        ),
        ({"model": {"name": "torch.nn:Conv2d"}}, "model.kernel_size is missing"),
        ({"data": {"name": "math:sqrt"}}, r"data set 'math:sqrt': making it failed: sqrt\(\) gave TypeError"),
        ({"engine": {"name": "math:sqrt"}}, "does not take 'device'"),
        ({"federation": {"aggregate": "math:sqrt"}}, "aggregator sqrt cannot be called with .* TypeError"),
        ({"federation": {"aggregate": "builtins:id"}}, "aggregator id cannot be called"),
    ],
)
def test_what_a_path_names_but_cannot_be_made_is_an_error_for_people(table, words):
    with pytest.raises(ConfigError, match=words):
        prepare(Experiment.of(table))
