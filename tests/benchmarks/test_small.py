"""Every benchmark runs, with ``--small``: nothing else runs them between two measurements."""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS = {"kept": "cryptography", "ray": "ray"}
"""What one takes beside torch; None: it cannot be made small."""
NAMES = sorted(
    "audits" if file.name == "__main__.py" else file.stem
    for file in (*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "benchmarks").glob("*/__main__.py"))
    if 'if __name__ == "__main__":' in file.read_text(encoding="utf-8")
    and NEEDS.get(file.stem, "torch") is not None
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_small(name, tmp_path):
    if find_spec(needed := NEEDS.get(name) or "torch") is None:
        pytest.skip(f"needs {needed}")
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "TMPDIR": str(tmp_path)}
    paths["RAY_TMPDIR"] = tempfile.gettempdir()  # its sockets have short names only
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--small"],
        cwd=tmp_path,
        env={**os.environ, **paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "there is no GPU here" in done.stderr:
        pytest.skip("needs a GPU")
    assert done.returncode == 0, done.stderr
    assert done.stdout or list(tmp_path.iterdir())
