"""Runs of a reproduction side by side: the same records as one after the other."""

import tomllib

import pytest

from unknot.core.errors import ConfigError
from unknot.experiments.simulate import going
from unknot.reproduce import made, reproduce
from unknot.reproduce.made import side_by_side
from unknot.reproduce.record_file import kept
from unknot.reproduce.reproduction import Reproduction

LINES = """
title = "Lines"
figure = "Figure 0"
claim = "They are run."
seeds = [0, 1]

[base]
request = [{ erase = 1, round = 2 }]
data = { partition = "dirichlet", alpha = 1.0, clients = 6, samples = 20, validation = 50 }
train = { lr = 0.1, batch_size = 10 }
federation = { rounds = 4, per_round = 3, evaluate_on = ["test", "validation"] }
engine = { threads = 1 }

[scale.small]

[[panel]]
name = "digits"
title = "digits"

[[line]]
name = "rfs"
label = "RFS"
method = { name = "rfs" }

[[line]]
name = "federaser"
label = "FedEraser"
method = { name = "federaser" }

[[line]]
name = "bmt"
label = "BMT"
method = { name = "bmt" }
federation = { per_round = 6 }

[[line]]
name = "dqn"
label = "DQN"
method = { name = "federaser" }
select = { name = "dqn" }

[[line]]
name = "knot"
label = "KNOT"
method = { name = "knot", clusters = 2 }
"""


def lines(more: str = "") -> Reproduction:
    return Reproduction.of(tomllib.loads(LINES + more), "lines")


def found(folder, **options):
    """What the records say but for when, where and how fast."""
    records = kept(reproduce(lines(), out=folder, **options))
    for record in records.values():
        for name in ("made", "machine"):
            record.pop(name)
        record["history"].pop("seconds")
    return records


def test_runs_side_by_side_leave_the_records_that_they_leave_alone(tmp_path):
    assert found(tmp_path / "all", together=4) == found(tmp_path / "each")


def test_attacks_on_runs_side_by_side_come_to_the_same(tmp_path):
    text = LINES.replace("[base]\n", "[base]\naudit = { shadows = 4, samples = 40, controls = 0 }\n")
    plan = Reproduction.of(tomllib.loads(text), "lines")
    both = [
        {
            key: {name: value for name, value in record["extra"].items() if name != "audit_seconds"}
            for key, record in kept(
                reproduce(plan, out=tmp_path / str(n), together=n, seeds=[0], only=["rfs", "federaser"])
            ).items()
        }
        for n in (1, 2)
    ]
    assert both[0] == both[1]
    assert "f1_after" in both[0]["digits/rfs/0"]


def test_a_record_says_that_its_seconds_are_those_of_several_runs(tmp_path):
    records = kept(reproduce(lines(), out=tmp_path, together=2, seeds=[0], only=["rfs", "federaser"]))
    assert [record["machine"]["together"] for record in records.values()] == [2, 2]


def test_what_has_ended_is_on_record_when_another_run_beside_it_fails(tmp_path, monkeypatch):
    def failing(fed, experiment):
        history = yield from going(fed, experiment)
        if experiment.method.name == "federaser":
            raise RuntimeError("the power is gone")
        return history

    monkeypatch.setattr(made, "going", failing)
    with pytest.raises(RuntimeError, match="power"):
        reproduce(lines(), out=tmp_path, together=2, seeds=[0], only=["rfs", "federaser"])
    assert list(kept(tmp_path / "lines-small.json.gz")) == ["digits/rfs/0"]


def test_groups_have_one_seed_and_one_model():
    runs = lines().runs("small")
    groups = [[run.key for run in group] for group in side_by_side(runs, 3)]
    assert [len(group) for group in groups] == [3, 2, 3, 2]
    assert all(len({key.split("/")[2] for key in group}) == 1 for group in groups)
    wide = 'method = { name = "rfs" }\nmodel = { name = "mlp", hidden = [8] }\n'
    other = lines(f'\n[[line]]\nname = "wide"\nlabel = "wide"\n{wide}')
    apart = [[run.line.name for run in group] for group in side_by_side(other.runs("small", [0]), 9)]
    assert apart[-1] == ["wide"]


def test_no_runs_side_by_side_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="side by side"):
        reproduce(lines(), out=tmp_path, together=0)
