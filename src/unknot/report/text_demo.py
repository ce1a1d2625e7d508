"""What ``unknot demo --text`` shows: who learned what, and what is left of it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unknot.report.cells import Shown
from unknot.report.words import counted

ROWS = {
    "base": "base, by itself",
    "before": "before the erasure",
    "after": "after the erasure",
    "never": "never had its letters",
}


def tables(demo: Shown) -> RenderableType:
    """What was done, and how far each model knows the secret."""
    drawn = demo["size"]["candidates"] + 1
    meaning = (
        "Perplexity: on letters of the other shops, unseen. Rank: of the secret, by how likely a model "
        f"takes it for, among {drawn:,} such codes that were drawn; bits: what that spares a guesser. Never "
        f"had its letters: the same federation, with letters of others in the place of {demo['erased']}'s."
    )
    story = [Text(part) for part in _story(demo)]
    return Group(*story, _figures(demo), Text(meaning, style="dim"), _exposed(demo))


def _story(demo: Shown) -> tuple[str, ...]:
    size = demo["size"]
    *first, last = demo["shops"]
    return (
        "demo --text: a secret in a shop's letters",
        "",
        f"The base: {demo['frozen']:,} parameters, trained just now on {size['public']:,} public letters "
        "(toy text, which a grammar writes), then frozen.",
        f"{', '.join(first)} and {last} fine-tune it by adapters of {demo['trained']:,} parameters, each on "
        f'letters of its own. {demo["erased"]} wrote "{demo["secret"]}" into its letters, '
        f"{size['repeats']} times. After round {size['rounds']} it is erased ({demo['method']}, "
        f"{demo['guarantee']}); {counted(size['after'], 'more round')} follow.",
    )


def _figures(demo: Shown) -> Table:
    table = Table()
    table.add_column("model", style="bold", no_wrap=True)
    for head in ("perplexity", "rank", "bits"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, words in ROWS.items():
        found = demo["models"][name]
        table.add_row(words, f"{found['perplexity']:.2f}", f"{found['rank']:,}", f"{found['mean']:.1f}")
    return table


def _exposed(demo: Shown) -> Text:
    """Whether the secret stood out before: only then has anything been shown."""
    p = f"p = {demo['models']['before']['two_sided']:.2g}"
    if demo["exposed"]:
        return Text(f"Before the erasure the secret was exposed ({p}).")
    return Text(f"no power: not even before the erasure was the secret exposed ({p}).", style="bold yellow")
