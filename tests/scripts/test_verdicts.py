"""What docs/reproductions.md says of the papers is what the records in docs/results show."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


spec = importlib.util.spec_from_file_location("verdicts", ROOT / "scripts" / "verdicts.py")
verdicts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verdicts)

PAGE = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")


def test_every_figure_in_the_text_is_that_of_its_record():
    written, shown = PAGE.splitlines(), verdicts.refreshed(PAGE).splitlines()
    assert [a for a, b in zip(written, shown, strict=True) if a != b] == []
    assert len(verdicts.FIGURE.findall(PAGE)) > 20


@pytest.mark.parametrize(
    ("source", "is_so"),
    [
        ("set knot-fig4 mnist target.0", "90"),
        ("set knot-fig4 mnist request", "140"),
        ("set incentive-fig4d within", "3"),
        ("paper knot-table2 cifar10 federaser", "2"),
    ],
)
def test_settings_and_published_figures_in_the_text_are_the_pages_own(source, is_so):
    assert f"<!--{source}-->" in PAGE
    assert verdicts.refreshed(f"7<!--{source}-->") == f"{is_so}<!--{source}-->"


def test_hardly_any_published_figure_is_on_no_page():
    assert len(re.findall("<!--paper-->", PAGE)) <= 2
    assert "<!--set-->" not in PAGE


def test_no_figure_of_what_was_found_comes_without_its_record():
    assert verdicts.unsourced(PAGE) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MMT serves 83.7 % at once", 1),
        ("it takes 94 s, or 12 rounds", 2),
        ("83.7<!--exact-table1 mnist mmt first--> % and 3 seeds in Figure 4", 0),
    ],
)
def test_a_figure_without_a_source_is_found(text, found):
    assert len(verdicts.unsourced(f"### What we found\n\n{text}\n\n## Next\n")) == found


@pytest.fixture(scope="module")
def tables():
    return verdicts.tables()


@pytest.fixture(scope="module")
def indexes():
    return verdicts.indexes()


@pytest.mark.parametrize("paper", verdicts.PAPERS)
def test_the_table_of_a_paper_is_what_its_records_give(paper, tables):
    (part,) = re.findall(f"<!-- {paper}: begin -->\n(.*?)<!-- {paper}: end -->", PAGE, re.DOTALL)
    assert part.strip().splitlines() == tables[paper].strip().splitlines()


@pytest.mark.parametrize("paper", verdicts.PAPERS)
def test_what_was_run_is_told_as_the_records_have_it(paper, indexes):
    index = verdicts.INDEX.read_text(encoding="utf-8")
    (part,) = re.findall(f"<!-- {paper}: begin -->\n(.*?)<!-- {paper}: end -->", index, re.DOTALL)
    assert part.strip().splitlines() == indexes[paper].splitlines()
    assert "seeds" in part
