"""A file to begin with is read, whatever it is for, and runs as it is."""

import tomllib

import pytest

from unknot.core.errors import ConfigError
from unknot.experiments import Experiment, run
from unknot.experiments.starter import starter
from unknot.unlearn import METHODS

SMALL = ("data.clients=4", "data.samples=20", "federation.rounds=3", "federation.per_round=2")
ASKED = "request=[{erase=1, round=1}]"


@pytest.mark.parametrize("method", METHODS)
def test_the_file_for_a_method_is_read(method):
    text = starter(method)
    experiment = Experiment.of(tomllib.loads(text))
    assert experiment.method.name == method
    assert len(experiment.requests) == 1
    assert len(text.splitlines()) < 100
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize("method", ["rfs", "mmt", "distillation", "fats"])
def test_the_file_runs(method):
    rounds = ["method.rounds=3"] if method == "fats" else []
    history = run(Experiment.of(tomllib.loads(starter(method)), [*SMALL, ASKED, *rounds]))
    assert len(history.rounds) == 3
    assert not history.unserved


@pytest.mark.parametrize("method", METHODS)
def test_every_line_that_is_commented_out_can_be_taken_in(method):
    lines = starter(method).splitlines()
    off = [
        place
        for place, line in enumerate(lines)
        if line.startswith("# ") and " = " in line.partition(" # ")[0]
    ]
    assert len(off) > 20
    for place in off:
        if lines[place].startswith("# minimum"):  # it goes with the line above
            continue
        taken = {place, place + 1} if lines[place].startswith("# pace") else {place}
        text = "\n".join(line.removeprefix("# ") if i in taken else line for i, line in enumerate(lines))
        Experiment.of(tomllib.loads(text))


@pytest.mark.parametrize(
    "data", ["digits", "shakespeare", "cifar10", "folder", "langid", "sentiments", "texts"]
)
def test_the_file_for_a_data_set_is_read(data):
    experiment = Experiment.of(tomllib.loads(starter(data=data)))
    assert experiment.data.name == data
    spoken = dict.fromkeys(("langid", "sentiments", "texts"), "pretrained")
    assert experiment.model.name == {"shakespeare": "gpt", "cifar10": "lenet5", **spoken}.get(data, "mlp")


def test_a_folder_of_few_clients_runs_by_its_file_once_the_target_is_named(tmp_path):
    text = starter(data="folder")
    assert "# per_round" in text
    assert "after round 12" not in text
    for client in "abc":
        (tmp_path / f"{client}.csv").write_text("size,ill\n1,0\n2,1\n3,0\n")
    (tmp_path / "test.csv").write_text("size,ill\n1,0\n2,1\n")
    small = (f"data.path={str(tmp_path)!r}", "federation.rounds=1")
    with pytest.raises(ConfigError, match=r"data\.target is missing: .* \(size, ill\)\? Write target"):
        run(Experiment.of(tomllib.loads(text), small))
    named = (*small, "data.target='ill'")
    with pytest.raises(ConfigError, match=r"only 3 clients: lower it$"):
        run(Experiment.of(tomllib.loads(text), (*named, "federation.per_round=10")))
    assert len(run(Experiment.of(tomllib.loads(text), named)).rounds) == 1


def test_unknown_names_are_told_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'mmt'"):
        starter("mtm")
    with pytest.raises(ConfigError, match="Did you mean 'digits'"):
        starter(data="digit")
