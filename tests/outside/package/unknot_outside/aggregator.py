"""A part of the way to where the clients went."""

from unknot.core.weights import weighted_sum


def cautious(current, updates, version, ledger, *, share: float = 0.5):
    """The current model plus `share` of the mean of the clients' changes."""
    changes = [(share / len(updates), update.step) for update in updates]
    return weighted_sum([(1.0, current), *changes], ledger, "aggregate an update")
