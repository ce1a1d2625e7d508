"""What a run says of its erasures: all that was removed, however often it took, and all that stays."""

import os
import shutil
import signal

import pytest
from kept_runs import build, dies, go

from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.store import Database, erasing, files
from unknot.store.entries import plain
from unknot.store.keeper import RunKeeper
from unknot.store.look import look

pytest.importorskip("cryptography")
LEFT = {"config.toml": 300, "report.html": 5000, "model.safetensors": 70}


@pytest.fixture
def over(tmp_path):
    """A run that is over, and left results in its folder."""
    folder = tmp_path / "run"
    go(build("federaser"), folder, requests=())
    for name, size in LEFT.items():
        (folder / name).write_bytes(b"x" * size)
    return folder


def forget(folder, *requests, name="federaser", selector=None):
    """Have the run in a folder serve these, one after the other."""
    fed = build(name, selector=selector)
    keeper = RunKeeper.go_on(fed, folder)
    for request in requests:
        fed.inbox.put(request)
    fed.run(1)
    keeper.close()


def reports(folder):
    return [{name: told for name, told in one.items() if name != "at"} for one in look(folder).erased]


@pytest.mark.parametrize("where", ["remove:renamed", "keyring:zeroed", "vault:rewritten", "its end"])
def test_what_went_before_a_crash_counts_as_removed_too(over, tmp_path, where):
    def killed(name):
        if name == where:
            os.kill(os.getpid(), signal.SIGKILL)

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def until_it_dies():
        scrub = erasing.scrub

        def begin(*told):
            if where == "its end":
                erasing._seal_names_anew = die
            else:
                files.hook = killed
            return scrub(*told)

        erasing.scrub = begin
        forget(over, erase(1))

    shutil.copytree(over, whole := tmp_path / "whole")
    forget(whole, erase(1))
    assert dies(0, until_it_dies)
    fed = build("federaser")
    RunKeeper.go_on(fed, over).close()
    assert reports(over) == reports(whole)


def test_the_size_of_what_was_removed_is_that_of_all_files_that_went(over, monkeypatch):
    sizes, scrub = [], erasing.scrub

    def size():
        below = (over / "state", over / "weights")
        files = [path for place in below for path in place.iterdir()]
        return sum(p.stat().st_size for p in (*files, *(over / n for n in LEFT)) if p.exists())

    def measured(*told):
        sizes.append(size())
        found = scrub(*told)
        sizes.append(size())
        return found

    monkeypatch.setattr(erasing, "scrub", measured)
    forget(over, erase(1))
    (told,) = reports(over)
    assert told["results"] == list(LEFT)
    assert told["bytes"] == sizes[0] - sizes[1] > sum(LEFT.values())


@pytest.mark.parametrize("at_once", [True, False])
def test_of_several_erasures_each_says_what_is_knowingly_kept_of_whom_it_erased(over, at_once):
    requests = [erase(1), erase(2), erase({3: [1]})]
    for some in [requests] if at_once else [[one] for one in requests]:
        forget(over, *some)
    told = [one["stays"] for one in reports(over)]
    for who, lines in zip(("client 1", "client 2", "Hospital 3 of Graz"), told, strict=True):
        assert any(
            line.endswith(f"federaser is approximate, and keeps what {who} had a part in") for line in lines
        )


def test_what_an_exact_guarantee_does_not_cover_is_said(tmp_path):
    folder = tmp_path / "run"
    go(build("mmt", selector="k-center"), folder, requests=(erase(1, round=1),))
    (told,) = reports(folder)
    fed = build("mmt", selector="k-center")
    RunKeeper.go_on(fed, folder).close()
    promised = fed.history.guarantee
    assert "whom the selector asked, which it knew the erased client for" in promised
    assert f"what the guarantee does not cover: {promised}" in told["stays"]


def test_the_requests_are_read_once_an_erasure(over, monkeypatch):
    """There may be many, and each is read to the end."""
    reads, scrub, asked = [], erasing.scrub, Database.asked

    def counted(*told):
        monkeypatch.setattr(Database, "asked", lambda db: reads.append(1) or asked(db))
        try:
            return scrub(*told)
        finally:
            monkeypatch.setattr(Database, "asked", asked)

    monkeypatch.setattr(erasing, "scrub", counted)
    forget(over, erase({3: [1]}), erase({2: [1]}), erase(1))
    assert len(reads) == len(reports(over)) == 3


def test_a_guarantee_that_covers_all_says_no_more(tmp_path):
    folder = tmp_path / "run"
    go(build("rfs", pace="synchronous"), folder, requests=(erase(1, round=1),))
    (told,) = reports(folder)
    assert told["guarantee"] == "exact"
    assert not any("guarantee" in line for line in told["stays"])


@pytest.mark.parametrize("whole", [{"a": {}}, 5, ({},), ("1",), None])
def test_an_entry_that_somebody_made_up_is_refused_in_words(whole):
    made = erasing.Scrubbing(whole, (), ())
    with pytest.raises(StoreError, match="it was changed"):
        erasing.scrubbing_of(plain(made))
