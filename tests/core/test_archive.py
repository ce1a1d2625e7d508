from dataclasses import replace

import numpy as np
import pytest
import torch

from support import small_data, toy_weights
from unknot.core.archive import Archive, Keepsakes, Memo
from unknot.core.errors import ForbiddenLineageError, StoreFullError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Ledger, Lineage, Unit
from unknot.core.training import Recipe
from unknot.core.weights import Layout, Weights

LAYOUT = Layout(("w",), ((3,),))
DATA = small_data()


def carrying(*clients: int, value: float = 1.0) -> Weights:
    return Weights(torch.full((3,), value), LAYOUT, Lineage(Unit(c) for c in clients))


def test_the_archive_refuses_purges_and_counts():
    ledger = Ledger()
    archive = Archive(ledger)
    archive["a"], archive["b"] = carrying(1), carrying(2, value=2.0)
    assert archive["b"].equal(carrying(2, value=2.0))
    assert archive.nbytes == 24
    ledger.forbid(1)
    with pytest.raises(ForbiddenLineageError, match="read 'a'"):
        archive["a"]
    with pytest.raises(ForbiddenLineageError, match="store 'c'"):
        archive["c"] = carrying(1)
    assert archive.purge() == ["a"]
    assert list(archive) == ["b"]
    assert "a" not in archive
    assert archive.nbytes == 12


def test_what_is_beside_weights_is_a_copy_and_goes_with_them():
    ledger = Ledger()
    archive = Archive(ledger)
    state = [1]
    archive.put("a", carrying(1), beside=state)
    archive.put("b", carrying(2), beside=state)
    state.append(2)
    archive.beside("a").append(3)
    assert archive.beside("a") == [1]
    archive["b"] = carrying(2)
    assert archive.beside("b") is None
    ledger.forbid(1)
    with pytest.raises(ForbiddenLineageError):
        archive.beside("a")
    archive.purge()
    archive["a"] = carrying(3)
    assert archive.beside("a") is None


def test_what_is_dropped_is_of_one_kind_alone():
    archive = Archive(Ledger())
    for name in (("profile", 1), ("profile", 2), ("joint", 1), "profile", 3):
        archive[name] = carrying(1)
    archive.drop("profile")
    assert list(archive) == [("joint", 1), "profile", 3]
    assert archive.nbytes == 36


def job(ledger: Ledger, client: int, start: Weights, samples=(0, 1), name: str = "job") -> Job:
    unit = ledger.draw(client, samples)
    return Job(unit, start, Key.root(0).child(name), Recipe(), batches=(np.asarray(samples),))


def test_a_memo_gives_the_answer_to_the_same_question_and_to_no_other():
    ledger, start = Ledger(), toy_weights()
    memo = Memo(ledger)
    asked = job(ledger, 0, start)
    memo.put(asked.done(start.vector + 1, 5, 0.5))
    known = memo.get(job(ledger, 0, start), DATA)
    assert torch.equal(known.weights.vector, start.vector + 1)
    assert (known.samples, known.loss) == (len(DATA[0]), 0.5)
    assert known.lineage == asked.lineage
    for other in (
        job(ledger, 1, start),
        job(ledger, 0, start * 1.0000001),
        job(ledger, 0, start, samples=(0, 2)),
        job(ledger, 0, start, name="another key"),
        replace(job(ledger, 0, start), recipe=Recipe(epochs=2)),
        replace(job(ledger, 0, start), node="another node"),
    ):
        assert memo.get(other, DATA) is None


def test_an_answer_outlives_the_erasure_of_whoever_shaped_the_question_only_if_it_is_asked_again_cleanly():
    """The same bits without the erased client: the answer is the same. Nobody asks: it is dropped."""
    ledger, bits = Ledger(), toy_weights()
    shaped = Weights(bits.vector, bits.layout, Lineage([Unit(3)]))
    memo = Memo(ledger)
    for client in (0, 1):
        asked = job(ledger, client, shaped)
        memo.put(asked.done(bits.vector + client, 5, 0.0))
    ledger.forbid(3)
    clean = memo.get(job(ledger, 0, bits), DATA)
    assert Unit(3) not in clean.lineage
    assert memo.purge() == 1
    assert memo.get(job(ledger, 0, bits), DATA) is not None
    assert memo.get(job(ledger, 1, bits), DATA) is None


def test_who_only_looks_at_an_answer_does_not_keep_it_from_being_dropped():
    ledger, bits = Ledger(), toy_weights()
    memo = Memo(ledger)
    memo.put(job(ledger, 0, Weights(bits.vector, bits.layout, Lineage([Unit(3)]))).done(bits.vector, 5, 0.0))
    ledger.forbid(3)
    with memo.unrecorded():
        assert memo.get(job(ledger, 0, bits), DATA) is not None
    assert memo.purge() == 1


def test_whoever_reads_what_is_kept_is_known_to_have_read_it():
    """In an archive, a memo, and among keepsakes, there without what is forbidden."""
    ledger, bits = Ledger(), toy_weights()
    archive, memo, keepsakes = Archive(ledger), Memo(ledger), Keepsakes(ledger)
    archive["a"] = carrying(1)
    asked = job(ledger, 2, Weights(bits.vector, bits.layout, Lineage([Unit(4)])))
    memo.put(asked.done(bits.vector, 5, 0.0))
    keepsakes.put("k", Unit(5), carrying(5, 6))
    ledger.forbid(6)
    for read, clients in (
        (lambda: archive["a"], {1}),
        (lambda: memo.get(asked, DATA), {2, 4}),
        (lambda: keepsakes.get("k"), {5}),
    ):
        with ledger.reading() as noted:
            assert noted() == NOBODY
            read()
        assert noted().clients == clients


def test_a_keepsake_goes_with_its_own_client_and_stays_on_record_for_the_others():
    ledger = Ledger()
    kept = Keepsakes(ledger)
    kept.put("of 1", Unit(1), carrying(1, 2))
    kept.put("of 2", Unit(2), carrying(1, 2))
    ledger.forbid(2)
    assert kept.purge() == 1
    assert kept.get("of 2") is None
    assert kept.waived == NOBODY
    assert kept.get("of 1").lineage.clients == {1}
    assert kept.waived == Lineage([Unit(2)])
    assert kept.nbytes == 12


def test_what_belongs_to_nobody_stays_through_erasures_until_it_is_taken():
    ledger = Ledger()
    kept = Keepsakes(ledger)
    kept.put("whole", None, carrying(1, 2, 3))
    ledger.forbid(2)
    assert kept.purge() == 0
    assert kept.get("whole").lineage.clients == {1, 3}
    ledger.forbid(1)
    with ledger.reading() as noted:
        taken = kept.take("whole")
    assert noted().clients == taken.lineage.clients == {3}
    assert kept.waived == Lineage([Unit(1), Unit(2)])
    assert kept.take("whole") is kept.get("whole") is None
    assert kept.nbytes == 0


def test_an_attempt_that_fails_leaves_keepsakes_as_they_were():
    kept = Keepsakes(Ledger())
    kept.put("old", None, carrying(1))

    def fail():
        with kept.attempt():
            kept.take("old")
            kept.put("new", Unit(1), carrying(1))
            kept.put("more", None, carrying(2))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert kept.get("new") is None
    assert kept.take("old").equal(carrying(1))
    assert kept.nbytes == 0


def test_a_keepsake_in_place_of_another_takes_its_room_and_no_more():
    kept = Keepsakes(Ledger())
    kept.limit = 24
    for value in range(5):
        kept.put("last", Unit(1), carrying(1, value=float(value)))
        kept.put("other", Unit(1), carrying(1))
    assert kept.nbytes == 24
    assert kept.get("last").equal(carrying(1, value=4.0))
    with pytest.raises(StoreFullError) as full:
        kept.put("third", Unit(1), carrying(1))
    assert (full.value.setting, full.value.needed, full.value.limit) == ("memory", 36, 24)
    assert (len(kept), kept.nbytes) == (2, 24)


def test_names_stay_in_the_order_in_which_they_came():
    archive = Archive(Ledger(), limit=24)
    for name in "aba":
        archive[name] = carrying(1)
    assert [name for name, _ in archive.entries()] == list(archive) == ["a", "b"]


def test_a_row_of_a_stack_does_not_keep_the_others():
    ledger = Ledger()
    archive, memo, kept = Archive(ledger), Memo(ledger), Keepsakes(ledger)
    row, start = torch.zeros(4, 3)[1], toy_weights()
    archive["row"] = Weights(row, LAYOUT, NOBODY)
    kept.put("row", None, Weights(row, LAYOUT, NOBODY))
    memo.put(job(ledger, 0, start).done(torch.zeros(4, start.vector.numel())[1], 5, 0.5))
    for store in (archive, kept, memo):
        (one,) = [entry for _, entry in store.entries()]
        assert one.vector.untyped_storage().nbytes() == store.nbytes


def test_a_memo_refuses_a_question_that_erased_data_shaped():
    ledger, bits = Ledger(), toy_weights()
    memo = Memo(ledger)
    memo.put(job(ledger, 0, bits).done(bits.vector, 5, 0.0))
    ledger.forbid(3)
    with pytest.raises(ForbiddenLineageError, match="look up"):
        memo.get(job(ledger, 0, Weights(bits.vector, bits.layout, Lineage([Unit(3)]))), DATA)


def test_answers_of_an_erased_client_or_of_erased_samples_are_gone():
    ledger, start = Ledger(), toy_weights()
    memo = Memo(ledger)
    for client, samples in ((0, (0, 1)), (1, (0, 1)), (1, (2, 3))):
        memo.put(job(ledger, client, start, samples).done(start.vector, 5, 0.0))
    ledger.forbid(0)
    ledger.forbid(1, [3])
    assert memo.get(job(ledger, 0, start), DATA) is None
    assert memo.get(job(ledger, 1, start, (2, 3)), DATA) is None
    assert memo.get(job(ledger, 1, start, (0, 1)), DATA) is not None
    assert memo.purge() == 2
    assert len(memo) == 1


def test_only_jobs_that_name_their_batches_can_be_remembered():
    start = toy_weights()
    memo = Memo(Ledger())
    plain = Job(Unit(0), start, Key.root(0), Recipe())
    with pytest.raises(ValueError, match="names its batches"):
        memo.put(plain.done(start.vector, 5, 0.0))


def test_a_draw_is_forbidden_only_if_it_holds_an_erased_sample():
    ledger = Ledger()
    whole, first, second = ledger.unit(4), ledger.draw(4, [0, 1]), ledger.draw(4, [2])
    assert len({whole, first, second}) == 3
    ledger.forbid(4, [1])
    assert whole in ledger.forbidden
    assert first in ledger.forbidden
    assert second not in ledger.forbidden
    assert ledger.unit(4) not in Lineage([whole, first, second])
    ledger.forbid(4)
    assert second in ledger.forbidden
    assert ledger.unit(4) not in ledger.forbidden
    assert Lineage([Unit(5)]) & ledger.forbidden == NOBODY
