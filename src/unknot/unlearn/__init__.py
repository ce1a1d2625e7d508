"""Unlearning methods, one a file, named after its paper."""

from unknot.core.errors import ConfigError, nearest
from unknot.federation.method import Method
from unknot.unlearn.rapid import Rapid
from unknot.unlearn.rfs import RFS

METHODS: dict[str, type[Method]] = {method.name: method for method in (RFS, Rapid)}


def make_method(name: str, **options: object) -> Method:
    """A method by its name: ``make_method("rfs")``."""
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}.{nearest(name, METHODS)}")
    return METHODS[name](**options)


__all__ = ["METHODS", "RFS", "Rapid", "make_method"]
