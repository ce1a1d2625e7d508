"""Clients in groups by their updates: the k-center problem, greedily."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unknot.core.keys import Key


def centres(vectors: Mapping[int, NDArray[np.float32]], groups: int, key: Key) -> dict[int, int]:
    """The group of each client: that of the nearest of `groups` centres, no two of which are near.

    Gonzalez 1985: begin with a drawn client, then take whoever is farthest from all centres so far. No
    client is farther from its centre than twice the best possible. Ties go to the lower id.
    """
    clients = np.asarray(sorted(vectors), dtype=np.int64)
    points = np.stack([vectors[int(client)].astype(np.float64) for client in clients])
    first = int(np.argmin(key.words(clients)))
    distance = np.linalg.norm(points - points[first], axis=1)
    group = np.zeros(len(clients), dtype=np.int64)
    for number in range(1, groups):
        farthest = int(np.argmax(distance))
        new = np.linalg.norm(points - points[farthest], axis=1)
        group[new < distance] = number
        distance = np.minimum(distance, new)
    return {int(client): int(mine) for client, mine in zip(clients, group, strict=True)}
