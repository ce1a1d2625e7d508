"""Text of which figures, and words for how lines stand to each other, name a source in a comment.

``83.6<!--exact-table1 mnist mmt first--> %``. A count may be a word, ``four<!--…--> of five<!--…--> seeds``;
none is 0. Of words: ``level<!--way knot-fig5 cifar10 knot random total-->``. As claims are judged, by that
measure the first line is before or behind the second, or level with it; ``&`` joins several that it is so of.
"""

from __future__ import annotations

import re

from scripts.sources import compared, figure
from unknot.reproduce.intervals import Interval

WORDS = (
    "none",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
WORD = rf"\b(?:{'|'.join(WORDS)})\b"
NUMBER = r"\d[\d,]*(?:\.\d+)?"
FIGURE = re.compile(
    rf"(?P<number>[+−]?{NUMBER} \[[+−]?{NUMBER}, [+−]?{NUMBER}\]|{NUMBER}|{WORD})<!--(?P<source>[^>]+)-->",
    re.IGNORECASE,
)
WAYS = {
    1: ("before", "sooner", "faster", "better", "ahead", "above"),
    0: ("level", "not shown"),
    -1: ("behind", "later", "slower", "worse", "below"),
}
"""What is said of a line that is shown to do better than another, that is not, or that does worse."""
ANY = "|".join(word for words in WAYS.values() for word in words)
WAY = re.compile(rf"(?P<word>\b(?:{ANY})\b\**)?<!--way (?P<source>[^>]+)-->", re.IGNORECASE)
NAMES = re.compile(
    r"(?:Figures?|Table|period|section) \d[\w.]*|[Ss]eeds? \d(?:(?:, | and | to )\d)*|95 % interval"
    r"|(?<![\w.,])0(?![\d.,]\d)"
)
"""Numbers that are names; 0 is a bound."""
COUNT = rf"(?:\b\d[\d,]*|{WORD})"
UNSOURCED = tuple(
    re.compile(text, re.IGNORECASE)
    for text in (
        rf"(?<![\w.,-]){NUMBER}(?![\w]|-\w)",
        rf"{WORD} (?:seeds?|draws?)\b",
        rf"{COUNT} of (?:{COUNT}|§)|§ of {COUNT}",
        rf"\b(?:seeds|draws) of {COUNT}",
        rf"\bin {WORD}(?=[,.;:)]| alone| each| or more)",
    )
)
"""What has no source: ``83.7``, ``two seeds``, ``four of five``, ``in two,``; § stands for what has one."""


def refreshed(text: str) -> str:
    """The text with every sourced figure as its record has it, to as many digits as it was written with."""

    def put(match: re.Match[str]) -> str:
        if match["source"] == "paper":
            return match[0]
        return f"{_written(match['number'], figure(match['source']))}<!--{match['source']}-->"

    return FIGURE.sub(put, text)


def untrue(text: str) -> list[str]:
    """What is said of how two lines stand to each other that is not so, each with its source."""
    told = []
    for match in WAY.finditer(text):
        word = (match["word"] or "").rstrip("*").lower()
        for source in match["source"].split(" & "):
            so = compared(*source.split()).so
            if word not in WAYS[so]:
                told.append(f"{word or 'no word'} of {source}: {WAYS[so][0]}")
    return told


def _written(before: str, value: float | Interval) -> str:
    """A value in the manner of what stood there: a word, so many digits, with an interval."""
    digits = len(before.split(" [")[0].partition(".")[2])
    if isinstance(value, Interval):
        mean, low, high = (f"{x:+,.{digits}f}".replace("-", "−") for x in (value.mean, value.low, value.high))
        return f"{mean} [{low}, {high}]"
    if before[0].isalpha() and value in range(len(WORDS)):
        word = WORDS[int(value)]
        return word.capitalize() if before[0].isupper() else word
    return f"{value:,.{digits}f}"


def prose(text: str) -> str:
    """What is said of the papers and of how claims are judged: no tables, no code, no addresses of links.

    Of the page of verdicts, not what is said before them, nor of how to make a reproduction.
    """
    if "<!-- exact: begin -->" in text or re.search("^## The same for", text, re.MULTILINE):
        text = "\n".join(re.findall(r"^(## (?!The same for).*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    plain = re.sub(r"<!-- (\w+): begin -->.*?<!-- \1: end -->|<!--way [^>]+-->", "", text, flags=re.DOTALL)
    plain = re.sub(
        r"```.*?```|`[^`\n]*`|(?<=\])\([^)]*\)|^\|[^\n]*$", "", plain, flags=re.DOTALL | re.MULTILINE
    )
    return re.sub(r"\s+", " ", plain)


def unsourced(text: str) -> list[str]:
    """Figures and counts that name no record, each with what stands around it."""
    plain = NAMES.sub("", FIGURE.sub("§", prose(text)))
    return [
        plain[max(0, match.start() - 40) : match.end() + 10]
        for pattern in UNSOURCED
        for match in pattern.finditer(plain)
    ]
