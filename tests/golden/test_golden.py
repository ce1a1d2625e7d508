"""What small federations come to is what it was: bits in the same environment, the rest anywhere."""

import json

import pytest
import torch

import golden_cases
import unknot
from scripts import golden
from unknot.core.jobs import Job
from unknot.core.lineage import Lineage

CASE = "rfs, a client"


@pytest.mark.parametrize("device", golden.FILES)
def test_every_case_comes_to_what_it_did(device):
    file = golden.FILES[device]
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    if not file.exists():
        pytest.skip(f"{file.name} was not made yet: python scripts/golden.py --device {device}")
    kept, found = json.loads(file.read_text()), golden.run(device)
    elsewhere = golden.elsewhere(kept, found)
    apart = golden.differences(kept["cases"], found["cases"], bits=not elsewhere)
    assert not apart, f"{golden.told(apart)}\nif that is meant: python scripts/golden.py --because REASON"
    assert kept["cases"].keys() == found["cases"].keys(), "there are new cases: python scripts/golden.py"
    for name, record in found["cases"].items():
        assert record.get("as_alone", True), name
        assert record.get("as_unbroken", True), name
    if elsewhere:
        pytest.skip(f"what holds anywhere does; bits were not compared: {elsewhere}")


@pytest.fixture(scope="module")
def kept():
    return {CASE: golden_cases.CPU[CASE]()}


def test_another_weight_in_an_aggregate_is_named(kept):
    found = {CASE: golden_cases.federation("rfs", pace=unknot.Synchronous(4), aggregate=unknot.FedBuff())}
    named = {line.partition(":")[0] for line in golden.differences(kept, found)[CASE]}
    assert {"digest", "digests"} <= named <= {*golden.BITS, *golden.NEARLY}


def test_a_lineage_that_is_too_small_is_named_though_no_number_differs(kept, monkeypatch):
    whole = Job.lineage.func

    def forgetful(job):
        return Lineage(unit for unit in whole(job) if unit.client != 4)

    monkeypatch.setattr(Job, "lineage", property(forgetful))
    found = {CASE: golden_cases.CPU[CASE]()}
    named = {line.partition(":")[0] for line in golden.differences(kept, found, bits=False)[CASE]}
    assert named == {"lineage", "lineages"}
    assert found[CASE]["digest"] == kept[CASE]["digest"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("asked", "0,1"), ("trips", "0"), ("served", ""), ("losses", [2.3, 2.1, 2.4]), ("cost", "1 jobs")],
)
def test_what_holds_anywhere_is_compared_anywhere(kept, field, value):
    found = {CASE: kept[CASE] | {field: value}}
    (line,) = golden.differences(kept, found, bits=False)[CASE]
    assert line.startswith(field)


def test_losses_may_differ_by_rounding(kept):
    nearly = {CASE: kept[CASE] | {"losses": [loss * 1.001 for loss in kept[CASE]["losses"]]}}
    assert golden.differences(kept, nearly) == {}


def test_nothing_is_written_without_a_reason(kept, tmp_path, monkeypatch, capsys):
    file = tmp_path / "cpu.json"
    monkeypatch.setitem(golden.FILES, "cpu", file)
    answers = {"environment": {"torch": "1"}, "cases": kept}
    monkeypatch.setattr(golden, "run", lambda device, cases: answers)
    assert golden.main([]) == 0
    answers = {"environment": {"torch": "1"}, "cases": kept | {"another": {"digest": "b"}}}
    assert golden.main([]) == 0  # new cases need no reason
    before = file.read_bytes()
    assert json.loads(before) == answers | {"changes": []}
    answers = answers | {"cases": kept | {"another": {"digest": "c"}}}
    assert golden.main([]) == 1
    assert "another\n    digest: b became c" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert golden.main(["--because", "sums are in order"]) == 0
    assert "because sums are in order: another." in capsys.readouterr().out
    after = json.loads(file.read_text())
    assert after["changes"] == [{"because": "sums are in order", "cases": ["another"]}]
    assert after["cases"] == answers["cases"]
    for odd in ({"cases": kept}, {"environment": {"torch": "2"}}):
        answers = answers | odd
        assert golden.main([]) == 1
