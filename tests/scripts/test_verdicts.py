"""The tables of docs/reproductions.md and docs/results are what the records in docs/results give."""

import re

import pytest

from scripts import verdicts


@pytest.mark.slow  # all records of all pages are read
@pytest.mark.parametrize(("page", "made"), [("PAGE", "tables"), ("INDEX", "indexes")])
def test_the_tables_are_what_the_records_give(page, made):
    text = getattr(verdicts, page).read_text(encoding="utf-8")
    for part, table in getattr(verdicts, made)().items():
        (there,) = re.findall(f"<!-- {part}: begin -->\n(.*?)<!-- {part}: end -->", text, re.DOTALL)
        assert there.strip().splitlines() == table.strip().splitlines(), part
