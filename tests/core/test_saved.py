"""What is saved names its clients, so that a later erasure of any part of their data finds it."""

import pytest
import torch

from support import LAYOUT, toy_weights
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.lineage import Ledger, Lineage, Unit
from unknot.core.saved import load_model, save_model
from unknot.core.weights import Layout, Weights


def shaped(*units):
    return Weights(toy_weights().vector, LAYOUT, Lineage(units))


def test_a_model_comes_back_with_its_bits_and_its_clients(tmp_path):
    model = Weights(
        torch.linspace(-1, 1, 8, dtype=torch.float64),
        Layout(LAYOUT.names, LAYOUT.shapes, ("b",)),
        shaped(Unit(3, 2), Unit(5)).lineage,
    )
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert again.equal(model)
    assert again.layout.frozen == ("b",)
    assert set(again.lineage) == {Unit(3), Unit(5)}


def test_an_ensemble_comes_back_whole(tmp_path):
    model = Ensemble(((0.25, shaped(Unit(1))), (0.75, shaped(Unit(2, 4)))), "majority", Lineage([Unit(7, 1)]))
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert again.equal(model)
    assert again.lineage.clients == {1, 2, 7}
    assert [weights.lineage.clients for _, weights in again.parts] == [{1}, {2}]


@pytest.mark.parametrize("unit", [Unit(3), Unit(3, 1), Unit(3, 17)], ids=["first", "revision", "draw"])
@pytest.mark.parametrize("samples", [None, [4]], ids=["client", "samples"])
def test_any_erasure_in_another_run_finds_it(tmp_path, unit, samples):
    save_model(shaped(unit), tmp_path / "model.pt")
    ledger = Ledger()
    ledger.draw(3, [0, 1])
    ledger.forbid(3, samples)
    assert ledger.taint(load_model(tmp_path / "model.pt"))


def test_a_file_holds_nothing_of_the_rows_that_a_model_lay_among(tmp_path):
    """A view is saved with all the memory behind it: that of the other clients' models, say."""
    rows = torch.stack([torch.full((LAYOUT.size,), value) for value in (1.5, 7777.25, 2.5)])
    kept = [Weights(rows[i], LAYOUT, Lineage([Unit(i)])) for i in (0, 2)]
    marker = rows[1].numpy().tobytes()
    for model in (kept[0], Ensemble(tuple((0.5, weights) for weights in kept))):
        save_model(model, tmp_path / "model.pt")
        assert marker not in (tmp_path / "model.pt").read_bytes()
        assert load_model(tmp_path / "model.pt").equal(model)


def test_what_is_no_saved_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        load_model(tmp_path / "nothing.pt")
    for junk in (b"not a model", b"junk", b"", b"PK\x03\x04", b"\x80\x02}q\x00."):
        (tmp_path / "junk.pt").write_bytes(junk)
        with pytest.raises(ConfigError, match="not a saved model"):
            load_model(tmp_path / "junk.pt")
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.pt")
    with pytest.raises(ConfigError, match="not a saved model"):
        load_model(tmp_path / "other.pt")
    with pytest.raises(ConfigError, match="cannot write"):
        save_model(toy_weights(), tmp_path / "no such folder" / "model.pt")
