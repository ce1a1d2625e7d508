"""Whether a picture (PNG) is whole, without a library for pictures: its parts, and all of its pixels."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

SIGNATURE = b"\x89PNG\r\n\x1a\n"
FILTERS = 5
NUMBERS: Mapping[int, tuple[int, tuple[int, ...]]] = {
    0: (1, (1, 2, 4, 8, 16)),
    2: (3, (8, 16)),
    3: (1, (1, 2, 4, 8)),
    4: (2, (8, 16)),
    6: (4, (8, 16)),
}
"""By kind of colours: how many numbers a pixel has, and of how many bits they may be."""
PALETTE = 3

Part = tuple[bytes, bytes]
"""A kind, and what is in it."""


def whole_parts(content: bytes) -> list[Part]:
    """The parts of a picture; none where it is damaged, interlaced, or no picture."""
    parts = _parts(content)
    return parts if parts and _has_pixels(parts) else []


def _parts(content: bytes) -> list[Part]:
    """Each has a length, a kind, so many bytes and a checksum; the first is the head, the last the end."""
    if not content.startswith(SIGNATURE):
        return []
    parts, place = [], len(SIGNATURE)
    while place + 12 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, place)
        end = place + 8 + length
        if content[end : end + 4] != struct.pack(">I", zlib.crc32(content[place + 4 : end])):
            return []
        parts.append((kind, content[place + 8 : end]))
        place = end + 4
    ends = [kind for kind, _ in parts[:1] + parts[-1:]]
    return parts if ends == [b"IHDR", b"IEND"] and place == len(content) else []


def _has_pixels(parts: Sequence[Part]) -> bool:
    """Whether there are just as many as the head says, and every row is of a filter that there is."""
    (_, head), kinds = parts[0], [kind for kind, _ in parts]
    if len(head) != 13:
        return False
    width, height, bits, colours, *ways = struct.unpack(">IIBBBBB", head)
    numbers, known = NUMBERS.get(colours, (0, ()))
    if any(ways) or bits not in known or not width or not height:
        return False
    if colours == PALETTE and b"PLTE" not in kinds:
        return False
    row = 1 + (width * numbers * bits + 7) // 8
    pixels = _unpacked(b"".join(data for kind, data in parts if kind == b"IDAT"), row * height)
    return len(pixels) == row * height and max(pixels[::row]) < FILTERS


def _unpacked(packed: bytes, most: int) -> bytes:
    """Nothing where it does not end, or goes on."""
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(packed, most + 1)
    except (zlib.error, OverflowError):
        return b""
    return found if reader.eof and not reader.unused_data else b""
