"""unknot: federated learning that can forget, and can prove it."""

__version__ = "0.1.0"
