"""A run's folder: whole files, keys, weights by digest, log, inbox, lock; and who keeps a run in it."""

from unknot.core.errors import StoreError
from unknot.store.database import Database
from unknot.store.files import inside, make_folder, read_whole, remove, sweep, write_whole
from unknot.store.keyring import KeyGone, Keyring
from unknot.store.lock import Holder, Lock, holder
from unknot.store.rows import Asked, Entry
from unknot.store.vault import Item, Removed, Vault, digest_of

__all__ = [
    "Asked",
    "Database",
    "Entry",
    "Holder",
    "Item",
    "KeyGone",
    "Keyring",
    "Lock",
    "Removed",
    "StoreError",
    "Vault",
    "digest_of",
    "holder",
    "inside",
    "make_folder",
    "read_whole",
    "remove",
    "sweep",
    "write_whole",
]
