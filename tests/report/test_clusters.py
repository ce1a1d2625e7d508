"""``unknot cluster``: table, picture, JSON, errors."""

import json
import re
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.report import clusters
from unknot.topology import assign, ratings

TIMES = [10, 20, 30, 12, 28, 11]
DISPARITIES = [0, 0.5, 1, 0.4, 0.9, 0.3]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "clients.csv"
    rows = enumerate(zip(TIMES, DISPARITIES, strict=True))
    path.write_text("client,time,disparity\n" + "".join(f"{c},{t},{s}\n" for c, (t, s) in rows))
    return str(path)


def call(*args, code=0):
    result = CliRunner().invoke(app, ["cluster", *map(str, args)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def test_json_is_one_object_and_nothing_else(file, tmp_path):
    out = call(file, "--clusters", 2, "--json", "--plot", tmp_path / "c.svg").stdout
    assert out.count("\n") == 1
    said = json.loads(out)
    rated = ratings(TIMES, DISPARITIES, 2)
    assert said == {"ratings": rated.tolist(), "assignment": [list(of) for of in assign(rated)]}
    assert said["assignment"] == [[0], [1], [1], [0], [1], [0]]


def test_options_are_used(file):
    said = json.loads(
        call(file, "--clusters", 3, "--a", 0.5, "--b", 2, "--c1", 2, "--c2", 4, "--c3", 5, "--json").stdout
    )
    rated = ratings(TIMES, DISPARITIES, 3, 0.5, 2.0)
    assert said["ratings"] == rated.tolist()
    assert said["assignment"] == [list(of) for of in assign(rated, 2, 4, 5)]
    assert sum(map(len, said["assignment"])) == 12


def test_the_table(file):
    lines = call(file, "--clusters", 2, "--c3", 3, "--c2", 3).output.splitlines()
    assert lines[0] == "6 clients, each in 1 cluster; 3 to 3 clients in each of 2 clusters"
    head = next(i for i, line in enumerate(lines) if line.endswith("members"))
    # (10 + 12 + 11) / 3 and (0 + .4 + .3) / 3; (20 + 30 + 28) / 3 and (.5 + 1 + .9) / 3
    assert lines[head + 1].split() == ["0", "3", "36", "11", "0.233", "0,", "3,", "5"]
    assert lines[head + 2].split() == ["1", "3", "50", "26", "0.800", "1,", "2,", "4"]
    assert ": 1 at 50, 1 at 36, " in lines[-1]
    assert sum(int(n) for n in re.findall(r"(\d+) at \d+", lines[-1])) == 6


def test_names_empty_clusters_and_long_times(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("client,time,disparity\n[Graz],1,0.1\n<Wien> & Umgebung,1000,0.9\n")
    output = call(path, "--clusters", 4, "--plot", tmp_path / "n.svg").output
    assert "[Graz]" in output
    assert "<Wien> & Umgebung" in output
    assert sum(line.split()[1:2] == ["0"] for line in output.splitlines()) == 2
    xml.parse(tmp_path / "n.svg")


@pytest.mark.parametrize("rows", [["0,5,0.5\n"], ["0,5,0.5\n", "1,5,0.5\n"], ["0,0,0\n", "1,0,1\n"]])
def test_few_and_equal_clients(rows, tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("client,time,disparity\n" + "".join(rows))
    for n in (1, 2):
        assert "cluster" in call(path, "--clusters", n, "--plot", tmp_path / "few.png").output


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_file(file, tmp_path, ending):
    path = tmp_path / f"c.{ending}"
    output = call(file, "--clusters", 3, "--c1", 2, "--c2", 3, "--plot", path).output
    assert f"written: {path}" in " ".join(output.split())
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG") == (ending == "png")
    if ending == "svg":
        call(file, "--clusters", 3, "--c1", 2, "--c2", 3, "--plot", path)
        assert path.read_bytes() == data, "the same clients give the same file"


def test_colours_and_marks_tell_clusters_apart():
    assert len({(clusters._colour(n), clusters._mark(n)) for n in range(56)}) == 56


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--clusters", 0], "clusters are 0"),
        (["--clusters", 2, "--c3", 2], "c3 is 2"),
        (["--clusters", 2, "--c2", 4], "c2 is 4"),
        (["--clusters", 2, "--c1", 0], "c1 is 0"),
        (["--clusters", 2, "--a", -1], "a is -1"),
        (["--clusters", 2, "--plot", "/no/such/folder/c.png"], "cannot write"),
        (["--clusters", 2, "--plot", "c.txt"], "must end in .png"),
    ],
)
def test_errors(file, args, words):
    result = call(file, *args, code=2)
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_errors_of_the_table(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("client,time,disparity\n0,1,0.5\n1,-1,0.5\n")
    assert "line 3" in call(path, "--clusters", 2, code=2).output
    assert "cannot read" in call(tmp_path / "none.csv", "--clusters", 2, code=2).output


DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_tells_the_truth():
    """Its Python gives what its comments say."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "clusters.md").read_text(), flags=re.DOTALL)
    names = {}
    exec(compile(code, "clusters.md", "exec"), names)
    said = re.findall(r"^(\S.*?)  # (.+)$", code, flags=re.MULTILINE)
    assert len(said) == 2
    for call_, value in said:
        assert eval(call_.split(" = ")[-1], names) == eval(value), call_
    assert (DOCS / "pictures" / "clusters.svg").exists()
