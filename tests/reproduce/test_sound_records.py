"""Records that runs leave are not called at fault, however odd the run."""

import pytest

from unknot.core.errors import ConfigError
from unknot.reproduce import checking, reproduce
from unknot.reproduce.checking import Asked
from unknot.reproduce.reproduction import Reproduction

DATA = {"partition": "iid", "clients": 4, "samples": 10, "validation": 20, "test_samples": 5}
KNOT = {"name": "knot", "clusters": 2}


def plan(method, federation, request=(), data=DATA, **more):
    base = {
        "data": data,
        "model": {"hidden": [8]},
        "train": {"lr": 0.1, "batch_size": 10},
        "engine": {"threads": 1},
        "clock": {"seconds_per_sample": 0.01, "slowness": "pareto"},
        "federation": {"evaluate_on": ["test"], **federation},
        "request": list(request),
    }
    line = {"name": "l", "label": "l", "method": method}
    panel = {"name": "p", "title": "p"}
    table = {"title": "x", "figure": "x", "claim": "x", "base": base, "scale": {"small": {}}, **more}
    return Reproduction.of({**table, "panel": [panel], "line": [line]}, "odd")


def faults(made, folder):
    reproduce(made, out=folder, seeds=[0])
    checked = checking.check(Asked(made, "small", folder, "unknot reproduce odd --scale small"))
    assert (checked.stale, checked.missing) == ((), ())
    return [fault.why for fault in checked.faults]


@pytest.mark.parametrize(
    ("method", "federation", "request_"),
    [
        pytest.param({**KNOT, "served": "joint", "joint_rounds": 1}, {"seconds": 0.5}, [], id="joined late"),
        pytest.param(
            KNOT | {"clusters": 1}, {"seconds": 5.0}, [{"erase": 1, "time": 0.01}], id="in a profile"
        ),
        pytest.param(KNOT, {"seconds": 0.05}, [{"erase": 1, "time": 0.01}], id="ends in a profile"),
        pytest.param(
            KNOT, {"seconds": 5.0, "evaluate_every": 0}, [{"erase": 1, "time": 0.01}], id="not measured"
        ),
        pytest.param(
            {"name": "rfs"},
            {"rounds": 4},
            [{"erase": [0, 1, 2], "round": 1}, {"join": 3, "round": 2}],
            id="a join when everybody has gone",
        ),
        pytest.param({"name": "sisa"}, {"rounds": 3}, [{"erase": 1, "time": 0.4}], id="goes on"),
    ],
)
def test_a_run_that_is_odd_leaves_a_sound_record(method, federation, request_, tmp_path):
    assert faults(plan(method, federation, request_), tmp_path) == []


def test_everybody_may_leave_where_the_data_alone_knows_who_is_there(tmp_path):
    folder = tmp_path / "people"
    folder.mkdir()
    rows = "\n".join(f"{i / 10},{i % 3 / 3},{i % 2}" for i in range(12))
    for name in ("ann", "bob"):
        (folder / f"{name}.csv").write_text(f"a,b,y\n{rows}\n")
    data = {"name": "folder", "path": str(folder), "kind": "values", "target": "y"}
    request = [{"erase": ["ann", "bob"], "round": 2}]
    assert faults(plan({"name": "rfs"}, {"rounds": 4}, request, data), tmp_path / "out") == []


def test_who_leaves_is_drawn_only_where_somebody_does(tmp_path):
    drawn = plan({"name": "rfs"}, {"rounds": 4}, draws={"probabilities": [0.5, 0.5], "count": 2})
    with pytest.raises(ConfigError, match=r"odd/p/l: \[draws\] says who leaves, and no request erases"):
        reproduce(drawn, out=tmp_path, seeds=[0])
