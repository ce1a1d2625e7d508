"""KNOT's figures as the paper has them: what is claimed, what is measured, on which models."""

import re

import pytest

from unknot.reproduce import load, names
from unknot.reproduce.made import copies_held

KNOT = [name for name in names() if name.startswith("knot-")]
PUBLISHED = {"33", "27", "52", "45", "61", "64", "73", "85", "2", "10", "19", "200", "90"}
"""The percentages that the paper's text and its Table II have."""


@pytest.mark.parametrize("name", KNOT)
def test_no_percentage_of_ours_is_put_into_the_papers_mouth(name):
    plan = load(name)
    told = [plan.claim, *(claim.says for claim in plan.claims)]
    told += [str(value) for panel in plan.panels for value in panel.published.values()]
    for text in told:
        assert set(re.findall(r"(\d+)(?: to \d+)? %", text)) <= PUBLISHED, text
        assert "our bound" not in text
    assert not any(claim.less for claim in plan.claims)


@pytest.mark.parametrize("name", KNOT)
def test_the_stopping_rule_has_validation_data_to_go_by(name):
    for run in load(name).runs("paper", [0]):
        assert "validation" in run.experiment.setup.evaluate_on, run.key
        assert run.experiment.data.validation, run.key


@pytest.mark.parametrize("name", KNOT)
def test_claims_about_two_lines_are_made_where_both_are_run(name):
    """What is not run would be in nobody's way, and the claim hold."""
    plan = load(name)
    for claim in plan.claims:
        for panel in plan.panels:
            if claim.order and (not claim.panels or panel.name in claim.panels):
                groups = [group for group in claim.order if set(group) - set(panel.without)]
                assert len(groups) > 1, (claim.says, panel.name)


@pytest.mark.parametrize("panel", ["location30", "purchase100"])
def test_purchases_and_places_are_learned_by_the_mlp_of_the_papers_framework(panel):
    for run in (run for run in load("knot-fig5").runs("paper", [0]) if run.panel.name == panel):
        model = run.experiment.model
        assert model.name == "mlp"
        assert tuple(model.options["hidden"]) == (1024, 512, 256, 128)
        assert model.options["activation"] == "tanh"


def test_cifar10_has_every_competitor_one_and_two_clients():
    lines = {
        name: {run.line.name for run in load(name).runs("paper", [0]) if run.panel.name == "cifar10"}
        for name in ("knot-fig5", "knot-table2", "knot-fig6c")
    }
    assert {"fedavg", "fedbuff", "rapid", "random", "knot"} <= lines["knot-fig5"]
    assert "federaser" in lines["knot-table2"]
    assert {"federaser", "rapid", "random", "knot"} <= lines["knot-fig6c"]
    asked = [
        r.experiment.requests for r in load("knot-fig6c").runs("paper", [0]) if r.panel.name == "cifar10"
    ]
    assert {len(request.targets) for (request,) in asked} == {2}


def test_the_numbers_of_clusters_share_the_runs_of_figure_4():
    figure, own = (
        {run.key: {**run.table, "name": ""} for run in load(name).runs("paper", [0])}
        for name in ("knot-fig4", "knot-clusters")
    )
    for line in ("fedbuff", "random"):
        assert figure[f"mnist/{line}/0"] == own[f"mnist/{line}/0"]
    found = {key: table["method"].get("clusters", 5) for key, table in own.items() if "random" in key}
    assert sorted(found.values()) == [2, 3, 5, 8, 10]
    others = [{**table, "method": {}} for key, table in own.items() if "random" in key]
    assert all(table == others[0] for table in others)


def held(name, line):
    (run,) = [r for r in load(name).runs("paper", [0]) if r.key == line]
    return copies_held(run.experiment)


def test_rapid_retraining_holds_three_times_what_plain_sgd_does():
    """Weights and gradient; with AdaHessian two moments, a draw and its product with the Hessian, too."""
    assert held("knot-fig6b", "location30/knot/0") == 2
    assert held("knot-fig6b", "location30/rapid/0") == held("knot-fig6b", "location30/knot-rapid/0") == 6
    assert held("knot-fig6a", "shakespeare/knot/0") == 4  # AdamW has two moments already
