"""What comes in from outside while a run goes on: requests, and the words pause, go and stop.

A request is taken up at a step that the log names, and again at the same one after a crash.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from unknot.core.commands import command
from unknot.core.errors import RunStopped, StoreError, UnknotError
from unknot.federation.watcher import Letter
from unknot.store.checkpoint import Named
from unknot.store.database import Database
from unknot.store.entries import plain
from unknot.store.erasing import leave_ids_out, sealed_for
from unknot.store.inbox import body_of, hidden_of, request_of
from unknot.store.keyring import Keyring
from unknot.store.noted import again_in
from unknot.store.rows import REFUSED, REQUESTS, SERVED, TAKEN, WAITING, Asked
from unknot.store.sample_ids import hide

Keep = Callable[[], None]
PAUSED = 0.2
"""Seconds between two looks into the inbox of a run that waits."""


class Post:
    """The inbox of a run, as the process that runs it sees it; `check` raises if this process is to end."""

    def __init__(self, folder: Path, db: Database, keyring: Keyring, check: Callable[[], None]) -> None:
        self._folder, self._db, self._keyring, self._check = folder, db, keyring, check
        self.letters = 0
        """The number of the last request that was taken up: all that came before it were, too."""
        self.refused: list[int] = []
        """The numbers of the requests that this process refused."""
        self._again: list[Asked] = []
        self.until = 0
        """What is new comes no sooner than at this step, which the log knows of."""
        self._look = True
        self._before = 0  # what `letters` was when this step's began to be taken up
        self._broken_off: int | None = None  # the last letter before a taking that did not come to its end

    def go_on(self, named: Named, until: int, pending: Collection[int | None], over: bool) -> None:
        """Take up again what was taken after the checkpoint that is gone on from, or never became `pending`.

        The steps `until` that one are taken again as they were: what is new comes after them. What was said
        to a process that is gone (pause, stop, go) is not for this one. A run that is `over` there comes to
        no later step by itself: what was taken at one is taken up at once.
        """
        self.letters, self.until = named.letters, until
        taken = (a for a in self._db.asked() if a.kind in REQUESTS and a.state not in (WAITING, REFUSED))
        self._again = [a for a in taken if a.number > named.letters or _is_lost(a, pending)]
        if over:
            self.hurry(named.step)
        self.drop_words(named.step)

    def drop_words(self, step: int) -> None:
        """Nobody is there whom the words that wait were said to: the process is gone, or the run over."""
        while (word := self._word()) is not None:
            self._db.take(word.number, step)
            self._db.done(word.number, b"", REFUSED)

    def hurry(self, step: int) -> None:
        """All that was asked comes before this step, also what was taken up at a later one, which is lost."""
        for asked in self._again:
            self._db.retake(asked.number, step)
        self._again, self.until = [replace(asked, step=step) for asked in self._again], step

    def take(self, step: int, keep: Keep) -> Sequence[Letter]:
        """What is to be taken up before this step; `keep` writes a checkpoint, where the run is held.

        Where that is broken off, all of it is taken up again the next time.
        """
        self._mend()
        self._before, again = self.letters, list(self._again)
        try:
            return self._take(step, keep)
        except BaseException:
            self.letters, self._again, self._broken_off = self._before, again, self._before
            raise

    def _take(self, step: int, keep: Keep) -> Sequence[Letter]:
        again = [asked for asked in self._again if (asked.step or 0) <= step]
        self._again = [asked for asked in self._again if asked not in again]
        found = [letter for asked in again if (letter := self._letter(asked)) is not None]
        early = bool(self._again) or step < self.until
        self._look |= self._db.changed()
        if self._look:
            self._take_new(found, step, keep, words=early)
            self._look = early  # then there may be requests that wait for a later step
        return found

    def _mend(self) -> None:
        """What was taken up in vain, for it was broken off, is to be taken up again."""
        if self._broken_off is not None:
            known = [asked.number for asked in self._again]
            new = (a for a in self._db.asked() if a.number > self._broken_off and a.number not in known)
            self._again += [asked for asked in new if _is_lost(asked, ())]
            self._broken_off = None

    def asked(self) -> bool:
        """Whether there is a request that has not been taken up, or that is to be taken up again."""
        self._mend()
        return any(asked.kind in REQUESTS for asked in (*self._again, *self._db.waiting()))

    def refuse(self, number: int, why: str, kind: str = "") -> None:
        """A request cannot be served; why is for who has the key of whom it names, and is told here once.

        The `kind` of reason, which names nobody, stays in the log.
        """
        asked = self._db.request(number)
        if asked.state == REFUSED:  # taken up again after a crash
            return
        try:
            with self._db.transaction():
                self._db.done(number, sealed_for(self._keyring, asked, why), REFUSED)
                self._db.append([("refused", plain({"request": number, "kind": kind}))])
                changed = leave_ids_out(self._db, self._keyring, self._db.request(number))
        except BaseException:
            self._again.append(asked)  # it is heard once more
            raise
        if changed:
            self._db.bring_in()
        self.refused.append(number)
        logging.getLogger(__name__).warning("request %d was refused: %s", number, why)

    def _take_new(self, found: list[Letter], step: int, keep: Keep, words: bool) -> None:
        """What has come; `words` alone, where the run is not yet where it had been."""
        while asked := self._word() if words else self._first():  # anew: a pause takes words that came after
            self._accept(asked, step)
            if asked.kind in REQUESTS:
                if (letter := self._letter(asked)) is not None:
                    found.append(letter)
            elif asked.kind == "stop":
                self._stop(keep)
            elif asked.kind == "pause":
                self._wait(step, keep)

    def _accept(self, asked: Asked, step: int) -> None:
        """It is taken up; a word is served with that."""
        with self._db.transaction():
            self._db.take(asked.number, step)
            self._db.append([("taken", plain({"request": asked.number, "step": step}))])
            if asked.kind not in REQUESTS:
                self._db.done(asked.number, b"", SERVED)
            sealed = asked.kind in REQUESTS and self._seal(asked)
        if sealed:
            self._db.bring_in()

    def _seal(self, asked: Asked) -> bool:
        """Who asked had no keys, maybe: then ids of samples lie there open, until this; whether they did."""
        with suppress(StoreError):  # what cannot be read is refused after this
            told, reason = hidden_of(asked)
            if (hidden := hide(self._keyring, told)) != told:
                self._db.reword(asked.number, body_of(hidden, reason), asked.outcome)
                return True
        return False

    def _letter(self, asked: Asked) -> Letter | None:
        self.letters = max(self.letters, asked.number)
        try:
            return Letter(asked.number, request_of(asked, self._keyring))
        except UnknotError as error:
            self.refuse(asked.number, str(error))
            return None

    def _stop(self, keep: Keep) -> None:
        self._hold(keep)
        raise RunStopped(f"{self._folder} was asked to stop, and has. To go on: {again_in(self._folder)}")

    def _hold(self, keep: Keep) -> None:
        """Keep what is, without what was taken at this step: that is taken again when the run goes on."""
        taken, self.letters = self.letters, self._before
        try:
            keep()
        finally:
            self.letters = taken

    def _wait(self, step: int, keep: Keep) -> None:
        """Until the word go, or stop; words are taken in their order, requests wait for their turn."""
        self._hold(keep)
        logging.getLogger(__name__).warning(
            "%s is paused, and kept; it goes on with: %s", self._folder, command("resume", self._folder)
        )
        while (word := self._word()) is None or word.kind == "pause":
            if word is None:
                time.sleep(PAUSED)
                self._check()
            else:
                self._accept(word, step)
        self._accept(word, step)
        if word.kind == "stop":
            self._stop(keep)

    def _first(self) -> Asked | None:
        return next(iter(self._db.waiting()), None)

    def _word(self) -> Asked | None:
        return next((one for one in self._db.waiting() if one.kind not in REQUESTS), None)


def _is_lost(asked: Asked, pending: Collection[int | None]) -> bool:
    """Whether a request was taken, and neither came to anything nor waits for its moment."""
    return asked.kind in REQUESTS and asked.state == TAKEN and asked.number not in pending
