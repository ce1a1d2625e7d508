"""Every aggregator is exact under every exact method that aggregates by it, at either pace, bit for bit."""

import pytest

from exactness import assert_as_if_never_there, assert_no_interference
from support import grid, small_data, toy_federation
from unknot.core.errors import ConfigError
from unknot.core.requests import erase
from unknot.federation import Buffered, Clock, Pareto, Synchronous
from unknot.federation.aggregators import FedAdagrad, FedAdam, FedYogi, Median, NormClipping, TrimmedMean
from unknot.unlearn import BMT, FATS, KNOT, MMT, RFS, SISA, ExactFun, FedCIO, Rapid, Standalone

DATA = small_data((5, 8, 3, 6, 7, 4, 9, 2))
AGGREGATES = {
    "fedadam": FedAdam(server_lr=0.1),
    "fedyogi": FedYogi(server_lr=0.1),
    "fedadagrad": FedAdagrad(beta=0.5),
    "median": Median(),
    "trimmed-mean": TrimmedMean(0.25),
    "norm-clipping": NormClipping(0.5),
}


class Steady(Clock):
    """Clients differ in speed, but none in how much it reads, which an asynchronous schedule would keep."""

    def duration(self, client, samples_read, key):
        return super().duration(client, 1, key)


PACES = {
    "sync": {"pace": Synchronous(5), "clock": Steady()},
    "buffered": {"pace": Buffered(5, 2, staleness_bound=3), "clock": Steady(Pareto())},
}
METHODS = {
    "rfs": RFS(),
    "rapid": Rapid(),
    "bmt": BMT(),
    "mmt": MMT(),
    "sisa": SISA(),
    "fedcio": FedCIO(2),
    "standalone": Standalone(),
    "knot": KNOT(3, by="random"),
    "knot, mmt": KNOT(2, by="random", retrain=MMT()),
}
ERASED = {"a client": erase(3, round=3), "a client and samples": erase({1: None, 4: [0, 2]}, round=3)}


def opened(method, aggregate, pace):
    return lambda data: toy_federation(method, data, aggregate=AGGREGATES[aggregate], **PACES[pace])


@pytest.mark.parametrize(("method", "aggregate", "pace", "what"), grid(METHODS, AGGREGATES, PACES, ERASED))
def test_what_is_served_does_not_depend_on_what_was_erased(method, aggregate, pace, what):
    assert_no_interference(opened(METHODS[method], aggregate, pace), DATA, ERASED[what], rounds=4)


@pytest.mark.parametrize(("aggregate", "pace", "what"), grid(AGGREGATES, PACES, ERASED))
def test_retraining_is_as_if_the_client_had_never_been_there(aggregate, pace, what):
    assert_as_if_never_there(opened(RFS(), aggregate, pace), DATA, ERASED[what], rounds=4)


@pytest.mark.parametrize("method", [FATS(rho_client=5, rounds=9, local_steps=2, clients=8), ExactFun()])
@pytest.mark.parametrize("aggregate", AGGREGATES.values(), ids=AGGREGATES)
def test_a_method_that_puts_updates_together_itself_says_so(method, aggregate):
    with pytest.raises(ConfigError, match="puts updates together itself: leave aggregate out"):
        toy_federation(method, DATA, aggregate=aggregate).run(1)
