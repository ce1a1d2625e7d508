"""Every option and every public parameter says what it means, where it is written."""

import inspect

import pytest

import unknot
from unknot import registry
from unknot.core.registry.explain import explained

KINDS = [kind for kind in registry.__all__ if isinstance(getattr(registry, kind), registry.Registry)]
PUBLIC = [
    thing
    for name in unknot.__all__
    if callable(thing := getattr(unknot, name))
    and not (isinstance(thing, type) and issubclass(thing, Exception | unknot.Guarantee))
]
METHODS = [
    unknot.Federation.run,
    unknot.Experiment.read,
    unknot.Experiment.of,
    unknot.History.recovery,
    unknot.FederatedData.erase,
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_ours_is_explained(kind):
    known = getattr(registry, kind)
    options = [
        (name, option) for name, thing in known.ours.items() for option in known.options_of(thing).values()
    ]
    assert [f"{name}.{option.name}" for name, option in options if not option.about] == []


@pytest.mark.parametrize("thing", [*PUBLIC, *METHODS], ids=lambda thing: thing.__qualname__)
def test_every_public_parameter_is_explained(thing):
    assert inspect.getdoc(thing)
    parameters = [name for name in inspect.signature(thing).parameters if name != "self"]
    assert [name for name in parameters if not explained(thing, name)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_of_ours_is_explained_in_a_line(kind):
    for name, thing in getattr(registry, kind).ours.items():
        about = getattr(thing, "description", None) or inspect.getdoc(thing) or ""
        assert about.partition("\n")[0].endswith((".", ":")) or kind == "datasets", name
