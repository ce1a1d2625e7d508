import copy

import pytest
from reproduction_findings import FOUND, stat

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
    "flagged": stat(1 / 3, 0.5, 3),
    "over_forgotten": stat(0.0, 0.0, 3),
    "p_before": stat(0.1, 0.1, 3),
    "p_after": stat(0.4, 0.3, 3),
    "asked": stat(4.0),
}


@pytest.fixture
def found():
    made = copy.deepcopy(FOUND)
    made["panels"][0]["lines"][0]["measures"] |= copy.deepcopy(ATTACK)
    return made


def test_three_models_a_line_and_no_rows_without_an_audit(found):
    header, rows = exposure_rows(found["panels"][0])
    assert len(rows) == 3
    assert {len(row) for row in rows} == {len(header)}
    before, after, controls = rows
    assert before == [
        *("RFS", "before the request", "0.62 ± 0.01", "0.550 ± 0.010", "0.020"),
        *("seen in 2 of 3 seeds", "4.0"),
    ]
    assert after[:3] == ["", "after the unlearning (F1 50 % less)", "0.31 ± 0.02"]
    assert after[5] == "still shows in 1 of 3 seeds; no trace found in 1; no power in 1"
    assert controls[1:] == ["controls", "0.60", "0.500", "–", "", ""]


@pytest.mark.parametrize(
    ("sees", "flagged", "over", "said"),
    [
        (0, 0, 0, "no power in 3 of 3 seeds"),
        (3, 0, 0, "no trace found in 3 of 3 seeds"),
        (3, 0, 3, "over-forgotten in 3 of 3 seeds"),
        (2, 2, 0, "still shows in 2 of 3 seeds; no power in 1"),
        (3, 1, 1, "still shows in 1 of 3 seeds; over-forgotten in 1; no trace found in 1"),
    ],
)
def test_outcomes_are_counted_in_seeds(found, sees, flagged, over, said):
    measures = found["panels"][0]["lines"][0]["measures"]
    measures |= {"sees": stat(sees / 3, 0, 3), "flagged": stat(flagged / 3, 0, 3)}
    measures["over_forgotten"] = stat(over / 3, 0, 3)
    assert exposure_rows(found["panels"][0])[1][1][5] == said


def outcomes(found, *without):
    measures = found["panels"][0]["lines"][0]["measures"]
    for name in without:
        del measures[name]
    return [row[5] for row in exposure_rows(found["panels"][0])[1]]


def test_without_controls_nothing_is_said(found):
    assert outcomes(found, "sees", "flagged", "over_forgotten", "p_before", "p_after") == ["", "", ""]


def test_where_what_was_unlearned_has_diverged_in_every_seed_the_model_before_is_still_judged(found):
    assert outcomes(found, "flagged", "over_forgotten", "p_after") == ["seen in 2 of 3 seeds", "", ""]


def test_the_page_says_how_the_f1_is_to_be_read(found):
    page = markdown(found, "unknot reproduce x", None)
    for text in ("toss of a coin", "0.67", "same number of each class", "*no power*", "on either side"):
        assert text in page.replace("\n", " ")
    assert "toss of a coin" not in markdown(FOUND, "unknot reproduce x", None)


def test_the_figure_may_have_bars_alone(found, tmp_path):
    pytest.importorskip("matplotlib")
    found |= {"bars": ["f1_after", "auc_after", "tpr_after"], "curves": False}
    _, _, picture = write(found, tmp_path, "unknot reproduce x")
    text = picture.read_text()
    for words in ("F1 of the attack", "before the request (FedAvg)", "never had the client"):
        assert words in text
    assert "a client is erased" not in text
    assert "TPR" not in text  # there is none of any line


def test_a_line_whose_audit_has_no_controls_has_no_row_of_them(found):
    measures = found["panels"][0]["lines"][0]["measures"]
    for name in ("sees", "flagged", "over_forgotten", "p_before", "p_after", "f1_control", "auc_control"):
        del measures[name]
    _, rows = exposure_rows(found["panels"][0])
    assert [row[1].split(" (")[0] for row in rows] == ["before the request", "after the unlearning"]
