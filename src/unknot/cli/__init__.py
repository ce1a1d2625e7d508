"""The command line, a file for each group of commands: ``unknot run``, ``unknot data`` and so on."""

from unknot.cli import audit, begin, catalogue, compare, plans, reproduce, run
from unknot.cli.app import app

__all__ = ["app", "audit", "begin", "catalogue", "compare", "plans", "reproduce", "run"]
