"""BMT and MMT against a plain twin that never had the leavers, and by hand."""

import pytest
import torch
from hypothesis import given, settings

from exact_sequences import DATA, sequences, serve_all, without_leavers
from support import ToyEngine, toy_federation, toy_weights
from unknot.audit import interference
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.requests import Erase, Target, erase, join
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation import Synchronous
from unknot.topology import Tree, build, keep
from unknot.unlearn import BMT, MMT


class Twin:
    """The same tree with the leavers' leaves absent: only sets without them are ever trained.

    Plain dictionaries and loops, no federation: each set of clients is trained by FedAvg on its own;
    a request starts the sets above a leaf again from the mean of the largest sets that are left.
    """

    def __init__(self, sequence, star: bool) -> None:
        self.data = without_leavers(sequence)
        self.leavers = sequence.leavers
        self.star = star
        late = {c for r in sequence.joins for c in r.clients}
        first = [c for c in DATA.clients if c not in late]
        self.tree = build("star" if star else "huffman", first)
        self.models = {m: toy_weights().vector for m in self.tree.sets()}
        self.trained: set[frozenset[int]] = set()
        self.round = 0

    def train(self) -> None:
        engine, key = ToyEngine(), Key.root(0)
        for i, members in enumerate(self.tree.sets()):
            if members & self.leavers:
                continue
            name = "global" if i == 0 else "+".join(map(str, sorted(members)))
            total = sum(len(self.data[c]) for c in members)
            new = None
            for client in sorted(members):
                start = Weights(self.models[members], toy_weights().layout)
                job = Job(Unit(client), start, key.child("train", name, self.round, client), Recipe())
                [update] = engine.train([job], self.data)
                part = update.weights.vector * (len(self.data[client]) / total)
                new = (
                    part
                    if new is None
                    else new.add_(update.weights.vector, alpha=len(self.data[client]) / total)
                )
            self.models[members] = new
            self.trained.add(members)
        self.round += 1

    def leave(self, gone: set[int], named: set[int]) -> None:
        alive = [m for m in self.tree.sets() if not m & named and m in self.trained]
        models = {m: self.models[m] for m in alive}
        if gone:
            rest = self.tree.clients - gone
            self.tree = build("star", rest) if self.star else keep(self.tree, gone)
        self.trained &= set(alive)
        self._lay_out(models)

    def join(self, clients: tuple[int, ...]) -> None:
        models = {m: self.models[m] for m in self.tree.sets() if m in self.trained}
        root, old = self.models[self.tree.clients], self.tree.clients
        everybody = self.tree.clients | set(clients)
        self.tree = build("star", everybody) if self.star else keep(self.tree, (), clients)
        models[frozenset(everybody)] = root  # the global model goes on
        if old in self.trained:
            self.trained.add(frozenset(everybody))
        self._lay_out(models)

    def _lay_out(self, known) -> None:
        """Known models stay; another set starts from the largest known sets within it."""
        self.models = {}
        for members in self.tree.sets():
            if members in known:
                self.models[members] = known[members]
                continue
            inside = [m for m in known if m < members]
            largest = [m for m in inside if not any(m < other for other in inside)]
            largest.sort(key=min)
            total = sum(len(self.data[c]) for m in largest for c in m)
            self.models[members] = toy_weights().vector
            if largest:
                shares = [sum(len(self.data[c]) for c in m) / total for m in largest]
                start = known[largest[0]] * shares[0]
                for share, m in zip(shares[1:], largest[1:], strict=True):
                    start.add_(known[m], alpha=share)
                self.models[members] = start


@pytest.mark.parametrize("method", [BMT(), MMT()], ids=["bmt", "mmt"])
@settings(deadline=None, derandomize=True, max_examples=15)
@given(sequence=sequences(samples=False))
def test_what_is_served_equals_the_same_tree_with_the_leavers_leaves_absent(method, sequence):
    fed = serve_all(toy_federation(method, DATA), sequence)
    twin = Twin(sequence, star=method.name == "bmt")
    for now in range(sequence.rounds):
        for request in sequence.requests:
            if request.at.round != now:
                continue
            if isinstance(request, Erase):
                gone = {target.client for target in request.targets}
                # Before the first round nobody has been sent a model: there is nothing to start again.
                named = gone if now else set()
                twin.leave(gone, named)
            else:
                twin.join(request.clients)
        twin.train()
    assert torch.equal(fed.model.vector, twin.models[twin.tree.clients])
    left = {frozenset(node.members) for node in fed.lanes["global"].nodes.values()}
    assert left == set(twin.tree.sets())


def test_bmt_starts_again_from_the_weighted_mean_of_the_local_models():
    fed = toy_federation(BMT(), DATA)
    fed.run(3)
    nodes = fed.lanes["global"].nodes
    local = {c: nodes[str(c)].weights.vector for c in range(8)}
    sizes = {c: len(DATA[c]) for c in range(8) if c != 4}
    history = fed.run(1, requests=[erase(4, round=3)])
    start = next(job for job in fed.engine.calls[3] if job.node == "global").start.vector
    mean = sum(local[c].double() * n for c, n in sizes.items()) / sum(sizes.values())
    assert torch.allclose(start.double(), mean, atol=1e-6)
    assert history.served[0].restarted == ("global",)


def test_mmt_starts_again_from_the_largest_sets_that_the_leaver_had_no_part_in():
    """Eight equal clients pair up: 4 leaves, so {0,1,2,3}, {6,7} and {5} are left."""
    fed = toy_federation(MMT(), DATA)
    fed.run(3)
    nodes = fed.lanes["global"].nodes
    assert {frozenset(n.members) for n in nodes.values() if len(n.members) == 4} == {
        frozenset({0, 1, 2, 3}),
        frozenset({4, 5, 6, 7}),
    }
    kept = {name: nodes[name].weights for name in ("0+1+2+3", "6+7", "5")}
    sizes = {"0+1+2+3": 5 + 8 + 3 + 6, "6+7": 9 + 2, "5": 4}
    fed.run(1, requests=[erase(4, round=3)])
    starts = {job.node: job.start for job in fed.engine.calls[3]}
    mean = sum(w.vector.double() * sizes[n] for n, w in kept.items()) / sum(sizes.values())
    assert torch.allclose(starts["global"].vector.double(), mean, atol=1e-6)
    inner = (kept["6+7"].vector.double() * 11 + kept["5"].vector.double() * 4) / 15
    assert torch.allclose(starts["5+6+7"].vector.double(), inner, atol=1e-6)
    for name in kept:
        assert starts[name].equal(kept[name])  # they just go on
    assert 4 not in {unit.client for weights in starts.values() for unit in weights.lineage}


def test_all_models_of_a_round_are_one_call_to_the_engine():
    engine = ToyEngine()
    toy_federation(MMT(), DATA, engine).run(2)
    depth = build("huffman", range(8)).depth
    assert [len(call) for call in engine.calls] == [8 * (depth + 1)] * 2


def test_a_client_that_was_never_sent_a_model_spoils_nothing():
    options = {"pace": Synchronous(per_round=1)}
    scout = toy_federation(MMT(), DATA, **options)
    asked = {client for record in scout.run(2).rounds for client in record.clients}
    idle = min(set(range(8)) - asked)
    fed = toy_federation(MMT(), DATA, **options)
    fed.run(2)
    before = fed.model
    history = fed.run(1, requests=[erase(idle, round=2)])
    assert history.served[0].restarted == ()
    assert [job.start.equal(before) for job in fed.engine.calls[2] if job.node == "global"] == [True]


def test_erased_samples_start_the_clients_own_model_again_from_the_initial_one():
    fed = toy_federation(MMT(), DATA)
    fed.run(4, requests=[erase({2: [0]}, round=3)])
    starts = {job.node: job.start for job in fed.engine.calls[3]}
    assert starts["2"].equal(fed.initial)
    assert starts["2+3"].equal(starts["3"])  # the only part that is left
    assert not starts["2+3"].lineage & fed.ledger.forbidden


def test_a_newcomers_own_model_starts_from_the_initial_one_and_the_global_model_goes_on():
    for method in (BMT(), MMT(), MMT(change="rebuild")):
        fed = toy_federation(method, DATA)
        fed.run(3, requests=[join(7, round=2)])
        starts = {job.node: job.start for job in fed.engine.calls[2]}
        assert starts["7"].equal(fed.initial)
        last = toy_federation(method, DATA.replaced(shards={c: DATA[c] for c in range(7)}))
        assert starts["global"].equal(last.run(2).model)


def test_the_one_who_is_known_to_leave_first_costs_one_whole_model():
    """Greedy by expiry: the rest is one sub-federation, and it takes the global model's place as it is."""
    fed = toy_federation(MMT(tree="greedy", expires=(5, 1, 6, 7, 8, 9, 10, 11)), DATA)
    fed.run(3)
    rest = fed.lanes["global"].nodes["0+2+3+4+5+6+7"].weights
    fed.run(1, requests=[erase(1, round=3)])
    assert next(job.start for job in fed.engine.calls[3] if job.node == "global").equal(rest)


def test_a_rebuilt_tree_reuses_what_was_trained():
    fed = toy_federation(MMT(change="rebuild"), DATA)
    fed.run(3)
    pair = fed.lanes["global"].nodes["6+7"].weights
    fed.run(1, requests=[erase(0, round=3)])
    tree: Tree = fed.lanes["global"].notes["tree"]
    assert frozenset({6, 7}) in tree.sets()
    assert next(job.start for job in fed.engine.calls[3] if job.node == "6+7").equal(pair)


@pytest.mark.parametrize(
    "method", [BMT(), MMT(), MMT(tree="b-ary", branching=3)], ids=["bmt", "mmt", "three"]
)
def test_how_much_a_client_held_is_forgotten_too_even_if_it_was_never_asked(method):
    """A restarted root is weighted by the data of all members of its parts: theirs is a part in it."""
    for asked in range(2, 5):
        fed = toy_federation(method, DATA, pace=Synchronous(asked))
        first = fed.run(2).rounds[0].clients[0]
        fed.run(1, requests=[erase(first, round=2)])
        root = fed.lanes["global"].nodes["global"]
        assert root.members <= root.weights.lineage.clients
        silent = sorted(root.members - fed.lanes["global"].sent)
        if not silent:
            continue

        def served(data, asked=asked, first=first, silent=silent):
            fed = toy_federation(method, data, pace=Synchronous(asked))
            fed.run(5, requests=[erase(first, round=2), erase(silent[0], round=3)])
            return fed.model

        report = interference(served, DATA, [Target(silent[0])])
        assert report.none, report.gaps
