"""Tensors come back as they went, by their digests; what is dropped is gone, and a crash costs nothing."""

import os
import random
import sys

import pytest
import torch
from kept_runs import fast_folder, remove_tree
from safetensors.torch import load_file
from store_crashes import at_every_point
from vaults import clients as clients_in
from vaults import clients_of, digests, owners, packs, verify

from unknot.core.errors import StoreError
from unknot.store import Item, KeyGone, Keyring, Removed, Vault, digest_of
from unknot.store import vault as vault_module
from unknot.store.files import part_name
from unknot.store.numbers import DTYPES, clients_text

TENSORS = [
    *(torch.arange(6).reshape(2, 3).to(dtype) for dtype in DTYPES.values()),
    torch.empty(0),
    torch.empty(3, 0, 2, dtype=torch.int64),
    torch.tensor(2.5, dtype=torch.bfloat16),
    torch.tensor([float("nan"), float("inf"), -0.0]),
    torch.arange(12.0).reshape(3, 4).t(),
]


def vault_in(folder):
    return Vault(folder / "weights", Keyring(folder / "keys"))


def items(tensors, owner=None, clients=()):
    return {digest_of(tensor): Item(tensor, owner, clients) for tensor in tensors}


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and digest_of(a) == digest_of(b)


@pytest.mark.parametrize("owner", [None, 5])
def test_every_kind_of_tensor_comes_back_also_after_a_restart(tmp_path, owner):
    vault = vault_in(tmp_path)
    name = vault.put(items(TENSORS, owner))
    for kept in (vault, vault_in(tmp_path)):
        assert len(digests(kept)) == len({digest_of(tensor) for tensor in TENSORS})
        assert all(same(kept.get(digest_of(tensor)), tensor) for tensor in TENSORS)
        assert packs(kept) == {name: kept.nbytes}
        assert kept.nbytes == (tmp_path / "weights" / name).stat().st_size
        verify(kept)
    assert (tmp_path / "weights" / name).stat().st_mode & 0o777 == 0o600


def test_a_digest_is_of_type_shape_and_numbers():
    zeros = [torch.zeros(4), torch.zeros(2, 2), torch.zeros(4, dtype=torch.int32), torch.zeros(1, 4)]
    assert len({digest_of(tensor) for tensor in zeros}) == len(zeros)
    turned = torch.arange(6.0).reshape(2, 3).t()
    assert digest_of(turned) == digest_of(turned.clone(memory_format=torch.contiguous_format))


def test_what_comes_back_is_its_own_memory(tmp_path):
    vault = vault_in(tmp_path)
    vault.put(items([torch.ones(3)]))
    vault.get(digest_of(torch.ones(3))).zero_()
    assert same(vault.get(digest_of(torch.ones(3))), torch.ones(3))


def test_a_pack_is_a_safetensors_file(tmp_path):
    name = vault_in(tmp_path).put(items(TENSORS))
    loaded = load_file(tmp_path / "weights" / name)
    assert all(same(loaded[digest_of(tensor)], tensor) for tensor in TENSORS)


def test_only_what_is_new_is_written(tmp_path):
    vault = vault_in(tmp_path)
    one, two = torch.ones(1), torch.ones(2)
    assert vault.put(items([one])) is not None
    assert vault.put(items([one])) is None
    assert vault.put(items([one], owner=3)) is None  # it lies in the open
    before = vault.nbytes
    assert vault.put(items([one, two])) is not None
    assert vault.nbytes < 2 * before + 100


def test_a_tensor_that_is_not_its_digests_is_refused(tmp_path):
    vault = vault_in(tmp_path)
    with pytest.raises(StoreError, match="has another digest"):
        vault.put({"a" * 64: Item(torch.ones(1))})
    with pytest.raises(StoreError, match="cannot be kept"):
        digest_of(torch.ones(1, dtype=torch.complex64))
    with pytest.raises(StoreError, match="no client's number"):
        vault.put(items([torch.ones(1)], clients=(-1,)))
    assert packs(vault) == {}


def test_what_has_an_owner_is_noise_without_the_key(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    vault = Vault(tmp_path / "weights", keyring)
    marker = torch.frombuffer(bytearray(b"a marker of client 5, and of nobody else"), dtype=torch.uint8)
    name = vault.put(items([marker], 5) | items([torch.ones(1)]))
    assert b"marker of client 5" not in (tmp_path / "weights" / name).read_bytes()
    assert same(vault.get(digest_of(marker)), marker)
    keyring.destroy([5])
    for kept in (vault, vault_in(tmp_path)):
        with pytest.raises(KeyGone, match="client 5"):
            kept.get(digest_of(marker))
        assert same(kept.get(digest_of(torch.ones(1))), torch.ones(1))
    with pytest.raises(KeyGone):
        vault.put(items([torch.zeros(2)], 5))
    assert vault.retain(digests(vault)).tensors == 1
    assert digest_of(marker) not in digests(vault)


def test_who_goes_takes_nothing_from_others_with_the_same_numbers(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    vault = Vault(tmp_path / "weights", keyring)
    zeros = torch.zeros(4)
    vault.put(items([zeros], 1))
    assert vault.put(items([zeros], 2)) is not None
    assert owners(vault, digest_of(zeros)) == {1, 2}
    keyring.destroy([1])
    assert same(vault.get(digest_of(zeros)), zeros)
    vault.retain({digest_of(zeros)})
    assert owners(vault, digest_of(zeros)) == {2}
    assert same(vault_in(tmp_path).get(digest_of(zeros)), zeros)


@pytest.mark.parametrize(
    "clients",
    [(), (0,), (7, 5, 6, 6), tuple(range(10_000)), tuple(range(0, 10_000, 2)), (2**24 - 1,), (3, 10**6)],
)
def test_a_pack_says_whose_data_it_has_in_few_bytes(tmp_path, clients):
    vault = vault_in(tmp_path)
    vault.put(items([torch.ones(1)], clients=clients))
    assert clients_in(vault_in(tmp_path), digest_of(torch.ones(1))) == tuple(sorted(set(clients)))
    assert vault.nbytes < 2500


def test_sets_of_clients_are_read_as_they_were_written():
    draw = random.Random(1)
    for _ in range(200):
        clients = draw.sample(range(draw.choice([10, 1000, 20_000])), draw.randrange(10))
        assert clients_of(clients_text(clients)) == tuple(sorted(clients))


def test_what_is_not_retained_goes_and_the_rest_stays(tmp_path):
    vault = vault_in(tmp_path)
    first, second = (
        [torch.full((9,), float(i)) for i in range(4)],
        [torch.full((9,), -1.0 - i) for i in range(3)],
    )
    names = [vault.put(items(first, clients=(1, 2)) | items([torch.ones(5)], 8)), vault.put(items(second))]
    (tmp_path / "weights" / part_name(f"{'a' * 64}.safetensors")).write_bytes(b"left by a crash")
    keep = {digest_of(tensor) for tensor in (first[1], torch.ones(5), second[0], second[1], second[2])}
    before = vault.nbytes
    gone = vault.retain(keep)
    assert gone == Removed(1, before - vault.nbytes, 3)
    for kept in (vault, vault_in(tmp_path)):
        assert digests(kept) == keep
        assert same(kept.get(digest_of(first[1])), first[1])
        assert same(kept.get(digest_of(torch.ones(5))), torch.ones(5))
        assert clients_in(kept, digest_of(first[1])) == (1, 2)
        assert names[0] not in packs(kept)
        assert names[1] in packs(kept)
        verify(kept)
    assert set(os.listdir(tmp_path / "weights")) == set(packs(vault))
    assert vault.retain(keep) == Removed()
    vault.retain(())
    assert os.listdir(tmp_path / "weights") == []


def test_a_little_that_is_not_needed_may_stay_where_that_is_asked_for(tmp_path):
    vault = vault_in(tmp_path)
    tensors = [torch.full((100,), float(i)) for i in range(10)]
    name = vault.put(items(tensors))
    assert vault.retain([digest_of(tensor) for tensor in tensors[1:]], slack=0.5) == Removed()
    assert name in packs(vault)
    assert vault.retain([digest_of(tensor) for tensor in tensors[6:]], slack=0.5).tensors == 6


def test_putting_is_all_or_nothing_wherever_it_is_killed(tmp_path):
    def check(place, died):
        vault = vault_in(place)
        assert len(digests(vault)) in (1, 3)
        assert died or len(digests(vault)) == 3
        verify(vault)
        assert all(vault.get(digest) is not None for digest in digests(vault))
        vault.retain(digests(vault))
        assert set(os.listdir(place / "weights")) == set(packs(vault))

    points = at_every_point(
        tmp_path,
        lambda place: vault_in(place).put(items([torch.ones(1)])),
        lambda place: vault_in(place).put(items([torch.ones(2)]) | items([torch.ones(3)], 4)),
        check,
    )
    assert points == 5 + 1 + 5  # the file of keys, then the pack


def test_retaining_loses_nothing_wherever_it_is_killed_and_leaves_nothing_when_done_again(tmp_path):
    tensors = [torch.full((3,), float(i)) for i in range(6)]
    keep = {digest_of(tensor) for tensor in tensors[1:4]}

    def prepare(place):
        vault = vault_in(place)
        vault.put(items(tensors[:2]) | items(tensors[2:3], 9))
        vault.put(items(tensors[3:5]))
        vault.put(items(tensors[5:]))

    def check(place, died):
        vault = vault_in(place)
        assert keep <= digests(vault)
        verify(vault)
        vault.retain(keep)
        again = vault_in(place)
        assert digests(again) == keep
        assert all(same(again.get(digest_of(tensor)), tensor) for tensor in tensors[1:4])
        assert len(packs(again)) == 2
        assert set(os.listdir(place / "weights")) == set(packs(again))

    points = at_every_point(tmp_path, prepare, lambda place: vault_in(place).retain(keep), check)
    assert points == 2 * 5 + 1 + 3 * 5


def test_a_flipped_bit_is_found_wherever_it_is_and_the_file_is_named(tmp_path):
    vault = vault_in(tmp_path)
    name = vault.put(items([torch.ones(3), torch.empty(0)], clients=(1, 2)) | items([torch.ones(5)], 8))
    path = tmp_path / "weights" / name
    content, keyring = path.read_bytes(), Keyring(tmp_path / "keys")
    for i in range(len(content)):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1 << i % 8]) + content[i + 1 :])
        with pytest.raises(StoreError, match=name):
            [Vault(tmp_path / "weights", keyring).get(digest) for digest in digests(vault)]
    with pytest.raises(StoreError, match="other bytes than its name says"):
        verify(vault)


def test_a_copy_that_is_whole_is_found_beside_one_that_is_not(tmp_path):
    vault = vault_in(tmp_path)
    broken = vault.put(items([torch.ones(3)], 1))
    vault.put(items([torch.ones(3)], 2))
    path = tmp_path / "weights" / broken
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert same(vault_in(tmp_path).get(digest_of(torch.ones(3))), torch.ones(3))


def test_a_tensor_that_is_missing_is_told(tmp_path):
    vault = vault_in(tmp_path)
    with pytest.raises(StoreError, match="no pack in"):
        vault.get("a" * 64)
    name = vault.put(items([torch.ones(3)]))
    (tmp_path / "weights" / name).unlink()
    with pytest.raises(StoreError, match=name):
        vault.get(digest_of(torch.ones(3)))


def test_what_is_sealed_anew_opens_under_the_new_key_alone_and_the_rest_is_as_it_was(tmp_path):
    ring = Keyring(tmp_path / "keys")
    vault = Vault(tmp_path / "weights", ring)
    mine, yours, ours = torch.arange(9.0), torch.arange(8.0), torch.arange(7.0)
    vault.put({digest_of(mine): Item(mine, 1), digest_of(yours): Item(yours, 2), digest_of(ours): Item(ours)})
    backup = {name: (tmp_path / "weights" / name).read_bytes() for name in packs(vault)}
    ring.renew([1])
    vault.reseal({1})
    ring.drop_old([1])
    again = Vault(tmp_path / "weights", Keyring(tmp_path / "keys"))
    verify(again)
    for tensor in (mine, yours, ours):
        assert torch.equal(again.get(digest_of(tensor)), tensor)
    assert not backup.keys() & packs(again).keys()
    (tmp_path / "old").mkdir()
    for name, content in backup.items():
        (tmp_path / "old" / name).write_bytes(content)
    old = Vault(tmp_path / "old", ring)
    assert torch.equal(old.get(digest_of(yours)), yours)
    with pytest.raises(StoreError):
        old.get(digest_of(mine))


def test_what_is_found_damaged_is_written_again_and_what_is_whole_beside_it_is_saved(tmp_path):
    vault = Vault(tmp_path / "weights", Keyring(tmp_path / "keys"))
    good, bad = torch.arange(9.0), torch.arange(8.0)
    name = vault.put({digest_of(good): Item(good), digest_of(bad): Item(bad)})
    content = bytearray((tmp_path / "weights" / name).read_bytes())
    content[-1] ^= 1
    (tmp_path / "weights" / name).write_bytes(content)
    vault = Vault(tmp_path / "weights", Keyring(tmp_path / "keys"))
    with pytest.raises(StoreError, match="damaged"):
        vault.get(digest_of(bad))
    assert not vault.keeps(digest_of(bad), None)
    vault.put({digest_of(bad): Item(bad)})
    vault.retain({digest_of(good), digest_of(bad)}, slack=0.9)
    vault = Vault(tmp_path / "weights", Keyring(tmp_path / "keys"))
    verify(vault)
    assert torch.equal(vault.get(digest_of(good)), good)
    assert torch.equal(vault.get(digest_of(bad)), bad)


@pytest.fixture
def fast():
    folder = fast_folder()
    yield folder
    remove_tree(folder)


@pytest.mark.parametrize("work", ["put", "retain", "reseal"])
def test_who_was_interrupted_anywhere_finds_again_what_is_there(fast, work):
    """A signal's handler raises at each line of the vault's own in turn; the same object is gone on with."""
    kept, more = TENSORS[:4], [torch.arange(float(n)) for n in (5, 7)]
    names = [digest_of(tensor) for tensor in kept[:2]]
    doings = {
        "put": lambda vault: vault.put(items(more)),
        "retain": lambda vault: vault.retain(names),
        "reseal": lambda vault: vault.reseal({3}),
    }
    for moment in range(1, 1000):
        place = fast / str(moment)
        place.mkdir()
        vault = vault_in(place)
        for tensor in kept[1:]:
            vault.put(items([tensor]))
        vault.put(items(kept[:1], 3))
        died = interrupted(moment, lambda: doings[work](vault))  # noqa: B023
        doings[work](vault)
        vault.put(items(more))
        vault.retain([*names, *(digest_of(tensor) for tensor in more)])
        for tensor in (*kept[:2], *more):
            assert same(vault.get(digest_of(tensor)), tensor)
            assert same(vault_in(place).get(digest_of(tensor)), tensor)
        assert packs(vault) == packs(vault_in(place))
        if not died:
            break
    assert moment > 10


def interrupted(moment, work):
    """Do `work`, interrupted at the so-manieth line of vault.py; whether it got there."""
    left = moment

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename != vault_module.__file__:
            return None
        if event == "line":
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False
