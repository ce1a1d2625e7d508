"""What is frozen is the base: one copy, known by a digest, with a lineage of its own, none of the weights."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn

import unknot
from unknot.core.base import NO_BASE, Base
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError, RequestError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Lineage, Unit
from unknot.core.requests import erase
from unknot.core.training import SGD, AdaHessian, Recipe
from unknot.core.weights import Layout, Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.checks import twin

IMAGES = Samples(torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3, 3)
HELD = FederatedData(IMAGES, {c: Shard.of(range(10 * c, 10 * c + 7 + c)) for c in range(4)}, IMAGES)


class Mixed(nn.Module):
    """Frozen and trained layers of every kind that has a batched rule, in turn."""

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.conv = nn.Conv2d(1, 4, 3)
            self.norm = nn.GroupNorm(2, 4)
            self.more = nn.Conv2d(4, 4, 3)
            self.base = nn.Linear(64, 10)
            self.layer = nn.LayerNorm(10)
        with torch.random.fork_rng():
            torch.manual_seed(9)
            self.head = nn.Linear(10, 3)
        for part in (self.conv, self.norm, self.base):
            part.requires_grad_(False)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = torch.relu(self.more(x)).flatten(1)
        return self.head(self.layer(torch.tanh(self.base(x))))


def jobs(module, recipe, clients=range(4)):
    start = Weights.of(module)
    return [Job(Unit(c), start, Key.root(c), recipe) for c in clients]


def test_weights_are_what_is_trained():
    module = Mixed()
    weights = Weights.of(module)
    trained = [name for name, p in module.named_parameters() if p.requires_grad]
    assert weights.layout.names == tuple(trained)
    assert weights.layout.size == sum(module.get_parameter(name).numel() for name in trained)
    assert Weights.of(nn.Linear(2, 2)).layout.base == NO_BASE


def test_a_base_is_known_by_its_names_and_numbers():
    module = Mixed()
    first = Layout.of(module).base
    assert Layout.of(Mixed()).base == first
    assert Layout.of(copy.deepcopy(module)).base == first
    assert Layout.of(Mixed(seed=1)).base != first
    with torch.no_grad():
        module.base.weight[0, 0] += 1
    assert Layout.of(module).base != first
    module.base.weight.data.copy_(Mixed().base.weight)  # nobody is told of this
    module.head.weight.data.zero_()
    assert Layout.of(module).base == first
    module.norm.requires_grad_(True)
    assert len(Layout.of(module).names) == len(Layout.of(Mixed()).names) + 2


def test_a_large_base_is_looked_at_again_when_it_was_changed(monkeypatch):
    monkeypatch.setattr("unknot.core.base.SMALL", 0)
    looked = []
    monkeypatch.setattr("unknot.core.base._digest", lambda *given: looked.append(1) or str(len(looked)))
    module = Mixed()
    assert Base.of(module) is Base.of(module)
    with torch.no_grad():
        module.base.weight.mul_(2)
    assert Base.of(module).digest == "2"
    module.base.weight = nn.Parameter(torch.zeros(10, 64), requires_grad=False)
    assert Base.of(module).digest == "3"
    module.norm.eps = 0.5
    assert Base.of(module).digest == "4"


def test_weights_refuse_another_base(tmp_path):
    weights = Weights.of(Mixed())
    with pytest.raises(
        ValueError, match=r"belong to a base with the digest \w{16}, and the module has a base"
    ):
        weights.load_into(Mixed(seed=1))
    thawed = Mixed()
    thawed.requires_grad_(True)
    with pytest.raises(ValueError, match="names and shapes"):
        weights.load_into(thawed)
    file = tmp_path / "adapter.safetensors"
    unknot.save_model(weights, file)
    assert file.stat().st_size < 4 * weights.layout.size + 2500
    again = unknot.load_model(file)
    assert again.layout == weights.layout
    again.load_into(Mixed())
    with pytest.raises(ValueError, match="belong to a base"):
        again.load_into(Mixed(seed=1))
    with pytest.raises(ConfigError, match="of another model: they belong to a base"):
        unknot.simulate(Mixed(seed=1), HELD, "rfs", initial=file)
    with pytest.raises(ConfigError, match=r"client 0.*they belong to a base"):
        StackedEngine(Mixed(seed=1)).train(jobs(Mixed(), Recipe(SGD(0.1))), HELD)


@pytest.mark.parametrize("recipe", [Recipe(SGD(0.1, momentum=0.9), 2, 4), Recipe(AdaHessian(0.1), 1, 4)])
@pytest.mark.parametrize("path", ["batched", "vmap", "loop"])
def test_every_way_trains_on_the_base_as_the_loop_does(path, recipe):
    module = Mixed().double()
    ours = StackedEngine(module, dtype=torch.float64, path=path).train(jobs(module, recipe), HELD)
    plain = LoopEngine(module, dtype=torch.float64).train(jobs(module, recipe), HELD)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.weights.vector, b.weights.vector, rtol=1e-9, atol=1e-9)
    alone = StackedEngine(module, dtype=torch.float64, path=path).train(jobs(module, recipe, [2]), HELD)
    assert alone[0].weights.equal(ours[2].weights)
    assert alone[0].weights.layout.base == Layout.of(module).base


def test_an_engine_has_one_copy_of_the_base_and_leaves_the_modules_own_alone():
    module = Mixed()
    engine = StackedEngine(module, dtype=torch.float64)
    engine.train(jobs(module, Recipe(SGD(0.1))), HELD)
    template = engine._template
    assert all(a.base.weight is template.base.weight for a in (twin(template), *engine._spare))
    assert module.base.weight.dtype == torch.float32
    assert module.base.weight.data_ptr() != template.base.weight.data_ptr()
    assert not template.head.weight.any()
    assert torch.equal(template.base.weight, module.base.weight.double())


class Lowered(nn.Module):
    """A base in half precision under a head that is not."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.base, self.head = nn.Linear(64, 10), nn.Linear(10, 3)
        self.base.to(torch.bfloat16).requires_grad_(False)

    def forward(self, x):
        return self.head(self.base(x.flatten(1).to(torch.bfloat16)).to(x.dtype))


@pytest.mark.parametrize("engine", [StackedEngine, LoopEngine])
def test_a_base_in_half_precision_stays_so(engine):
    module = Lowered()
    made = engine(module)
    done = made.train(jobs(module, Recipe(SGD(0.1))), HELD)
    assert made._template.base.weight.dtype == torch.bfloat16
    assert done[0].weights.vector.dtype == torch.float32
    one = engine(module).train(jobs(module, Recipe(SGD(0.1)), [3]), HELD)
    assert one[0].weights.equal(done[3].weights)


class Restless(Mixed):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.base.weight.add_(1e-3)
        return super().forward(x)


@pytest.mark.parametrize("small", [0, 2**20])
@pytest.mark.parametrize("engine", [StackedEngine, LoopEngine])
def test_a_model_that_writes_to_its_base_is_refused(engine, small, monkeypatch):
    monkeypatch.setattr("unknot.engine.bits.probe.SMALL", small)
    with pytest.raises(ConfigError, match=r"'base'.*changes its parameter 'weight'"):
        engine(Restless()).examine(IMAGES)


def test_what_is_billed_and_sent_is_what_is_trained():
    fed = unknot.simulate(Mixed(), HELD, "rfs")
    fed.run(1)
    assert fed.costs.bytes_down == fed.costs.bytes_up == 4 * 4 * Weights.of(Mixed()).layout.size


def test_whose_data_shaped_the_base_is_in_all_that_is_trained_on_it_and_cannot_be_erased():
    module = Mixed()
    module.requires_grad_(True)
    Weights.of(module).carrying(Lineage([Unit(2)])).load_into(module)
    for part in (module.conv, module.norm, module.base):
        part.requires_grad_(False)
    assert Layout.of(module).base.lineage.clients == {2}
    assert Weights.of(module).lineage.clients == {2}
    clean = replace(Weights.of(module), lineage=Lineage())
    clean.load_into(module)  # what is trained is nobody's now; the base is not
    assert Weights.of(module).lineage.clients == {2}
    fed = unknot.simulate(module, HELD, "rfs")
    fed.run(1)
    assert 2 in fed.model.lineage.clients
    with pytest.raises(RequestError, match=r"client 2 had a part in the base of the model, which is frozen"):
        fed.run(1, requests=[erase(2, round=1)])
    fed.run(1, requests=[erase(1, round=2)])


def test_a_base_that_nobody_shaped_forbids_nothing():
    first = unknot.simulate(Mixed(), HELD, "rfs")
    first.run(1)
    fed = unknot.simulate(Mixed, HELD, "rfs", initial=first.model)
    fed.run(1, requests=[erase(2, round=1)])
    assert 2 not in fed.model.lineage.clients


class Net(nn.Module):
    """A body that others want, a layer that has two names, and a head."""

    def __init__(self, trained: bool = True):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(4)
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU())
            self.twice = nn.Linear(6, 6)
            self.again = self.twice
            self.head = nn.Linear(6, 3)
        self.body.requires_grad_(trained)

    def forward(self, x):
        return self.head(torch.relu(self.again(self.twice(self.body(x)))))


def shaped(module, *clients):
    """The module after a federation of these."""
    return Weights.of(module, Lineage(map(Unit, clients))).load_into(module)


def body_of(net, above):
    net.body.requires_grad_(False)
    return above(net.body)


def put_in(body):
    net = Net()
    net.body = body
    return net


def loaded_in_part():
    outer = nn.Sequential(Net(), nn.Linear(3, 3))
    shaped(outer)  # nobody
    shaped(outer[0], 1)
    outer[0].requires_grad_(False)
    return outer


def renamed():
    net = shaped(Net(), 1)
    net.trunk = net.body
    del net.body
    net.requires_grad_(False)
    return nn.Sequential(net.trunk, net.head, nn.Linear(3, 3))


def parameter_alone():
    net = Net()
    net.body[1].weight = shaped(Net(), 1).body[1].weight.requires_grad_(False)
    return net


SHAPED_BY_1 = {
    "taken out": lambda: body_of(shaped(Net(), 1), lambda body: nn.Sequential(body, nn.Linear(6, 3))),
    "put in": lambda: body_of(shaped(Net(), 1), put_in),
    "copied": lambda: body_of(shaped(Net(), 1), lambda body: put_in(copy.deepcopy(body))),
    "copied first": lambda: body_of(copy.deepcopy(shaped(Net(), 1)), put_in),
    "pickled": lambda: body_of(pickle.loads(pickle.dumps(shaped(Net(), 1))), put_in),
    "in double": lambda: body_of(shaped(Net(), 1).double().float(), put_in),
    "with adapters": lambda: unknot.lora(put_in(shaped(Net(), 1).body), 2),
    "renamed": renamed,
    "loaded in part": loaded_in_part,
    "one parameter": parameter_alone,
    "adapters by the first name": lambda: unknot.lora(shaped(Net(False), 1), 2, targets=["twice"]),
    "adapters by the second name": lambda: unknot.lora(shaped(Net(False), 1), 2, targets=["again"]),
}


@pytest.mark.parametrize("way", SHAPED_BY_1)
def test_who_shaped_a_part_goes_along_with_it(way):
    module = SHAPED_BY_1[way]()
    assert Layout.of(module).base.lineage.clients == {1}
    fed = unknot.simulate(module, HELD, "rfs")
    with pytest.raises(RequestError, match=r"client 1 had a part in the base"):
        fed.run(1, requests=[erase(1, round=1)])


def test_what_nobodys_weights_were_put_over_is_nobodys():
    net = shaped(shaped(Net(), 1))
    assert not Weights.of(net).lineage
    assert not Layout.of(body_of(net, put_in)).base.lineage
    net = shaped(Net(), 1)
    shaped(net.body)
    assert not Layout.of(body_of(net, put_in)).base.lineage
    assert Weights.of(net).lineage.clients == {1}  # the rest of it
    net = Net()
    net.load_state_dict(shaped(Net(), 1).state_dict())
    assert not Weights.of(net).lineage  # nothing can be known of it


def bare() -> nn.Module:
    """The same base as that of `frozen_body`, of which nothing is known."""
    return frozen_body(Net())


def frozen_body(net: nn.Module) -> nn.Module:
    net.body.requires_grad_(False)
    return net


def test_weights_that_know_who_shaped_the_base_say_it_where_nobody_else_does(tmp_path):
    first = unknot.simulate(frozen_body(shaped(Net(), 1)), HELD, "rfs")
    first.run(1)
    first.save(tmp_path / "model.safetensors")
    for initial in (first.model, tmp_path / "model.safetensors"):
        fed = unknot.simulate(bare, HELD, "rfs", initial=initial)
        assert fed.model.layout.base.lineage.clients == {1}
        assert 1 in fed.model.lineage.clients
        with pytest.raises(RequestError, match=r"client 1 had a part in the base"):
            fed.run(1, requests=[erase(1, round=1)])
    module = first.model.load_into(bare())
    module.head = nn.Linear(6, 3)
    assert Layout.of(module).base.lineage.clients == {1}


def test_who_was_let_pass_in_a_base_goes_into_the_file(tmp_path):
    module = Net()
    Weights.of(module, Lineage([Unit(0)]).waiving([1])).load_into(module)
    weights = Weights.of(frozen_body(module))
    unknot.save_model(weights, tmp_path / "model.safetensors")
    assert unknot.load_model(tmp_path / "model.safetensors").layout.base.lineage.clients == {0, 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m.norm, "eps", 0.5),
        lambda m: setattr(m.layer, "eps", 0.5),
        lambda m: setattr(m.more, "padding", (1, 1)),
        lambda m: m.add_module("act", nn.GELU(approximate="tanh")),
    ],
    ids=["a frozen norm", "a trained norm", "a convolution", "an activation"],
)
def test_a_base_is_known_by_what_its_layers_are_set_to(change):
    module = Mixed()
    module.add_module("act", nn.GELU())
    before = Layout.of(module).base
    change(module)
    assert Layout.of(module).base != before
