"""Keeps a run beyond its process: checkpoints, the log, requests from outside, erasure on the disk.

Since every draw has a name, what happened after the last checkpoint is computed again, to the bit; and
requests are taken up again where they were. So the disk is only ever asked for two things: that a checkpoint
which the log names is whole, and that the log and the inbox are.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unknot.core.errors import ConfigError, StoreError
from unknot.core.form import pack
from unknot.core.outside import check_outside
from unknot.core.requests import Erase, numbered
from unknot.federation import snapshot
from unknot.federation.clock import SECOND
from unknot.federation.events import Event, Served
from unknot.federation.history import History
from unknot.federation.interrupts import check_now, pressed
from unknot.federation.parts import of_each_client
from unknot.federation.watcher import Letter, Watcher
from unknot.store import erasing, older, sample_ids, sealed
from unknot.store.checkpoint import STATE, Checkpoint, Named, Serves, marks_of
from unknot.store.compare import noted
from unknot.store.database import Database
from unknot.store.entries import plain, read_named
from unknot.store.erasing import EACH, Scrubbing
from unknot.store.files import check_ours, make_folders, make_private, sweep
from unknot.store.folder import RunFolder, discard
from unknot.store.inbox import StoredInbox
from unknot.store.noted import (
    DATABASE,
    EMPTIED,
    GOING,
    RESTING,
    emptied,
    ended_in,
    erased_in,
    unfinished,
)
from unknot.store.own_keys import check_new, check_not_older
from unknot.store.post import Post
from unknot.store.restoring import Restored, restore
from unknot.store.rows import SERVED
from unknot.store.sealed import KINDS, MARKS, PLACES
from unknot.store.taking import check_free
from unknot.store.unkept import Unkept
from unknot.store.vault import Item

if TYPE_CHECKING:
    from unknot.federation import Federation

EVERY = 5.0
"""Seconds between two checkpoints."""
SLACK = 0.5
"""A pack is written anew once so great a part of it is needed no more."""


class RunKeeper(Watcher):
    """What keeps a federation in a folder: see `create` and `go_on`."""

    def __init__(
        self, folder: Path, keys: Path | None, every: float, new: bool, command: bool = False
    ) -> None:
        self.place = place = RunFolder(folder, keys, new)
        self.folder, self.said = place.path, place.said
        self.db, self.keyring, self.vault = place.db, place.keyring, place.vault
        self.every = every
        self.interrupted = False
        """Whether this process is to end: the run is kept before its next step, and broken off there."""
        self.post = Post(self.folder, self.db, self.keyring, self._end_if_asked)
        self.unkept = Unkept()
        self._stint: object = None
        self._served: list[tuple[int, Served]] = []  # whose tickets are open
        self.command = command
        """Whether this process is a command: it goes on with what it takes, or ends."""
        self._going = False  # whether the log says that this process goes on with it
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
        instead: bool = False,
        own: Collection[str] = (),
        command: bool = False,
    ) -> RunKeeper:
        """Keep a federation that has not been run yet in a folder of its own.

        `table` is the experiment that it comes from, without its requests: a run can then be gone on with
        from the folder alone. `keys` is where the keys go, apart from the folder if wanted. A folder in
        which this was broken off before anything was kept is gone on with: what was asked there stays. `also`
        is noted with the beginning, and `places`, by client, are sealed. `instead` of a run, or of results,
        that the folder holds, it is begun there all the same. See `check_free` for which folders it takes,
        and for `own`. `command`: see there.
        """
        place = Path(folder)
        check_ours(place)
        check_free(place, results=instead, own=own)
        if instead:
            discard(place, keys)
        check_new(place, keys)
        make_folders(place)
        make_private(place)
        if keys is not None:
            make_folders(Path(keys).parent)
        keeper = RunKeeper(place, None if keys is None else Path(keys), every, new=True, command=command)
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
        self.unkept.begin(fed)
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
        self.db.append(
            [("begun", plain(begun)), *self._goes_at_once(fed)]
        )  # before there are keys: so that they are known for ours
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
        if fed.stint is not None:
            self._stint = fed.stint
            self.checkpoint(fed)

    @staticmethod
    def go_on(
        fed: Federation,
        folder: str | Path,
        *,
        keys: str | Path | None = None,
        every: float = EVERY,
        command: bool = False,
    ) -> RunKeeper:
        """Make a federation that was built anew what the run in this folder was at its last checkpoint."""
        place = Path(folder)
        if not (place / DATABASE).exists():
            raise StoreError(f"{place} holds no run: name the folder of one (unknot runs shows them)")
        keeper = RunKeeper(place, None if keys is None else Path(keys), every, new=False, command=command)
        try:
            keeper.db.verify()
            keeper._destroy_again()
            check_not_older(keeper.db, keeper.keyring, keeper.folder)
            if late := older.unknown(keeper.db, keeper.keyring):
                older.go_on(keeper.place, fed, late, partial(keeper._restore, hurried=True))
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
        """Raise where the folder is not the one any more that this process took: see `RunFolder`."""
        self.place.check()

    def close(self) -> None:
        """Let go of the folder: another process may take it up."""
        with suppress(StoreError):  # closed already, or in a forked process: nothing is left to do
            self.db.check()
            self._empty_rest(erasing.PATIENCE)
        self.place.close()

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
        fed.retries = fed.keeps_names = False
        self.place.close_with(fed)
        before = fed.state.initial.lineage.clients | fed.state.select_knows.clients
        fed.watchers.remove(fed.inbox)  # what is put into this one comes from the database
        fed.inbox = self.inbox = StoredInbox(self.folder / DATABASE, self.keyring, fed.data, before)
        self.inbox.guard = self.place.check
        self.place.when_closed(self.inbox.shut)
        fed.watch(self)
        self._due = time.monotonic() + self.every

    def _restore(self, fed: Federation, hurried: bool = False) -> None:
        """Take the run up where it was; what is asked comes before anything else where it is `hurried`."""
        fed.keeps_names = False
        self._finish_scrubbing()
        self._rest = not emptied(self.db)
        self._empty_rest(erasing.PATIENCE)
        found = restore(self.place, fed)
        if fed.stint is not None and ended_in(self.db):  # who asked was given it, though it may be lost
            fed.stint.answered = True
        self.unkept.go_on(fed, found)
        pending = [waiting.asked for waiting in fed.serving.inbox.waiting]
        self.post.go_on(found.named, found.until, pending, fed.over)
        if hurried:
            self.post.hurry(fed.steps)
        self._open, self._stint = [(found.named, frozenset(found.kept.tensors))], fed.stint
        self.said += found.said
        if fed.over and not found.newest.stopped:
            self.said.append(
                "what it was asked to do after that, with the requests that came with it, was in that "
                "checkpoint alone: ask for it again"
            )
        self.db.append([("resumed", plain(self._resumed(fed, found))), *self._goes_at_once(fed)])
        self._attach(fed)

    def _resumed(self, fed: Federation, found: Restored) -> dict[str, object]:
        """The entry of the log: see `unknot.store.entries.Resumed`."""
        return {
            "step": fed.steps,
            "until": self.post.until,
            "checkpoint": found.number,
            "over": fed.over,
            "said": [text.replace(str(self.folder), "its folder") for text in self.said],  # it may be a name
            "environment": noted(fed)["environment"],
        }

    # What the federation calls -------------------------------------------------------------------------

    def begins(self, fed: Federation) -> None:
        """Refuse to begin anew in the midst of a run.

        The same script, started again after a crash, would train for longer, depending on when it died.
        """
        stint = fed.stint
        if stint is None or stint.stopped:
            return
        done = max((lane.rounds for lane in fed.lanes.values()), default=0)
        end = max(stint.goals.values(), default=None)
        where = f"at round {done}" + ("" if end is None else f" of {end}")
        if end is None and stint.limit is not None:
            where = f"after {fed.now / SECOND:g} of {stint.limit / SECOND:g} simulated s"
        raise ConfigError(
            f"the run in {self.folder} was broken off {where}: fed.resume() finishes it; fed.run(...) "
            "after that goes on"
        )

    def saving(self, fed: Federation, file: str | Path) -> None:
        check_outside("fed.save", file, self.folder)

    def requests(self, fed: Federation) -> Sequence[Letter]:
        """What was asked from outside, and is to be taken up before this step."""
        self.db.check()
        try:
            self._end_if_asked()
        except KeyboardInterrupt:
            self.checkpoint(fed)
            raise
        if self.unkept.erased or self.unkept.done:  # the disk was full, or the like
            self._settle(fed)
        if self._unfinished:
            self._finish_scrubbing()
        self._answer()
        if fed.stint is not self._stint:  # what run(...) was asked must not be lost
            self.checkpoint(fed)
            self._stint = fed.stint
        return self.post.take(fed.steps, partial(self.checkpoint, fed))

    def starts(self, fed: Federation) -> None:
        if not self._going:
            self.db.append([self._goes(fed)])
            self._going = True

    def _goes(self, fed: Federation) -> tuple[str, bytes]:
        return GOING, plain({"step": fed.steps, "command": self.command})

    def _goes_at_once(self, fed: Federation) -> list[tuple[str, bytes]]:
        """A command goes on with what it takes."""
        self._going |= self.command
        return [self._goes(fed)] if self.command else []

    def stops(self, fed: Federation, over: bool = False) -> None:
        """Nobody goes on with the run for now, though this process has it still."""
        if self._going:
            self._going = False
            with suppress(StoreError):  # on a full disk it is not said
                if over:
                    self.post.drop_words(read_named(self.db.latest("checkpoint", 1)[0].body).step)
                self.db.append([(RESTING, plain({}))])

    def _end_if_asked(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        check_now()

    def waiting(self) -> bool:
        return self.post.asked()

    @property
    def turned_away(self) -> Sequence[int]:
        """The numbers of the requests that this process refused."""
        return self.post.refused

    def refused(self, number: int, why: str, kind: str) -> None:
        self.post.refuse(number, why, kind)
        self.inbox.answer(number, "refused", why)

    def erasing(self, fed: Federation, request: Erase) -> None:
        """First what is to be done is logged; a crash from here on comes back to this moment."""
        self.checkpoint(fed)
        told = [[target.client, target.samples is None] for target in request.targets]
        self.db.append([("erasing", plain({"step": fed.steps, "targets": told}))])

    def stepped(self, fed: Federation, events: Sequence[Event], done: Sequence[tuple[int, Served]]) -> None:
        """Note what happened; keep it, where something was erased, or it is time, or the run is over."""
        self.unkept.erased += [e for e in events if isinstance(e, Served) and e.kind == "erase" and e.clients]
        self.unkept.done += done
        self._served += done
        self._settle(fed)
        self._answer()

    def _answer(self) -> None:
        """Say of the requests that were served, on the disk too, that they are."""
        for number, record in self._served:
            self.inbox.answer(number, "served", served=record)
        self._served = []

    def _settle(self, fed: Federation) -> None:
        over = fed.stint is not None and bool(fed.stint.stopped)
        if self.unkept.erased or over or pressed() or time.monotonic() >= self._due:
            self.checkpoint(fed)
            return
        with ExitStack() as stack:
            if self.unkept.done:
                stack.enter_context(self.db.transaction())
            self._note_done(fed)
        self.unkept.done = []

    def _note_done(self, fed: Federation) -> None:
        """What was asked was done; where something was erased, it counts as served once the disk is clean."""
        for number, record in self.unkept.done:
            outcome = pack(record)
            if self.unkept.erased:
                self.db.hold(number, outcome)
            else:
                self.db.done(number, outcome, SERVED)

    def ended(self, fed: Federation, history: History) -> None:
        """Note what is served at the end, for who looks at the folder; by numbers, not by names."""
        if history.model is None:
            return
        if not self._is_kept(fed):  # its last checkpoint may have met a full disk
            self.checkpoint(fed)
        self._empty_rest(erasing.PATIENCE)
        lineage = history.model.lineage.describe(numbered)
        body = plain({"model": history.model.digest(), "lineage": lineage})
        with self.db.transaction():
            self.post.drop_words(fed.steps)  # what was said in its last step is not for what comes after it
            last, kept = self.db.last("ended"), self.db.last("checkpoint")
            if last is None or kept is None or last.number < kept.number:
                # The last write: from here on who asked counts as who was given it.
                self.db.append([("ended", body)])
            elif self._going:
                self.db.append([(RESTING, plain({}))])
        self._going = False

    def _is_kept(self, fed: Federation) -> bool:
        """Whether the checkpoint that the log names last is this process's, of where the federation is."""
        last = self.db.last("checkpoint")
        named = None if last is None else read_named(last.body)
        return named is not None and named.step == fed.steps and named in [one for one, _ in self._open[-1:]]

    # Checkpoints ---------------------------------------------------------------------------------------

    def checkpoint(self, fed: Federation) -> None:
        """Keep all that the federation remembers, as it is now, between two steps.

        After an erasure this is the first clean one: what came before goes, and that is logged with it, so
        that after a crash there is either the run before the erasure, or the one that knows what is to go.
        """
        self.db.check()
        self._look_back()
        self.unkept.note(fed)
        serves = _serves(fed)
        written = snapshot.dump(fed, events=False)
        items = {
            digest: Item(kept.tensor, kept.owner, tuple(sorted(kept.clients)))
            for digest, kept in written.tensors.items()
            if not self.vault.keeps(digest, kept.owner)
        }
        self.vault.put(items)
        owners = {digest: kept.owner for digest, kept in written.tensors.items()}
        ids = self.unkept.note_private(written.private)
        found = Checkpoint(written.content, owners, ids, self.unkept.server, self.db.head(), serves)
        self.check()  # what came before may have taken long
        state = found.write(self.folder)
        named = self._named(fed, state)
        entries = self.unkept.events
        if self.unkept.erased:
            asked = [number for number, _ in self.unkept.done]
            entries.append(("scrubbing", plain(Scrubbing.of(self.place, fed, self.unkept.erased, asked))))
        self._tried = (named, frozenset(owners))
        with self.db.transaction():
            self._note_done(fed)
            self.unkept.seal(self.db, self.keyring)
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
        self._unfinished |= bool(self.unkept.erased)
        self._open = [*([] if self._unfinished else self._open[-1:]), self._tried]
        self.unkept.clear()
        self._tried = None

    def _look_back(self) -> None:
        """Did the last one get into the log? Who was interrupted there cannot know."""
        if self._tried is not None:
            last = self.db.last("checkpoint")
            if last is not None and read_named(last.body) == self._tried[0]:
                self._logged()
            self._tried = None

    def _named(self, fed: Federation, state: str) -> Named:
        stint, history = fed.stint, fed.history
        assert stint is not None
        assert history is not None
        rounds, served = len(history.rounds), len(history.served)
        at = fed.state.now / SECOND
        return Named(fed.steps, state, rounds + served, stint.stopped, self.post.letters, rounds, served, at)

    # Erasure on the disk ---------------------------------------------------------------------------------

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
            found = erasing.scrub(self.place, Checkpoint.read(self.folder, named.state), named.state, told)
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


def keeper_of(fed: Federation) -> RunKeeper:
    """What keeps a federation in a folder."""
    for watcher in fed.watchers:
        if isinstance(watcher, RunKeeper):
            return watcher
    raise StoreError("this run is kept in no folder: name one as store=")


def _serves(fed: Federation) -> Serves:
    """What would be served now. A method that cannot say so is kept all the same.

    What it says of that is left out: it may name clients.
    """
    try:
        model = fed.work.would_serve()
        return Serves(model.digest(), model.lineage)
    except Exception as error:
        return Serves(None, None, f"the method had nothing that it could serve then ({type(error).__name__})")
