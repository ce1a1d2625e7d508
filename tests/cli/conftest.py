"""Files of small runs, for tests of runs that are kept."""

import pytest
from kept_commands import FILE, NAMES, write_towns


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def towns(tmp_path):
    """A run's file whose clients have names; one of them is asked for by name."""
    return write_towns(tmp_path, NAMES, 3, f"[[request]]\nerase = '{NAMES[0]}'\nround = 1\n")
