"""A method that fails in the middle of an erasure: the run comes back to it, from its folder."""

import msgspec
import pytest
from kept_runs import REQUESTS, ROUNDS, build, go

from support import grid
from unknot.core.errors import UnknotError
from unknot.core.requests import erase
from unknot.store.folder import is_kept
from unknot.store.keeper import RunKeeper


class Failed(Exception):
    """What a method of somebody's own may raise."""


def failing(fed, when: int):
    """One whose method fails at the so-manieth erasure, once it has done its work."""
    inner, times = type(fed.method), []

    class Fails(inner):
        def forget(self, desk, request, touched):
            super().forget(desk, request, touched)
            times.append(request)
            if len(times) == when:
                raise Failed

    Fails.__name__ = inner.__name__
    object.__setattr__(fed.method, "__class__", Fails)
    return fed


@pytest.mark.parametrize(("name", "when"), grid(["rfs", "mmt", "federaser", "knot mmt", "pga"], [1, 2]))
def test_another_process_goes_on_as_if_it_had_not_failed(tmp_path, name, when):
    expected = go(build(name, "sync"), tmp_path / "whole")
    with pytest.raises(Failed):
        go(failing(build(name, "sync"), when), tmp_path / "run")
    assert go(build(name, "sync"), tmp_path / "run") == expected


@pytest.mark.parametrize("name", ["rfs", "mmt", "federaser", "knot mmt"])
def test_the_same_process_does_not_ask_it_again_and_another_goes_on_as_if_it_had_not_failed(tmp_path, name):
    expected = go(build(name, "sync"), tmp_path / "whole")
    fed = failing(build(name, "sync"), 1)
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    with pytest.raises(Failed):
        fed.run(ROUNDS, requests=REQUESTS)
    for again in (fed.step, fed.resume):
        with pytest.raises(UnknotError, match=r"fed.close\(\) and build the federation again"):
            again()
    keeper.close()
    assert is_kept(tmp_path / "run")
    assert go(build(name, "sync"), tmp_path / "run") == expected


def test_the_ids_of_samples_are_sealed_while_an_erasure_that_failed_waits(tmp_path):
    ids = [0, 2, 3, 5]
    fed = failing(build("rfs", "sync"), 1)
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    with pytest.raises(Failed):
        fed.run(ROUNDS, requests=erase({4: ids}, round=1))
    keeper.checkpoint(fed)
    open_ids = b"".join(map(msgspec.msgpack.encode, ids))
    assert not [path.name for path in (tmp_path / "run" / "state").iterdir() if open_ids in path.read_bytes()]
    keeper.close()
    fed = build("rfs", "sync")
    keeper = RunKeeper.go_on(fed, tmp_path / "run")
    (waiting,) = fed.serving.inbox.waiting
    assert waiting.left == waiting.request
    assert [sorted(target.samples) for target in waiting.left.targets] == [ids]
    fed.resume()
    assert fed.data.reduced == {4: set(ids)}
    keeper.close()
