"""``unknot show`` says of each request of the file what became of it, and of no other."""

import json

import pytest
from kept_commands import FILE, NAMES, call, shown, write_towns

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


def ids_of_one(file, count=2):
    """The ids of some samples of client 1."""
    from unknot.experiments import Experiment
    from unknot.experiments.simulate import data_of

    file.write_text(FILE)
    return data_of(Experiment.read(file))[1].ids[:count].tolist()


@pytest.fixture
def named(tmp_path):
    """A finished run whose clients have names: one joined late, one was erased, one is to lose a sample."""
    out, ids = tmp_path / "run", tmp_path / "ids"
    joins = f"[[request]]\njoin = '{NAMES[3]}'\nround = 1\n[[request]]\nerase = '{NAMES[0]}'\nround = 2\n"
    call("run", write_towns(tmp_path, NAMES, 3, joins), "--out", out, "--quiet")
    ids.write_text("1\n")
    told = call("forget", out, "--client", NAMES[2], "--samples", ids, "--reason", "a slip").stdout
    assert f"erase 1 sample of {NAMES[2]} (client 2)." in told
    return out


def test_who_is_still_there_goes_by_name_everywhere(named):
    told = call("resume", named)
    for text in (told.stdout, told.stderr, (named / "report.html").read_text()):
        assert f"erase 1 sample of {NAMES[2]}" in text
        assert "client 2" not in text
    text = call("show", named).stdout
    assert f"join {NAMES[3]}; by its file" in text
    assert f": samples of {NAMES[2]}; removed" in text
    assert "erase client 0; by its file" in text
    assert NAMES[0] not in text


def test_what_a_program_reads_of_a_request(named):
    call("admit", named, "--client", NAMES[3], "--reason", "again")
    call("resume", named, "--quiet", code=3)
    parts = ("kind", "clients", "state", "reason", "refused")
    found = [[one[part] for part in parts] for one in shown(named)["requests"]]
    assert found == [
        ["join", [3], "served", "", ""],
        ["erase", [0], "served", "", ""],
        ["erase", [2], "served", "a slip", ""],
        ["join", [3], "refused", "again", f"{NAMES[3]} is a member already"],
    ]


SAMPLES = "[[request]]\nerase = 1\nsamples = {}\nround = {}\n"
JOIN = "[[request]]\njoin = {}\nround = {}\n"


def of_file(out):
    """What ``unknot show`` says of each request of the file."""
    return [(one["state"], one["round"]) for one in shown(out)["requests"] if one["number"] is None]


def served_from_outside(out, *asked, code):
    for words in asked:
        call(*words[:1], out, *words[1:])
    call("resume", out, "--quiet", "--rounds", "1", code=code)


def test_what_came_from_outside_and_was_erased_since_is_none_of_the_file(tmp_path):
    file, out, ids = tmp_path / "f.toml", tmp_path / "run", tmp_path / "ids"
    first, second = ids_of_one(file)
    file.write_text(FILE + SAMPLES.format([first], 100) + JOIN.format(3, 100))
    call("run", file, "--out", out, "--quiet", code=3)
    ids.write_text(str(second))
    served_from_outside(
        out, ("forget", "--client", "1", "--samples", ids), ("admit", "--client", "3"), code=3
    )
    assert of_file(out) == [("waiting", None), ("served", 3)]
    served_from_outside(out, ("forget", "--client", "1"), ("forget", "--client", "3"), code=0)
    found = shown(out)["requests"]
    assert of_file(out) == [("served", found[4]["round"]), ("served", 3)]  # with those that did it
    assert [one["order"] for one in found] == [None, None, 0, 1, 2, 3]


def test_of_the_file_and_from_outside_each_keeps_its_own_moment_when_both_are_erased(tmp_path):
    file, out, ids = tmp_path / "f.toml", tmp_path / "run", tmp_path / "ids"
    first, second, third = ids_of_one(file, 3)
    file.write_text(FILE + SAMPLES.format([first], 5))
    call("run", file, "--out", out, "--quiet", code=3)
    for sample, rounds in ((second, 3), (third, 1)):
        ids.write_text(str(sample))
        call("forget", out, "--client", "1", "--samples", ids)
        call("resume", out, "--quiet", "--rounds", rounds)
    call("forget", out, "--client", "1")
    before = shown(out)["requests"]
    call("resume", out, "--quiet", "--rounds", "1")
    after = shown(out)["requests"]
    assert of_file(out) == [("served", 5)]
    for name in ("round", "time", "served", "order"):
        assert [one[name] for one in before[:-1]] == [one[name] for one in after[:-1]], name
    assert [one["order"] for one in after] == [1, 0, 2, 3]


@pytest.mark.parametrize(("kind", "command"), [("erase", "forget"), ("join", "admit")])
def test_what_the_file_asks_for_later_may_be_asked_for_now_and_is_over_with_it(file, tmp_path, kind, command):
    out = tmp_path / "run"
    file.write_text(f"{FILE}[[request]]\n{kind} = [1, 2]\nround = 20\n")
    call("run", file, "--out", out, "--quiet", code=3)
    for client, code in ((1, 3), (2, 0)):  # something of it is left until both are
        call(command, out, "--client", client)
        call("resume", out, "--quiet", code=code)
    own, first, last = shown(out)["requests"]
    assert [own["state"], first["state"], last["state"]] == ["served"] * 3
    assert (own["round"], own["time"]) == (last["round"], last["time"])
    assert own["order"] is None
    assert json.loads((out / "record.json").read_text())["unserved"] == []
    call("resume", out, "--quiet", "--rounds", 12)
    found = shown(out)["requests"]
    assert [one["state"] for one in found] == ["served"] * 3
    assert [one["order"] for one in found] == [2, 0, 1]


def test_a_request_of_the_file_is_not_over_while_samples_alone_are_erased(file, tmp_path):
    out, ids = tmp_path / "run", tmp_path / "ids"
    ids.write_text("0")
    file.write_text(f"{FILE}[[request]]\nerase = 1\nround = 20\n")
    call("run", file, "--out", out, "--quiet", code=3)
    call("forget", out, "--client", 1, "--samples", ids)
    call("resume", out, "--quiet", code=3)
    assert [one["state"] for one in shown(out)["requests"]] == ["waiting", "served"]


def test_of_two_requests_in_the_same_words_the_one_whose_moment_came_is_served(tmp_path):
    file, out = tmp_path / "f.toml", tmp_path / "run"
    first, second = ids_of_one(file)
    timed = SAMPLES.format([first], 0).replace("round = 0", "time = 1e6")
    file.write_text(FILE + timed + SAMPLES.format([second], 2))
    call("run", file, "--out", out, "--quiet", code=3)
    assert of_file(out) == [("waiting", None), ("served", 2)]
