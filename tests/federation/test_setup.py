import pytest

import unknot
from unknot.core.errors import ConfigError
from unknot.federation import Clock, FedAdam, Pareto, Setup, Synchronous
from unknot.testing import small_data


def test_the_parts_of_a_setup_can_be_given_by_name():
    made = Setup.of(
        None,
        None,
        {"pace": "synchronous", "aggregate": "fedadam", "clock": "pareto", "select": "balanced"},
    )
    assert made.pace == Synchronous()
    assert made.aggregate == FedAdam()
    assert made.clock == Clock(Pareto())
    assert type(made.select) is unknot.registry.selectors.get("balanced")
    assert Setup(aggregate="unknot.federation:FedAdam").aggregate == FedAdam()


def test_a_federation_of_names_is_that_of_the_things():
    def served(**parts):
        return unknot.simulate("mlp", small_data(), **parts).run(2).model

    named = served(aggregate="fedadam", clock="pareto")
    assert named.equal(served(aggregate=FedAdam(), clock=Clock(Pareto())))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"aggregate": "fedadm"}, "aggregate = 'fedadm': there is no such aggregator.*'fedadam'"),
        ({"clock": "paretto"}, "clock = 'paretto': there is no such slowness.*'pareto'"),
        ({"aggregate": FedAdam}, r"aggregate is a class: give one of it, FedAdam\(...\)"),
        ({"pace": 3}, "pace must be of the kind pace, or the name of one .*'synchronous'.*: 3 has no"),
        ({"clock": Pareto()}, r"write unknot.Clock\(Pareto\("),
        ({"select": None, "seed": 1.5}, "seed must be a whole number, not 1.5"),
        ({"seed": "a"}, "seed must be a whole number, not 'a'"),
        ({"recipe": {"lr": 1}}, r"recipe must be a Recipe: write unknot.Recipe\(...\)"),
    ],
)
def test_what_is_no_part_of_a_setup_is_refused_with_what_to_write(parts, words):
    with pytest.raises(ConfigError, match=words):
        Setup.of(None, parts.pop("recipe", None), parts)
