"""What is wrong in a model's file is said in words, before anything of its size is made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import language_files as files
import unknot
from unknot.core.errors import DataError

WHOLE = "should be a whole number above 0, not"
ABOVE = "should be a number above 0, not"
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1, "high_freq_factor": 4}
LLAMA3 |= {"original_max_position_embeddings": 64}


def refused(path: Path) -> str:
    with pytest.raises(DataError) as error:
        unknot.pretrained(path)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("block_count", 10**6, "1,000,000 layers, and there are 21 tensors"),
        ("block_count", 0, WHOLE),
        ("block_count", -1, WHOLE),
        ("attention.head_count", 0, WHOLE),
        ("attention.head_count", 4.0, f"{WHOLE} 4.0"),
        ("attention.head_count_kv", 0, WHOLE),
        ("attention.head_count_kv", 3, "4 heads cannot share 3 of keys and values"),
        ("attention.key_length", 3, "heads of 3 numbers cannot be turned in pairs"),
        ("attention.layer_norm_rms_epsilon", -1.0, f"{ABOVE} -1.0"),
        ("attention.layer_norm_rms_epsilon", float("nan"), f"{ABOVE} nan"),
        ("rope.freq_base", 0.0, f"{ABOVE} 0.0"),
        ("embedding_length", -16, WHOLE),
        ("embedding_length", 2**30, "is of shape"),
        ("feed_forward_length", 2**30, "is of shape"),
        ("context_length", 0, WHOLE),
    ],
)
def test_sizes_in_a_gguf_file_that_cannot_be_are_refused(name, value, said, tmp_path):
    path = files.write_llama_gguf(tmp_path / "a.gguf", files.llama(), **{f"llama.{name}": value})
    found = refused(path)
    assert said in found
    assert f"llama.{name}" in found or "should be" not in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num_attention_heads", 0, WHOLE),
        ("num_key_value_heads", 0, WHOLE),
        ("num_hidden_layers", -1, WHOLE),
        ("num_hidden_layers", 10**9, "1,000,000,000 layers, and there are 21 tensors"),
        ("hidden_size", 8.5, f"{WHOLE} 8.5"),
        ("hidden_size", 2**50, "is of shape"),
        ("vocab_size", -5, WHOLE),
        ("rms_norm_eps", float("nan"), f"{ABOVE} nan"),
        ("rms_norm_eps", 10**400, ABOVE),
        ("rope_theta", 0, ABOVE),
        ("head_dim", 3, "heads of 3 numbers cannot be turned in pairs"),
        ("rope_scaling", "x", "rope_scaling should be settings by name, not 'x'"),
        ("rope_scaling", {**LLAMA3, "factor": 0}, f"factor {ABOVE} 0"),
        ("rope_scaling", {**LLAMA3, "factor": 8, "low_freq_factor": 4}, "low_freq_factor should be below"),
    ],
)
def test_sizes_in_a_folder_that_cannot_be_are_refused(name, value, said, tmp_path):
    assert said in refused(files.write_folder(tmp_path, files.llama(), **{name: value}))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n_head", 3, "width 16 cannot be parted into 3 heads"),
        ("n_layer", 10**9, "1,000,000,000 layers, and there are 28 tensors"),
        ("n_positions", 2**50, "is of shape"),
        ("n_inner", 2**50, "is of shape"),
        ("n_embd", 0, WHOLE),
        ("layer_norm_epsilon", -1, ABOVE),
    ],
)
def test_sizes_of_a_gpt2_that_cannot_be_are_refused(name, value, said, tmp_path):
    assert said in refused(files.write_folder(tmp_path, files.gpt2(), **{name: value}))


def test_tensors_of_sides_that_no_file_has_are_refused(tmp_path):
    hollow = {"token_embd.weight": np.zeros((0, 2**40), np.float32)}
    assert "is of shape" in refused(files.write_llama_gguf(tmp_path / "a.gguf", files.llama(), hollow))
    empty = {"rope_freqs.weight": np.zeros(0, np.float32)}
    assert "turns positions" in refused(files.write_llama_gguf(tmp_path / "a.gguf", files.llama(), empty))


def test_what_a_pickle_holds_must_be_tensors_by_name(tmp_path):
    path = files.write_folder(tmp_path, files.llama())
    (path / "model.safetensors").unlink()
    for odd in ([torch.zeros(3)], {"a": 3}, {5: torch.zeros(1)}):
        torch.save(odd, path / "pytorch_model.bin")
        assert "should hold tensors by name" in refused(path)


def test_an_index_names_files_of_its_folder_alone(tmp_path):
    path = files.write_folder(tmp_path / "a", files.llama())
    (path / "model.safetensors").unlink()
    elsewhere = tmp_path / "x.safetensors"
    save_file(files.tensors(files.llama()), elsewhere)
    for part in ("../x.safetensors", str(elsewhere), ["x"], 3, "", "..", "b/x.safetensors"):
        (path / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"a": part, "b": "x.safetensors"}})
        )
        assert "should be the name of a file in this folder" in refused(path)


def test_json_that_is_nested_without_end_is_refused(tmp_path):
    path = files.write_folder(tmp_path, files.llama())
    (path / "config.json").write_text("[" * 10**5)
    assert "is no JSON" in refused(path)
