"""GGUF files, written byte by byte from what the format says."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(it: Any) -> bytes:
    """A value with its type before it: bool, whole number (4 bytes), float, text, or a list of these."""
    if isinstance(it, bool):
        return struct.pack("<I?", 7, it)
    if isinstance(it, int):
        return struct.pack("<Ii", 5, it)
    if isinstance(it, float):
        return struct.pack("<If", 6, it)
    if isinstance(it, str):
        return struct.pack("<I", 8) + text(it)
    kind = value(it[0])[:4] if it else struct.pack("<I", 8)
    return struct.pack("<I", 9) + kind + struct.pack("<Q", len(it)) + b"".join(value(x)[4:] for x in it)


def write(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Any],
    alignment: int = 32,
    version: int = 3,
) -> Path:
    """`tensors`: float32 arrays, or (kind, shape in PyTorch's order, bytes)."""
    settings = dict(metadata) if alignment == 32 else {"general.alignment": alignment, **metadata}
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(settings))
    head += b"".join(text(name) + value(it) for name, it in settings.items())
    body = b""
    for name, tensor in tensors.items():
        if isinstance(tensor, np.ndarray):
            tensor = (0, tensor.shape, tensor.astype("<f4").tobytes())
        kind, shape, raw = tensor
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<IQ", kind, len(body))
        body += raw + bytes(-len(raw) % alignment)
    path.write_bytes(head + bytes(-len(head) % alignment) + body)
    return path
