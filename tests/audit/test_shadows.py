import numpy as np
import pytest
import torch

from support import ToyEngine, small_data, toy_weights
from unknot.audit import matched, train_shadows
from unknot.audit.shadows import halves
from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.training import Recipe


def test_each_point_is_in_half_of_the_shadows():
    inside = halves(8, 40, Key.root(0))
    assert inside.shape == (8, 40)
    assert (inside.sum(0) == 4).all()
    assert len({tuple(row) for row in inside.tolist()}) == 8
    assert not np.array_equal(inside, halves(8, 40, Key.root(1)))


@pytest.mark.parametrize("inside", [1, 3, 7])
def test_or_in_as_many_of_them_as_is_asked_for(inside):
    assert (halves(8, 40, Key.root(0), inside).sum(0) == inside).all()
    assert np.array_equal(halves(8, 40, Key.root(0), 4), halves(8, 40, Key.root(0)))
    assert (halves(8, 40, Key.root(0), inside)[halves(8, 40, Key.root(0), 1)]).all()


@pytest.mark.parametrize("shadows", [2, 5])
def test_shadows_come_in_pairs(shadows):
    with pytest.raises(ConfigError, match="in pairs"):
        halves(shadows, 10, Key.root(0))


def test_shadows_are_one_cohort_and_each_holds_the_rest_and_its_half():
    engine, data = ToyEngine(), small_data()
    seen = {}

    class Watching(ToyEngine):
        def train(self, jobs, data):
            seen.update({job.client: job.shard(data).rows for job in jobs})
            return engine.train(jobs, data)

    rest, members = data.train.subset(np.arange(10)), data.train.subset(np.arange(10, 14))
    shadows = train_shadows(Watching(), toy_weights(), rest, members, data.test, Recipe(), 6, Key.root(3))
    assert [len(call) for call in engine.calls] == [6]
    assert len(shadows) == 6
    assert shadows.members == 4
    assert shadows.population.tolist() == [False] * 4 + [True] * 12
    assert torch.equal(shadows.points.x[:4], members.x)
    for k, rows in seen.items():
        assert rows[:10].tolist() == list(range(10))
        assert np.array_equal(rows[10:] - 10, np.flatnonzero(shadows.inside[k]))
    assert shadows.answers.shape == (6, 16, 3)
    trained = engine.train(engine.calls[0], _as_federation(rest, shadows, seen))
    for update, answers in zip(trained, shadows.answers, strict=True):
        assert torch.equal(engine.predict(update.weights, shadows.points), answers)


def _as_federation(rest, shadows, rows):
    from unknot.audit.shadows import joined
    from unknot.core.data import FederatedData, Shard

    shards = {k: Shard.of(mine) for k, mine in rows.items()}
    return FederatedData(joined(rest, shadows.points), shards, shadows.points)


def labelled(*y):
    return Samples(torch.arange(len(y), dtype=torch.float32)[:, None], torch.tensor(y), 3)


def test_others_have_the_class_mix_of_the_members():
    members, others = labelled(0, 0, 0, 0, 1), labelled(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0)
    mine, theirs = matched(members, others, Key.root(0))
    assert members.y[mine].tolist() == others.y[theirs].tolist() == [0, 0, 0, 0, 1]
    assert len(set(theirs.tolist())) == 5


def test_where_others_of_a_class_are_few_fewer_members_are_taken():
    mine, theirs = matched(labelled(0, 0, 0, 1), labelled(2, 0, 0), Key.root(0))
    assert len(mine) == 2
    assert set(mine.tolist()) < {0, 1, 2}
    assert theirs.tolist() == [1, 2]
    with pytest.raises(ConfigError, match="members' classes"):
        matched(labelled(1), labelled(0), Key.root(0))
    nobody = labelled(0).subset(np.empty(0, dtype=np.int64))
    with pytest.raises(ConfigError, match="no members"):
        matched(nobody, labelled(0), Key.root(0))
    text = Samples(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.long), 3)
    with pytest.raises(ConfigError, match="not for text"):
        matched(text, text, Key.root(0))


def test_others_may_be_a_multiple_of_the_members_with_the_same_mix():
    """Five times as many zeros and three times as many ones: three times of both."""
    members, others = labelled(0, 0, 1), labelled(*[0] * 10, *[1] * 3, 2, 2)
    mine, theirs = matched(members, others, Key.root(0), most=15)
    assert sorted(mine.tolist()) == [0, 1, 2]
    assert others.y[theirs].bincount().tolist() == [6, 3]
    assert len(set(theirs.tolist())) == 9
    mine, theirs = matched(members, others, Key.root(0), most=8)
    assert (len(mine), others.y[theirs].bincount().tolist()) == (3, [4, 2])


def test_where_there_is_no_multiple_they_are_as_many():
    members, others = labelled(0, 0, 0, 1), labelled(*[0] * 9, 1)
    for most in (4, 7, 10, None):
        mine, theirs = matched(members, others, Key.root(0), most)
        assert members.y[mine].tolist() == others.y[theirs].tolist() == [0, 0, 0, 1]
    few = matched(labelled(0, 0, 0, 1), labelled(0, 0, 1, 1, 1), Key.root(0), 5)
    assert [len(rows) for rows in few] == [3, 3]


@pytest.mark.parametrize("most", [1, 3, 9])
def test_there_are_never_more_others_than_there_may_be(most):
    members, others = labelled(*[0] * 6, *[1] * 4), labelled(*[0, 1, 2] * 10)
    mine, theirs = matched(members, others, Key.root(0), most)
    assert members.y[mine].tolist() == others.y[theirs].tolist()
    assert len(theirs) == len(set(theirs.tolist())) == most
