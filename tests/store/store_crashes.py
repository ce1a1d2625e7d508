"""Processes that end where a write is under way, at one of the points after the other."""

import os
import signal
import traceback
from itertools import count

from unknot.store import files


def killed(moment, work):
    """Do `work` in a process that kills itself at the so-manieth point; whether it got there."""
    child = os.fork()
    if not child:
        left = count(1)

        def hook(name):
            if next(left) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            files.hook = hook
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


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
