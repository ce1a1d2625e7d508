"""Every page in docs/results is what its records give: ``unknot reproduce --check docs/results --draw``."""

from pathlib import Path

import pytest

from unknot.report.reproduction import differs
from unknot.reproduce import check, names, pages

RESULTS = Path(__file__).parents[2] / "docs" / "results"
EARLIER = dict.fromkeys(("knot-fig5", "knot-fig6c", "knot-table2"), ("mnist-writers",))
"""Panels whose runs are of an earlier configuration, and wait to be run again: the page says so."""


@pytest.mark.parametrize("name", [name for name in names() if (RESULTS / f"{name}-paper.md").exists()])
def test_a_page_is_what_its_records_give(name, monkeypatch):
    monkeypatch.delenv("UNKNOT_DATA", raising=False)  # data or not
    for asked in pages(RESULTS, name):
        assert differs(asked.findings().to_dict(), RESULTS, asked.command) == []


def test_records_are_packed():
    assert not list(RESULTS.glob("*-paper.json"))


@pytest.mark.parametrize("name", [name for name in names() if (RESULTS / f"{name}-paper.md").exists()])
def test_a_page_has_all_runs_that_are_configured_each_of_a_commit_with_its_files_unchanged(name):
    for asked in pages(RESULTS, name):
        found = check(asked)
        assert (found.missing, found.earlier) == ((), EARLIER.get(name, ()))
        stale = {key.partition("/")[0] for one in found.stale for key in one.records}
        assert stale <= set(EARLIER.get(name, ()))
        assert found.doubts == {}
        assert found.runs > 0
