"""``unknot tree``: drawings, JSON, errors."""

import itertools
import json
import re
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.report import trees
from unknot.report.words import label
from unknot.topology import KINDS, Tree, build, score
from unknot.topology.table import parse

ROWS = [(0, 0.05, 5), (1, 0.1, 2), (2, 0.15, 9), (3, 0.2, 1), (4, 0.25, 7), (5, 0.25, 3)]
SHARES = {c: p for c, p, _ in ROWS}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text("client,probability,expires\n" + "".join(f"{c},{p},{e}\n" for c, p, e in ROWS))
    return str(path)


def call(*args, code=0, columns=200):
    result = CliRunner().invoke(app, ["tree", *map(str, args)], env={"COLUMNS": str(columns)})
    assert result.exit_code == code, result.output
    return result


def options(kind):
    return {"b-ary": ["--branching", 3], "budget": ["--budget", 2]}.get(kind, [])


@pytest.mark.parametrize("kind", KINDS)
def test_json(file, kind):
    said = json.loads(call(file, "--kind", kind, *options(kind), "--json").stdout)
    tree = Tree.of(said["nodes"])
    expires = {c: e for c, _, e in ROWS}
    assert tree == build(kind, range(6), probabilities=SHARES, expires=expires, branching=3, budget=2)
    assert len(said["nodes"]) == len(tree)
    assert [0, 1, 2, 3, 4, 5] in said["nodes"]
    assert all([c] in said["nodes"] for c in range(6))
    assert said["score"] == score(tree, SHARES)
    assert (said["kind"], said["depth"], said["inner"]) == (kind, tree.depth, tree.inner)
    assert said.get("optimal", False) == (kind in ("huffman", "budget"))


def test_json_is_one_line_and_nothing_else(file, tmp_path):
    out = call(file, "--json", "--plot", tmp_path / "t.svg").stdout
    assert out.count("\n") == 1
    assert json.loads(out)["kind"] == "huffman"
    assert (tmp_path / "t.svg").exists()


def test_names_come_back(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("client,probability\nUppsala,0.8\n[Graz] & <Wien>,0.4\nBern,0.4\n")
    said = json.loads(call(path, "--json").stdout)
    assert said["nodes"] == [
        ["Bern", "Uppsala", "[Graz] & <Wien>"],
        ["Uppsala"],
        ["Bern", "[Graz] & <Wien>"],
        ["[Graz] & <Wien>"],
        ["Bern"],
    ]
    assert said["score"] == 1.5
    drawn = call(path, "--plot", tmp_path / "n.svg").output
    assert "── [Graz] & <Wien>  25 %" in drawn
    assert "add up to 1.6: they are scaled" in drawn
    assert "[Graz] & <Wien>: 25 %" in "".join(xml.parse(tmp_path / "n.svg").getroot().itertext())


def test_the_drawing(file):
    """Huffman: .05 + .1 = .15, with .15 to .3; .2 + .25 = .45; .25 + .3 = .55; 1: 2.45 in all.

    Depths 4, 4, 3, 2, 2, 2, so a client trains 1 + 17 / 6 = 3.83 models.
    """
    lines = call(file).output.splitlines()
    assert lines[0] == "0–5  100 %"
    assert "│   ├── 0–2  30 %" in lines
    assert "└── 3, 4  45 %" in lines
    assert any(line.startswith("score") and "2.4500" in line for line in lines)
    assert any("3.83 trained each round" in line for line in lines)
    assert sum(any(line.startswith(kind) for line in lines) for kind in KINDS) == 7
    assert not any("scaled" in line for line in lines)


def test_without_probabilities_or_dates(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("client\n" + "\n".join(map(str, range(10))))
    output = call(path).output
    assert "3.4000" in output
    assert "greedy" not in output
    assert "needs a column 'expires'" in call(path, "--kind", "greedy", code=2).output


def test_long_trees_are_cut(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("client,expires\n" + "".join(f"{c},{c}\n" for c in range(500)))
    for kind in ("huffman", "greedy", "star"):
        lines = call(path, "--kind", kind, columns=80).output.splitlines()
        assert len(lines) < 85
        assert max(map(len, lines)) <= 80
        assert any("more nodes" in line for line in lines)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--kind", "hufman"], "Did you mean 'huffman'"),
        (["--budget", 3], "--budget is for the kind budget"),
        (["--kind", "star", "--branching", 3], "--branching is for the kind b-ary"),
        (["--kind", "budget"], "needs --budget"),
        (["--kind", "budget", "--budget", -1], "0 or more"),
        (["--kind", "b-ary", "--branching", 1], "rfs"),
        (["--plot", "/no/such/folder/t.svg"], "cannot write"),
    ],
)
def test_errors(file, args, words):
    result = call(file, *args, code=2)
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_errors_of_the_table(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("client,probability\n0,0.5\n1,-1\n")
    assert "line 3" in call(path, code=2).output
    path.write_text("client,probability\n0,0\n1,0\n")
    assert "all probabilities are zero" in call(path, code=2).output
    assert "cannot read" in call(tmp_path / "none.csv", code=2).output


def shown(n, kind, **more):
    return trees.picture(parse(["client,expires\n", *(f"{i},{i}\n" for i in range(n))]), kind, **more)


@pytest.mark.parametrize("n", [1, 2, 24, 3000])
@pytest.mark.parametrize("kind", ["huffman", "star", "greedy", "b-ary"])
def test_an_svg_stays_legible(n, kind):
    """Boxes of one level do not touch, all are inside, and wide or deep trees are abbreviated."""
    picture = shown(n, kind, **({"branching": 20} if kind == "b-ary" else {}))
    root = xml.fromstring(trees.svg(picture))
    width, height = float(root.get("width")), float(root.get("height"))
    assert width < 3500
    assert height < 1600
    rows = {}
    for box in root.iter("{http://www.w3.org/2000/svg}g"):
        rect = box.find("{http://www.w3.org/2000/svg}rect")
        x, y, w, h = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert y + h <= height
        if rect.get("class") == "sign":  # of the legend
            continue
        rows.setdefault(y, []).append((x, x + w))
    for row in rows.values():
        row.sort()
        assert all(left[1] < right[0] for left, right in itertools.pairwise(row))
    assert (sum(map(len, rows.values())) == len(picture.tree)) == ((n <= 24 and kind != "greedy") or n <= 2)


def test_a_small_tree_is_drawn_whole():
    drawn = trees.svg(shown(8, "huffman"))
    assert drawn.count("<rect x=") == 15
    assert drawn.count('class="leaf"') == 8
    assert drawn.count('class="edge"') == 14
    for words in ("all clients", "sub-federation", ">client<", trees.SHARE):
        assert words in drawn
    assert trees.KINDS["more"] not in drawn


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([3], "3"),
        ([3, 4], "3, 4"),
        ([1, 2, 3, 7, 9, 10], "1–3, 7, 9, 10"),
        (["a", "b"], "a, b"),
        (list(range(0, 200, 2)), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, … (100 clients)"),
    ],
)
def test_labels(members, words):
    assert label(members) == words


DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_tells_the_truth():
    """Its Python gives what its comments say, and its picture is what is drawn today."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "trees.md").read_text(), flags=re.DOTALL)
    names = {}
    exec(compile(code, "trees.md", "exec"), names)
    said = re.findall(r"^(score\(.*\))  +# ([\d.]+)$", code, flags=re.MULTILINE)
    assert len(said) == 2
    for call_, value in said:
        assert eval(call_, names) == float(value)
    chances = [0.02, 0.05, 0.3, 0.1, 0.08, 0.12, 0.03, 0.3]
    table = parse(["client,probability\n", *(f"{c},{p}\n" for c, p in enumerate(chances))])
    drawn = trees.svg(trees.picture(table, "huffman"))
    assert drawn == (DOCS / "pictures" / "influence-tree.svg").read_text()
