"""Whatever is done to the bytes of a run's folder: what is read is true, and nothing outside is touched."""

import os
import random
import shutil

import pytest
import torch
from vaults import digests

from events import heard_by
from unknot.core.errors import StoreError
from unknot.store import Database, Item, Keyring, Lock, Vault, digest_of, holder

TENSORS = [
    torch.arange(5.0),
    torch.ones(3, dtype=torch.bfloat16),
    torch.empty(0, 2),
    torch.tensor([True, False]),
]
SEALED = torch.arange(7)


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The bytes of each file of a run's folder, the write-ahead log with the newest entries among them."""
    folder = tmp_path_factory.mktemp("run")
    keyring = Keyring(folder / "keys")
    vault = Vault(folder / "weights", keyring)
    vault.put({digest_of(tensor): Item(tensor, None, (1, 2, 3)) for tensor in TENSORS})
    vault.put({digest_of(SEALED): Item(SEALED, 2, (2,))})
    keyring.destroy([9])
    with Lock(folder), Database.create(folder / "run.db") as database:
        database.append([("kind", b"body %d" % i) for i in range(40)])
        database.take(database.ask("erase", b"x" * 6000, "Graz"), 3)
        database.done(1, b"outcome", "served")
        database.name_clients({2: keyring.seal(2, b"Graz", b"name")})
        database.truncate()
        database.append([("kind", b"newest")])
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != "run.db-shm"]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def lay(folder, contents):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "weights").mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def told(look):
    """What it finds, or None where it is told that it cannot."""
    try:
        return look()
    except StoreError:
        return None


def read(folder):
    """All that the folder says, in parts; None for what it does not."""
    keyring = told(lambda: Keyring(folder / "keys"))
    vault = keyring and told(lambda: Vault(folder / "weights", keyring))
    found = {"holder": told(lambda: holder(folder))}
    if vault is not None:
        for digest in digests(vault):
            found[digest] = told(lambda: digest_of(vault.get(digest)))  # noqa: B023
    for readonly in (True, False):
        database = told(lambda: Database.open(folder / "run.db", readonly))  # noqa: B023
        if database is not None:
            with database:
                found["asked"] = told(database.asked)
                found["names"] = told(
                    lambda: (
                        {c: keyring.open(c, n, b"name") for c, n in database.client_names().items()}  # noqa: B023
                        if keyring
                        else None
                    )
                )
                found["log"] = told(lambda: (database.verify(), [e.body for e in database.entries()])[1])  # noqa: B023
                found["last"] = told(lambda: database.last("kind"))  # noqa: B023
    return found


def write(folder):
    """What a run would do there next, as far as it is let."""

    def on_keys():
        keyring = Keyring(folder / "keys")
        keyring.make([4])
        keyring.destroy([1])
        vault = Vault(folder / "weights", keyring)
        vault.put({digest_of(torch.zeros(3)): Item(torch.zeros(3), 4)})
        vault.retain(sorted(digests(vault))[1:])

    def on_database():
        with Database.open(folder / "run.db") as database:
            database.append([("kind", b"more")])
            database.blank({1: b""})
            database.drop_clients([2])
            database.truncate()

    for work in (on_keys, on_database, Lock(folder).__enter__):
        told(work)


def spoilt(content, draw):
    """The content with something flipped, cut, inserted or repeated."""
    way, at = draw.randrange(6), draw.randrange(len(content) + 1)
    if way == 0:
        return content[:at]
    if way == 1:
        return content[:at] + draw.randbytes(draw.randrange(1, 40)) + content[at:]
    if way == 2:
        return content[:at] + content[at + draw.randrange(1, 40) :]
    if way == 3:
        return content[:at] + bytes(min(len(content) - at, 64)) + content[at + 64 :]
    changed = bytearray(content)
    for _ in range(1 if way == 4 else draw.randrange(2, 9)):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


WATCHED = {"open", "os.remove", "os.rename", "os.link", "os.mkdir", "os.truncate", "sqlite3.connect"}


def try_all(folder, contents, cases, seed, kinds):
    """Spoil one file at a time, read and write the folder; how often it was told, and of how many."""
    touched: list[str] = []

    def watch(event, arguments):
        if event in WATCHED and isinstance(arguments[0], str | bytes | os.PathLike):
            touched.append(os.fsdecode(arguments[0]))

    draw = random.Random(seed)
    lay(folder, contents)
    read(folder), write(folder)  # what is imported late is imported
    lay(folder, contents)
    truth = read(folder)
    assert None not in {key: value for key, value in truth.items() if key != "holder"}.values()
    found = []
    for case in range(cases):
        name = draw.choice([name for name in contents if name.startswith(kinds)])
        lay(folder, contents)
        (folder / name).write_bytes(spoilt(contents[name], draw))
        touched.clear()
        with heard_by(watch):
            seen = read(folder)
            if not case % 10:
                write(folder)
        paths = [path.removeprefix("file:") for path in touched]
        assert paths
        assert not [path for path in paths if path.startswith("/") and not path.startswith(str(folder))]
        for key, value in seen.items():
            # SQLite takes a write-ahead log up to where it is whole: the newest may be missing, and no more.
            older = name == "run.db-wal" and key in ("log", "last")
            assert (
                value is None
                or value == truth[key]
                or (older and (key == "last" or value == truth[key][:-1]))
            )
        found.append(any(seen.get(key) != value for key, value in truth.items()))
    return sum(found), len(found)


def test_a_spoilt_folder_is_told_and_nothing_outside_is_touched(tmp_path, contents):
    told, cases = try_all(tmp_path / "run", contents, 250, 1, "")
    assert cases // 2 < told < cases


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "cases"), [("keys", 1500), ("weights", 3000), ("run.db", 5000), ("lock", 500)]
)
def test_ten_thousand_spoilt_folders_are_told(tmp_path, contents, kinds, cases):
    try_all(tmp_path / "run", contents, cases, 2, kinds)
