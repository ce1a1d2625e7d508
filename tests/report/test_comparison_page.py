"""A comparison as a page: it stands alone, escapes what people wrote, and has every run."""

import copy
import re

import pytest
from comparison_records import COMPARISON

from unknot.report import comparison_page
from unknot.report.compared import guarantees, notes, parts

ROW = {
    "method": "rfs",
    "seed": 2,
    "before": 0.95,
    "after": 0.1,
    "final": None,
    "regained_rounds": 0,
    "model": "abcd1234",
    "error": None,
}


def made(**more):
    return comparison_page.page({**copy.deepcopy(COMPARISON), "rows": [ROW], **more})


def test_the_page_says_what_the_screen_does_and_has_every_run():
    text = made()
    for part in parts(COMPARISON):
        assert part.title in text
        assert all(cell in text for column in part.columns for cell in column.cells)
    assert all(note in text for note in notes(COMPARISON))
    assert all(who in text for who, _ in guarantees(COMPARISON))
    assert "abcd1234" in text


def test_nothing_is_fetched_and_nothing_runs():
    text = made()
    assert "<script" not in text
    assert not re.search(r"(src|href)=|url\(|@import|https?:", text)


def test_what_people_wrote_is_text():
    odd = copy.deepcopy(COMPARISON["methods"])
    odd[0] |= {"method": "<script>x", "warnings": ["seed 0: <b>"]}
    text = made(methods=odd, experiment="<i>", settings={"name": "</pre><script>"})
    assert "<script" not in text
    assert "<i>" not in text
    assert "&lt;script&gt;x" in text


def test_what_went_wrong_comes_first_and_without_runs_there_are_no_pictures():
    failed = copy.deepcopy(COMPARISON["methods"])
    for item in failed:
        nothing = {"curve": None, "stats": dict.fromkeys(item["stats"]), "guarantee": None}
        item |= {"failed": 3, "error": "no public samples", **nothing}
    text = made(methods=failed)
    assert text.index("no public samples") < text.index("Figures")
    assert "<svg" not in text


def test_without_a_request_and_of_another_metric_there_is_a_page_too():
    text = made(erasures=0, requests=[], share=False, metric="loss", falls=True, seeds=[0])
    assert "at the end" in text
    assert "right after" not in text.split("Every run")[0]


def test_dots_that_would_coincide_lie_side_by_side():
    same = copy.deepcopy(COMPARISON["methods"])
    same[1]["stats"] = same[0]["stats"]
    below = made(methods=same[:2]).rpartition("<figure>")[2]
    places = re.findall(r'<svg x="([\d.]+)%" y="([\d.]+)%"', below)
    assert len(places) == len(set(places)) == 2


def test_every_method_has_a_chart_in_which_the_line_falls_to_what_is_served_right_after():
    text = made().split('class="multiples"')[1].split("</figure>")[0]
    charts = text.split("<h3>")[1:]
    assert len(charts) == len(COMPARISON["methods"])
    for chart, method in zip(charts, COMPARISON["methods"], strict=True):
        assert method["method"] in chart
        (line,) = re.findall(rf'<path d="([^"]+)"[^>]*><title>{method["method"]}<', chart)
        before, at, after = map(int, re.match(r"M0 (\d+)H(\d+)V(\d+)", line).groups())
        assert after > before  # downwards
        (place,) = re.findall(r'<svg x="([\d.]+)%" y="([\d.]+)%"', chart)  # in 2000 units, and in per cent
        assert [float(part) for part in place] == pytest.approx([at / 20, after / 20], abs=0.05)


def test_methods_are_told_apart_without_their_colours():
    many = [{**copy.deepcopy(COMPARISON["methods"][0]), "method": f"m{i}"} for i in range(20)]
    looks = [(comparison_page._shape(i), i % 8) for i in range(len(many))]
    assert len(set(looks)) == len(looks)
    assert "open" in comparison_page._sign(0, {"guarantee": "approximate: pushed away"})
    assert comparison_page._sign(0, {"guarantee": "exact"}) == "circle"
