"""How fast a round is, beside the plain loop and two other simulators. See docs/benchmarks.md."""
