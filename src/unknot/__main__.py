"""``python -m unknot`` is ``unknot``."""

from unknot.cli import app

app(prog_name="unknot")
