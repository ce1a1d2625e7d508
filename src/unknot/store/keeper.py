"""Keeps a run beyond its process: checkpoints, the log, requests from outside, erasure on the disk.

Since every draw has a name, what happened after the last checkpoint is computed again, to the bit; and
requests are taken up again where they were. So the disk is only ever asked for two things: that a checkpoint
which the log names is whole, and that the log and the inbox are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unknot.core.errors import RunStopped, StoreError, UnknotError
from unknot.core.requests import Erase, numbered
from unknot.core.written import Reader, Unreadable, Writer
from unknot.federation import form
from unknot.federation.clock import SECOND
from unknot.federation.describe import plain as settings
from unknot.federation.environment import environment
from unknot.federation.history import Event, History, Served
from unknot.federation.letterbox import Letter
from unknot.store import erasing
from unknot.store.checkpoint import STATE, Checkpoint, Named, check_marks, marks_of
from unknot.store.database import Database
from unknot.store.files import make_folder, sweep
from unknot.store.inbox import StoredInbox, request_of
from unknot.store.keyring import Keyring
from unknot.store.lock import Lock
from unknot.store.rows import Asked
from unknot.store.vault import Item, Vault

if TYPE_CHECKING:
    from unknot.federation import Federation

DATABASE, KEYS, WEIGHTS = "run.db", "keys", "weights"
EVERY = 5.0
"""Seconds between two checkpoints."""
SLACK = 0.5
"""A pack is written anew once so great a part of it is needed no more."""
PAUSED = 0.2  # seconds between two looks into the inbox of a run that waits


class RunKeeper:
    """What keeps a federation in a folder: see `create` and `go_on`."""

    def __init__(self, folder: Path, keys: Path | None = None, every: float = EVERY) -> None:
        self.folder = folder
        self.every = every
        self.said: list[str] = []
        """What is other than when the run was begun, in words."""
        self.interrupted = False
        """Whether this process is to end: the run is kept before its next step, and broken off there."""
        self._stack = ExitStack()
        self._stack.enter_context(Lock(folder))
        try:
            new = not (folder / DATABASE).exists()
            self.db = Database.create(folder / DATABASE) if new else Database.open(folder / DATABASE)
            self._stack.callback(self.db.close)
            self.keyring = Keyring(keys or folder / KEYS)
            make_folder(folder / STATE)
            self.vault = Vault(folder / WEIGHTS, self.keyring)
        except BaseException:
            self._stack.close()
            raise
        self._stint: object = None
        self._last = (-1, "")
        self._marks: dict[int, bytes] = {}
        self._events: list[bytes] = []
        self._seen = self._logged = 0
        self._letters = 0
        self._again: list[Asked] = []
        self._due = 0.0
        self._open: list[Named] = []
        self._looked = -1

    # Begin, go on, end ---------------------------------------------------------------------------------

    @staticmethod
    def create(
        fed: Federation,
        folder: str | Path,
        *,
        keys: str | Path | None = None,
        every: float = EVERY,
        table: Mapping[str, Any] | None = None,
    ) -> RunKeeper:
        """Keep a federation that has not been run yet in a folder of its own.

        `table` is the experiment that it comes from, without its requests: a run can then be gone on with
        from the folder alone. `keys` is where the keys go, apart from the folder if wanted.
        """
        place = Path(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        make_folder(place)
        if (place / DATABASE).exists():
            raise StoreError(
                f"{place} holds a run already: go on with it (unknot resume), or name another folder"
            )
        keeper = RunKeeper(place, None if keys is None else Path(keys), every)
        keeper._marks = marks_of(fed.data)
        begun = {
            "environment": settings(environment(fed.engine)),
            "table": None if table is None else dict(table),
            "keys": None if keys is None else str(Path(keys).absolute()),
            "clients": len(fed.data),
        }
        keeper.keyring.make(fed.data.clients)  # at once: who asks from outside must find them, and make none
        if fed.data.names:
            sealed = {c: keeper.keyring.seal(c, n.encode(), b"name") for c, n in fed.data.names.items()}
            keeper.db.name_clients(sealed)
        keeper.db.append([("begun", plain(begun))])
        keeper._attach(fed)
        if fed._stint is not None:
            keeper._stint = fed._stint
            keeper.checkpoint(fed)
        return keeper

    @staticmethod
    def go_on(
        fed: Federation, folder: str | Path, *, keys: str | Path | None = None, every: float = EVERY
    ) -> RunKeeper:
        """Make a federation that was built anew what the run in this folder was at its last checkpoint."""
        place = Path(folder)
        if not (place / DATABASE).exists():
            raise StoreError(f"{place} holds no run: name the folder of one (unknot runs shows them)")
        keeper = RunKeeper(place, None if keys is None else Path(keys), every)
        try:
            keeper._restore(fed)
        except BaseException:
            keeper.close()
            raise
        return keeper

    def close(self) -> None:
        """Let go of the folder: another process may take it up."""
        self._stack.close()

    def _attach(self, fed: Federation) -> None:
        fed.keeper = self
        fed.inbox = StoredInbox(self.folder / DATABASE, self.keyring, fed.data.number)
        self._due = time.monotonic() + self.every

    def _restore(self, fed: Federation) -> None:
        self.db.verify()
        self._finish_scrubbing()
        checkpoints = [read_named(entry.body) for entry in self.db.entries(kind="checkpoint")]
        floor = self._floor()
        if not checkpoints:
            raise StoreError(f"{self.folder} was begun, and nothing was kept yet: remove it, and begin again")
        bodies = [entry.body for entry in self.db.entries(kind="event")]
        troubles: list[str] = []
        for named in reversed(checkpoints[floor:]):
            try:
                found = Checkpoint.read(self.folder, named.state)
                tensors = {digest: self.vault.get(digest) for digest in found.tensors}
                break
            except StoreError as error:
                troubles.append(str(error))
        else:
            raise StoreError(f"no checkpoint of {self.folder} can be read: {'; '.join(troubles[:3])}")
        try:
            form.restore(fed, found.content, tensors.__getitem__, bodies[: named.events])
        except (KeyError, Unreadable) as error:
            raise StoreError(f"{self.folder}: {error}; was the federation set up as it was?") from None
        check_marks(fed.data, found.marks, self.folder)
        self._marks = dict(found.marks)
        self._seen, self._logged = named.events, len(bodies)
        self._letters = named.letters
        self._again = [a for a in self.db.asked() if a.step is not None and a.number > named.letters]
        self._void(fed.steps)
        self._last, self._open, self._stint = (fed.steps, named.state), [named], fed._stint
        self.said = [*troubles, *self._differences(fed)]
        self.db.append([("resumed", plain({"step": fed.steps, "said": self.said}))])
        self._attach(fed)

    def _void(self, step: int) -> None:
        """What was said to a process that is gone (pause, stop, go) is not for this one."""
        for asked in self.db.waiting():
            if asked.kind not in ("erase", "join"):
                self.db.take(asked.number, step)
                self.db.done(asked.number, b"", "refused")

    def _floor(self) -> int:
        """The first checkpoint that may be gone back to: none from before the last erasure."""
        last = self.db.last("scrubbing")
        if last is None:
            return 0
        return sum(1 for entry in self.db.entries(kind="checkpoint") if entry.number < last.number)

    def _differences(self, fed: Federation) -> list[str]:
        begun = next(iter(self.db.entries(kind="begun")), None)
        if begun is None:
            raise StoreError(f"{self.folder}: the log does not begin with a run")
        before, now = read_plain(begun.body)["environment"], settings(environment(fed.engine))
        watched = ("unknot", "torch", "numpy", "cpu", "engine")
        return [
            f"{name} is {now[name]}, and was {before[name]}: bits may differ from here on"
            for name in watched
            if now[name] != before.get(name) and name != "engine"
        ]

    # What the federation calls -------------------------------------------------------------------------

    def letters(self, fed: Federation) -> Sequence[Letter]:
        """What was asked from outside, and is to be taken up before this step."""
        if self.interrupted:
            self._break_off(fed)
        if fed._stint is not self._stint:  # what run(...) was asked must not be lost
            self._stint = fed._stint
            self.checkpoint(fed)
        again = [asked for asked in self._again if asked.step == fed.steps]
        if again:
            self._again = [asked for asked in self._again if asked.step != fed.steps]
            return [letter for asked in again if (letter := self._letter(asked)) is not None]
        if self._again or not self.db.changed():
            return []
        return self._new(fed)

    def _new(self, fed: Federation) -> list[Letter]:
        found: list[Letter] = []
        for asked in self.db.waiting():
            with self.db.transaction():
                self.db.take(asked.number, fed.steps)
                self.db.append([("taken", plain({"request": asked.number, "step": fed.steps}))])
            if asked.kind in ("erase", "join"):
                if (letter := self._letter(asked)) is not None:
                    found.append(letter)
                continue
            self._letters = max(self._letters, asked.number)
            self.db.done(asked.number, b"", "served")
            if asked.kind == "stop":
                self._stop(fed, found)
            if asked.kind == "pause":
                self._wait(fed, found)
        return found

    def _letter(self, asked: Asked) -> Letter | None:
        self._letters = max(self._letters, asked.number)
        if asked.kind not in ("erase", "join"):
            return None
        try:
            return Letter(asked.number, request_of(asked))
        except UnknotError as error:
            self.refused(asked.number, str(error))
            return None

    def _break_off(self, fed: Federation) -> None:
        self.checkpoint(fed)
        raise KeyboardInterrupt

    def _stop(self, fed: Federation, found: list[Letter]) -> None:
        self._keep_without(fed, found)
        self.db.append([("stopped", plain({"step": fed.steps}))])
        raise RunStopped(f"{self.folder} was asked to stop, and has; go on with: unknot resume {self.folder}")

    def _keep_without(self, fed: Federation, found: list[Letter]) -> None:
        """A checkpoint before these are served: they are taken again when the run goes on from it."""
        taken = self._letters
        self._letters = min([letter.number for letter in found], default=taken + 1) - 1
        self.checkpoint(fed)
        self._letters = taken

    def _wait(self, fed: Federation, found: list[Letter]) -> None:
        self._keep_without(fed, found)
        while True:
            time.sleep(PAUSED)
            if self.interrupted:
                raise KeyboardInterrupt
            for asked in self.db.waiting():
                if asked.kind not in ("go", "stop"):
                    continue
                with self.db.transaction():
                    self.db.take(asked.number, fed.steps)
                    self.db.done(asked.number, b"", "served")
                if asked.kind == "stop":
                    self._stop(fed, found)
                return

    def asked(self) -> bool:
        """Whether there is a request that has not been taken up."""
        return any(asked.kind in ("erase", "join") for asked in self.db.waiting())

    def refused(self, number: int, why: str) -> None:
        """A request cannot be served; why is for who has the key of whom it names."""
        asked = next(asked for asked in self.db.asked() if asked.number == number)
        with self.db.transaction():
            self.db.done(number, erasing.sealed_for(self.keyring, asked, why), "refused")
            self.db.append([("refused", plain({"request": number}))])

    def erasing(self, fed: Federation, request: Erase) -> None:
        """First what is to be done is logged; a crash from here on comes back to this moment."""
        self.checkpoint(fed)
        told = [[target.client, target.samples is None] for target in request.targets]
        self.db.append([("erasing", plain({"step": fed.steps, "targets": told}))])

    def stepped(self, fed: Federation, events: Sequence[Event], done: Sequence[tuple[int, Served]]) -> None:
        """Note what happened; keep it, where something was erased, or it is time, or the run is over."""
        for event in events:
            if self._seen >= self._logged:
                self._events.append(form.write_event(fed, event))
            self._seen += 1
        erased = [event for event in events if isinstance(event, Served) and event.kind == "erase"]
        if erased:
            self._scrub(fed, erased, done)
        for number, record in done:
            self.db.done(number, form.write_event(fed, record), "served")
        if not erased and (time.monotonic() >= self._due or (fed._stint and fed._stint.stopped)):
            self.checkpoint(fed)

    def ended(self, fed: Federation, history: History) -> None:
        """Note what is served at the end, for who looks at the folder; by numbers, not by names."""
        if history.model is None:
            return
        lineage = history.model.lineage.describe(numbered)
        body = plain({"model": history.model.digest(), "lineage": lineage})
        last, kept = self.db.last("ended"), self.db.last("checkpoint")
        if last is None or kept is None or last.number < kept.number:
            self.db.append([("ended", body)])

    # Checkpoints ---------------------------------------------------------------------------------------

    def checkpoint(self, fed: Federation, tidy: bool = True) -> None:
        """Keep all that the federation remembers now, between two steps; `tidy` up what is older."""
        written = form.write(fed)
        for lasting in (True, False):  # apart: what lasts is not written again with what does not
            items = {
                digest: Item(kept.load(), kept.owner, tuple(sorted(kept.clients)))
                for digest, kept in written.tensors.items()
                if kept.lasting is lasting and not self.vault.keeps(digest, kept.owner)
            }
            self.vault.put(items)
        owners = {digest: kept.owner for digest, kept in written.tensors.items()}
        state = Checkpoint(written.content, owners, self._marks).write(self.folder)
        stint, history = fed._stint, fed._history
        assert stint is not None
        assert history is not None
        named = Named(
            fed.steps,
            state,
            self._seen,
            stint.stopped,
            self._letters,
            len(history.rounds),
            len(history.served),
            fed.state.now / SECOND,
        )
        self.db.append([*(("event", body) for body in self._events), ("checkpoint", plain(named))])
        self._logged += len(self._events)
        self._events = []
        self._open = [*self._open, named][-2:]
        if tidy:
            sweep(self.folder / STATE, {f"{one.state}.state" for one in self._open})
            self.vault.retain(self._needed(), SLACK)
        self._due = time.monotonic() + self.every

    def _needed(self) -> set[str]:
        """The tensors that the checkpoints which are kept name."""
        found: set[str] = set()
        for named in self._open:
            found |= Checkpoint.read(self.folder, named.state).tensors.keys()
        return found

    # Erasure on the disk ---------------------------------------------------------------------------------

    def _scrub(self, fed: Federation, erased: Sequence[Served], done: Sequence[tuple[int, Served]]) -> None:
        whole = sorted({client for event in erased for client in event.leavers})
        parts = sorted({client for event in erased for client in event.parts})
        for client in whole:
            self._marks.pop(client, None)
        if parts:
            now = marks_of(fed.data)
            self._marks |= {client: now[client] for client in parts if client in now}
        told = {"whole": whole, "parts": parts, "requests": [number for number, _ in done]}
        self.db.append([("scrubbing", plain(told))])
        self._open = []
        self.checkpoint(fed, tidy=False)  # what goes is counted when it goes
        self._finish_scrubbing()

    def _finish_scrubbing(self) -> None:
        """Do what the log says is to be done, as often as it takes: to do it twice is no harm."""
        last, ended = self.db.last("scrubbing"), self.db.last("erased")
        if last is None or (ended is not None and ended.number > last.number):
            return
        clean = self.db.last("checkpoint")
        if clean is None or clean.number < last.number:
            return  # it was not served yet: it will be, from the checkpoint before it
        named, told = read_named(clean.body), read_plain(last.body)
        found = erasing.scrub(self, Checkpoint.read(self.folder, named.state), named.state, told)
        self.db.append([("erased", plain(found))])


def plain(value: object) -> bytes:
    """Plain data as an entry of the log."""
    out = Writer()
    out.put(value)
    return out.written().content


def read_plain(content: bytes) -> Any:
    try:
        return Reader(content, _no_tensors).read()
    except Unreadable as error:
        raise StoreError(f"an entry of the log cannot be read: {error}") from None


def read_named(content: bytes) -> Named:
    named = read_plain(content)
    if not isinstance(named, Named):
        raise StoreError("an entry of the log is no checkpoint: it was changed")
    return named


def _no_tensors(digest: str) -> Any:
    raise Unreadable("the log has no tensors")
