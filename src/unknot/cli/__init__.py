"""The command line, a file for each group of commands: ``unknot run``, ``unknot data`` and so on."""

from unknot.cli import ask, audit, begin, catalogue, compare, plans, reproduce, resume, run, runs
from unknot.cli.app import app

__all__ = [
    "app",
    "ask",
    "audit",
    "begin",
    "catalogue",
    "compare",
    "plans",
    "reproduce",
    "resume",
    "run",
    "runs",
]
