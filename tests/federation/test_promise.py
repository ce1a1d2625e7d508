"""What a guarantee does not cover is said in one set of words: in the run, on the pages, here."""

from pathlib import Path

import pytest

from support import small_data, toy_federation
from unknot.audit import interference
from unknot.core.errors import ConfigError
from unknot.core.requests import erase, join
from unknot.federation import Buffered, Clock, FedBuff, Guarantee, Pareto, Synchronous, Uniform, promise
from unknot.select import KCenter
from unknot.unlearn import BMT, KNOT, METHODS, MMT, RFS, SISA, ExactFun, FedCIO

DOCS = Path(__file__).parents[2] / "docs"
DATA = small_data((9, 3, 14, 6, 2, 11, 5, 8))
SLOW = Clock(Uniform(1.0, 4.0), seconds_per_sample=0.01)
ASYNC = {"pace": Buffered(4, 2), "aggregate": FedBuff(), "clock": SLOW}
SYNC = {"pace": Synchronous(4), "clock": SLOW}


def guarantee(method, requests=(), rounds=6, runs=(), **options):
    fed = toy_federation(method, DATA, **options)
    for run in runs:
        fed.run(**run)
    return fed.run(rounds, requests=requests).guarantee


@pytest.mark.parametrize("method", [RFS(), FedCIO(2), KNOT(2, by="random")], ids=lambda m: m.name)
def test_where_models_begin_again_exact_is_all_there_is_to_say(method):
    for options in (SYNC, ASYNC, {**SYNC, "select": KCenter(2)}):
        assert guarantee(method, [erase(2, round=3)], **options) == "exact"


@pytest.mark.parametrize("method", [BMT(), MMT(), SISA(), KNOT(2, by="random", retrain=MMT())])
def test_models_that_go_on_were_shaped_by_when_and_whom_was_asked(method):
    assert guarantee(method, [erase(2, round=3)], **SYNC) == "exact"
    assert guarantee(method, **ASYNC) == f"exact, but for {promise.WHEN}"
    assert guarantee(method, select=KCenter(2), **SYNC) == f"exact, but for {promise.WHOM}"
    both = f"exact, but for {promise.WHOM} and {promise.WHEN}"
    assert guarantee(method, select=KCenter(2), **ASYNC) == both


def test_who_draws_its_clients_itself_takes_no_selector():
    with pytest.raises(ConfigError, match="draws its clients itself"):
        toy_federation(ExactFun(), DATA, select=KCenter(2))


def test_requests_at_times_and_runs_in_seconds_leave_the_rounds_open():
    """Before the erasure or after it, and joins as well."""
    said = f"exact, but for {promise.HOW_MANY}"
    erased = [erase(2, round=3)]
    assert guarantee(RFS(), [erase(2, time=0.3)], **SYNC) == said
    assert guarantee(RFS(), erased, runs=[{"seconds": 0.2}], **SYNC) == said
    assert guarantee(RFS(), [*erased, join(7, time=0.3)], **SYNC) == said
    assert guarantee(RFS(), [join(7, time=0.3)], **SYNC) == "exact"  # nothing was erased
    fed = toy_federation(FedCIO(2), DATA, **SYNC)
    assert fed.run(5, requests=erased).guarantee == "exact"
    assert fed.run(seconds=0.5).guarantee == said


def test_a_run_that_is_to_stop_at_an_accuracy_leaves_open_when():
    said = f"exact, but for {promise.stopped()}"
    for method in (RFS(), BMT(), FedCIO(2)):
        assert guarantee(method, [erase(2, round=4)], runs=[{"rounds": 3, "accuracy": 0.01}]) == said
    fed = toy_federation(FedCIO(2), DATA)
    assert fed.run(6, accuracy=0.99, requests=[erase(2, round=3)]).guarantee == said
    assert toy_federation(RFS(), DATA).run(6, accuracy=0.01).guarantee == "exact"


def test_of_an_approximate_method_it_is_approximate_as_well():
    inner = KNOT(2, by="random", retrain=METHODS["federaser"]())
    said = guarantee(inner, [erase(2, time=0.3)], **SYNC)
    assert said.startswith("approximate: ")
    assert said.endswith(f"; so is {promise.HOW_MANY}")


def test_what_follows_a_semicolon_stays_behind_it():
    said = guarantee(KNOT(2, served="joint", joint_rounds=1), [erase(2, time=0.3)], **SYNC)
    assert said.index(promise.HOW_MANY) < said.index("; joint rounds")


def test_what_a_method_says_by_itself_and_what_the_run_adds_are_one_sentence():
    said = guarantee(KNOT(2), [erase(2, time=0.3)], **SYNC)
    assert said.count("but for") == 1
    assert said.endswith(f" and {promise.HOW_MANY}")


def test_the_exception_is_real_a_leaver_without_samples_shifts_the_others():
    """Otherwise it would not have to be said."""

    def served(data):
        fed = toy_federation(MMT(), data, pace=Buffered(4, 2), aggregate=FedBuff(), clock=Clock(Pareto()))
        return fed.run(9, requests=[erase(2, round=5)]).model

    assert not interference(served, DATA, erase(2, round=5).targets).none


PAGES = {
    promise.WHEN: [
        "methods/bmt.md",
        "methods/mmt.md",
        "methods/sisa.md",
        "methods/knot.md",
        "architecture.md",
    ],
    promise.WHOM: ["selection.md", "architecture.md"],
    promise.HOW_MANY: ["architecture.md"],
    promise.stopped(): ["architecture.md"],
    ExactFun().promise.removeprefix("exact, but for "): ["methods/exact-fun.md", "architecture.md"],
    KNOT().promise.removeprefix("exact, but for "): ["methods/knot.md", "architecture.md"],
    KNOT(reassign="without").promise.removeprefix("exact, but for "): ["methods/knot.md"],
    KNOT(by="shares", shares=((1.0,),)).promise.removeprefix("exact, but for "): ["methods/knot.md"],
}


@pytest.mark.parametrize("words", PAGES)
def test_the_pages_have_the_same_words(words):
    for page in PAGES[words]:
        assert words in " ".join((DOCS / page).read_text().split()), page


def test_every_page_says_what_its_method_guarantees():
    for name, method in METHODS.items():
        page = " ".join((DOCS / "methods" / f"{name}.md").read_text().split())
        assert f"**Guarantee: {Guarantee(method.guarantee).value}" in page, name
