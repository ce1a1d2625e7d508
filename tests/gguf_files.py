"""GGUF files, by the package that reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter


def write(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Any]) -> Path:
    """`tensors`: arrays, or bytes ``[rows, bytes of a row]`` and how numbers are stored in them."""
    settings = dict(metadata)
    writer = GGUFWriter(path, settings.pop("general.architecture", "llama"))
    for name, it in settings.items():
        writer.add_key_value(name, it, GGUFValueType.get_type(it))
    for name, tensor in tensors.items():
        numbers, kind = tensor if isinstance(tensor, tuple) else (tensor, None)
        writer.add_tensor(name, np.ascontiguousarray(numbers), raw_dtype=kind and GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
