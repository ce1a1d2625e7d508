"""Exactness, fuzzed: what is served after any script of requests has nothing of what was erased."""

import pytest

from fuzz_scripts import draw, variants
from unknot.audit import gap

FEW, MANY = range(10), range(10, 316)


def check(number):
    script = draw(number)
    model = script.serve(script.data)
    for name, data in variants(script).items():
        found = gap(model, script.serve(data))
        assert found == 0.0, (number, name, found, script.about, [str(r) for r in script.requests])


@pytest.mark.parametrize("number", FEW)
def test_what_is_served_does_not_depend_on_what_was_erased(number):
    check(number)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(0, len(MANY), 25))
def test_nor_in_a_few_hundred_further_scripts(block):
    for number in MANY[block : block + 25]:
        check(number)
