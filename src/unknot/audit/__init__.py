"""Does it really forget? Checks that can fail."""

from unknot.audit.interference import Interference, gap, interference, variants

__all__ = ["Interference", "gap", "interference", "variants"]
