"""Whatever befalls the processes that keep a run, and however often, it comes to what it would have.

A failure names its seed. To play that alone, in tests/store:
``PYTHONPATH=.. python -c "from faultless_twins import play; print(play(68).differs)"``
"""

import pytest
from faultless_twins import play

pytestmark = pytest.mark.usefixtures("in_time")

DAMAGED = (68, 69, 74, 174)
"""Seeds of runs whose newest checkpoint was damaged, and that were broken off again on the way back to it."""
CALLED = (18,)
"""Seeds of runs that were asked for more rounds several times, each time until it was done."""
PUT_BACK = (1005, 1032, 1060)
"""Seeds of runs whose newest checkpoint was away while they were gone on with, and was there again later."""
MANY, BLOCK = 300, 25


@pytest.mark.parametrize("seed", [*DAMAGED, *CALLED, *PUT_BACK])
def test_a_run_of_faulty_lives_ends_as_its_twins_that_met_no_fault(seed):
    assert not (differs := play(seed).differs), differs


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, MANY, BLOCK))
def test_so_do_a_few_hundred_more(first):
    played = [play(seed) for seed in range(first, first + BLOCK)]
    differing = [one.differs for one in played if one.differs]
    assert not differing, "\n\n".join(differing)
    assert any(one.hurt for one in played)
