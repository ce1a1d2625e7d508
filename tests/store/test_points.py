"""Every point at which a process can be killed is come by, and has its name in the list."""

import torch
from store_crashes import points_of

from unknot.store import Database, Item, Keyring, Vault, digest_of
from unknot.store.files import POINTS


def test_each_point_is_reached_and_listed(tmp_path):
    def all_of_it():
        keyring = Keyring(tmp_path / "keys")
        keyring.make([1])
        vault = Vault(tmp_path / "weights", keyring)
        vault.put({digest_of(x): Item(x) for x in (torch.zeros(1), torch.ones(1))})
        vault.retain({digest_of(torch.ones(1))})
        keyring.destroy([1])
        with Database.create(tmp_path / "run.db") as database:
            database.append([("kind", b"body")])
            database.truncate()

    found = points_of(all_of_it)
    assert set(found) == set(POINTS)
    assert len(set(POINTS)) == len(POINTS)
