"""Packs made by hand to mislead: refused by their heads, and nothing outside them is read."""

import hashlib
import json
import os

import pytest
from vaults import clients, digests, verify

from unknot.core.errors import StoreError
from unknot.store import Keyring, Vault

DIGEST, OTHER = "a" * 64, "b" * 64


def entry(start=0, stop=8, dtype="F32", shape=(2,)):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def headed(tensors, notes=None, data=bytes(8), length=None):
    """A pack with any head, and a checksum that fits it."""
    names = [tensors] if isinstance(tensors, str) else list(tensors)
    notes = (
        {"format": 1, "sets": [""], "items": {name: [None, 0] for name in names}} if notes is None else notes
    )
    told = notes if isinstance(notes, str) else json.dumps(notes)
    text = '{"__metadata__":{"check":"' + "0" * 64 + '","unknot":' + json.dumps(told) + "}"
    text += (
        tensors
        if isinstance(tensors, str)
        else "".join(f",{json.dumps(n)}:{json.dumps(e)}" for n, e in tensors.items())
    )
    content = (text + "}").encode("utf-8", "surrogatepass")
    content += b" " * (-len(content) % 8)
    check = hashlib.sha256(content).hexdigest().encode()
    content = content.replace(b"0" * 64, check, 1)
    return (len(content) if length is None else length).to_bytes(8, "little") + content + data


def notes(items, sets=("",), version=1):
    return {"format": version, "sets": sets, "items": items}


TWICE = f',"{DIGEST}":{json.dumps(entry())}' * 2
HOSTILE = {
    "nothing": b"",
    "a few bytes": b"\x08",
    "a head longer than the file": headed({DIGEST: entry()}, length=10**6),
    "a huge head": headed({DIGEST: entry()}, length=2**64 - 1),
    "a head of nothing": headed({DIGEST: entry()}, length=0),
    "no checksum": (16).to_bytes(8, "little") + b'{"x":1}         ',
    "an end outside": headed({DIGEST: entry(0, 16, shape=(4,))}),
    "a start outside": headed({DIGEST: entry(800, 808)}),
    "a start before the data": headed({DIGEST: entry(-8, 0)}),
    "an end before the start": headed({DIGEST: entry(8, 0)}),
    "overlapping tensors": headed({DIGEST: entry(), OTHER: entry(4, 12)}, data=bytes(12)),
    "the same bytes twice": headed({DIGEST: entry(), OTHER: entry()}),
    "a hole": headed({DIGEST: entry(), OTHER: entry(16, 24)}, data=bytes(24)),
    "bytes of nobody": headed({DIGEST: entry()}, data=bytes(9)),
    "a shape of another size": headed({DIGEST: entry(shape=(3,))}),
    "a shape that overflows": headed({DIGEST: entry(shape=(2**62, 2**62, 4))}),
    "a negative shape": headed({DIGEST: entry(shape=(-2, -1))}),
    "a shape that is a truth": headed({DIGEST: entry(shape=(True, 2))}),
    "a shape that is no list": headed({DIGEST: entry(shape=2)}),
    "a shape of many sides": headed({DIGEST: entry(shape=[1] * 1000 + [2])}),
    "offsets that are fractions": headed({DIGEST: entry(0.0, 8.0)}),
    "offsets that are text": headed({DIGEST: entry("0", "8")}),
    "an offset with 5,000 digits": headed(
        f',"{DIGEST}":{{"dtype":"F32","shape":[2],"data_offsets":[0,{"9" * 5000}]}}'
    ),
    "an unknown type": headed({DIGEST: entry(dtype="F4")}),
    "a type that is a list": headed({DIGEST: entry(dtype=["F32"])}),
    "a field too many": headed({DIGEST: {**entry(), "more": 1}}),
    "a field too few": headed({DIGEST: {"dtype": "F32", "shape": [2]}}),
    "an entry that is a list": headed({DIGEST: [1, 2, 3]}),
    "a name that leads outside": headed({"../../etc/passwd": entry()}),
    "a name in capitals": headed({"A" * 64: entry()}),
    "a name twice": headed(TWICE, notes({DIGEST: [None, 0]})),
    "not a number": headed(f',"{DIGEST}":NaN', notes({DIGEST: [None, 0]})),
    "a deep nest": headed(f',"{DIGEST}":' + "[" * 100_000 + "]" * 100_000, notes({DIGEST: [None, 0]})),
    "a nest in the notes": headed({DIGEST: entry()}, "[" * 100_000),
    "half a character": headed({DIGEST: entry(dtype="\ud800")}),
    "notes that are none": headed({DIGEST: entry()}, "5"),
    "notes of another version": headed({DIGEST: entry()}, notes({DIGEST: [None, 0]}, version=2)),
    "notes without the tensor": headed({DIGEST: entry()}, notes({})),
    "notes of another tensor": headed({DIGEST: entry()}, notes({DIGEST: [None, 0], OTHER: [None, 0]})),
    "notes as a list": headed({DIGEST: entry()}, notes([DIGEST])),
    "a set that is not there": headed({DIGEST: entry()}, notes({DIGEST: [None, 1]})),
    "a set from the end": headed({DIGEST: entry()}, notes({DIGEST: [None, -1]})),
    "a set that is a number": headed({DIGEST: entry()}, notes({DIGEST: [None, 0]}, sets=[7])),
    "an owner who is text": headed({DIGEST: entry()}, notes({DIGEST: ["1", 0]})),
    "an owner before the first": headed({DIGEST: entry(dtype="U8", shape=(8,))}, notes({DIGEST: [-1, 0]})),
    "sealed bytes too few": headed({DIGEST: entry(dtype="U8", shape=(8,))}, notes({DIGEST: [1, 0]})),
    "sealed numbers": headed({DIGEST: entry()}, notes({DIGEST: [1, 0]})),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_pack_is_set_aside_when_the_vault_is_opened(tmp_path, content):
    (tmp_path / "weights").mkdir()
    name = "c" * 64 + ".safetensors"
    (tmp_path / "weights" / name).write_bytes(content)
    vault = Vault(tmp_path / "weights", Keyring(tmp_path / "keys"))
    assert not digests(vault)
    assert name in vault.damaged[name]
    for look in (lambda: verify(vault), lambda: vault.get(DIGEST)):
        with pytest.raises(StoreError, match=name):
            look()
    assert (tmp_path / "weights" / name).read_bytes() == content


LATER = {
    "numbers of another digest": headed({DIGEST: entry()}),
    "an empty tensor too large for torch": headed({DIGEST: entry(0, 0, shape=(0, 2**47, 2**47))}, data=b""),
    "a million sets in one": headed({DIGEST: entry()}, notes({DIGEST: [None, 0]}, sets=["0-99999999"])),
    "bits that are none": headed({DIGEST: entry()}, notes({DIGEST: [None, 0]}, sets=["=?"])),
    "sealed by nobody": headed({DIGEST: entry(0, 30, "U8", (30,))}, notes({DIGEST: [4, 0]}), data=bytes(30)),
}


@pytest.mark.parametrize("content", LATER.values(), ids=LATER)
def test_what_a_head_cannot_show_is_refused_when_it_is_read(tmp_path, content):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / ("c" * 64 + ".safetensors")).write_bytes(content)
    vault = Vault(tmp_path / "weights", Keyring(tmp_path / "keys"))
    with pytest.raises(StoreError):
        vault.get(DIGEST)
    with pytest.raises(StoreError):
        verify(vault)


def test_a_pack_of_the_same_making_with_nothing_wrong_is_read(tmp_path):
    """So that the others are refused for what is wrong with them, and for nothing else."""
    (tmp_path / "weights").mkdir()
    digest = hashlib.sha256(b"F32[2]" + bytes(8)).hexdigest()
    content = headed({digest: entry()}, notes({digest: [None, 0]}, sets=["1-3"]))
    (tmp_path / "weights" / (hashlib.sha256(content).hexdigest() + ".safetensors")).write_bytes(content)
    vault = Vault(tmp_path / "weights", Keyring(tmp_path / "keys"))
    assert vault.get(digest).tolist() == [0, 0]
    assert clients(vault, digest) == (1, 2, 3)
    verify(vault)


def test_names_and_links_that_lead_outside_are_refused(tmp_path):
    folder, keyring = tmp_path / "weights", Keyring(tmp_path / "keys")
    folder.mkdir()
    odd = folder / "odd.safetensors"
    odd.symlink_to(tmp_path / "theirs")
    vault = Vault(folder, keyring)  # what is called otherwise is not looked at
    vault.retain(())
    assert (vault.held, vault.damaged, os.listdir(folder)) == ((0, 0, 0), {}, [odd.name])
    (tmp_path / "theirs").write_bytes(headed({DIGEST: entry()}))
    link = folder / ("c" * 64 + ".safetensors")
    link.symlink_to(tmp_path / "theirs")
    with pytest.raises(StoreError, match="symbolic link"):
        Vault(folder, keyring)
    link.unlink()
    link.mkdir()
    assert "should be a plain file, and is a folder" in Vault(folder, keyring).damaged[link.name]
    (tmp_path / "way").symlink_to(folder)
    with pytest.raises(StoreError, match="symbolic link"):
        Vault(tmp_path / "way", keyring)
