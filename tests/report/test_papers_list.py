"""The list of reproductions: below each paper its own."""

import pytest
from rich.console import Console

from unknot.report.catalogue import by_paper
from unknot.reproduce import load, names, overview


def shown(width, long):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(by_paper([entry.to_dict() for entry in overview()], long))
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("long", [False, True])
def test_a_paper_stands_once_above_its_reproductions(long):
    lines = shown(80, long)
    papers = {load(name).paper for name in names()}
    assert len(papers) == 3
    at = {paper: lines.index(paper) for paper in papers}
    for name in names():
        (place,) = (i for i, line in enumerate(lines) if line.split()[:1] == [name])
        assert max((p for p in papers if at[p] < place), key=at.__getitem__) == load(name).paper
    assert max(map(len, lines)) <= 80
    assert lines[0] in papers


def test_what_is_of_no_paper_comes_last_and_says_so():
    entries = [
        {"name": "mine", "figure": "1", "title": "t", "paper": "", "scales": []},
        {"name": "other", "figure": "2", "title": "u", "paper": "P", "scales": []},
    ]
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(by_paper(entries))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[:5] == ["P", "other  2  u", "", "Of no paper", "mine   1  t"]
