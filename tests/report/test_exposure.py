import copy

import pytest
from test_plots import FOUND, stat

from unknot.report.exposure import exposure_rows
from unknot.report.reproduction import markdown, write

ATTACK = {
    "f1_before": stat(0.62, 0.01, 3),
    "f1_after": stat(0.31, 0.02, 3),
    "f1_control": stat(0.6),
    "f1_fall": stat(0.5, 0.01, 3),
    "auc_before": stat(0.55, 0.01, 3),
    "auc_after": stat(0.51),
    "auc_control": stat(0.5),
    "tpr_before": stat(0.02),
    "sees": stat(2 / 3, 0.5, 3),
    "flagged": stat(0.0, 0.0, 3),
    "asked": stat(4.0),
}


@pytest.fixture
def found():
    made = copy.deepcopy(FOUND)
    made["panels"][0]["lines"][0]["measures"] |= ATTACK
    return made


def test_three_models_a_line_and_no_rows_without_an_audit(found):
    header, rows = exposure_rows(found["panels"][0])
    assert len(rows) == 3
    assert {len(row) for row in rows} == {len(header)}
    before, after, control = rows
    assert before == [
        *("RFS", "before the request", "0.62 ± 0.01", "0.550 ± 0.010", "0.020"),
        *("in 2 of 3 seeds", "4.0"),
    ]
    assert after[:3] == ["", "after the unlearning (F1 50 % less)", "0.31 ± 0.02"]
    assert after[5] == "in 0 of 3 seeds"
    assert control[1:] == ["control", "0.60", "0.500", "–", "", ""]


def test_the_page_says_how_the_f1_is_to_be_read(found):
    page = markdown(found, "unknot reproduce x", None)
    for text in ("toss of a coin", "0.67", "same number of each class"):
        assert text in page.replace("\n", " ")
    assert "toss of a coin" not in markdown(FOUND, "unknot reproduce x", None)


def test_the_figure_may_have_bars_alone(found, tmp_path):
    pytest.importorskip("matplotlib")
    found |= {"bars": ["f1_after", "auc_after", "tpr_after"], "curves": False}
    _, _, picture = write(found, tmp_path, "unknot reproduce x")
    text = picture.read_text()
    for words in ("F1 of the attack", "before the request (FedAvg)", "never had the client"):
        assert words in text
    assert "a client leaves" not in text
