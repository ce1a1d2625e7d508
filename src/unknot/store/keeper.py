"""Keeps a run beyond its process: checkpoints, the log, requests from outside, erasure on the disk.

Since every draw has a name, what happened after the last checkpoint is computed again, to the bit; and
requests are taken up again where they were. So the disk is only ever asked for two things: that a checkpoint
which the log names is whole, and that the log and the inbox are.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unknot.core.errors import StoreError
from unknot.core.requests import Erase, numbered
from unknot.core.written import Unreadable
from unknot.federation import form
from unknot.federation.asked import Ids
from unknot.federation.clock import SECOND
from unknot.federation.describe import describe
from unknot.federation.history import Event, History, Served
from unknot.federation.interrupts import check_now
from unknot.federation.letterbox import Letter
from unknot.federation.parts import of_each_client
from unknot.store import erasing, older, sample_ids, sealed
from unknot.store.checkpoint import (
    STATE,
    Checkpoint,
    Named,
    Serves,
    check_marks,
    mark_of,
    marks_of,
    server_marks,
)
from unknot.store.compare import (
    check_model,
    check_setup,
    differences,
    lost_end,
    lost_requests,
    noted,
)
from unknot.store.database import Database
from unknot.store.entries import plain, read_named
from unknot.store.erasing import EACH, RESULTS, Scrubbing
from unknot.store.files import (
    PART,
    check_ours,
    is_part,
    make_folder,
    make_folders,
    make_private,
    remove,
    sweep,
    told,
)
from unknot.store.inbox import StoredInbox
from unknot.store.keyring import KeyLock, Keyring
from unknot.store.lock import Lock
from unknot.store.naming import (
    DATABASE,
    EMPTIED,
    KEYS,
    check_new,
    check_not_older,
    emptied,
    erased_in,
    new_keyring,
    own_keyring,
    unfinished,
)
from unknot.store.post import Post
from unknot.store.rows import SERVED
from unknot.store.sealed import IDS, KINDS, MARKS, PLACES, pack_ids, unpack_ids
from unknot.store.vault import Item, Vault

if TYPE_CHECKING:
    from torch import Tensor

    from unknot.federation import Federation

WEIGHTS = "weights"
EVERY = 5.0
"""Seconds between two checkpoints."""
LONGEST = 2000
"""So many letters of a guarantee are noted."""
SLACK = 0.5
"""A pack is written anew once so great a part of it is needed no more."""


class RunKeeper:
    """What keeps a federation in a folder: see `create` and `go_on`."""

    def __init__(self, folder: Path, keys: Path | None, every: float, new: bool) -> None:
        with told("find", folder):  # once: the working directory may change while the run goes on
            self.folder = folder = folder.absolute()
            keys = None if keys is None else keys.absolute()
        self.every = every
        self.said: list[str] = []
        """What is other than when the run was begun, in words."""
        self.interrupted = False
        """Whether this process is to end: the run is kept before its next step, and broken off there."""
        self._stack = ExitStack()
        self._lock = self._stack.enter_context(Lock(folder))
        try:
            self.check()
            _tidy(folder)
            there = (folder / DATABASE).exists()
            self.db = Database.open(folder / DATABASE) if there else Database.create(folder / DATABASE)
            self._stack.callback(self.db.close)
            self.db.guard = self._lock.check
            self.keyring = self._find_keys(keys, new)
            make_folder(folder / STATE)
            self.vault = Vault(folder / WEIGHTS, self.keyring, self._lock.check)
            self.post = Post(folder, self.db, self.keyring, self._end_if_asked)
        except BaseException:
            self._stack.close()
            raise
        self._stint: object = None
        self._server: dict[str, bytes] = {}
        self._left = 0  # how many clients had been erased when that was noted
        self._less: dict[int, int] = {}  # how many samples clients had lost when they were marked
        self._ids: dict[Ids, int] = {}  # of samples, which the last checkpoint knows, and their numbers
        self._highest = 0  # of those numbers, ever
        self._new: dict[str, dict[int, tuple[int, bytes]]] = {MARKS: {}, IDS: {}}  # that are not kept yet
        self._events: list[bytes] = []  # that the log does not have yet
        self._rounds = self._served = 0  # how many the log has, with those
        self._erased: list[Served] = []  # that have not reached the disk
        self._done: list[tuple[int, Served]] = []
        self._unfinished = False
        self._rest = False  # whether what an erasure took out of the database lies in its write-ahead log
        self._due = 0.0
        self._open: list[tuple[Named, frozenset[str]]] = []
        self._tried: tuple[Named, frozenset[str]] | None = None

    # Begin, go on, end ---------------------------------------------------------------------------------

    @staticmethod
    def create(
        fed: Federation,
        folder: str | Path,
        *,
        keys: str | Path | None = None,
        every: float = EVERY,
        table: Mapping[str, Any] | None = None,
        also: Mapping[str, object] | None = None,
        places: Mapping[int, bytes] | None = None,
    ) -> RunKeeper:
        """Keep a federation that has not been run yet in a folder of its own.

        `table` is the experiment that it comes from, without its requests: a run can then be gone on with
        from the folder alone. `keys` is where the keys go, apart from the folder if wanted. A folder in
        which this was broken off before anything was kept is gone on with: what was asked there stays. `also`
        is noted with the beginning, and `places`, by client, are sealed.
        """
        place = Path(folder)
        check_ours(place)
        check_new(place, keys)
        make_folders(place)
        make_private(place)
        if keys is not None:
            make_folders(Path(keys).parent)
        keeper = RunKeeper(place, None if keys is None else Path(keys), every, new=True)
        try:
            keeper._begin(fed, table, keys, also or {}, places or {})
        except BaseException:
            keeper.close()
            raise
        return keeper

    def _begin(
        self,
        fed: Federation,
        table: Mapping[str, Any] | None,
        keys: str | Path | None,
        also: Mapping[str, object],
        places: Mapping[int, bytes],
    ) -> None:
        self._server, self._left = server_marks(fed.data), len(fed.data.erased)
        begun = {
            EACH: of_each_client(fed),
            **also,
            **noted(fed),
            "table": None if table is None else sample_ids.counted(table),
            "keys": None if keys is None else str(Path(keys).absolute()),
            "mark": self.keyring.mark,
            "clients": len(fed.data),
            "named": bool(fed.data.names),
        }
        self.db.append([("begun", plain(begun))])  # before there are keys: so that they are known for ours
        whose = {client for kind in KINDS for client, _ in self.db.sealed(kind).values()}
        self.db.drop_clients({*self.db.client_names(), *whose})  # of a beginning that was broken off
        self.keyring.make(fed.data.clients)  # all: who leaves a request must not have to make one
        self.db.name_clients(
            {c: self.keyring.seal(c, n.encode(), b"name") for c, n in fed.data.names.items()}
        )
        sample_ids.keep(self.db, self.keyring, sample_ids.ids_in(table or {}))
        for kind, parts in ((MARKS, marks_of(fed.data)), (PLACES, places)):
            sealed.keep(self.db, self.keyring, kind, {c: (c, part) for c, part in parts.items()})
        self._attach(fed)
        if fed._stint is not None:
            self._stint = fed._stint
            self.checkpoint(fed)

    @staticmethod
    def go_on(
        fed: Federation, folder: str | Path, *, keys: str | Path | None = None, every: float = EVERY
    ) -> RunKeeper:
        """Make a federation that was built anew what the run in this folder was at its last checkpoint."""
        place = Path(folder)
        if not (place / DATABASE).exists():
            raise StoreError(f"{place} holds no run: name the folder of one (unknot runs shows them)")
        keeper = RunKeeper(place, None if keys is None else Path(keys), every, new=False)
        try:
            keeper.db.verify()
            keeper._destroy_again()
            check_not_older(keeper.db, keeper.keyring, keeper.folder)
            if late := older.unknown(keeper.db, keeper.keyring):
                older.go_on(keeper, fed, late, keeper._restore)
            else:
                keeper._restore(fed)
        except BaseException:
            keeper.close()
            raise
        return keeper

    @staticmethod
    def finish_erasure(folder: str | Path, keys: str | Path | None = None) -> None:
        """Bring an erasure to its end on the disk that was broken off there; nothing where there is none.

        No federation is needed for it, and none may be had: those who were erased may be all there were.
        """
        with Database.open(Path(folder) / DATABASE, readonly=True) as db:
            if unfinished(db) is None:
                return
        keeper = RunKeeper(Path(folder), None if keys is None else Path(keys), EVERY, new=False)
        try:
            keeper._finish_scrubbing()
        finally:
            keeper.close()

    def check(self) -> None:
        """Raise where the folder is not the one any more that this process took: see `Lock.check`.

        All goes by its path, and what lies there by then may be another run.
        """
        self._lock.check()

    def close(self) -> None:
        """Let go of the folder: another process may take it up."""
        with suppress(StoreError):  # closed already, or in a forked process: nothing is left to do
            self.db.check()
            self._empty_rest(erasing.PATIENCE)
        self._stack.close()

    def _find_keys(self, given: Path | None, new: bool) -> Keyring:
        """The keys: new ones for a run that is begun, its own for one that is gone on with."""
        kept = self.db.last("checkpoint") is not None
        if new and kept:
            raise StoreError(
                f"{self.folder} holds a run already: go on with it (unknot resume), or name another folder"
            )
        if not new and not kept:
            raise StoreError(
                f"{self.folder} was begun, and nothing was kept yet: begin it again, in the same folder"
            )
        path = self.folder / KEYS if given is None else given
        if not new:
            own_keyring(self.db, self.folder, given)  # first: beside others' keys nothing is left
        self._stack.enter_context(KeyLock(path))
        found = new_keyring(self.folder, given) if new else own_keyring(self.db, self.folder, given)
        found.said = self.said
        found.guard = self._lock.check
        return found

    def _destroy_again(self) -> None:
        """An older copy of the keys may have been put back, with those of clients that were erased since."""
        gone = erased_in(self.db)
        if back := [client for client in sorted(gone) if self.keyring.holds(client)]:
            self.keyring.destroy(gone)
            told = ", ".join(map(str, back[:10])) + (", …" if len(back) > 10 else "")
            self.said.append(
                f"{self.keyring.path} had the keys of erased clients again ({told}), as a copy from before "
                "their erasure has: they were destroyed once more; do so with that copy"
            )

    def _attach(self, fed: Federation) -> None:
        fed.keeper = self
        weakref.finalize(fed, _let_go, self._stack, os.getpid())
        before = fed.state.initial.lineage.clients | fed.state.select_knows.clients
        fed.inbox = inbox = StoredInbox(self.folder / DATABASE, self.keyring, fed.data, before)
        inbox.guard = self._lock.check
        self._stack.callback(setattr, inbox, "closed", True)
        self._due = time.monotonic() + self.every

    def _restore(self, fed: Federation) -> None:
        self._finish_scrubbing()
        self._rest = not emptied(self.db)
        self._empty_rest(erasing.PATIENCE)
        erased = self.db.last("scrubbing")  # what was kept before is gone, and must not come back
        after = 0 if erased is None else erased.number
        checkpoints = [read_named(entry.body) for entry in self.db.entries(after, kind="checkpoint")]
        if not checkpoints:
            raise StoreError(
                f"{self.folder} was begun, and nothing was kept yet: begin it again, in the same folder"
            )
        said = [*lost_end(self.db, self.folder, checkpoints), *lost_requests(self.db)]
        said += differences(fed, self.db, self.folder)
        built = describe(fed.method, fed.state, fed.metrics, fed.called)
        troubles: list[str] = []
        for named in reversed(checkpoints):
            try:
                found = Checkpoint.read(self.folder, named.state)
                tensors = {digest: self.vault.get(digest) for digest in found.tensors}
                break
            except StoreError as error:
                troubles.append(str(error))
        else:
            raise StoreError(
                f"no checkpoint of {self.folder} can be read: {'; '.join([*said[:1], *troubles[:3]])}"
            )
        bodies = [entry.body for entry in self.db.entries(kind="event")]
        try:
            known, check = self._known_ids(found), check_setup(fed, built, self.db, self.folder)
            form.restore(fed, found.content, _each_its_own(tensors), bodies, known, check)
            marks = dict(sealed.opened(self.db, self.keyring, MARKS).values())
            check_marks(fed.data, marks, found.server, self.folder)
            check_model(fed, built, self.folder)
        except (KeyError, Unreadable) as error:
            raise StoreError(f"{self.folder}: {error}; was the federation set up as it was?") from None
        self._server, self._left = dict(found.server), len(fed.data.erased)
        self._less = {client: len(ids) for client, ids in fed.data.reduced.items()}
        newest = checkpoints[-1]
        self._rounds, self._served = newest.rounds, newest.served
        self.post.go_on(named, newest, [waiting.asked for waiting in fed.serving.inbox.waiting])
        self._open, self._stint = [(named, frozenset(found.tensors))], fed._stint
        self.said += [*troubles, *said]
        here = noted(fed)["environment"]
        self.db.append([("resumed", plain({"step": fed.steps, "said": self.said, "environment": here}))])
        self._attach(fed)

    def _known_ids(self, kept: Checkpoint) -> list[tuple[int, tuple[int, ...] | None]]:
        """The ids of samples that a checkpoint knows; of who was erased since, none."""
        parts = sealed.opened(self.db, self.keyring, IDS)
        if not parts.keys() >= set(kept.ids):
            raise StoreError(f"{self.folder}: ids of samples are missing: take {DATABASE} from a backup")
        self._highest = max(parts, default=0)
        known: list[tuple[int, tuple[int, ...] | None]] = []
        for number in kept.ids:
            client, part = parts[number]
            known.append((client, None if part is None else unpack_ids(part)))
            if part is not None:
                self._ids[client, unpack_ids(part)] = number
        return known

    # What the federation calls -------------------------------------------------------------------------

    def letters(self, fed: Federation) -> Sequence[Letter]:
        """What was asked from outside, and is to be taken up before this step."""
        self.db.check()
        try:
            self._end_if_asked()
        except KeyboardInterrupt:
            self.checkpoint(fed)
            raise
        if self._erased or self._done:  # the disk was full, or the like
            self._settle(fed)
        if self._unfinished:
            self._finish_scrubbing()
        if fed._stint is not self._stint:  # what run(...) was asked must not be lost
            self._stint = fed._stint
            self.checkpoint(fed)
        return self.post.take(fed.steps, partial(self.checkpoint, fed))

    def _end_if_asked(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        check_now()

    def asked(self) -> bool:
        """Whether there is a request that has not been taken up."""
        return self.post.asked()

    @property
    def turned_away(self) -> Sequence[int]:
        """The numbers of the requests that this process refused."""
        return self.post.refused

    def refused(self, number: int, why: str, kind: str) -> None:
        """A request cannot be served."""
        self.post.refuse(number, why, kind)

    def erasing(self, fed: Federation, request: Erase) -> None:
        """First what is to be done is logged; a crash from here on comes back to this moment."""
        self.checkpoint(fed)
        told = [[target.client, target.samples is None] for target in request.targets]
        self.db.append([("erasing", plain({"step": fed.steps, "targets": told}))])

    def stepped(self, fed: Federation, events: Sequence[Event], done: Sequence[tuple[int, Served]]) -> None:
        """Note what happened; keep it, where something was erased, or it is time, or the run is over."""
        self._erased += [e for e in events if isinstance(e, Served) and e.kind == "erase" and e.clients]
        self._done += done
        self._settle(fed)

    def _settle(self, fed: Federation) -> None:
        over = fed._stint is not None and bool(fed._stint.stopped)
        if self._erased or over or time.monotonic() >= self._due:
            self.checkpoint(fed)
            return
        with ExitStack() as stack:
            if self._done:
                stack.enter_context(self.db.transaction())
            self._note_done(fed)
        self._done = []

    def _note_done(self, fed: Federation) -> None:
        """What was asked was done; where something was erased, it counts as served once the disk is clean."""
        for number, record in self._done:
            outcome = form.write_event(fed, record)
            if self._erased:
                self.db.hold(number, outcome)
            else:
                self.db.done(number, outcome, SERVED)

    def ended(self, fed: Federation, history: History) -> None:
        """Note what is served at the end, for who looks at the folder; by numbers, not by names."""
        if history.model is None:
            return
        lineage = history.model.lineage.describe(numbered)
        body = plain({"model": history.model.digest(), "lineage": lineage})
        last, kept = self.db.last("ended"), self.db.last("checkpoint")
        if last is None or kept is None or last.number < kept.number:
            self.db.append([("ended", body)])
        self._empty_rest(erasing.PATIENCE)

    # Checkpoints ---------------------------------------------------------------------------------------

    def checkpoint(self, fed: Federation) -> None:
        """Keep all that the federation remembers, as it is now, between two steps.

        After an erasure this is the first clean one: what came before goes, and that is logged with it, so
        that after a crash there is either the run before the erasure, or the one that knows what is to go.
        """
        self.db.check()
        self._look_back()
        self._note(fed)
        serves = _serves(fed)
        written = form.write(fed)
        for lasting in (True, False):  # apart: what lasts is not written again with what does not
            items = {
                digest: Item(kept.load(), kept.owner, tuple(sorted(kept.clients)))
                for digest, kept in written.tensors.items()
                if kept.lasting is lasting and not self.vault.keeps(digest, kept.owner)
            }
            self.vault.put(items)
        owners = {digest: kept.owner for digest, kept in written.tensors.items()}
        ids = self._note_ids(fed)
        found = Checkpoint(written.content, owners, ids, self._server, self.db.head(), serves)
        self.check()  # what came before may have taken long
        state = found.write(self.folder)
        named = self._named(fed, state)
        entries = [("event", body) for body in self._events]
        if self._erased:
            entries.append(("scrubbing", plain(self._to_scrub(fed))))
        self._tried = (named, frozenset(owners))
        with self.db.transaction():
            self._note_done(fed)
            for kind, parts in self._new.items():
                sealed.keep(self.db, self.keyring, kind, parts)
            self.db.append([*entries, ("checkpoint", plain(named))])
        self._logged()
        if self._unfinished:
            self._finish_scrubbing()
        else:
            self.check()
            sweep(self.folder / STATE, {f"{one.state}.state" for one, _ in self._open})
            self.vault.retain(frozenset().union(*(digests for _, digests in self._open)), SLACK)
        self._empty_rest()
        self.db.truncate()  # what lies in the file itself is safer; a reader may be in the way till the next
        self._due = time.monotonic() + self.every

    def _logged(self) -> None:
        """What was tried is in the log."""
        assert self._tried is not None
        self._unfinished |= bool(self._erased)
        self._open = [*([] if self._unfinished else self._open[-1:]), self._tried]
        self._events, self._erased, self._done, self._tried = [], [], [], None
        self._new = {MARKS: {}, IDS: {}}

    def _look_back(self) -> None:
        """Did the last one get into the log? Who was interrupted there cannot know."""
        if self._tried is not None:
            last = self.db.last("checkpoint")
            if last is not None and read_named(last.body) == self._tried[0]:
                self._logged()
            self._tried = None

    def _note(self, fed: Federation) -> None:
        """What has happened that the log does not have, and what clients hold less than they did."""
        history = fed.history
        assert history is not None
        new: list[Event] = [*history.served[self._served :], *history.rounds[self._rounds :]]
        self._events += [form.write_event(fed, event) for event in new]
        self._served = max(self._served, len(history.served))
        self._rounds = max(self._rounds, len(history.rounds))
        if len(fed.data.erased) != self._left:
            history.leave_out(fed.data.erased)
            # What is held out may have been a client's own.
            self._server, self._left = server_marks(fed.data), len(fed.data.erased)
            self._new = {
                kind: {n: part for n, part in parts.items() if part[0] not in fed.data.erased}
                for kind, parts in self._new.items()
            }
        for client, ids in fed.data.reduced.items():
            if client in fed.data and self._less.get(client) != len(ids):
                self._new[MARKS][client], self._less[client] = (client, mark_of(fed.data, client)), len(ids)

    def _note_ids(self, fed: Federation) -> tuple[int, ...]:
        """The numbers under which the ids of samples are kept that the federation knows."""
        known, before = form.ids_of(fed), self._ids
        self._ids = {}
        for one in known:
            if (number := self._ids.get(one) or before.get(one)) is None:
                self._highest = number = self._highest + 1
                self._new[IDS][number] = (one[0], pack_ids(one[1]))
            self._ids[one] = number
        return tuple(self._ids[one] for one in known)

    def _named(self, fed: Federation, state: str) -> Named:
        stint, history = fed._stint, fed.history
        assert stint is not None
        assert history is not None
        rounds, served = len(history.rounds), len(history.served)
        at = fed.state.now / SECOND
        return Named(fed.steps, state, rounds + served, stint.stopped, self.post.letters, rounds, served, at)

    # Erasure on the disk ---------------------------------------------------------------------------------

    def _to_scrub(self, fed: Federation) -> Scrubbing:
        assert fed.history is not None
        whole = {client for event in self._erased for client in event.leavers}
        parts = {client for event in self._erased for client in event.parts} - whole
        asked = [number for number, _ in self._done]
        return Scrubbing(
            tuple(sorted(whole)),
            tuple(sorted(parts)),
            tuple(asked),
            "" if fed.method.exact else fed.method.name,
            tuple(sorted((whole | parts) & fed.state.kept_of.clients)),
            erasing.called_so(self.db, self.keyring, whole, fed.history.setup),
            erasing.There.of(self),
            fed.serving.uncovered.promise(fed.method, fed.state, numbered)[:LONGEST],
        )

    def _finish_scrubbing(self) -> None:
        """Do what the log says is to be done, as often as it takes: to do it twice is no harm."""
        if (last := unfinished(self.db)) is not None:
            self._unfinished = True
            clean = next(iter(self.db.entries(last.number, kind="checkpoint")), None)
            if clean is None:
                raise StoreError(f"{self.folder}: the log does not say what is to be erased: it was changed")
            told = erasing.scrubbing_of(last.body)
            newest = self.db.last("checkpoint") or clean
            named = read_named(newest.body)
            found = erasing.scrub(self, Checkpoint.read(self.folder, named.state), named.state, told)
            with self.db.transaction():
                for number in told.requests:
                    self.db.release(number)
                self.db.append([("erased", plain(found))])
            self._rest = not found["truncated"]
        self._unfinished = False

    def _empty_rest(self, within: float = 0.0) -> None:
        """Empty the write-ahead log, where a reader was in the way when an erasure counted as served."""
        if self._rest and self.db.truncate(within):
            self.db.append([(EMPTIED, plain({}))])
            self._rest = False


def _serves(fed: Federation) -> Serves:
    """What would be served now. A method that cannot say so is kept all the same.

    What it says of that is left out: it may name clients.
    """
    try:
        model = fed.work.serve()
        return Serves(model.digest(), model.lineage)
    except Exception as error:
        return Serves(None, None, f"the method had nothing that it could serve then ({type(error).__name__})")


def _each_its_own(tensors: Mapping[str, Tensor]) -> Callable[[str], Tensor]:
    """Tensors by digest: two that were equal, but not one, are two again, and may change apart."""
    given: set[str] = set()

    def get(digest: str) -> Tensor:
        found = tensors[digest]
        if digest in given:
            return found.clone()
        given.add(digest)
        return found

    return get


def is_kept(folder: Path) -> bool:
    """Whether a folder has a run that can be gone on with: one that got as far as its first checkpoint."""
    if not (folder / DATABASE).exists():
        return False
    with Database.open(folder / DATABASE, readonly=True) as db:
        return db.last("checkpoint") is not None


def _tidy(folder: Path) -> None:
    """Take away what a crash left beside its place; the keys' own are the keyring's."""
    with told("look through", folder):
        beside = os.listdir(folder)
    written = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", *RESULTS)
    for name in beside:
        if any(is_part(name, ours) for ours in written):
            remove(folder / name)
    for inner in (folder / STATE, folder / WEIGHTS):
        if inner.is_dir() and not inner.is_symlink():
            with told("look through", inner):
                half = [name for name in os.listdir(inner) if name.startswith(PART)]
            for name in half:
                remove(inner / name)


def _let_go(stack: ExitStack, process: int) -> None:
    """The federation is gone: let go of its folder, unless that is another process's by now."""
    if os.getpid() == process:
        with suppress(StoreError):
            stack.close()
