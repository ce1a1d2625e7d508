"""The case for a learned selector: what its clients are like, how it is judged, and what its page says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import selection_learned, selection_training
from benchmarks.selection_case import SMALL, Course, Ground, together
from benchmarks.selection_learned import interval, page, quantile
from unknot.core.keys import Key
from unknot.core.selection import AtRandom
from unknot.select import Scorer
from unknot.select.learned import INPUTS

DOCS = Path(__file__).parents[2] / "docs"


def rows_of(ground, seed):
    world = ground.federation(seed)
    return np.concatenate([world.data[client].rows for client in world.data.clients])


def test_parts_of_a_data_set_share_no_samples():
    grounds = [Ground.of("digits", part, SMALL) for part in ("learn", "choose", "test")]
    seen = [{x.numpy().tobytes() for x in ground.dataset.train.x} for ground in grounds]
    whole = sum(len(ground.dataset.train) for ground in grounds)
    assert len(set.union(*seen)) == whole
    assert whole == len(Ground.of("digits", "learn", SMALL).dataset.train) + sum(map(len, seen[1:]))


def test_clients_differ_in_labels_amounts_and_speed():
    ground = Ground.of("digits", "test", SMALL)
    world = ground.federation(3)
    assert len(world.wrong) == 6  # 30 % of 20
    rows = {client: world.data[client].rows for client in world.data.clients}
    assert {client for client, own in rows.items() if (own >= ground.rows).all()} == world.wrong
    assert len(np.unique(rows_of(ground, 3))) == sum(map(len, rows.values()))
    sizes = [len(own) for own in rows.values()]
    assert SMALL.least <= min(sizes) < max(sizes) <= SMALL.most
    assert world.seconds().max() > 2 * world.seconds().min()
    wrong = [int(row) for client in world.wrong for row in rows[client]]
    right = ground.train.y[torch.tensor(wrong) - ground.rows]
    assert float((ground.train.y[torch.tensor(wrong)] == right).float().mean()) < 0.4
    assert not set(world.good().tolist()) & world.wrong


def test_accuracy_over_time_counts_what_was_there_when():
    """10 % for 2 s, 50 % for 6 s, 80 % for 2 s: 0.2 + 3.0 + 1.6 of 10."""
    course = Course(np.asarray([0.0, 2.0, 8.0]), np.asarray([0.1, 0.5, 0.8]), 10.0, None)
    assert course.over_time == pytest.approx(0.48)
    assert course.to_go(6.0) == pytest.approx((2 * 0.5 + 2 * 0.8) / 10)
    assert (course.at(1.9), course.at(2.0), course.final) == (0.1, 0.5, 0.8)


def test_trainings_side_by_side_are_as_they_are_alone():
    ground = Ground.of("digits", "choose", SMALL, tested=100)
    worlds = [ground.federation(seed) for seed in (1, 2)]
    both = together(ground, [(world, AtRandom(), None) for world in worlds], "test")
    (alone,) = together(ground, [(worlds[1], AtRandom(), None)], "test")
    assert both[1].accuracies.tolist() == alone.accuracies.tolist()
    assert both[1].times.tolist() == alone.times.tolist()


def test_intervals_are_student_s():
    """Of 1, 2, 3, 4, 5: mean 3, standard error 0.7071, t of four degrees 2.776."""
    assert [quantile(n) for n in (2, 4, 9)] == pytest.approx([4.303, 2.776, 2.262], abs=1e-3)
    assert interval([1, 2, 3, 4, 5]) == pytest.approx((3, 3 - 1.963, 3 + 1.963), abs=1e-3)


def test_choices_that_went_better_become_likelier():
    """Of five candidates the second alone is worth taking: it is taken more and more."""
    net = selection_training.network(Key.root(0))
    looked = torch.zeros(200, 5, INPUTS)
    looked[:, 1, 0] = 1.0
    took = torch.arange(200) % 5
    found = selection_training.Choices(
        looked, torch.zeros(200, 5, dtype=torch.bool), took, torch.where(took == 1, 2.0, -0.5)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for turn in range(3):
        selection_training.improve(net, optimizer, found, Key.root(turn), "cpu")
    rated = selection_training.scorer_of(net).rate(looked[0].numpy())
    assert np.exp(rated[1]) / np.exp(rated).sum() > 0.5


def test_a_network_is_trained_saved_and_gone_on_with(tmp_path):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    options = ["--data", "digits", "--minutes", "0", "--worlds", "1", "--replicas", "2"]
    assert selection_training.main([*options, "--out", str(first)]) == 0
    assert selection_training.main([*options, "--out", str(second), "--start", str(first)]) == 0
    again = Scorer.load(second)
    for mine, other in zip(again.layers, Scorer.load(first).layers, strict=True):
        assert mine[0] == pytest.approx(other[0], rel=1e-5)
    assert again.trained["before"]["by"] == "python -m benchmarks.selection_training"
    assert not again.lineage


def test_the_page_has_the_figures_of_the_record():
    record = json.loads((DOCS / "results" / "selection-learned.json").read_text(encoding="utf-8"))
    assert page(record) in (DOCS / "selection.md").read_text(encoding="utf-8")
    assert record["part"] == "test"
    assert len(record["seeds"]) >= 10
    assert record["clean"]


def test_a_record_is_measured_and_written(tmp_path, capsys):
    out = tmp_path / "record.json"
    selection_learned.main(["--data", "digits", "--seeds", "0,1", "--part", "choose", "--out", str(out)])
    record = json.loads(out.read_text(encoding="utf-8"))
    assert set(record["data"]["digits"]) >= {"learned", "at random", "balanced", "K-Center", "everybody"}
    assert "95 % intervals" in capsys.readouterr().out
