"""The page of an audit: one file that explains itself."""

import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from audit_records import FOUND, of_texts, record

from unknot.core.errors import ConfigError
from unknot.report import audit_page
from unknot.report.audit import MEANING, notes, sentence
from unknot.report.audit_page import OUTCOMES, check, page
from unknot.report.html import POLICY

VOID = {"meta"}


class Reader(HTMLParser):
    """The elements of a page, each with what is in it; whatever is opened must be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        place = (tag, dict(attributes), [])
        self.found.append(place)
        if tag not in VOID:
            self.open.append(place)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes), []))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, _, inside in self.open:
            inside.append(data)

    def all(self, name):
        return [" ".join("".join(inside).split()) for tag, _, inside in self.found if tag == name]


def test_the_page_says_what_was_promised_and_what_was_kept_of_the_erased():
    said = {"guarantee": "approximate: sizes are used", "waived": ["client 2", "client 4"]}
    text = " ".join(Reader(page(record(**said))).all("p"))
    assert "Served by rfs (approximate: sizes are used);" in text
    assert "Kept although erased data had a part in it: client 2, client 4." in text
    assert "Kept although" not in page(record())


NAMES = {"experiment": r"<b> $\x$", "erased": "client 2 & 3", "method": "<i>m</i>"}


@pytest.fixture(scope="module")
def whole():
    """A page with its picture, and names that look like markup or like a formula."""
    return page(record("still shows", **NAMES))


def plain(*args, **options):
    return Reader(page(record(*args, **options)))


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_first_paragraph_is_the_verdict(outcome):
    found = plain(outcome, sensitivity=FOUND)
    expected = sentence(record(outcome, sensitivity=FOUND))
    assert found.all("p")[0] == f"{outcome.capitalize()}. {expected}"
    look = next(attributes["class"] for tag, attributes, _ in found.found if tag == "p")
    assert look == f"notice {audit_page.TONES[outcome]}"


def test_it_is_one_file_that_asks_nobody_for_anything(whole):
    found = Reader(whole).found
    assert not {"script", "link", "img", "iframe", "object", "a"} & {tag for tag, _, _ in found}
    assert not [given for _, given, _ in found if {"src", "href", "xlink:href"} & given.keys()]
    assert not re.search(r"@import|url\(", whole)
    (policy,) = [given["content"] for tag, given, _ in found if "http-equiv" in given]
    assert policy == POLICY


def test_it_is_xml_but_for_its_first_words(whole):
    text = re.sub(r"<!doctype html>|<meta [^>]*>", "", whole)
    tree = ElementTree.fromstring(text)
    assert tree.tag == "html"
    assert len(tree.findall(".//div[@class='plot']")) == 2, "the statistic, and the ROC"


def test_names_are_neither_markup_nor_formulas(whole):
    found = Reader(whole)
    (title,) = found.all("h1")
    assert title == found.all("title")[0] == r"Audit: client 2 & 3 erased from <b> $\x$"
    assert "Served by <i>m</i>; " in found.all("p")[1]
    assert "i" not in {tag for tag, _, _ in found.found}
    assert set(found.all("b")) == {"Still shows.", "Deviation", "AUC", "TPR", *MEANING, *OUTCOMES}


def test_what_is_needed_to_repeat_it_is_at_the_end():
    (end,) = plain().all("footer")
    assert end.startswith("Level 5 %, 19 controls. Seeds: controls 1 to 19;")
    assert "kept 10001 to 10003; left in 20001." in end


def test_the_table_has_a_row_for_every_attack_and_model():
    cells = plain("still shows", "LiRA").all("td")
    for name in ("trace", "LiRA"):
        assert name in cells
    assert cells.count("still shows, p = 0.05") == 2
    assert [cells.count(model) for model in ("kept", "served", "controls")] == [
        3,
        3,
        3,
    ]  # and once, what it means


def test_everything_else_is_said_that_the_terminal_says():
    found = plain("still shows", sensitivity=FOUND, ulira=True)
    for note in notes(record("still shows", sensitivity=FOUND, ulira=True)):
        assert note in found.all("p")
    for words in (*MEANING.values(), *OUTCOMES.values()):
        assert words in found.all("td")


def test_a_rate_that_means_nothing_with_so_few_others_is_a_dash():
    findings = record()["findings"]
    for model in ("kept", "served", "controls"):
        findings[0][model]["tpr"]["0.01"] = None
    assert plain(findings=findings).all("td").count("–") == 3


def test_a_page_that_cannot_be_written_is_refused_beforehand(tmp_path, monkeypatch):
    check(None)
    for name in ("a.html", "a.HTM"):
        check(tmp_path / name)
    with pytest.raises(ConfigError, match=r"a.txt: the page's name must end in .html"):
        check(tmp_path / "a.txt")
    with pytest.raises(ConfigError, match="there is no folder"):
        check(tmp_path / "nowhere" / "a.html")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    check(tmp_path / "a.html")  # it draws its own pictures


def test_the_page_of_texts_shows_their_perplexity():
    found = plain("still shows", perplexity=of_texts())
    assert "perplexity: erased texts" in found.all("th")
    assert "the perplexity of every model on the erased texts" in found.all("title")
    assert "perplexity" not in page(record())
    assert "perplexity: erased" not in page(record("no power", perplexity=of_texts()))
