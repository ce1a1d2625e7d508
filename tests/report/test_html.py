"""Pages stand alone, and nothing that is put into one can break out of it."""

import re
from html.parser import HTMLParser

import pytest

from unknot.report import html
from unknot.report.html import Html, details, document, element, facts, figure, notice, table

NASTY = "<script>alert(1)</script>\"'&"


class Reader(HTMLParser):
    """Tags, attributes and text as a browser sees them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.values, self.said = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.values += attrs

    def handle_data(self, data):
        self.said += data


@pytest.mark.parametrize(
    "made",
    [
        element("p", NASTY, title=NASTY),
        table([NASTY], [[NASTY]]),
        facts([(NASTY, NASTY, NASTY)]),
        notice(NASTY, "bad"),
        details(NASTY, NASTY),
        figure("", NASTY),
        html.code(NASTY),
        document(NASTY, NASTY),
    ],
    ids=["element", "table", "facts", "notice", "details", "figure", "code", "document"],
)
def test_what_is_put_in_is_text(made):
    read = Reader(made)
    assert "script" not in read.tags
    assert NASTY in read.said or "".join(read.said.split()) == "".join(NASTY.split())


def test_an_attribute_keeps_its_bounds():
    assert dict(Reader(element("p", title=NASTY)).values) == {"title": NASTY}


def test_what_is_html_is_not_escaped_again():
    assert element("p", element("b", "a & b")) == "<p><b>a &amp; b</b></p>"
    assert isinstance(html.joined(["<", Html("<br>")], ","), Html)
    assert html.joined(["<", Html("<br>")], ",") == "&lt;,<br>"


def test_attributes_are_written_as_markup_has_them():
    made = element("line", stroke_width=1.5, class_="mark", x1=0.3333, hidden=True, y=None, z=False)
    assert made == '<line stroke-width="1.5" class="mark" x1="0.33" hidden></line>'


def test_a_page_lets_nothing_be_fetched_or_run():
    page = document("a run", element("p", "text"))
    assert "default-src &#x27;none&#x27;" in page
    assert not re.search(r"(src|href)=|url\(|@import|<script", page)
    assert 'name="viewport"' in page
    assert page.startswith("<!doctype html>")


def test_a_page_is_light_or_dark_as_the_reader_has_it_and_light_on_paper():
    assert "@media screen and (prefers-color-scheme: dark)" in html.STYLE
    for number in range(html.COLOURS):
        assert html.STYLE.count(f"--c{number}:") == 2


def test_numbers_of_a_table_are_marked():
    made = table(["who", "many"], [["a", 3]], numbers={1})
    assert made.count('class="number"') == 2
    assert '<td class="number">3</td>' in made
