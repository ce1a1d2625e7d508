"""``unknot show`` says of each request of the file what became of it, and of no other."""

import pytest
from kept_commands import FILE, call, shown

pytest.importorskip("cryptography")


def test_a_request_is_not_taken_for_another_whose_words_it_begins_with(tmp_path):
    file, out = tmp_path / "f.toml", tmp_path / "run"
    more = "[[request]]\nerase = 1\nround = 8\n[[request]]\nerase = 12\nround = 2\n"
    file.write_text(FILE.replace("clients = 4", "clients = 13") + more)
    call("run", file, "--out", out, "--quiet", code=3)
    found = {one["request"]: one["state"] for one in shown(out)["requests"]}
    assert found == {"erase client 1": "waiting", "erase client 12": "served"}


def test_of_two_that_say_the_same_the_earlier_was_served_first(tmp_path):
    file, out = tmp_path / "f.toml", tmp_path / "run"
    more = "[[request]]\nerase = 1\nsamples = [{}]\nround = {}\n"
    late, early = ids_of_one(file)
    file.write_text(FILE + more.format(late, 8) + more.format(early, 2))
    call("run", file, "--out", out, "--quiet", code=3)
    assert [(one["at"], one["state"]) for one in shown(out)["requests"]] == [
        ("round 8", "waiting"),
        ("round 2", "served"),
    ]


def ids_of_one(file):
    """The ids of two samples of client 1."""
    from unknot.experiments import Experiment
    from unknot.experiments.simulate import data_of

    file.write_text(FILE)
    return data_of(Experiment.read(file))[1].ids[:2].tolist()
