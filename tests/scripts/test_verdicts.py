"""What docs/reproductions.md says of the papers is what the records in docs/results show."""

import re

import pytest

from scripts import verdicts
from scripts.prose import FIGURE, WAY, prose, refreshed, unsourced, untrue

TEXTS = {page.name: page.read_text(encoding="utf-8") for page in verdicts.PAGES}
PAGE = TEXTS["reproductions.md"]
ALL = "\n".join(TEXTS.values())


@pytest.mark.parametrize("page", TEXTS)
def test_every_figure_in_the_text_is_that_of_its_record(page):
    written, shown = TEXTS[page].splitlines(), refreshed(TEXTS[page]).splitlines()
    assert [a for a, b in zip(written, shown, strict=True) if a != b] == []
    assert page == "reproductions.md" or len(FIGURE.findall(TEXTS[page])) > 50


@pytest.mark.parametrize("page", TEXTS)
def test_how_lines_stand_to_each_other_is_as_claims_are_judged(page):
    assert untrue(TEXTS[page]) == []
    assert len(WAY.findall(TEXTS[page])) >= 5


def test_which_published_figures_are_on_no_page():
    """The authors' samples and rounds of the request are in their configurations, the others in the text."""
    assert {n for n, source in FIGURE.findall(ALL) if source == "paper"} == {
        *("600", "17", "8", "0.3", "100", "300")
    }
    assert "<!--set-->" not in ALL


@pytest.mark.parametrize("page", TEXTS)
def test_no_figure_of_what_was_found_comes_without_its_record(page):
    assert unsourced(TEXTS[page]) == []
    assert len(prose(TEXTS[page])) > 4_000


def test_the_tables_of_the_papers_are_what_their_records_give():
    for part, table in verdicts.tables().items():
        (there,) = re.findall(f"<!-- {part}: begin -->\n(.*?)<!-- {part}: end -->", PAGE, re.DOTALL)
        assert there.strip().splitlines() == table.strip().splitlines(), part


def test_what_was_run_is_told_as_the_records_have_it():
    index = verdicts.INDEX.read_text(encoding="utf-8")
    for paper, table in verdicts.indexes().items():
        (part,) = re.findall(f"<!-- {paper}: begin -->\n(.*?)<!-- {paper}: end -->", index, re.DOTALL)
        assert part.strip().splitlines() == table.splitlines(), paper
        assert "seeds" in part


@pytest.mark.parametrize(
    ("source", "is_so"),
    [
        ("set knot-fig4 mnist target.0", "90"),
        ("set knot-fig4 mnist request", "140"),
        ("set knot-fig4 mnist knot data.samples", "500"),
        ("set incentive-fig4d within", "3"),
        ("paper knot-table2 cifar10 federaser", "2"),
        ("paper knot-fig6a about", "200"),
        ("less knot-fig5 mnist-writers knot", "38"),
        ("knot-fig6a shakespeare random by_seed.kept.most", "40"),
        ("knot-fig4 mnist random watched", "26"),
    ],
)
def test_settings_and_published_figures_in_the_text_are_the_pages_own(source, is_so):
    assert f"<!--{source}-->" in ALL
    assert refreshed(f"7<!--{source}-->") == f"{is_so}<!--{source}-->"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("seeds knot-fig5 location30", 5),
        ("seeds knot-fig5 location30 knot", 5),
        ("seeds knot-fig5 location30 knot total", 4),
        ("seeds knot-fig5 location30 fedavg kept", 0),
        ("seeds knot-fig5 mnist-writers rapid end below 11", 3),
        ("seeds knot-fig4 mnist random kept above seconds", 1),
        ("seeds exact-table1 mnist-unit fats rounds.1", 1),
        ("same knot-fig4 mnist random random-back", 4),
        ("parted incentive-fig4d evolutionary greedy", 4),
        ("parted incentive-fig4d evolutionary greedy apart.4", 1),
        ("reports knot-fig5 location30 knot least", 246),
        ("reports knot-fig5 location30 knot 3 there", 10),
        ("draws incentive-fig4a", 100),
        ("draws incentive-fig4a periods 300 level greedy", 83),
        ("draws incentive-fig4b rates 0.001 below greedy", 98),
        ("draws incentive-fig4c clients least below greedy", 96),
        ("seeds knot-fig5 cifar10", 3),
        ("seeds knot-fig5 cifar10 rapid", 2),
    ],
)
def test_a_count_of_seeds_reports_or_draws_is_that_of_the_records(source, count):
    assert f"<!--{source}-->" in ALL
    assert refreshed(f"7<!--{source}-->") == f"{count}<!--{source}-->"
