"""Pieces of pages that stand alone: no file beside them, no request to anywhere, no script.

Whatever is put into an element is escaped, unless it was made here (`Html`): a client may be
called `<script>`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

COLOURS = 8
"""How many colours of lines there are: ``var(--c0)`` to ``var(--c7)``."""

STYLE = """
:root { color-scheme: light dark;
  --paper: #ffffff; --card: #f5f6f8; --ink: #1b1f24; --soft: #59636e; --rule: #d5d9de;
  --good: #1a7f37; --warn: #8a5a00; --bad: #c1121f; --pale: #fbe3e4; --kept: #cfe3f5;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #c45a9b; --c4: #b87a00; --c5: #2f9bd8; --c6: #5b45a8;
  --c7: #8c6d31; }
@media screen and (prefers-color-scheme: dark) { :root {
  --paper: #14171b; --card: #1e2329; --ink: #e8eaed; --soft: #a2abb6; --rule: #3a424b;
  --good: #5ad17c; --warn: #e9b44c; --bad: #ff7b80; --pale: #4d2226; --kept: #1f4464;
  --c0: #4aa8e0; --c1: #f28e4b; --c2: #35c79b; --c3: #e08cc1; --c4: #e6b84d; --c5: #8ccdf2; --c6: #a596ee;
  --c7: #c9a86a; } }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
  color: var(--ink); background: var(--paper); max-width: 64rem; margin: 0 auto; padding: 1.5rem 1rem 4rem;
  overflow-wrap: break-word; -webkit-text-size-adjust: 100% }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .2rem }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem } h3 { font-size: 1rem; margin: 1.4rem 0 .3rem }
p { margin: .5rem 0 } a { color: var(--c0) }
.soft, figcaption, footer { color: var(--soft) } .small, figcaption, footer { font-size: .875rem }
.good { color: var(--good) } .warn { color: var(--warn) } .bad { color: var(--bad) }
.notice { border-left: .35rem solid var(--soft); background: var(--card); padding: .6rem 1rem;
  margin: .8rem 0 }
.notice.bad { border-color: var(--bad); color: var(--bad); font-weight: 600 }
.notice.warn { border-color: var(--warn) } .notice.good { border-color: var(--good) }
.notice.warn, .notice.good { color: inherit }
dl.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: 1rem 0 }
dl.facts > div { background: var(--card); border-radius: .4rem; padding: .55rem .8rem }
dl.facts dt { color: var(--soft); font-size: .8rem }
dl.facts dd { margin: 0; font-size: 1.15rem; font-weight: 600; font-variant-numeric: tabular-nums }
dl.facts .note { display: block; color: var(--soft); font-size: .8rem; font-weight: 400 }
.scroll { overflow-x: auto; margin: .8rem 0 }
table { border-collapse: collapse; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .35rem 1.4rem .35rem 0;
  border-bottom: 1px solid var(--rule) }
th { color: var(--soft); font-weight: 600; white-space: nowrap } tr > :last-child { padding-right: 0 }
td:not(.number) { min-width: 7rem }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code, pre { font: .85rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace }
pre { background: var(--card); border-radius: .4rem; padding: .7rem 1rem; overflow-x: auto; margin: .6rem 0 }
code { overflow-wrap: anywhere } pre code { overflow-wrap: normal }
details { border-bottom: 1px solid var(--rule); padding: .5rem 0 }
summary { cursor: pointer; font-weight: 600 }
figure { margin: 1rem 0 } figcaption { margin-top: .3rem }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; margin: .2rem 0; padding: 0;
  font-size: .85rem; color: var(--soft) }
ul.legend li { display: flex; align-items: center; gap: .4rem }
ul.legend svg { flex: none }
@media print { body { max-width: none; font-size: 11pt } h2, h3 { break-after: avoid }
  pre code { white-space: pre-wrap; overflow-wrap: anywhere }
  figure, tr, dl.facts > div { break-inside: avoid }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact }
  details::details-content { content-visibility: visible; display: block; height: auto } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may fetch for the page: nothing. Nor does it run anything."""
_VOID = ("br", "hr", "meta")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def html(value: object) -> Html:
    """A value as HTML: escaped, unless it is that already; None is nothing."""
    if isinstance(value, Html):
        return value
    return Html("" if value is None else escape(str(value)))


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Values as HTML, one after the other."""
    return Html(html(between).join(map(html, parts)))


def element(name: str, /, *content: object, **attributes: object) -> Html:
    """``<name attributes>content</name>``, of HTML or SVG.

    ``class_`` is written ``class``, ``stroke_width`` ``stroke-width``; what is None or False is left out.
    """
    said = "".join(
        f" {_attribute(key)}" if value is True else f' {_attribute(key)}="{escape(number(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{said}>" + ("" if name in _VOID else f"{joined(content)}</{name}>"))


def number(value: object) -> str:
    """A value as an attribute has it: floats in at most two decimals."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def document(title: str, *body: object, style: str = "") -> str:
    """A whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", title),
        Html(f"<style>{STYLE}{style}</style>"),
    )
    page = element("html", "\n", head, "\n", element("body", joined(body, "\n")), "\n", lang="en")
    return f"<!doctype html>\n{page}\n"


def table(heads: Sequence[object], rows: Iterable[Sequence[object]], numbers: Collection[int] = ()) -> Html:
    """A table that scrolls sideways by itself where it is too wide; `numbers` are columns of numbers."""

    def row(tag: str, cells: Sequence[object]) -> Html:
        looks = ("number" if i in numbers else None for i in range(len(cells)))
        return element(
            "tr",
            joined(element(tag, cell, class_=look) for cell, look in zip(cells, looks, strict=True)),
        )

    head = element("thead", row("th", heads)) if heads else ""
    return element(
        "div",
        element("table", head, element("tbody", joined(row("td", cells) for cells in rows))),
        class_="scroll",
    )


def facts(pairs: Iterable[tuple[object, ...]]) -> Html:
    """Small cards: what it is, how much, and a note below where there is one."""
    cards = [
        element(
            "div",
            element("dt", name),
            element("dd", value, joined(element("span", n, class_="note") for n in note)),
        )
        for name, value, *note in pairs
    ]
    return element("dl", joined(cards), class_="facts")


def notice(text: object, kind: str = "") -> Html:
    """What is to be seen first; `kind` is "bad", "warn", "good" or nothing."""
    return element("p", text, class_=f"notice {kind}".strip())


def details(summary: object, *content: object) -> Html:
    """What most need not see: closed until it is asked for."""
    return element("details", element("summary", summary), joined(content))


def figure(picture: object, caption: object = None, legend: object = None) -> Html:
    """A picture with what its signs mean and what it shows."""
    said = None if caption is None else element("figcaption", caption)
    return element("figure", legend, picture, said)


def code(text: str) -> Html:
    return element("pre", element("code", text))
