"""From shares to clients: the rounding, whose turn it is, populations by how much data there is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.topology import populations_by_size, share_clusters

KEY = Key.root(0)


def test_populations_go_by_size_and_then_by_id():
    sizes = {0: 9, 1: 3, 2: 5, 3: 5, 4: 1, 5: 7, 6: 5}
    assert populations_by_size(sizes, 3) == [[1, 2, 4], [3, 6], [0, 5]]
    assert populations_by_size({3: 1}, 2) == [[3], []]
    with pytest.raises(ConfigError, match="at least 1"):
        populations_by_size(sizes, 0)


def test_largest_remainders_by_hand():
    # 7 clients at 0.5, 0.3, 0.2: 3.5, 2.1, 1.4, rounded down 3, 2, 1; the one left goes to the half.
    assert share_clusters([[0.5, 0.3, 0.2]], [range(7)]) == ((0, 1, 2, 3), (4, 5), (6,))
    # Equal remainders: the lesser server.
    assert share_clusters([[0.5, 0.5]], [[8, 4, 6]]) == ((4, 6), (8,))
    assert share_clusters([[0.1, 0.4, 0.5], [0, 0.4, 0.6]], [range(10), range(10, 20)])[0] == (0,)


@given(st.data())
def test_every_client_has_one_server_and_the_counts_are_those_of_the_shares(data):
    servers = data.draw(st.integers(1, 5))
    sizes = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    weights = st.lists(st.floats(0, 1), min_size=servers, max_size=servers).filter(
        lambda row: sum(row) > 1e-6
    )
    x = np.array([data.draw(weights) for _ in sizes])
    x = x / x.sum(-1, keepdims=True)
    ends = np.cumsum(sizes)
    populations = [range(end - size, end) for end, size in zip(ends.tolist(), sizes, strict=True)]
    plain, keyed = share_clusters(x, populations), share_clusters(x, populations, KEY)
    for found in (plain, keyed):
        assert sorted(client for clients in found for client in clients) == list(range(sum(sizes)))
    for row, size, clients in zip(x, sizes, populations, strict=True):
        counts = [len(set(clients) & set(server)) for server in plain]
        assert counts == [len(set(clients) & set(server)) for server in keyed]
        assert sum(counts) == size
        assert all(abs(count - share * size) < 1 + 1e-9 for count, share in zip(counts, row, strict=True))


def test_who_goes_is_drawn_for_ids_with_a_key():
    found = share_clusters([[0.5, 0.5]], [range(20)], KEY)
    assert found != share_clusters([[0.5, 0.5]], [range(20)])
    # Without the client 3, the queue of the others is what it was.
    fewer = share_clusters([[0.5, 0.5]], [[client for client in range(20) if client != 3]], KEY)
    assert len(set(found[0]) - set(fewer[0]) - {3}) <= 1


@pytest.mark.parametrize(
    ("x", "populations", "message"),
    [
        ([[1, 0]], [[1], [2]], "2 populations"),
        ([[0, 0]], [[1]], "not all 0"),
        ([[-1, 2]], [[1]], "0 or more"),
        ([[1], [1]], [[1, 2], [2]], r"clients \[2\] are in the populations more than once"),
    ],
)
def test_shares_that_say_nothing_are_refused(x, populations, message):
    with pytest.raises(ConfigError, match=message):
        share_clusters(x, populations)
