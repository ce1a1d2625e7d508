"""What tests of kept runs share: a limit of time."""

import signal

import pytest

SECONDS = 120


@pytest.fixture
def in_time(request):
    """A run that waits for a word that does not come, as one that is paused does, fails its test."""

    limit = SECONDS * (10 if request.node.get_closest_marker("slow") else 1)

    def late(*_):
        raise TimeoutError(f"still waiting after {limit} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
