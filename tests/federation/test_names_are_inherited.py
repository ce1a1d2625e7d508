"""A model that goes to another federation is known there by its clients' names, wherever they stand."""

from __future__ import annotations

import numpy as np
import pytest

import unknot
from unknot.core.errors import ConfigError

RECIPE = unknot.Recipe(unknot.SGD(0.1), batch_size=8)


def held(seed: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(seed)
    return drawn.standard_normal((12, 4)).astype(np.float32), drawn.integers(0, 2, 12)


def clients(**held_by):
    return unknot.clients(held_by, classes=2, test=held(9))


def of_graz(tmp_path, seed: int) -> str:
    fed = unknot.simulate("mlp", clients(Graz=held(seed)), recipe=RECIPE)
    fed.run(2)
    unknot.save_model(fed.model, tmp_path / "graz.safetensors")
    return str(tmp_path / "graz.safetensors")


def served(tmp_path, seed: int):
    data = clients(Linz=held(1), Graz=held(seed), Wien=held(3))
    fed = unknot.simulate("mlp", data, recipe=RECIPE, initial=of_graz(tmp_path, seed))
    assert "Graz" in fed.model.lineage.clients
    assert "Linz" not in fed.model.lineage.clients
    fed.run(3, requests=[unknot.erase("Graz", round=2)])
    return fed.model


def test_who_shaped_the_start_is_forgotten_though_its_number_is_another(tmp_path):
    first, second = served(tmp_path, 2), served(tmp_path, 7)
    assert first.equal(second)
    assert "Graz" not in first.lineage.clients
    assert first.lineage.describe() == ["Linz", "Wien"]


def test_who_is_not_here_keeps_its_name_and_can_be_erased(tmp_path):
    data = clients(Linz=held(1), Wien=held(3))
    fed = unknot.simulate("mlp", data, recipe=RECIPE, initial=of_graz(tmp_path, 2))
    fed.run(2)
    assert fed.model.lineage.describe() == ["Linz", "Wien", "Graz"]
    fed.run(2, requests=[unknot.erase("Graz", round=3)])
    assert fed.model.lineage.describe() == ["Linz", "Wien"]
    assert data.names == {0: "Linz", 1: "Wien"}  # the user's own stays as it was


def test_names_are_no_numbers(tmp_path):
    numbered = unknot.clients([held(1), held(2)], classes=2, test=held(9))
    with pytest.raises(ConfigError, match="by name"):
        unknot.simulate("mlp", numbered, recipe=RECIPE, initial=of_graz(tmp_path, 2))
    fed = unknot.simulate("mlp", numbered, recipe=RECIPE)
    fed.run(1)
    with pytest.raises(TypeError, match="'Graz' is a name"):
        assert "Graz" not in fed.model.lineage.clients
