"""Pretrained models: each kind of file gives the model that was written; what does not fit is told."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import language_files as files
import unknot
from unknot.core.base import trained
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError, DataError
from unknot.core.training import Adam, Recipe
from unknot.models import build
from unknot.models.transformer import rotations

DRAWN = np.random.default_rng(0)
TEXTS = torch.from_numpy(DRAWN.integers(0, files.PAD, (24, 8)))
TEXTS[::3, 5:] = files.PAD


def same(model, wanted):
    ours, theirs = dict(model.named_parameters()), dict(wanted.named_parameters())
    assert list(ours) == list(theirs)
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter, theirs[name], rtol=0, atol=0, msg=name)
    assert torch.equal(model(TEXTS), wanted(TEXTS))


@pytest.mark.parametrize("tied", [True, False])
def test_a_llama_comes_out_of_each_kind_of_file_as_it_was(tied, tmp_path):
    model = files.llama(tied=tied)
    same(unknot.pretrained(files.write_folder(tmp_path / "folder", model)), model)
    same(unknot.pretrained(files.write_llama_gguf(tmp_path / "a.gguf", model)), model)
    same(unknot.pretrained(files.write_llama2c(tmp_path / "a.bin", model)), model)


@pytest.mark.parametrize("tied", [True, False])
def test_gpt2_comes_out_of_a_folder_as_it_was(tied, tmp_path):
    model = files.gpt2(tied=tied)
    same(unknot.pretrained(files.write_folder(tmp_path, model)), model)


def test_gpt2_comes_out_of_a_gguf_file_as_it_was(tmp_path):
    model = files.gpt2()
    same(unknot.pretrained(files.write_gpt2_gguf(tmp_path / "a.gguf", model)), model)


def test_gpt2_in_an_old_folder_has_short_names_and_masks(tmp_path):
    model = files.gpt2()
    found = {name.removeprefix("transformer."): tensor for name, tensor in files.tensors(model).items()}
    found |= {"h.0.attn.bias": torch.ones(1, 1, 12, 12), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    same(unknot.pretrained(files.write_folder(tmp_path, model, found)), model)


def test_a_head_that_is_the_table_may_be_in_the_file_twice(tmp_path):
    model = files.llama(tied=True)
    found = files.tensors(model)
    found["lm_head.weight"] = found["model.embed_tokens.weight"].clone()
    same(unknot.pretrained(files.write_folder(tmp_path, model, found)), model)


def test_tensors_may_lie_in_several_files_or_in_pytorchs(tmp_path):
    model, sharded, pickled = files.llama(), tmp_path / "sharded", tmp_path / "pickled"
    found = files.tensors(model)
    first = dict(list(found.items())[:5])
    files.write_folder(sharded, model, first)
    (sharded / "model.safetensors").rename(sharded / "one.safetensors")
    files.write_folder(sharded, model, {name: found[name] for name in found if name not in first})
    (sharded / "model.safetensors").rename(sharded / "two.safetensors")
    places = {name: "one.safetensors" if name in first else "two.safetensors" for name in found}
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    same(unknot.pretrained(sharded), model)
    files.write_folder(pickled, model)
    (pickled / "model.safetensors").unlink()
    torch.save(found, pickled / "pytorch_model.bin")
    same(unknot.pretrained(pickled), model)


def test_llama_3s_scaling_is_read_from_a_folder_and_found_out_from_a_gguf_file(tmp_path):
    scaling = (32.0, 1.0, 4.0, 8192)
    model = files.llama(rope_scaling=scaling, rope_base=500000.0, head_width=16)
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    rope = {"rope_type": "llama3", **dict(zip(names, scaling, strict=True))}
    read = unknot.pretrained(files.write_folder(tmp_path, model, rope_scaling=rope))
    assert read.config.rope_scaling == scaling
    # As llama.cpp's converter has it: what a rate is divided by.
    rates = 500000.0 ** -(np.arange(0, 16, 2) / 16)
    factors = []
    for wave in 2 * math.pi / rates:
        smooth = (8192 / wave - 1) / 3
        factors.append(1 / ((1 - smooth) / 32 + smooth) if 0 < smooth < 1 else 32 if smooth <= 0 else 1)
    more = {"rope_freqs.weight": np.array(factors, np.float32)}
    again = unknot.pretrained(files.write_llama_gguf(tmp_path / "a.gguf", model, more))
    assert again.config.rope_scaling == scaling
    same(again, model)
    turned = rotations(3, 16, 500000.0, scaling, "cpu")[1][1]
    np.testing.assert_allclose(turned.asin(), rates / factors, rtol=1e-5)
    assert {1, 32} < set(factors)  # fast ones are left, slow ones fall, and some are between
    more["rope_freqs.weight"][0] = 3
    with pytest.raises(DataError, match="turns positions in a way that is not known"):
        unknot.pretrained(files.write_llama_gguf(tmp_path / "b.gguf", model, more))


@pytest.mark.parametrize("make", [files.llama, files.gpt2])
def test_answers_are_the_logits_of_their_words_after_the_last_token(make, tmp_path):
    path = files.write_folder(tmp_path, make())
    plain, model = unknot.pretrained(path), unknot.pretrained(path, answers=["one", "two"])
    ends = [4 if row % 3 == 0 else 7 for row in range(len(TEXTS))]
    wanted = plain(TEXTS)[torch.arange(len(TEXTS)), ends][:, [files.ONE, files.TWO]]
    torch.testing.assert_close(model(TEXTS), wanted)
    assert not hasattr(model, "lm_head")  # which adapters would be put beside for nothing


@pytest.mark.parametrize("make", [files.llama, files.gpt2])
def test_classes_are_told_by_a_new_layer_or_by_that_of_the_folder(make, tmp_path):
    model = make()
    path = files.write_folder(tmp_path / "plain", model)
    torch.manual_seed(1)
    fresh = unknot.pretrained(path, classes=3)
    assert fresh.score.weight.shape == (3, 16)
    assert fresh(TEXTS).shape == (len(TEXTS), 3)
    found = {name: tensor for name, tensor in files.tensors(model).items() if name != "lm_head.weight"}
    found["score.weight"] = torch.randn(3, 16)
    there = unknot.pretrained(files.write_folder(tmp_path / "scored", model, found), classes=3)
    assert torch.equal(there.score.weight, found["score.weight"])
    with pytest.raises(ConfigError, match="into 3 classes; asked for 4"):
        unknot.pretrained(tmp_path / "scored", classes=4)
    for options in ({}, {"answers": ["one", "two"]}):
        with pytest.raises(ConfigError, match="into 3 classes; asked for tokens"):
            unknot.pretrained(tmp_path / "scored", **options)


def test_by_name_the_classes_say_what_is_asked_of_it(tmp_path):
    path = files.write_folder(tmp_path, files.llama())
    next_token = build("pretrained", (8,), files.VOCABULARY, path=path)
    assert next_token(TEXTS).shape == (24, 8, files.VOCABULARY)
    assert build("pretrained", (8,), 2, path=path, answers=("one", "two"))(TEXTS).shape == (24, 2)
    assert build("pretrained", (8,), 5, path=path)(TEXTS).shape == (24, 5)
    wide = files.write_folder(tmp_path / "wide", files.llama(vocabulary=files.VOCABULARY + 4))
    assert build("pretrained", (8,), files.VOCABULARY, path=wide)(TEXTS).shape[1:] == (
        8,
        files.VOCABULARY + 4,
    )
    half = build("pretrained", (8,), 5, path=path, dtype="bfloat16")
    assert half.model.norm.weight.dtype == torch.bfloat16
    assert half(TEXTS).dtype == half.score.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"answers": ["one", "one"]}, "answers 'one' and 'one' begin with the same token, ' one'"),
        ({"answers": ["cat", "cow"]}, "answers 'cat' and 'cow' begin with the same token, ' c'"),
        ({"answers": ["one", " "]}, "answers must be words, not ' '"),
        ({"answers": ["one", "two"], "classes": 3}, "answers has 2 words, and there are 3 classes"),
        ({"dtype": "float16"}, "dtype is 'float32' or 'bfloat16', not 'float16'"),
    ],
)
def test_what_cannot_be_asked_of_it_is_refused(options, said, tmp_path):
    with pytest.raises(ConfigError) as refused:
        unknot.pretrained(files.write_folder(tmp_path, files.llama()), **options)
    assert said in str(refused.value)


def test_what_does_not_fit_the_data_is_refused(tmp_path):
    path = files.write_folder(tmp_path / "a", files.gpt2())
    with pytest.raises(ConfigError, match=r"texts of 13 tokens do not fit the 12 positions .* at most 12"):
        build("pretrained", (13,), files.VOCABULARY, path=path)
    with pytest.raises(ConfigError, match="takes texts of shape"):
        build("pretrained", (1, 28, 28), 10, path=path)
    small = files.write_folder(tmp_path / "b", files.llama(vocabulary=files.PAD), words=False)
    with pytest.raises(ConfigError, match="name the model's own"):
        unknot.pretrained(small, classes=2, tokenizer=path)
    with pytest.raises(DataError, match="there is no tokenizer"):
        unknot.pretrained(small, classes=2)


def spoilt(path: Path, **changes: object) -> Path:
    return files.write_folder(path, files.llama(), **changes)


@pytest.mark.parametrize(
    "changes",
    [{"model_type": "mamba"}, {"attention_bias": True}, {"rope_scaling": {"rope_type": "yarn"}}],
)
def test_folders_of_other_kinds_are_for_transformers(changes, tmp_path, monkeypatch):
    path = spoilt(tmp_path, **changes)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"by the package transformers: .*pip install -e '\.\[text\]'"):
        unknot.pretrained(path)


@pytest.mark.parametrize("make", [files.llama, files.gpt2])
@pytest.mark.parametrize("answers", [("one", "two"), ()], ids=["answers", "score"])
def test_adapters_on_a_pretrained_model_are_stacked_and_forget_exactly(make, answers, tmp_path):
    path = files.write_folder(tmp_path, make())
    samples = Samples(TEXTS, torch.from_numpy(DRAWN.integers(0, 2, len(TEXTS))), 2)
    data = FederatedData(samples, {c: Shard.of(range(8 * c, 8 * c + 5 + c)) for c in range(3)}, samples)

    def model():
        made = build("pretrained", (8,), 2, path=path, answers=answers)
        also = () if answers else ("score",)
        return unknot.lora(
            made, 2, targets=["q_proj", "v_proj"] if make is files.llama else ["c_attn"], also=also
        )

    with_it = unknot.simulate(model, data, "rfs", Recipe(Adam(0.01), 1, 4), evaluate_every=0)
    with_it.run(2, requests=[unknot.erase(1, round=1)])
    assert with_it.engine.describe()["path"] == "batched"
    rest = data.replaced()
    rest.erase(1)
    without = unknot.simulate(model, rest, "rfs", Recipe(Adam(0.01), 1, 4), evaluate_every=0)
    without.run(1)
    assert with_it.model.equal(without.model)
    assert with_it.model.layout.size == sum(p.numel() for p in trained(model()).values())


# What others' code says of the same files ---------------------------------------------------------


def test_a_model_of_another_make_is_read_by_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "max_position_embeddings": 20}
    config = transformers.Qwen2Config(vocab_size=files.VOCABULARY, **sizes)
    theirs = files.seeded(lambda: transformers.Qwen2ForCausalLM(config)).eval()
    files.write_folder(tmp_path, files.llama())
    theirs.save_pretrained(tmp_path)
    ours, wanted = unknot.pretrained(tmp_path), theirs(TEXTS).logits
    torch.testing.assert_close(ours(TEXTS), wanted, rtol=1e-4, atol=1e-5)
    told = unknot.pretrained(tmp_path, answers=["one", "two"])(TEXTS)
    torch.testing.assert_close(told[1], wanted[1, -1][[files.ONE, files.TWO]], rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError, match="texts of 21 tokens do not fit the 20 positions"):
        build("pretrained", (21,), 3, path=tmp_path)
    scoring = unknot.pretrained(tmp_path, classes=3)
    assert (scoring.wording.pad, scoring.wording.context) == (files.PAD, 20)
    assert scoring(TEXTS).shape == (24, 3)
    assert "theirs.score.weight" in trained(unknot.lora(scoring, 2, targets=["q_proj"]))
    unknot.save_adapter(unknot.lora(ours, 2, targets=r".*\.q_proj"), tmp_path / "adapter")
    names = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["target_modules"]
    assert names == [f"model.layers.{i}.self_attn.q_proj" for i in (0, 1)]


def test_transformers_loads_without_a_word_and_speaks_again_afterwards(tmp_path, capfd):
    transformers = pytest.importorskip("transformers")
    spoken = transformers.utils.logging
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = transformers.Qwen2Config(vocab_size=files.VOCABULARY, num_key_value_heads=2, **sizes)
    files.write_folder(tmp_path, files.llama())
    transformers.Qwen2ForCausalLM(config).save_pretrained(tmp_path)
    spoken.enable_progress_bar()
    before = spoken.get_verbosity()
    capfd.readouterr()
    unknot.pretrained(tmp_path, classes=3)
    assert capfd.readouterr() == ("", "")
    assert spoken.is_progress_bar_enabled()
    assert spoken.get_verbosity() == before


@pytest.mark.parametrize("make", [files.llama, files.gpt2])
def test_our_definitions_give_what_transformers_does(make, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(files.write_folder(tmp_path, make()))
    ours = unknot.pretrained(tmp_path)
    torch.testing.assert_close(ours(TEXTS), theirs.eval()(TEXTS).logits, rtol=1e-4, atol=1e-5)
    assert set(dict(ours.named_parameters())) == set(dict(theirs.named_parameters()))


def test_stories260k_tells_a_story():
    folders = os.environ.get("UNKNOT_DATA", "").split(os.pathsep)
    found = [path for folder in folders if (path := Path(folder) / "lm" / "stories260K.bin").exists()]
    if not found:
        pytest.skip("lm/stories260K.bin is not in UNKNOT_DATA")
    model, words = unknot.pretrained(found[0]), unknot.text.tokenizer.tokenizer(found[0])
    tokens = [1, *words.encode("Once upon a time")]
    with torch.no_grad():
        for _ in range(20):
            tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
    assert words.decode(tokens[1:]).startswith("Once upon a time, there was a little girl named Lily.")
