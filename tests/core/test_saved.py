"""What is saved names its clients, so that a later erasure of any part of their data finds it."""

import json
import struct

import pytest
import safetensors.torch
import torch
from safetensors import safe_open
from torch import nn

from support import LAYOUT, toy_federation, toy_weights
from unknot.core.base import Base
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.lineage import NOBODY, Ledger, Lineage, Unit
from unknot.core.saved import load_model, save_model
from unknot.core.weights import Layout, Weights
from unknot.models import build
from unknot.unlearn import RFS


def shaped(*units):
    return Weights(toy_weights().vector, LAYOUT, Lineage(units))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.safetensors"


def pair():
    return Ensemble(
        ((0.25, shaped(Unit(1))), (0.75, 2.0 * shaped(Unit(2, 4)))), "majority", Lineage([Unit(7, 1)])
    )


def test_a_model_comes_back_with_its_bits_and_its_clients(file):
    model = Weights(
        torch.linspace(-1, 1, 8, dtype=torch.float64),
        Layout(LAYOUT.names, LAYOUT.shapes, Base("ab" * 32, Lineage([Unit(5)]))),
        shaped(Unit(3, 2), Unit(5)).lineage,
    )
    save_model(model, file)
    again = load_model(file)
    assert again.equal(model)
    assert again.layout == model.layout
    assert again.layout.base.lineage.clients == {5}
    assert set(again.lineage) == {Unit(3), Unit(5)}


def test_an_ensemble_comes_back_whole(file):
    save_model(pair(), file)
    again = load_model(file)
    assert again.equal(pair())
    assert again.digest() == pair().digest()
    assert again.lineage.clients == {1, 2, 7}
    assert [weights.lineage.clients for _, weights in again.parts] == [{1}, {2}]


def test_clients_keep_their_names(file):
    save_model(shaped(Unit(0), Unit(4)).named({0: "Graz", 4: "<b>"}), file)
    assert load_model(file).lineage.names == {0: "Graz", 4: "<b>"}


def test_a_federation_saves_what_it_serves(file):
    fed = toy_federation(RFS())
    fed.run(2)
    fed.save(file)
    assert load_model(file).equal(fed.model)
    assert load_model(file).lineage.clients == fed.model.lineage.clients


@pytest.mark.parametrize("unit", [Unit(3), Unit(3, 1), Unit(3, 17)], ids=["first", "revision", "draw"])
@pytest.mark.parametrize("samples", [None, [4]], ids=["client", "samples"])
def test_any_erasure_in_another_run_finds_it(file, unit, samples):
    save_model(shaped(unit), file)
    ledger = Ledger()
    ledger.draw(3, [0, 1])
    ledger.forbid(3, samples)
    assert ledger.taint(load_model(file))


def test_a_file_holds_nothing_of_the_rows_that_a_model_lay_among(file):
    """A view is saved with all the memory behind it: that of the other clients' models, say."""
    rows = torch.stack([torch.full((LAYOUT.size,), value) for value in (1.5, 7777.25, 2.5)])
    kept = [Weights(rows[i], LAYOUT, Lineage([Unit(i)])) for i in (0, 2)]
    marker = rows[1, :1].numpy().tobytes()
    for model in (kept[0], Ensemble(tuple((0.5, weights) for weights in kept))):
        save_model(model, file)
        assert marker not in file.read_bytes()
        assert load_model(file).equal(model)


def test_what_was_loaded_does_not_change_with_the_file(file):
    save_model(shaped(Unit(1)), file)
    model = load_model(file)
    digest = model.digest()
    with file.open("r+b") as stream:
        stream.seek(-8, 2)
        stream.write(b"\0" * 8)
    assert Weights(model.vector, LAYOUT).digest() == digest


def test_the_same_model_gives_the_same_file(tmp_path):
    for name in ("one", "two"):
        save_model(pair(), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


# In plain PyTorch ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_two_lines_of_plain_pytorch_load_it(file, name):
    trained = build(name, (1, 28, 28), 10)
    save_model(Weights.of(trained), file)
    module = build(name, (1, 28, 28), 10)
    module.load_state_dict(safetensors.torch.load_file(file))
    images = torch.rand(3, 1, 28, 28)
    assert torch.equal(module(images), trained(images))


def test_a_module_with_tables_of_its_own_is_loaded_without_strictness(file):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.register_buffer("table", torch.ones(2))

    trained, module = Own(), Own()
    save_model(Weights.of(trained), file)
    left = module.load_state_dict(safetensors.torch.load_file(file), strict=False)
    assert left.missing_keys == ["table"]
    assert torch.equal(module.layer.weight, trained.layer.weight)


def test_the_parts_of_an_ensemble_are_found_by_their_names(file):
    save_model(pair(), file)
    with safe_open(file, "pt") as opened:
        notes = json.loads(opened.metadata()["unknot"])
        assert torch.equal(opened.get_tensor("part1.w"), pair().parts[1][1]["w"])
    assert (notes["vote"], notes["factors"]) == ("majority", [0.25, 0.75])
    assert (notes["clients"], notes["also"]) == ([[1], [2]], [7])
    assert notes["digest"] == pair().digest()


# What is no saved model ----------------------------------------------------------------------------


def test_what_is_no_saved_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        load_model(tmp_path / "nothing.safetensors")
    with pytest.raises(ConfigError, match="cannot read"):
        load_model(tmp_path)
    header = b'{"a":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}}'
    for junk in (b"not a model", b"junk", b"", b"\xff" * 8, struct.pack("<Q", len(header)) + header):
        (tmp_path / "junk").write_bytes(junk)
        with pytest.raises(ConfigError, match="saved model"):
            load_model(tmp_path / "junk")
    with pytest.raises(ConfigError, match="cannot write"):
        save_model(toy_weights(), tmp_path / "no such folder" / "model.safetensors")


def test_nothing_in_a_pickled_file_is_run(file):
    class Harm:
        def __reduce__(self):
            return (exec, ("raise SystemExit('it was run')",))

    torch.save({"kind": "model", "harm": Harm()}, file)
    with pytest.raises(ConfigError):
        load_model(file)


def test_weights_of_another_program_say_what_is_missing(file):
    safetensors.torch.save_file({"w": torch.zeros(3)}, file)
    with pytest.raises(ConfigError, match="whose data shaped it"):
        load_model(file)


def test_numbers_that_were_changed_are_found(file):
    save_model(shaped(Unit(1)), file)
    with file.open("r+b") as stream:
        stream.seek(-1, 2)
        stream.write(b"\x42")
    with pytest.raises(ConfigError, match="damaged, or was changed"):
        load_model(file)


@pytest.mark.parametrize(
    "changed",
    [
        *({"clients": [[]]}, {"names": {}}, {"waived": [[]]}, {"names": {"1": "Graz"}}),
        *({"base": "ab"}, {"kind": "policy"}, {"format": 99}, {"parameters": ["w"]}),
    ],
    ids=str,
)
def test_a_file_whose_lineage_was_edited_is_refused(file, changed):
    model = shaped(Unit(1)).named({1: "Linz"})
    save_model(model.carrying(NOBODY.waiving([1])), file)
    with safe_open(file, "pt") as opened:
        notes = json.loads(opened.metadata()["unknot"])
        tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
    safetensors.torch.save_file(tensors, file, {"unknot": json.dumps({**notes, **changed})})
    with pytest.raises(ConfigError, match=r"damaged|saved model"):
        load_model(file)


def test_no_flipped_bit_is_taken_for_the_model(file):
    save_model(shaped(Unit(1)).named({1: "Linz"}), file)
    content = file.read_bytes()
    for place in range(0, len(content), 3):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(ConfigError):
            load_model(file)


def test_numbers_in_another_shape_are_refused(file):
    save_model(shaped(Unit(1)), file)
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
        tensors = {name: opened.get_tensor(name).reshape(-1, 1) for name in opened.keys()}  # noqa: SIM118
    safetensors.torch.save_file(tensors, file, metadata)
    with pytest.raises(ConfigError, match="damaged"):
        load_model(file)


def test_whom_the_parts_of_an_ensemble_let_pass_is_kept_part_by_part(file):
    (one, first), (two, second) = pair().parts
    also = pair().also.waiving([9])
    save_model(Ensemble(((one, first.carrying(NOBODY.waiving([4]))), (two, second)), pair().vote, also), file)
    read = load_model(file)
    assert [sorted(weights.lineage.waived) for _, weights in read.parts] == [[4], []]
    assert read.also.waived == {9}


def test_a_file_may_begin_as_a_pickle_does(file):
    """The first byte is of how long the notes are: with any of 300 lengths it is read."""
    for length in range(300):
        save_model(shaped(Unit(1)).named({1: "x" * (length + 1)}), file)
        assert load_model(file).lineage.names == {1: "x" * (length + 1)}
