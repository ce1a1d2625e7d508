"""Files of small runs, for tests of runs that are kept."""

import pytest
from kept_commands import FILE, NAMES


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def towns(tmp_path):
    """A run's file whose clients have names; one of them is asked for by name."""
    place = tmp_path / "towns"
    place.mkdir()
    for i, name in enumerate((*NAMES, "test", "validation")):
        rows = "".join(f"0.{i}{j},{j % 2}\n" for j in range(6))
        (place / f"{name}.csv").write_text("age,ill\n" + rows)
    path = tmp_path / "towns.toml"
    request = f"[[request]]\nerase = '{NAMES[0]}'\nround = 1\n"
    path.write_text(
        f"[data]\nname = 'folder'\npath = '{place}'\ntarget = 'ill'\n[federation]\nrounds = 3\n{request}"
    )
    return path
