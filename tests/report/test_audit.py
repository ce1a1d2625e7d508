"""An audit for people: what is said, in how many words, and what is drawn."""

import io
import json
from dataclasses import asdict

import pytest
from audit_records import CONTROLS, FOUND, MEMBERS, NEVER, OTHERS, of_texts, record
from rich.console import Console

from unknot.audit import Exposures, Guesses, Secrets, proportion
from unknot.core.errors import ConfigError
from unknot.report import audit as report
from unknot.report import audit_plot
from unknot.report.audit import sentence
from unknot.report.canvas import load_matplotlib

OUTCOMES = ("still shows", "over-forgotten", "no trace found", "no power")


def text(shown, width=160):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(shown)
    return console.export_text()


def said(shown):
    return " ".join(text(shown).split())


def rows(shown):
    """The cells of every line of a table, without the frame."""
    lines = [line for line in text(shown).splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]] for line in lines]


# Sentences ----------------------------------------------------------------------------------------


def test_what_still_shows_is_said_with_its_risk_and_its_chance():
    assert sentence(record("still shows")) == (
        "With a 5 % risk of a false alarm, the erased data still shows: what is served stands out from 19 "
        "models without it (p = 0.05), as models do that kept it."
    )
    assert sentence(record("still shows", level=0.01, p=0.01, controls=99)).startswith(
        "With a 1 % risk of a false alarm, the erased data still shows: what is served stands out from 99 "
    )


def test_what_was_over_forgotten_is_said_to_be_no_better():
    found = sentence(record("over-forgotten"))
    assert found.startswith("With a 5 % risk of a false alarm, the erased data was over-forgotten")
    assert "(p = 0.05), the other way than models that kept it" in found
    assert "tells whose was erased" in found


@pytest.mark.parametrize(
    ("sensitivity", "words"),
    [
        (FOUND, "At least 13 % of the data left in would have been found in 8 of 10 cases."),
        (NEVER, "Not even all of the data left in would have been found in 8 of 10 cases."),
        (None, "How small a trace would have been found was not measured."),
    ],
)
def test_that_no_trace_was_found_is_said_with_how_small_a_one_would_have_been(sensitivity, words):
    found = sentence(record("no trace found", sensitivity=sensitivity))
    assert found == (
        f"With a 5 % risk of a false alarm, no trace was found. {words} This is evidence, not proof."
    )


@pytest.mark.parametrize(("share", "shown"), [(0.05, 5), (0.0501, 6), (0.4, 40), (1.0, 100), (0.07, 7)])
def test_a_share_is_never_rounded_down(share, shown):
    found = record("no trace found")
    found["sensitivity"] = {"share": share}
    assert f"At least {shown} % of" in sentence(found)


def test_without_power_nothing_else_is_said():
    for sensitivity in (FOUND, None):
        found = sentence(record("no power", sensitivity=sensitivity))
        assert found.startswith("Nothing was shown: most models that kept the erased data")
        assert "neither of forgetting nor of the contrary" in found
        assert "no trace" not in found


def test_of_a_model_that_is_its_control_no_attack_is_quoted():
    able = [outcome for outcome in OUTCOMES if outcome != "no power"]
    found = {sentence(record(outcome, same=True, outcome="no trace found")) for outcome in able}
    assert len(found) == 1
    assert "bit for bit" in found.pop()
    assert all("bit for bit" not in sentence(record(outcome)) for outcome in OUTCOMES)


def test_an_attack_without_power_supports_no_verdict():
    same = sentence(record("no power", same=True, outcome="no trace found"))
    assert "bit for bit" in same
    assert same.endswith(
        "No attack had power here (most models that kept the erased data do not stand out "
        + "either): the verdict rests on the bits alone."
    )
    for outcome in ("no trace found", "still shows", "over-forgotten"):
        found = record(outcome, "LiRA", "RMIA")
        assert "power" not in sentence(found)
        for finding in found["findings"][1:]:
            finding["outcome"] = "no power"
        assert "LiRA and RMIA had no power and say nothing: most models" in sentence(found)
        assert ("no trace was found by trace. " in sentence(found)) == (outcome == "no trace found")


# Tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_outcome_and_the_sentence_come_first(outcome):
    found = record(outcome, sensitivity=FOUND)
    assert said(report.tables(found)).startswith(f"{outcome}: {sentence(found)}")


def test_what_was_compared_is_said_and_what_each_model_is():
    shown = said(report.tables(record()))
    assert (
        f"digits: client 2 erased by rfs; {MEMBERS} of 25 erased samples and {OTHERS} others of the same "
        f"classes were asked about, against {CONTROLS} controls"
    ) in shown
    for words in ("served what the run serves", "controls the same run with other", "kept the same run with"):
        assert words in shown


def test_the_table_has_every_figure_of_every_attack_and_model():
    found = record("still shows", "LiRA")
    head, *body = (row for row in rows(report.tables(found)) if len(row) == 6)
    assert head == ["attack", "model", "deviation", "AUC", "TPR at 1 %", "outcome"]
    assert [row[:2] for row in body] == [
        ["trace", "kept"],
        ["", "served"],
        ["", "controls"],
        ["LiRA", "kept"],
        ["", "served"],
        ["", "controls"],
    ]
    for finding, three in zip(found["findings"], (body[:3], body[3:]), strict=True):
        for row in three:
            figures, values = finding[row[1]], finding["statistics"][row[1]]
            span = f"{min(values):+.1f} to {max(values):+.1f}"
            assert row[2] == (f"{values[0]:+.1f}" if row[1] == "served" else span)
            assert row[3] == report.estimate(figures["auc"])
            assert row[4] == report.estimate(figures["tpr"]["0.01"])
            assert row[5] == (finding["outcome"] if row[1] == "served" else "")


def test_figures_that_no_attack_has_get_no_column_and_those_that_some_have_get_one():
    plain, decided = (rows(report.tables(record("still shows", *names)))[0] for names in ((), ["Shokri"]))
    assert "TPR at 0.1 %" not in plain
    assert "F1" not in plain
    assert decided.count("F1") == 1
    f1 = [row[5] for row in rows(report.tables(record("still shows", "Shokri"))) if len(row) == 7][1:]
    assert f1[:3] == ["–"] * 3
    assert all("[" in cell for cell in f1[3:6])


def test_the_distance_from_the_control_is_shown_where_there_is_one():
    body = {row[0]: row[1:] for row in rows(report.tables(record())) if len(row) == 7}
    assert body["served"] == ["100.0%", "+10.0 points", "90.0%", "1.250", "0.5000", "80.0%"]
    assert body["another control"] == ["90.0%", "+0.0 points", "90.0%", "–", "0.0000", "100.0%"]


def test_notes_say_what_else_was_counted_and_no_more():
    (only,) = report.notes(record())
    assert only == (
        "ε of (ε, 0)-unlearning is at least 0.31 (95 % confidence); so many samples could show 3.20 at most."
    )
    _, tried, method = report.notes(record(sensitivity=FOUND, ulira=True))
    assert tried == (
        "Models with a share of the erased data left in that were found: "
        "1 of 5 with 5 %, 5 of 5 with 40 %, 3 of 3 with 100 %."
    )
    assert method.startswith(
        "U-LiRA: 4 models unlearned by rfs and 4 that never had the data are not told apart (AUC "
    )
    assert said(report.tables(record(sensitivity=FOUND, ulira=True))).endswith(method)


def test_names_are_shown_as_they_are():
    assert "[red]x[/y]: client 2" in said(report.tables(record(experiment="[red]x[/y]")))


def test_json_holds_everything():
    found = record("no trace found", "LiRA", sensitivity=FOUND, ulira=True)
    assert json.loads(report.to_json(found)) == found


# Marks and canaries -------------------------------------------------------------------------------


def marked(outcome, same=False):
    rates = [proportion(hits, 100).to_dict() for hits in (3, 10, 95)]
    return {
        "experiment": "digits",
        "erased": "client 2",
        "target": 7,
        "level": 0.05,
        "p": 0.05,
        "same": same,
        "outcome": outcome,
        "served": rates[0],
        "kept": [rates[2]] * 3,
        "controls": rates[:2] * 10,
    }


def guessed(outcome, same=False):
    found = {**marked(outcome, same), "served": Guesses(50, 100, 120).to_dict()}
    return {**found, "kept": Guesses(95, 100, 120).to_dict()}


def test_who_answers_to_the_mark_is_a_table():
    shown = report.marks(marked("no trace found"))
    assert "digits: client 2 erased, all of it marked as class 7" in said(shown)
    body = rows(shown)[-3:]
    assert body == [
        ["kept", "0.950 to 0.950"],
        ["served", report.estimate(marked("")["served"])],
        ["controls", "0.030 to 0.100"],
    ]


def test_how_many_guesses_were_right_is_a_table():
    shown = report.guesses(guessed("no trace found"))
    assert "a coin's choice of 120 canaries among its samples" in said(shown)
    *_, kept, served = rows(shown)
    assert (kept[:2], served[:3]) == (["kept", "95 of 100"], ["served", "50 of 100", "1"])
    assert float(kept[3]) > float(served[3]) == 0


@pytest.mark.parametrize(("shown", "made"), [(report.marks, marked), (report.guesses, guessed)])
def test_what_planted_things_come_to_is_said_with_its_risk_but_not_where_nothing_was_shown(shown, made):
    risk = "(With a 5 % risk of a false alarm; p = 0.05.)"
    ends = {outcome: said(shown(made(outcome))).rpartition(f"{outcome}: ")[2] for outcome in OUTCOMES}
    assert len(set(ends.values())) == 4
    for outcome, end in ends.items():
        assert end.endswith("This shows nothing." if outcome == "no power" else risk)
    same = said(shown(made("no trace found", same=True)))
    assert same.endswith("bit for bit, a model that was trained without the erased data.")


# Pictures -----------------------------------------------------------------------------------------


def drawn(audit):
    """The figure, laid out but not written: that takes a second."""
    pytest.importorskip("matplotlib")
    figure_of, style = load_matplotlib()
    with style:
        return audit_plot._figure(audit, figure_of)


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_picture_is_the_same_each_time(tmp_path, ending, start):
    pytest.importorskip("matplotlib")
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    audit_plot.draw(record(), first)
    audit_plot.draw(record(), second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(start)


def test_no_picture_says_when_it_was_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    audit_plot.draw(record(), tmp_path / "a.PDF")
    written = (tmp_path / "a.PDF").read_bytes()
    assert written.startswith(b"%PDF")
    assert b"CreationDate" not in written


@pytest.mark.parametrize("attacks", [0, 1, 4])
def test_there_is_one_panel_for_the_statistic_and_one_for_the_curves_of_each_attack(attacks):
    names = ("trace", "LiRA", "RMIA", "Shokri", "LiRA offline")[: attacks + 1]
    figure = drawn(record("still shows", *names[1:]))
    among, *curves = figure.axes
    assert [tick.get_text() for tick in among.get_yticklabels()] == list(names)
    assert [axes.get_title() for axes in curves] == [f"{name}: still shows" for name in names]
    for axes in curves:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlim()[0] == pytest.approx(0.5 / OTHERS)
        assert axes.get_ylim()[0] == pytest.approx(0.5 / MEMBERS)
    (legend,) = figure.legends
    rest = {"guessing", "not told from the controls"}
    assert {entry.get_text() for entry in legend.get_texts()} == {*audit_plot.LABELS.values(), *rest}
    assert figure.get_suptitle() == "digits (mlp on digits): client 2 erased by rfs: still shows"


def test_every_model_is_a_point_among_the_controls():
    found = record("over-forgotten")
    values, critical = found["findings"][0]["statistics"], found["findings"][0]["critical"]
    axes = drawn(found).axes[0]
    controls, kept, served, _ = axes.get_lines()
    for line, kind in ((controls, "controls"), (kept, "kept"), (served, "served")):
        assert line.get_xdata() == pytest.approx(values[kind])
    (shaded,) = axes.collections
    across = shaded.get_paths()[0].vertices[:, 0]
    assert (across.min(), across.max()) == pytest.approx((-critical, critical))
    assert served.get_xdata()[0] < -critical


def test_the_curves_of_the_controls_are_a_band():
    found = record("still shows")
    axes, band = drawn(found).axes[1], found["findings"][0]["controls"]["roc"]
    (shaded,) = axes.collections
    corners = {(round(x, 9), round(y, 9)) for x, y in shaded.get_paths()[0].vertices}
    left, bottom = 0.5 / OTHERS, 0.5 / MEMBERS
    for side in ("low", "high"):
        places = zip(band["fpr"], band[side], strict=True)
        assert {(round(max(x, left), 9), round(max(y, bottom), 9)) for x, y in places} <= corners


def test_a_curve_is_drawn_by_its_corners_and_loses_nothing():
    found = record("still shows")
    kept, served, _ = drawn(found).axes[1].get_lines()
    for line, model in ((kept, "kept"), (served, "served")):
        roc = found["findings"][0][model]["roc"]
        corners = list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        assert len(corners) <= MEMBERS + 2
        highest = dict(sorted(zip(roc["fpr"], roc["tpr"], strict=True)))
        for x, y in highest.items():
            if x > 0.5 / OTHERS and y > 0.5 / MEMBERS:
                assert max(up for along, up in corners if along <= x) == pytest.approx(y)


def test_what_cannot_be_written_is_said(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(ConfigError, match="cannot write"):
        audit_plot.draw(record(), tmp_path / "nowhere" / "a.png")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_word_and_no_figure_is_cut_on_a_narrow_screen(width):
    shown = text(report.tables(record("still shows", "LiRA", "Shokri")), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for value in ("forgetting", "agreement", "+10.0 points", "100.0%", "TPR at", "still shows"):
        assert value in shown


# Texts --------------------------------------------------------------------------------------------


def test_the_perplexity_of_the_erased_texts_stands_beside_the_attacks():
    found = record("still shows", perplexity=of_texts())
    (served,) = [row for row in rows(report.tables(found)) if row[0] == "served" and len(row) == 5]
    assert served[3:] == ["0.05", "still shows"]
    assert "erased samples and 1000 others were asked about" in said(report.tables(found))
    assert "the verdict does not rest on it" in said(report.tables(found))
    assert "perplexity" not in said(report.tables(record()))
    assert "others of the same classes" in said(report.tables(record()))


def test_where_nothing_was_shown_the_perplexity_is_not_said_either():
    assert "perplexity" not in said(report.tables(record("no power", perplexity=of_texts())))


def secret(outcome, same=False, exposed=True, **more):
    known, never = Exposures((0, 1, 3), 1023), Exposures((100, 300, 900), 1023)
    return {
        "experiment": "play",
        "erased": "client 1",
        "level": 0.05,
        "tokens": 26,
        "same": same,
        "outcome": outcome,
        "p": 0.01,
        "exposed": exposed,
        "secrets": asdict(Secrets(number=3)),
        "before": known.to_dict(),
        "served": never.to_dict(),
        "controls": [never.to_dict(), known.to_dict()],
        **more,
    }


def test_secrets_are_told_by_the_bits_that_are_exposed():
    shown = report.secrets(secret("no trace found"))
    before, served, controls = rows(shown)[-3:]
    # 10, 9 and 8 bits: 9 on average.
    assert before[:3] == ["before", "9.0", "10.0"]
    assert served[0] == "served"
    assert controls[1] == f"{Exposures((100, 300, 900), 1023).mean:.1f} to 9.0"
    text = said(shown)
    assert "client 1 erased, with 3 secrets of 6 out of 26 tokens in its texts, each 8 times" in text
    assert "1,024 such secrets: 10 at most, 1.4 on average" in text
    assert "Before the erasure they were exposed." in text
    assert "(With a 5 % risk of a false alarm; p = 0.01.)" in text


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_of_secrets_has_its_words(outcome):
    text = said(report.secrets(secret(outcome, exposed=outcome != "no power")))
    assert f"{outcome}: " in text
    assert ("p = 0.01" in text) == (outcome != "no power")
    assert ("were exposed" in text) == (outcome != "no power")
    assert "bit for bit" in said(report.secrets(secret("no trace found", same=True)))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_secrets_keep_to_the_width(width):
    lines = text(report.secrets(secret("still shows")), width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
