"""What benchmarks leave for pages to cite."""

import json
import re

import pytest

from benchmarks import profiles, record


def test_a_record_says_where_it_comes_from_and_replaces_its_own_alone(tmp_path):
    file = tmp_path / "folder" / "a.json"
    record.write(file, "python -m a", {"x": (1, 2)})
    record.write(file, "python -m b", [1])
    record.write(file, "python -m a", {"x": 3})
    found = json.loads(file.read_text())
    assert {command: item["found"] for command, item in found.items()} == {
        "python -m a": {"x": 3},
        "python -m b": [1],
    }
    assert {"commit", "clean", "made", "machine"} < set(found["python -m a"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["python -m a"]["made"])
    assert list(file.parent.iterdir()) == [file]


def test_the_rank_correlation_is_spearmans():
    # Ranks 0, 1, 2, 3 and 0, 2, 1, 3: 1 - 6 (0 + 1 + 1 + 0) / (4 (16 - 1)) = 0.8.
    assert profiles.rank_correlation([0.1, 0.2, 0.3, 0.4], [1.0, 5.0, 2.0, 9.0]) == pytest.approx(0.8)
    assert profiles.rank_correlation([1, 2, 3], [9, 8, 7]) == pytest.approx(-1)
