from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import permutations
from threading import Barrier, Thread

import pytest

from unknot.core.garbage import no_garbage_search, no_garbage_search_at_all


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = gc.isenabled()
    yield
    (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("within", [no_garbage_search, no_garbage_search_at_all])
@pytest.mark.parametrize("enabled", [True, False])
def test_the_search_for_garbage_is_put_off_and_then_as_it_was_also_after_an_error(within, enabled):
    (gc.enable if enabled else gc.disable)()
    with within():
        with within():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == enabled
    with pytest.raises(KeyError), within():
        raise KeyError
    assert gc.isenabled() == enabled


def test_a_round_that_ends_while_somebody_captures_leaves_the_search_off_until_that_has_ended():
    gc.enable()
    rounds, captures = ExitStack(), ExitStack()
    rounds.enter_context(no_garbage_search())
    captures.enter_context(no_garbage_search_at_all())
    rounds.close()
    assert not gc.isenabled()
    captures.close()
    assert gc.isenabled()


def test_a_capture_that_ends_within_a_round_that_began_after_it_leaves_the_search_off():
    gc.enable()
    rounds, captures = ExitStack(), ExitStack()
    captures.enter_context(no_garbage_search_at_all())
    rounds.enter_context(no_garbage_search())
    captures.close()
    assert not gc.isenabled()
    rounds.close()
    assert gc.isenabled()


def test_captures_within_a_round_do_not_end_it():
    gc.enable()
    with no_garbage_search():
        for _ in range(2):
            with no_garbage_search_at_all():
                assert not gc.isenabled()
            assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_whoever_ends_first_nobody_searches_while_one_captures_and_all_is_as_it_was_in_the_end(enabled):
    """Two rounds and two captures, begun and ended in every order."""
    kinds = [no_garbage_search, no_garbage_search, no_garbage_search_at_all, no_garbage_search_at_all]
    for begin in permutations(range(4)):
        for end in permutations(range(4)):
            (gc.enable if enabled else gc.disable)()
            open = [ExitStack() for _ in kinds]
            capturing = 0
            for i in begin:
                open[i].enter_context(kinds[i]())
                assert not gc.isenabled()
            capturing = 2
            for i in end:
                open[i].close()
                capturing -= i >= 2
                assert not (capturing and gc.isenabled()), (begin, end)
            assert gc.isenabled() == enabled, (begin, end)


def test_threads_that_train_and_capture_never_search_within_a_capture():
    gc.enable()
    found: list[bool] = []
    together = Barrier(4)

    def work() -> None:
        together.wait()
        for _ in range(300):
            with no_garbage_search(), no_garbage_search_at_all():
                found.append(gc.isenabled())

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(found)
    assert gc.isenabled()
