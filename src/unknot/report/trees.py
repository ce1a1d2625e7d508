"""An influence tree for people: in the terminal, drawn as SVG, and as JSON."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from html import escape
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text
from rich.tree import Tree as Drawing

from unknot.core.errors import ConfigError
from unknot.report.cells import columns
from unknot.report.targets import check_picture, write
from unknot.report.words import label
from unknot.topology import Table, Tree, best_within, build, score
from unknot.topology.probabilities import weigh

LINES = 60  # nodes of a drawing in the terminal
ENDS = 24  # boxes without children in an SVG; what is below them is counted, not drawn
LEVELS = 14
ABREAST = 12  # children of one node in an SVG, when there is not room for all


@dataclass(frozen=True)
class Picture:
    """A tree over the clients of a table."""

    table: Table
    kind: str
    tree: Tree
    optimal: bool | None = None
    """Proven to be the best there is (within its budget); None where the kind does not seek the best."""
    branching: int | None = None
    budget: int | None = None

    @cached_property
    def score(self) -> float:
        return score(self.tree, self.table.probabilities)

    @cached_property
    def shares(self) -> list[float]:
        """For each node, how likely the next to leave is one of its members."""
        weights = weigh(self.tree.order, self.table.probabilities)
        total = sum(weights.values())
        sums = [0]
        for c in self.tree.order:
            sums.append(sums[-1] + weights[c])
        nodes = zip(self.tree.starts, self.tree.stops, strict=True)
        return [(sums[stop] - sums[start]) / total for start, stop in nodes]

    @property
    def models(self) -> float:
        """How many models a client trains in a round, on average; 1 in FedAvg."""
        leaves = [
            level
            for level, start, stop in zip(self.tree.levels, self.tree.starts, self.tree.stops, strict=True)
            if stop - start == 1
        ]
        return 1 + sum(leaves) / len(leaves)

    def members(self, node: int) -> list[int | str]:
        """As the table calls them, sorted."""
        return [self.table.names[c] for c in sorted(self.tree.members(node), key=self._by_name)]

    def _by_name(self, client: int) -> tuple[int, str]:
        name = self.table.names[client]
        return (name, "") if isinstance(name, int) else (0, name)


def picture(table: Table, kind: str, branching: int | None = None, budget: int | None = None) -> Picture:
    """The tree of that kind over a table, ready to be shown."""
    if branching is not None and kind != "b-ary":
        raise ConfigError(f"--branching is for the kind b-ary, not {kind}: leave it out or use --kind b-ary")
    if budget is not None and kind != "budget":
        raise ConfigError(f"--budget is for the kind budget, not {kind}: leave it out or use --kind budget")
    if kind == "b-ary" and branching is None:
        branching = 2
    if kind == "budget" and budget is None:
        raise ConfigError("the kind budget needs --budget: how many sub-federations there may be")
    if kind == "greedy" and table.expires is None:
        raise ConfigError("the kind greedy needs a column 'expires' in the table: when each client leaves")
    if kind == "budget" and budget is not None:
        tree, proven = best_within(table.clients, budget, table.probabilities)
        return Picture(table, kind, tree, proven, budget=budget)
    tree = build(
        kind,
        table.clients,
        probabilities=table.probabilities,
        expires=table.expires,
        branching=2 if branching is None else branching,
    )
    return Picture(table, kind, tree, True if kind == "huffman" else None, branching)


def to_json(shown: Picture) -> Iterator[str]:
    """One JSON object, in pieces: a deep tree's nodes name many clients many times."""
    head: dict[str, object] = {"score": shown.score, "kind": shown.kind}
    for key in ("branching", "budget", "optimal"):
        if getattr(shown, key) is not None:
            head[key] = getattr(shown, key)
    head |= {"depth": shown.tree.depth, "inner": shown.tree.inner, "models_per_client": shown.models}
    yield json.dumps(head)[:-1] + ', "nodes": ['
    for node in range(len(shown.tree)):
        yield (", " if node else "") + json.dumps(shown.members(node))
    yield "]}\n"


# The terminal.


def sheet(shown: Picture) -> RenderableType:
    """The drawing, what it is worth, and what the other kinds would be."""
    scaled = ""
    if shown.table.total != 1:
        scaled = f"\nthe probabilities add up to {_written(shown.table.total)}: they are scaled to 1"
    best = ""
    if shown.kind == "budget":
        best = " (proven best)" if shown.optimal else " (a good tree, not proven best)"
    facts = Grid.grid(padding=(0, 2))
    facts.add_row("score", f"{shown.score:.4f}{best}: models aggregated when a client leaves, on average")
    facts.add_row("depth", f"{shown.tree.depth}")
    facts.add_row("sub-federations", f"{shown.tree.inner}")
    facts.add_row("models per client", f"{shown.models:.2f} trained each round, on average; 1 in FedAvg")
    return Group(*_drawing(shown), scaled, facts, "", _comparison(shown))


def _drawing(shown: Picture) -> Iterator[RenderableType]:
    """The nodes nearest to the root, and how many there are besides."""
    tree, below = shown.tree, shown.tree.children()
    levels = tree.levels
    drawn = {0: Drawing(_node(shown, 0), highlight=False)}
    for node in (queue := [0]):
        for child in below[node][: LINES - len(drawn)] if levels[node] < LEVELS else ():
            drawn[child] = drawn[node].add(_node(shown, child))
            queue.append(child)
    yield drawn[0]
    if hidden := len(tree) - len(drawn):
        yield f"… and {hidden} more nodes: --json has them all"


def _node(shown: Picture, node: int) -> Text:
    return Text(f"{label(shown.members(node), 24)}  {percent(shown.shares[node])}")


def _comparison(shown: Picture) -> Grid:
    """The kinds that the table allows, side by side."""
    table = shown.table
    budget = max(len(table.names) // 4, 1) if shown.budget is None else shown.budget
    rows = [picture(table, kind) for kind in ("huffman", "shannon-fano", "balanced")]
    rows += [picture(table, "b-ary", shown.branching or 4), picture(table, "budget", None, budget)]
    rows += [picture(table, "greedy")] if table.expires is not None else []
    found = columns("kind", *(f"{head}>" for head in ("score", "depth", "sub-federations", "models")))
    for row in (*rows, picture(table, "star")):
        more = {"b-ary": f", branching {row.branching}", "budget": f" {row.budget}"}.get(row.kind, "")
        facts = f"{row.score:.4f}", f"{row.tree.depth}", f"{row.tree.inner}", f"{row.models:.2f}"
        found.add_row(f"{row.kind}{more}", *facts, style="bold" if row.kind == shown.kind else "")
    return found


def _written(total: Fraction) -> str:
    """Of numbers that are each a float, the sum need not be one."""
    try:
        return f"{float(total):.6g}"
    except OverflowError:
        return f"{Decimal(total.numerator) / total.denominator:.6g}"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


# SVG.


@dataclass
class _Box:
    lines: tuple[str, str]
    short: str
    hint: str
    kind: str  # root, inner, leaf, more
    level: int
    parent: int
    x: float = 0.0
    width: float = 0.0
    low: float = 0.0  # the room that it and all below it take up
    high: float = 0.0


STYLE = """\
.root text, .inner text, .leaf text, .more text { text-anchor: middle }
text { font-family: system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; font-size: 13px; fill: #1f2933 }
.title { font-size: 17px; font-weight: 600 } .note { font-size: 12px; fill: #52606d }
.share { font-size: 11px; fill: #52606d } .root .share { fill: #d9e2ec }
.root rect { fill: #243b53 } .root text { fill: #ffffff }
.inner rect { fill: #d6e8fa; stroke: #5b9bd5 } .leaf rect { fill: #e3f5e7; stroke: #57a773 }
.more rect { fill: #f5f7fa; stroke: #9aa5b1; stroke-dasharray: 4 3 }
.edge { fill: none; stroke: #9aa5b1; stroke-width: 1.5 }"""
HEIGHT, RISE, GAP, MARGIN, TOP = 44, 84, 14, 24, 76
KINDS = {"root": "all clients", "inner": "sub-federation", "leaf": "client", "more": "more, not drawn"}
SHARE = "%: how likely a client in it is the next to leave"


def svg(shown: Picture) -> str:
    """The drawing for reports: rounded boxes with members and probabilities."""
    boxes = _boxes(shown)
    width = _lay_out(boxes)
    title = f"Influence tree: {shown.kind}"
    facts = (
        f"{len(shown.tree.order)} clients, score {shown.score:.3f}, depth {shown.tree.depth}, "
        f"{shown.tree.inner} sub-federations"
    )
    bottom = TOP + max(box.level for box in boxes) * RISE + HEIGHT + MARGIN
    legend, wide = _legend(boxes, bottom)
    width = max(width, 7.0 * len(facts) + 2 * MARGIN, wide)
    height = bottom + 56
    shift = (width - max(b.x + b.width / 2 for b in boxes) - min(b.x - b.width / 2 for b in boxes)) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(title)}: {escape(facts)}</title>",
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text class="title" x="{MARGIN}" y="32">{escape(title)}</text>',
        f'<text class="note" x="{MARGIN}" y="52">{escape(facts)}</text>',
    ]
    for box in boxes[1:]:
        above = boxes[box.parent]
        x0, y0 = above.x + shift, TOP + above.level * RISE + HEIGHT
        x1, y1 = box.x + shift, TOP + box.level * RISE
        middle = (y0 + y1) / 2
        parts.append(
            f'<path class="edge" d="M{x0:.1f} {y0}C{x0:.1f} {middle} {x1:.1f} {middle} {x1:.1f} {y1}"/>'
        )
    for box in boxes:
        x, y = box.x + shift, TOP + box.level * RISE
        parts += [
            f'<g class="{box.kind}"><title>{escape(box.hint)}</title>',
            f'<rect x="{x - box.width / 2:.1f}" y="{y}" width="{box.width:.1f}" height="{HEIGHT}" rx="9"/>',
            f'<text x="{x:.1f}" y="{y + 19}">{escape(box.lines[0])}</text>',
            f'<text class="share" x="{x:.1f}" y="{y + 35}">{escape(box.lines[1])}</text></g>',
        ]
    return "\n".join([*parts, *legend, "</svg>\n"])


def _legend(boxes: Sequence[_Box], top: float) -> tuple[list[str], float]:
    """What the boxes and the shares in them are, in two lines; and how wide that is."""
    parts, x = [], float(MARGIN)
    for kind, words in KINDS.items():
        if any(box.kind == kind for box in boxes):
            box = f'<rect class="sign" x="{x:.0f}" y="{top}" width="16" height="12" rx="3"/>'
            parts.append(f'<g class="{kind} sign">{box}</g>')
            parts.append(f'<text class="note" x="{x + 22:.0f}" y="{top + 10}">{words}</text>')
            x += 22 + 7 * len(words) + 18
    parts.append(f'<text class="note" x="{MARGIN}" y="{top + 32}">{SHARE}</text>')
    return parts, max(x, 7.0 * len(SHARE) + 2 * MARGIN)


def write_svg(shown: Picture, path: Path) -> None:
    check_picture(path, (".svg",))
    write(path, svg(shown))


def _boxes(shown: Picture) -> list[_Box]:
    """The nodes to draw, parents first: the largest are opened while there is room."""
    tree, below = shown.tree, shown.tree.children()
    levels = tree.levels
    size = [stop - start for start, stop in zip(tree.starts, tree.stops, strict=True)]
    opened: dict[int, list[int]] = {}
    heap, ends = [(-size[0], 0)], 1
    while heap:
        _, node = heapq.heappop(heap)
        children = below[node]
        if not children or levels[node] >= LEVELS:
            continue
        if len(children) + ends - 1 > ENDS:
            if node and len(children) <= ABREAST:
                continue
            children = children[: max(ABREAST if node else ENDS - 1, 2)]
            if len(children) + ends > ENDS and node:
                continue
        opened[node] = children
        ends += len(children) - 1 + (len(children) < len(below[node]))
        for child in children:
            heapq.heappush(heap, (-size[child], child))
    boxes: list[_Box] = []
    stack = [(0, -1)]
    while stack:
        node, parent = stack.pop()
        if node < 0:  # the children of ~node that are not drawn one by one
            above = boxes[parent]
            hidden = below[~node][len(opened[~node]) :]
            share = sum(shown.shares[child] for child in hidden)
            words = (f"… {len(hidden)} more", percent(share))
            boxes.append(_Box(words, words[0], words[0], "more", above.level + 1, parent))
            continue
        members = shown.members(node)
        kind = "root" if node == 0 else "leaf" if size[node] == 1 else "inner"
        names = label(members, 14)
        if kind != "leaf" and node not in opened:
            kind, names = ("more" if node else "root"), f"… {len(members)} clients"
        elif kind != "leaf" and names.endswith("clients)"):
            names = f"{len(members)} clients"
        hint = f"{label(members, 400)}: {percent(shown.shares[node])}"
        place = len(boxes)
        short = names if kind == "leaf" else f"{len(members)} clients"
        boxes.append(_Box((names, percent(shown.shares[node])), short, hint, kind, levels[node], parent))
        if node in opened:
            if len(opened[node]) < len(below[node]):
                stack.append((~node, place))
            stack += [(child, place) for child in reversed(opened[node])]
    return boxes


def _lay_out(boxes: list[_Box]) -> float:
    """Boxes without children side by side, parents over the middle of theirs. Returns the width."""
    parents = {box.parent for box in boxes}
    edge = float(MARGIN)
    for place, box in enumerate(boxes):
        box.width = _width(box)
        if place not in parents:
            box.x = edge + box.width / 2
            edge += box.width + GAP
            box.low, box.high = box.x - box.width / 2, box.x + box.width / 2
    children: dict[int, list[_Box]] = {}
    for place in range(len(boxes) - 1, -1, -1):
        box = boxes[place]
        if place in parents:
            first, last = children[place][-1], children[place][0]
            box.x, box.low, box.high = (first.x + last.x) / 2, first.low, last.high
            if box.width > 2 * min(box.x - box.low, box.high - box.x):  # it would touch its neighbours
                box.lines = (box.short, box.lines[1])
                box.width = _width(box)
        children.setdefault(box.parent, []).append(box)
    return edge - GAP + MARGIN


def _width(box: _Box) -> float:
    return max(52.0, 7.6 * len(box.lines[0]) + 18, 6.6 * len(box.lines[1]) + 14)
