"""What is wrong in a model's file is refused with the file's name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import language_files as files
import unknot
from unknot.core.errors import DataError


def refused(path: Path) -> str:
    with pytest.raises(DataError) as error:
        unknot.pretrained(path)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("block_count", None, "block_count"),
        ("block_count", "two", ""),
        ("attention.head_count", 0, ""),
        ("embedding_length", 32, "is of shape"),
        ("feed_forward_length", 2**30, "is of shape"),
        ("rope.scaling.type", "yarn", "yarn"),
    ],
)
def test_settings_of_a_gguf_file_that_cannot_be_are_refused(name, value, named, tmp_path):
    path = files.write_llama_gguf(tmp_path / "a.gguf", files.llama(), **{f"llama.{name}": value})
    assert named in refused(path)


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("num_attention_heads", 0, ""),
        ("hidden_size", "x", ""),
        ("vocab_size", None, ""),
        ("intermediate_size", 20, "is of shape"),
        ("num_hidden_layers", 3, "'model.layers.2.input_layernorm.weight'"),
        ("num_hidden_layers", 1, "'model.layers.1."),
        ("rope_scaling", "x", ""),
        ("rope_scaling", {"rope_type": "llama3", "factor": 8}, "low_freq_factor"),
    ],
)
def test_settings_of_a_folder_that_cannot_be_are_refused(name, value, named, tmp_path):
    assert named in refused(files.write_folder(tmp_path, files.llama(), **{name: value}))


@pytest.mark.parametrize("config", ["{", "[]", "{}"])
def test_a_configuration_that_is_none_is_refused(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    refused(tmp_path)


def test_a_folder_without_tensors_is_refused(tmp_path):
    path = files.write_folder(tmp_path / "f", files.llama())
    (path / "model.safetensors").write_bytes(b"\0" * 40)
    refused(path)
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    refused(path)
    for odd in ([torch.zeros(3)], {"a": 3}, {"other": torch.zeros(1)}):
        torch.save(odd, path / "pytorch_model.bin")
        refused(path)
    (path / "pytorch_model.bin").unlink()
    assert "holds no weights" in refused(path)
    (path / "config.json").unlink()
    refused(path)


def test_gguf_files_of_other_kinds_are_refused(tmp_path):
    def gguf(more=None, **changes):
        return files.write_llama_gguf(tmp_path / "a.gguf", files.llama(), more, **changes)

    assert "'mamba'" in refused(gguf(**{"general.architecture": "mamba"}))
    more = {"blk.0.attn_q_norm.weight": np.ones(4, np.float32)}
    assert "'blk.0.attn_q_norm.weight'" in refused(gguf(more))


def test_llama2c_files_that_are_cut_or_others_are_refused(tmp_path):
    path = files.write_llama2c(tmp_path / "a.bin", files.llama())
    raw = path.read_bytes()
    for other in (raw[:-4], raw[:20], b"ak42" + raw[4:], b""):
        path.write_bytes(other)
        refused(path)


def test_what_is_no_model_is_refused(tmp_path):
    assert "there is no language model" in refused(tmp_path / "nowhere")
    (tmp_path / "a.txt").write_text("some text, longer than a head is")
    refused(tmp_path / "a.txt")
