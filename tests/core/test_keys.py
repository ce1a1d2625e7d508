import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from unknot.core.keys import Key

ids = st.lists(st.integers(0, 10**9), min_size=1, max_size=60, unique=True)


def test_a_key_is_its_path():
    root = Key.root(0)
    assert root.child("batches", 3) == root.child("batches").child(3)
    assert root.child(1) != root.child("1")
    assert root.child("ab", "c") != root.child("a", "bc")
    assert Key.root(0) != Key.root(1)


def test_the_bits_are_defined_for_good():
    """Recorded values: a change of these changes every published run."""
    assert Key.root(0).bits == 16477377145172452488
    assert Key.root(7).child("select", 3).words([0, 1, 2]).tolist() == [
        12022368005508255355,
        2583496943255536435,
        15552765607515488820,
    ]


@given(ids, st.integers(0, 5))
def test_removing_an_id_changes_no_other_draw(pool, seed):
    key = Key.root(seed).child("select")
    rest = pool[1:]
    assert key.uniform(pool)[1:].tolist() == key.uniform(rest).tolist()
    order = [pool[i] for i in key.order(pool)]
    assert [i for i in order if i != pool[0]] == [rest[i] for i in key.order(rest)]


@given(ids, st.integers(0, 20))
def test_selection_takes_the_k_smallest_draws(pool, k):
    key = Key.root(1)
    expected = sorted(sorted(pool, key=lambda i: int(key.words([i])[0]))[:k])
    assert key.smallest(pool, k).tolist() == expected


@given(st.integers(0, 10**6), st.integers(1, 300))
def test_few_of_many_are_the_k_smallest_draws(seed, k):
    """The bound that leaves most of them out changes nothing."""
    key, pool = Key.root(seed), np.arange(5, 40_005, 2)
    expected = np.sort(pool[np.argsort(key.words(pool))[:k]])
    assert key.smallest(pool, k).tolist() == expected.tolist()


def test_a_draw_is_the_same_in_whatever_shape_its_id_comes():
    key = Key.root(3)
    words = key.words(np.arange(101))
    assert all(words[place] == key.words([place])[0] == key.words(place) for place in (0, 50, 100))
    table = np.arange(100).reshape(2, -1)
    assert key.words(table).ravel().tolist() == words[:-1].tolist()
    assert (key.words(table.T) == key.words(table).T).all()


def test_draws_look_uniform_and_independent():
    """100,000 draws: mean and variance within 5 standard errors, neighbours uncorrelated."""
    n = 100_000
    u = Key.root(0).uniform(np.arange(n))
    v = Key.root(1).uniform(np.arange(n))
    assert abs(u.mean() - 0.5) < 5 * (1 / 12 / n) ** 0.5
    assert abs(u.var() - 1 / 12) < 5 * (1 / 180 / n) ** 0.5
    for other in (v, np.roll(u, 1)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 5 / n**0.5
    assert u.min() >= 0
    assert u.max() < 1


def test_signs_are_plus_and_minus_one_and_a_prefix_of_longer_draws():
    signs = Key.root(0).signs(10_000)
    assert set(signs.tolist()) == {-1, 1}
    assert abs(signs.double().mean()) < 5 / 100
    assert torch.equal(Key.root(0).signs(77), signs[:77])


def test_the_global_generator_is_left_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with Key.root(0).torch_seed():
        a = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    with Key.root(0).torch_seed():
        assert torch.equal(torch.rand(3), a)
