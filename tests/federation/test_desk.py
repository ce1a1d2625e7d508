"""What a method may touch is what it can touch: the desk's page is the whole of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from support import toy_federation
from unknot.core.errors import UnknotError
from unknot.core.lineage import NOBODY, Unit
from unknot.core.requests import erase, join
from unknot.unlearn import PGA, RFS

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


@pytest.fixture
def desk():
    fed = toy_federation(RFS())
    fed.run(2)
    return fed.desk


def test_the_page_names_everything_on_the_desk_and_nothing_else(desk):
    table = PAGE.read_text().split("## The desk", 1)[1].split("\n## ", 1)[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for cell in first for name in re.findall(r"`(\w+)", cell)}
    assert named == public(desk)


def test_what_is_on_the_desk_is_there_and_cannot_be_replaced(desk):
    for name in public(desk):
        with pytest.raises(AttributeError):
            setattr(desk, name, None)
        assert name == "keepsakes" or getattr(desk, name) is not None  # those are for approximate methods


def test_no_samples_no_engine_and_no_books_are_on_the_desk(desk):
    for name in ("data", "engine", "state", "work", "costs", "select", "clock", "memo", "absorb", "count"):
        with pytest.raises(AttributeError, match=rf"{name!r}.*train_apart"):
            getattr(desk, name)
    assert not public(desk.ledger) & {"forbid", "reading"}


class Asks(RFS):
    """Has jobs of its own making sent out, or trained apart."""

    def __init__(self, change, apart=False):
        self.change, self.apart = change, apart

    def jobs(self, desk, lane, client):
        jobs = [self.change(desk, job) for job in super().jobs(desk, lane, client)]
        if self.apart:
            desk.train_apart(jobs)
        return jobs


def forged(desk, job):
    return replace(job, unit=Unit(job.client, 50))


def drawn_in_part(desk, job):
    """It says that it reads one sample, and reads all."""
    return replace(job, unit=desk.ledger.draw(job.client, desk.ids(job.client)[:1].tolist()))


def drawn_beside(desk, job):
    ids = desk.ids(job.client)
    return replace(job, unit=desk.ledger.draw(job.client, ids[:1].tolist()), batches=(ids[:2],))


def of_a_stranger(desk, job):
    return replace(job, unit=desk.ledger.unit(5))


def with_a_stranger(desk, job):
    return replace(job, others=(desk.ledger.unit(5),))


@pytest.mark.parametrize("apart", [False, True], ids=["sent", "apart"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (forged, r"client \d \(revision 50\), which is no unit that the ledger gave out"),
        (drawn_in_part, r"reads all samples of client \d under a draw of 1 of them"),
        (drawn_beside, r"reads samples of client \d under a draw of 1 of them"),
        (of_a_stranger, r"refused to .*: client 5 does not take part"),
        (with_a_stranger, r"refused to .*: client 5 does not take part"),
    ],
)
def test_a_job_reads_what_the_ledger_gave_out_of_who_takes_part(change, said, apart):
    with pytest.raises(UnknotError, match=said):
        toy_federation(Asks(change, apart)).run(2, requests=[join(5, round=9)])


def test_a_draw_that_holds_what_is_read_is_trained():
    def drawn(desk, job):
        ids = desk.ids(job.client)[:2]
        return replace(job, unit=desk.ledger.draw(job.client, ids.tolist()), batches=(ids,))

    toy_federation(Asks(drawn)).run(2)


def test_the_record_of_what_was_let_pass_cannot_be_rewritten():
    class Sly(PGA):
        name = "sly"

        def forget(self, desk, request, touched):
            super().forget(desk, request, touched)
            with pytest.raises(AttributeError):
                desk.keepsakes.waived = NOBODY

    fed = toy_federation(Sly())
    assert fed.run(3, requests=[erase(1, round=2)]).waived == ["client 1"]


def test_members_and_lanes_are_read_only(desk):
    assert isinstance(desk.members, frozenset)
    with pytest.raises(TypeError):
        desk.lanes["other"] = desk.lanes["global"]
    desk.ids(0)[:] = 0  # a copy
    assert desk.ids(0).tolist() == list(range(desk.size(0)))
