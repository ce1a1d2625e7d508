"""A comparison as a page: it stands alone, escapes what people wrote, and has every run."""

import copy
import re

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
    places = re.findall(r'<circle cx="([\d.]+)%" cy="([\d.]+)%" r="5"', made(methods=same[:2]))
    assert len(set(places)) == 2
