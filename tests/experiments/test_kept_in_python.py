"""Which folders ``simulate(..., store=)`` takes, and what is written into them by whom."""

import stat

import pytest

import unknot
from support import small_data
from unknot.core.errors import StoreError

pytest.importorskip("cryptography")

WORK = "three months of work"
NAMES = (
    "config.toml",
    "model.safetensors",
    "record.json",
    "report.html",
    "weights/mine.pt",
    "state/mine.csv",
)


def simulate(store, **more):
    return unknot.simulate("mlp", small_data((4, 4, 4)), method="rfs", store=store, **more)


def seen(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "names", [NAMES, *([name] for name in (*NAMES, "notes.txt", "run.db", "keys", "lock"))]
)
def test_a_folder_with_somebody_elses_files_is_refused_and_left_as_it_is(tmp_path, names):
    out = tmp_path / "project"
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(WORK)
    out.chmod(0o755)
    before = seen(out)
    with pytest.raises(StoreError, match=r"has other things in it .*name a folder of its own, such as"):
        simulate(out)
    assert seen(out) == before
    assert stat.S_IMODE(out.stat().st_mode) == 0o755


def test_a_new_folder_an_empty_one_and_a_runs_own_are_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        fed = simulate(tmp_path / name)
        fed.keeper.close()  # nothing is kept yet: it is begun again
        fed = simulate(tmp_path / name)
        fed.run(1)
        fed.keeper.close()
        (tmp_path / name / "notes.txt").write_text(WORK)
        assert simulate(tmp_path / name).history is not None


