import pytest
import torch

from support import LAYOUT, toy_federation, toy_weights
from unknot.core.errors import ConfigError, ForbiddenLineageError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Ledger, Lineage, Unit
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation import FedAvg, FedBuff
from unknot.unlearn import RFS


def constant(value: float, *clients: int) -> Weights:
    return Weights(torch.full((LAYOUT.size,), value), LAYOUT, Lineage(Unit(c) for c in clients))


def update(client: int, value: float, samples: int, start: float = 0.0, version: int = 0) -> Update:
    job = Job(Unit(client), constant(start, 9), Key.root(0), Recipe(), version=version)
    return job.done(torch.full((LAYOUT.size,), value), samples, 0.0)


def test_fedavg_by_hand():
    """(10·1 + 30·2) / 40 = 1.75."""
    new = FedAvg()(toy_weights(), [update(0, 1.0, 10), update(1, 2.0, 30)], 0, Ledger())
    assert new.vector.tolist() == [1.75] * LAYOUT.size
    assert {unit.client for unit in new.lineage} == {0, 1, 9}


def test_fedbuff_by_hand():
    """Current 10; changes 2 - 1 (fresh) and 5 - 1 (three versions old, counts half):
    10 + 0.5·(1·1 + 4·0.5)/2 = 10.75."""
    updates = [update(0, 2.0, 10, start=1.0, version=3), update(1, 5.0, 30, start=1.0, version=0)]
    new = FedBuff(server_lr=0.5, exponent=0.5)(constant(10.0, 5), updates, 3, Ledger())
    assert new.vector.tolist() == [10.75] * LAYOUT.size
    assert {unit.client for unit in new.lineage} == {0, 1, 5, 9}


def test_fedbuff_by_samples_by_hand():
    """10 + (10·1 + 30·4·0.5)/40 = 11.75."""
    updates = [update(0, 2.0, 10, start=1.0, version=3), update(1, 5.0, 30, start=1.0, version=0)]
    new = FedBuff(by_samples=True)(constant(10.0), updates, 3, Ledger())
    assert new.vector.tolist() == [11.75] * LAYOUT.size


@pytest.mark.parametrize("aggregate", [FedAvg(), FedBuff()])
def test_a_forbidden_update_is_refused_by_name(aggregate):
    ledger = Ledger()
    ledger.forbid(1)
    with pytest.raises(ForbiddenLineageError, match=r"refused to aggregate an update: it carries client 1"):
        aggregate(toy_weights(), [update(0, 1.0, 10), update(1, 2.0, 30)], 0, ledger)
    tainted_start = update(0, 1.0, 10)
    ledger.forbid(9)
    with pytest.raises(ForbiddenLineageError, match="client 9"):
        aggregate(toy_weights(), [tainted_start], 0, ledger)


def test_impossible_fedbuff_is_refused():
    with pytest.raises(ConfigError):
        FedBuff(server_lr=0)
    with pytest.raises(ConfigError):
        FedBuff(exponent=-1)


def test_an_aggregator_may_give_a_column_of_a_stack():
    def first(current, updates, version, ledger):
        stack = torch.stack([update.weights.vector for update in updates], dim=1)
        return updates[0].weights.like(stack[:, 0], *(update.weights for update in updates[1:]))

    fed = toy_federation(RFS(), aggregate=first)
    assert torch.isfinite(fed.run(3).model.vector).all()
