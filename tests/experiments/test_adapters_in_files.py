"""Adapters in a file: what `[model.lora]` says is what `unknot.lora` is given."""

from __future__ import annotations

import pytest

import unknot
from unknot.core.base import trained
from unknot.core.errors import ConfigError
from unknot.core.toml import to_toml
from unknot.experiments import Experiment, prepare
from unknot.experiments.simulate import assemble, data_of, maker
from unknot.experiments.specs import LoraSpec
from unknot.experiments.tables import from_anywhere

TABLE = {
    "seed": 5,
    "data": {"partition": "iid", "clients": 3, "samples": 20, "validation": 20},
    "model": {"name": "mlp", "hidden": [8], "lora": {"rank": 2, "targets": ["1"], "also": ["3"]}},
    "federation": {"rounds": 2},
}
NAMES = ("1.lora_A.weight", "1.lora_B.weight", "3.weight", "3.bias")


def experiment(*overrides: str) -> Experiment:
    return Experiment.of(TABLE, overrides)


def test_a_table_becomes_adapters_on_any_model_by_name():
    made = experiment("model.lora.alpha=3")
    assert made.model.lora == LoraSpec(2, 3.0, ("1",), ("3",))
    fed = prepare(made)
    assert fed.initial.layout.names == NAMES
    assert Experiment.of({"model": {"lora": {}}}).model.lora == LoraSpec()
    assert Experiment.of({"model": {"lora": {"targets": ".*"}}}).model.lora == LoraSpec(targets=".*")
    assert Experiment.of({}).model.lora is None


def test_their_start_is_the_seeds_unless_they_have_one_of_their_own():
    def start(made: Experiment, seed: int | None = None):
        return trained(maker(made, data_of(made), seed)())[NAMES[0]]

    model = unknot.lora(unknot.models.build("mlp", (1, 28, 28), 10, hidden=(8,)), 2, targets=["1"], seed=5)
    assert start(experiment()).equal(trained(model)[NAMES[0]])
    assert start(experiment("seed=9", "model.lora.seed=5")).equal(start(experiment()))
    assert not start(experiment("seed=9")).equal(start(experiment()))
    data = data_of(experiment())
    other = assemble(experiment(), data, seed=9).initial
    assert other.layout.names == NAMES
    assert other.vector[:20].equal(start(experiment("seed=9")).flatten()[:20])


def test_what_is_written_down_is_read_as_the_same(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(to_toml(from_anywhere(experiment("model.lora.seed=4").table)))
    assert Experiment.read(path).model == experiment("model.lora.seed=4").model


def test_a_run_starts_from_saved_adapters_on_the_same_base(tmp_path):
    done = prepare(experiment())
    done.run(1)
    unknot.save_model(done.model, tmp_path / "adapters.safetensors")
    again = prepare(experiment(f"model.initial={tmp_path / 'adapters.safetensors'}"))
    assert again.initial.vector.equal(done.model.vector)
    assert again.initial.lineage.clients == done.model.lineage.clients
    with pytest.raises(ConfigError, match="they belong to a base with the digest"):
        prepare(experiment(f"model.initial={tmp_path / 'adapters.safetensors'}", "seed=6"))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.lora=8", "model.lora must be a table, [model.lora] with rank = 8, say, not 8"),
        ("model.lora.rnak=8", "unknown key model.lora.rnak. Did you mean 'rank'?"),
        ("model.lora.rank=two", "model.lora.rank must be a whole number, not 'two'"),
        ("model.lora.rank=0", "model.lora.rank must be a whole number of at least 1, not 0"),
        (
            "model.lora.rank=785",
            "model.lora.rank must be at most 784, the larger side of '1' (8 by 784), not 785",
        ),
        ("model.lora.alpha=-1", "model.lora.alpha must be positive and finite, not -1.0"),
        (
            "model.lora.targets=['2']",
            "model.lora.targets names '2', and no linear layer is called so. Known: 1, 3.",
        ),
        ("model.lora.targets='(('", "model.lora.targets '((' is no pattern"),
        ("model.lora.also=['4']", "model.lora: there is no layer '4' to train as a whole"),
    ],
)
def test_errors_name_the_key_that_was_written(override, said):
    with pytest.raises(ConfigError) as refused:
        prepare(experiment(override))
    assert str(refused.value).startswith(said)
