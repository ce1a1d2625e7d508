"""Clients in settings are numbers in what is kept, and who is still there is named again."""

import pytest

from unknot.core.by_number import Numbers, by_name, by_number, numbers_in, texts_in, without

NAMES = {0: "Graz", 3: "Linz", 4: "#3", 7: "Zürich", 8: "wien", 9: "Wien"}
SETTINGS = [
    ["Graz", "nobody", 3, "Linz"],
    {"Linz": ["Graz"], "other": {"#3": 1}},
    [["#3", "##3", "#nine", "#"], [{"Wien": "wien"}], []],
    "Graz",
    1.5,
    None,
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_as_long_as_all_are_there_it_comes_back_as_it_was(setting):
    assert by_name(by_number(setting, Numbers(NAMES)), NAMES) == setting


def test_lists_and_keys_have_no_name_and_a_text_alone_is_left():
    kept = by_number({"x": ["Graz"], "Linz": "Graz", "Z\u0075\u0308rich": 1}, Numbers(NAMES))
    assert kept == {"x": ["#0"], "#3": "Graz", "#7": 1}


def test_capitals_count_only_where_names_differ_by_them():
    kept = by_number(["GRAZ", "zU\u0308rich", "wien", "Wien"], Numbers(NAMES))
    assert kept == ["#0", "#7", "#8", "#9"]
    assert by_name(kept, NAMES) == ["Graz", "Zürich", "wien", "Wien"]


def test_who_is_gone_is_left_out_in_order():
    kept = by_number([["Linz", "Graz", "x"], {"Graz": 1, "Linz": 2}], Numbers(NAMES))
    assert by_name(kept, {3: "Linz"}) == [["Linz", "x"], {"Linz": 2}]
    assert without(kept, [0]) == [["#3", "x"], {"#3": 2}]
    assert numbers_in(kept) == {0, 3}


def test_texts_are_told_with_their_setting():
    told = list(texts_in({"name": "a", "data": {"x": ["b", ["c"]], "y": {"z": "d"}, "n": 1}}))
    assert [one for one in told if len(one[1]) == 1 and one[1] in "abcd"] == [
        *(("name", "a"), ("data.x", "b"), ("data.x", "c"), ("data.y.z", "d"))
    ]
    assert {("", "data"), ("data", "y"), ("data.y", "z")} <= set(told)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            ("Graz", "Linz,graz"),
            ("Zürich", "ZU\u0308RICH-2"),
            ("Graz", "data_Graz/"),
            ("Graz", "Graz2024/x.csv"),
        ),
        *(("Graz", "Graz_study"), ("Graz", "2024graz"), ("Graz", "GrazStudy"), ("Graz", "dataGraz")),
        *(("McDonald", "dataMcDonald"), ("site1", "site1_a"), ("site 1", "the site 1b")),
        *(("12", "data_12"), ("12", "a/12.csv"), ("STRASSE", "straße-2"), ("McDonald", "mcdonald-2")),
    ],
)
def test_a_text_that_has_a_name_is_found(name, text):
    assert Numbers({0: "Wien", 7: name}).within(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            ("Graz", "Linz"),
            ("Graz", "grazing"),
            ("Graz", "Bregraz_1"),
            ("Graz", "GRAZING"),
            ("Graz", "gra_z"),
        ),
        *(("site1", "site12"), ("1site", "21site"), ("Zürich", "zurich"), ("Zürich", "Züricher")),
        *(("12", "512"), ("12", "0.125"), ("2", "conv2d"), ("2", "data2"), ("2", "2nd")),
    ],
)
def test_what_is_inside_a_longer_word_or_number_is_no_name(name, text):
    assert not Numbers({7: name}).within(text)
