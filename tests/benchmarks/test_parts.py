"""A command rewrites its own part of a page, and nothing else of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from benchmarks import parts, run

DOCS = Path(__file__).parents[2] / "docs"


def test_a_part_is_replaced_where_it_is_and_the_rest_stays():
    page = parts.put("# Title\n\nby hand\n", "one", "first")
    page = parts.put(page + "\nalso by hand\n", "two", "| a |\n")
    again = parts.put(page, "one", "other\n\n## lines\n")
    assert again == page.replace("first", "other\n\n## lines")
    assert parts.put(again, "one", "first") == page
    assert page.index("by hand") < page.index("first") < page.index("also by hand") < page.index("| a |")


def test_a_part_that_is_not_whole_is_refused():
    page = parts.put("", "one", "text")
    for broken in (page.replace("<!-- one: end -->", ""), page + page):
        with pytest.raises(ValueError, match="once each"):
            parts.put(broken, "one", "new")


def test_the_benchmark_keeps_what_others_wrote(tmp_path, monkeypatch):
    """A run of it over the real page: all headings stay in their order, all text outside its parts stays."""
    before = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    (tmp_path / "benchmarks.md").write_text(before, encoding="utf-8")
    monkeypatch.setattr(run, "measure", lambda *_: measured())
    monkeypatch.setattr(sys, "argv", ["run", "--contestants", "unknot", "--docs", str(tmp_path)])
    run.main()
    after = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "| **unknot** | 0.1234 |" in after
    assert "first round done 7.0 s" in after
    assert "plain PyTorch loop" not in after.partition("rounds: end")[0].partition("rounds: begin")[2]
    own = re.compile(r"<!-- (rounds|scale): begin -->.*?<!-- \1: end -->", re.DOTALL)
    assert own.sub("", after) == own.sub("", before)
    assert re.findall("^## .*$", after, re.MULTILINE) == re.findall("^## .*$", before, re.MULTILINE)


def measured() -> dict[str, object]:
    one = {"contestant": "unknot", "settings": {}, "versions": {}, "seconds_per_round": 0.1234, "rounds": 2}
    one |= {"startup_seconds": 1.0, "warmup_seconds": 0.5, "peak_memory_mib": 100.0, "loss": 0.5}
    scale = {"clients": 10, "per_round": 2, "first_round_done_seconds": 7.0, "seconds_per_round": 0.1}
    return {
        "machine": dict.fromkeys(("date", "cores", "cpu", "memory_gib", "system"), "?"),
        "repeats": 1,
        "runs": [{**one, "workload": workload} for workload in ("W1", "W2")],
        "scale": scale | {"peak_rss_mb": 100.0},
    }
