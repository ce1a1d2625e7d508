"""Do audits hold their level, and what do they find? ``python -m benchmarks.audits``."""
