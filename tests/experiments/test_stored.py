"""`unknot.Store`: where the keys of a run made in Python lie, and how often it is kept."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from typer.testing import CliRunner

import unknot
from support import small_data
from unknot.cli import app
from unknot.core.errors import ConfigError, StoreError
from unknot.store.look import look

pytest.importorskip("cryptography")

NAMES = {0: "Graz", 1: "Linz", 2: "Wien"}
SCRIPT = """
    import os
    import sys
    sys.path.insert(0, {tests!r})
    import unknot
    from support import small_data

    def die(event):
        if isinstance(event, unknot.Round) and event.round == 4:
            os._exit(9)

    data = small_data((4, 4, 4)).replaced(names={names!r})
    store = unknot.Store({folder!r}, keys={keys!r}, checkpoint=0)
    fed = unknot.simulate("mlp", data, store=store, observers=[die])
    fed.run(6, requests=[unknot.erase("Linz", round=2)])
"""


def simulate(store=None, **more):
    return unknot.simulate("mlp", small_data((4, 4, 4)).replaced(names=NAMES), store=store, **more)


def test_a_run_that_is_killed_is_gone_on_with_by_the_same_store(tmp_path):
    folder, keys = tmp_path / "run", tmp_path / "apart" / "run.keys"
    whole = simulate().run(6, requests=[unknot.erase("Linz", round=2)])
    tests = os.path.dirname(os.path.dirname(__file__))
    script = SCRIPT.format(tests=tests, names=NAMES, folder=str(folder), keys=str(keys))
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(script)]).returncode == 9
    assert keys.exists()
    assert not (folder / "keys").exists()
    with pytest.raises(StoreError, match=r"in Python: store=unknot\.Store\(DIR, keys=FILE\)"):
        simulate(folder)
    found = look(folder, keys)
    assert (found.state, found.rounds) == ("stopped", 3)
    assert f"store=unknot.Store({str(folder)!r}, keys={str(keys)!r})" in found.again
    fed = simulate(unknot.Store(folder, keys))
    history = fed.resume()
    assert history.model.equal(whole.model)
    fed.inbox.put(unknot.erase("Wien"))
    assert fed.resume().model.lineage.describe() == ["Graz"]
    fed.close()


def test_a_plain_folder_and_a_store_of_it_are_the_same(tmp_path):
    fed = simulate(tmp_path / "run")
    first = fed.run(2)
    fed.close()
    assert simulate(unknot.Store(tmp_path / "run")).resume().model.equal(first.model)


@pytest.mark.parametrize(("checkpoint", "kept"), [(0, 3), (1000.0, 0)])
def test_it_is_kept_as_often_as_it_says(tmp_path, checkpoint, kept):
    rounds = []

    def watch(event):
        answer = CliRunner().invoke(app, ["show", str(tmp_path / "run"), "--json"])
        rounds.append(json.loads(answer.stdout)["rounds"])

    fed = simulate(unknot.Store(tmp_path / "run", checkpoint=checkpoint), observers=[watch])
    fed.run(4)
    fed.close()
    assert rounds[-1] == kept


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"folder": 3}, "store is the folder in which the run is kept, such as 'runs/NAME', not 3"),
        ({"folder": ""}, "store is the folder in which the run is kept, such as 'runs/NAME', not ''"),
        ({"keys": True}, "keys is the file of the run's keys, such as 'keys/NAME', not True"),
        ({"keys": ""}, "keys is the file of the run's keys, such as 'keys/NAME', not ''"),
        ({"keys": b"k"}, "keys is the file of the run's keys, such as 'keys/NAME', not b'k'"),
        ({"checkpoint": -1}, "checkpoint is a number of seconds, 0 or more, not -1"),
        ({"checkpoint": "5"}, "checkpoint is a number of seconds, 0 or more, not '5'"),
        ({"checkpoint": float("nan")}, "checkpoint is a number of seconds, 0 or more, not nan"),
        ({"checkpoint": float("inf")}, "checkpoint is a number of seconds, 0 or more, not inf"),
        ({"checkpoint": True}, "checkpoint is a number of seconds, 0 or more, not True"),
    ],
)
def test_wrong_values_are_refused_in_words(given, why):
    with pytest.raises(ConfigError) as error:
        unknot.Store(**{"folder": "run", **given})
    assert str(error.value) == why


def test_keys_in_the_runs_own_folder_are_refused(tmp_path):
    with pytest.raises(StoreError, match="would lie in the run's own folder"):
        simulate(unknot.Store(tmp_path / "run", keys=tmp_path / "run" / "mine"))
