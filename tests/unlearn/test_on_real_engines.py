"""Exactness with the engines that people use, on real digits: not only with a toy."""

import pytest
import torch

import unknot
from unknot.audit import interference
from unknot.unlearn import BMT, FATS, MMT, RFS, SISA, ExactFun, FedCIO, Standalone

DATA = unknot.federate(unknot.load("digits"), unknot.MajorityClass(clients=6, ratio=0.2, samples=30))
RECIPE = unknot.Recipe(unknot.SGD(0.05, weight_decay=0.01), batch_size=8, clip=10.0)
PLAIN = unknot.Recipe(unknot.SGD(0.05), batch_size=8)
REQUESTS = [unknot.erase(1, round=2), unknot.join(5, round=3), unknot.erase({4: [0, 7]}, round=4)]
METHODS = {
    "rfs": RFS(),
    "bmt": BMT(),
    "mmt": MMT(),
    "mmt rebuilt": MMT(change="rebuild"),
    "sisa": SISA(),
    "fedcio": FedCIO(clusters=2),
    "fats": FATS(rho_client=5, rounds=20, local_steps=2, clients=8),
    "exact-fun": ExactFun(),
    "standalone": Standalone(),
}


CASES = [
    *((name, "mlp") for name in METHODS),
    ("mmt", "lenet5"),
    pytest.param("sisa", "lenet5", marks=pytest.mark.slow),
]
there_is_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


@pytest.mark.parametrize(("name", "model"), CASES)
def test_what_is_served_does_not_depend_on_what_was_erased(name, model):
    assert_nothing_shows(name, model, RECIPE, "cpu")


@there_is_a_gpu
@pytest.mark.parametrize("recipe", [RECIPE, PLAIN], ids=["by autograd", "by our kernels"])
@pytest.mark.parametrize("model", ["mlp", "lenet5"])
@pytest.mark.parametrize("name", METHODS)
def test_nor_does_it_on_a_gpu(name, model, recipe):
    assert_nothing_shows(name, model, recipe, "cuda")


def assert_nothing_shows(name, model, recipe, device):
    def served(data):
        fed = unknot.simulate(model, data, METHODS[name], recipe, evaluate_every=0, device=device)
        fed.run(6, requests=REQUESTS)
        while "global" in fed.lanes and fed.lanes["global"].version < 6 and name == "exact-fun":
            fed.run(1)
        return fed.model

    targets = [t for r in REQUESTS if isinstance(r, unknot.core.requests.Erase) for t in r.targets]
    report = interference(served, DATA, targets)
    assert report.none, report.gaps


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_and_is_measured(name):
    fed = unknot.simulate("mlp", DATA, METHODS[name], unknot.Recipe(unknot.SGD(0.05), batch_size=10))
    history = fed.run(12, requests=[unknot.erase(1, round=8)])
    assert history.served[0].before["validation"].accuracy > 0.15
    assert history.scores["test"].accuracy > 0.15
    assert 1 not in {unit.client for unit in history.model.lineage}
    assert history.to_dict()["model"]
