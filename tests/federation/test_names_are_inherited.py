"""A model that goes to another federation is known there by its clients' names, wherever they stand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unknot
from unknot.core.errors import ConfigError, RequestError
from unknot.core.weights import Weights
from unknot.models import build

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


def on_what_graz_shaped(graz: unknot.Weights):
    module = graz.load_into(build("mlp", (4,), 2))
    next(iter(module.parameters())).requires_grad_(False)
    return module


def test_who_shaped_a_base_is_known_by_name_from_run_to_run(tmp_path):
    """Graz is number 0 in the first run, 1 in the second and 2 in the third."""
    graz = unknot.load_model(of_graz(tmp_path, 2))
    second = unknot.simulate(on_what_graz_shaped(graz), clients(Linz=held(1), Graz=held(2)), recipe=RECIPE)
    second.run(1)
    second.save(tmp_path / "second.safetensors")
    saved = unknot.load_model(tmp_path / "second.safetensors")
    for model in (second.model, saved):
        assert model.layout.base.lineage.describe() == ["Graz"]
        data = clients(Wien=held(3), Linz=held(1), Graz=held(2))
        third = unknot.simulate(on_what_graz_shaped(graz), data, recipe=RECIPE, initial=model)
        with pytest.raises(RequestError, match="Graz had a part in the base"):
            third.run(1, requests=[unknot.erase("Graz", round=1)])
        third.run(1, requests=[unknot.erase("Wien", round=1)])


def test_parts_that_two_runs_shaped_bring_along_both_though_their_numbers_are_the_same(tmp_path):
    """Graz is number 0 in one run, and Linz in the other."""
    graz = unknot.load_model(of_graz(tmp_path, 2))
    other = unknot.simulate("mlp", clients(Linz=held(1)), recipe=RECIPE)
    other.run(1)
    bodies = [model.load_into(build("mlp", (4,), 2)).requires_grad_(False) for model in (graz, other.model)]
    module = torch.nn.Sequential(bodies[0], torch.nn.Linear(2, 4), bodies[1])
    assert sorted(Weights.of(module).layout.base.lineage.describe()) == ["Graz", "Linz"]
    data = clients(Wien=held(3), Graz=held(2), Linz=held(1))
    fed = unknot.simulate(module, data, recipe=RECIPE)
    for name in ("Graz", "Linz"):
        with pytest.raises(RequestError, match=f"{name} had a part in the base"):
            fed.run(1, requests=[unknot.erase(name, round=1)])
