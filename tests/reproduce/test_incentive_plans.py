"""The incentive paper's reproductions: who divides the clients, who is asked, and from which model."""

import pytest

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.federation.pace import Synchronous, by_members
from unknot.incentive import Crowd, compare, drawn
from unknot.reproduce import load
from unknot.reproduce.reproduction import Reproduction
from unknot.topology import populations_by_size, share_clusters

POLICIES = ("evolutionary", "random", "round_robin", "greedy", "highest_offer")


def lines(name, scale="paper", seed=0):
    """By panel and line, the table of a run."""
    return {(run.panel.name, run.line.name): run.table for run in load(name).runs(scale, [seed])}


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize("seed", [0, 2])
def test_the_policies_of_the_game_divide_the_clients_of_figures_4d_to_f(scale, seed):
    """Each population's shares are those of the draw that has the seed's number, in period 300."""
    key = Key.root(0).child("draw", seed)
    game = drawn([key])
    outcomes = compare(game, Crowd.of(game, 30, [key]), 300)
    order = game.data[0].argsort()
    for letter in "def":
        tables = lines(f"incentive-fig4{letter}", scale, seed)
        for (_, name), table in tables.items():
            if name in outcomes:
                expected = outcomes[name].shares[0][order].tolist()
                for mine, other in zip(table["method"]["shares"], expected, strict=True):
                    assert mine == pytest.approx(other, abs=1e-4)
            if name in POLICIES:
                middle = 100 if scale == "paper" else 30
                samples = (game.data[0][order] / 100 * middle).round().tolist()
                assert table["data"]["samples"] == samples == sorted(samples)
        assert {name for _, name in tables} >= set(POLICIES)


def test_as_many_clients_are_asked_a_round_whatever_the_division():
    ten = [table for (panel, _), table in lines("incentive-fig4d").items() if not panel.endswith("-all")]
    assert len(ten) == 5
    for table in ten:
        samples = table["data"]["samples"]
        groups = samples if isinstance(samples, list) else [samples] * 3
        sizes = {client: groups[client // 30] for client in range(90)}
        shares = table["method"]["shares"]
        servers = share_clusters(shares, populations_by_size(sizes, len(shares)))
        assert table["method"]["seats"] == "members"
        paces = by_members(Synchronous(table["federation"]["per_round"]), [len(s) for s in servers])
        assert sum(pace.per_round for pace, s in zip(paces, servers, strict=True) if s) == 10


def test_a_policy_needs_a_game_and_is_one_that_there_is():
    table = {
        "title": "t",
        "figure": "f",
        "claim": "c",
        "scale": {"small": {"phase": 1}},
        "base": {"phases": 1, "data": {"name": "digits", "samples": 3}},
        "panel": [{"name": "p", "title": "p"}],
        "line": [{"name": "l", "label": "l", "policy": "random"}],
    }
    with pytest.raises(ConfigError, match="name the game"):
        Reproduction.of(table, "mine")
    with pytest.raises(ConfigError, match="no game"):
        Reproduction.of({**table, "game": "incentive-fig5a"}, "mine").runs("small")
    table["line"] = [{"name": "l", "label": "l", "policy": "randm"}]
    with pytest.raises(ConfigError, match="random"):
        Reproduction.of({**table, "game": "incentive-fig4a"}, "mine")


@pytest.mark.parametrize("name", ["incentive-fig3", *(f"incentive-fig5{letter}" for letter in "abcd")])
def test_the_unlearning_is_the_papers(name):
    """From the latest model without the leaver's update, by a plain mean; and the ceiling is there."""
    for (_, line), table in lines(name).items():
        assert (table["method"]["start"], table["method"]["mean"]) == ("remaining", "plain")
        assert table["method"]["calibrate"] == ("all" if line == "everybody" else "selected")
        if line == "dqn":
            assert (table["select"]["next"], table["select"]["meeting"]) == ("max", "round")
    assert "everybody" in {line.name for line in load(name).lines}


def test_the_networks_target_is_what_training_reaches_on_the_data_set():
    found = {
        panel: t["select"]["target"] for (panel, line), t in lines("incentive-fig5d").items() if line == "dqn"
    }
    reached = {"mnist": 0.95, "fashion-mnist": 0.75, "cifar10": 0.3}
    assert found == {panel + who: target for panel, target in reached.items() for who in ("", "-all")}


def test_on_cifar10_the_claim_is_that_the_network_does_not_win():
    claims = [claim for claim in load("incentive-fig5c").claims if "dqn" in claim.names]
    alike, behind = claims[:2], claims[2]
    assert [(claim.measure, claim.alike) for claim in alike] == [("recovering", 0.05), ("recovered", 0.05)]
    assert (behind.measure, behind.order) == ("recovered", (("k-center",), ("dqn",)))
    assert all(claim.panels == ("cifar10", "cifar10-all") for claim in claims)


FIGURES_5 = {"incentive-fig5a": "mnist", "incentive-fig5b": "fashion-mnist", "incentive-fig5c": "cifar10"}


@pytest.mark.parametrize("name", FIGURES_5)
def test_everybody_trains_and_ten_calibrate_as_the_papers_formula_has_it(name):
    runs = [run for run in load(name).runs("paper", [0]) if run.panel.name.endswith("-all")]
    assert {run.line.name for run in runs} == {"uniform", "k-center", "dqn", "balanced", "everybody"}
    for run in runs:
        assert run.experiment.setup.pace.per_round is None
        method = run.experiment.method
        assert (method.calibrate, method.calibrators) == (
            ("all", None) if run.line.name == "everybody" else ("selected", 10)
        )


@pytest.mark.parametrize("name", ["incentive-fig3", "incentive-fig5d"])
def test_figures_3_and_5d_show_the_runs_of_5a_to_c(name):
    """Figure 5d's five clients are its own."""
    there = {key: table for figure in FIGURES_5 for key, table in lines(figure).items()}
    shown = {key: table for key, table in lines(name).items() if key[0] != "few-clients"}
    assert {panel for panel, _ in shown} == {panel for panel, _ in there}
    for key, table in shown.items():
        assert table | {"name": ""} == there[key] | {"name": ""}


@pytest.mark.parametrize("letter", "def")
def test_all_clients_of_a_server_train_where_everybody_does(letter):
    runs = [run for run in load(f"incentive-fig4{letter}").runs("paper", [0]) if "-all" in run.panel.name]
    assert {run.line.name for run in runs} == set(POLICIES)
    for run in runs:
        assert run.experiment.setup.pace.per_round is None
