"""Processes that end where a write is under way, at one of the points after the other."""

import os
import signal
import traceback
from itertools import count

from unknot.store import files


def forked(work):
    """Do `work` in a process of its own; what that ended with, below 0 the signal that ended it."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:  # nobody waits for it any more
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise


def killed(moment, work):
    """Do `work` in a process that kills itself at the so-manieth point; whether it got there."""
    left = count(1)

    def hook(name):
        if next(left) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def doomed():
        files.hook = hook
        work()

    ended = forked(doomed)
    assert ended in (0, -signal.SIGKILL)
    return ended != 0


def at_every_point(folder, prepare, work, check):
    """Prepare a folder, do `work` there and die at a point, check what is left: for each point that comes."""
    for moment in count(1):
        place = folder / str(moment)
        place.mkdir()
        prepare(place)
        died = killed(moment, lambda: work(place))  # noqa: B023
        check(place, died)
        if not died:
            return moment - 1


def points_of(work):
    """The names of the points that `work` comes by."""
    found = []
    files.hook = found.append
    try:
        work()
    finally:
        files.hook = None
    return found
