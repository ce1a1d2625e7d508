"""The figures on docs/which-method.md are those of its record, and its command names what was run."""

import json
import re
import shlex
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from unknot.experiments import Experiment
from unknot.experiments.comparison import STATED
from unknot.experiments.contenders import contenders
from unknot.experiments.seeds import Stat
from unknot.report.compared import parts

DOCS = Path(__file__).parents[2] / "docs"
ROWS = json.loads((DOCS / "results" / "which-method.json").read_text())
PAGE = (DOCS / "which-method.md").read_text()
METHODS = list(dict.fromkeys(row["method"] for row in ROWS))


def shown() -> dict[str, list[str]]:
    """The cells of every method, as a screen would show them."""
    methods = []
    for name in METHODS:
        rows = [row for row in ROWS if row["method"] == name]
        stats = {figure: Stat.of(row[figure] for row in rows) for figure in STATED}
        methods.append(
            {
                "seeds": len(rows),
                "failed": sum(row["error"] is not None for row in rows),
                "guarantee": rows[0]["guarantee"],
                "stats": {figure: stat and asdict(stat) for figure, stat in stats.items()},
            }
        )
    comparison = {"methods": methods, "erasures": 1, "fraction": 0.99, "metric": "accuracy"}
    found = parts({**comparison, "share": True, "falls": False, "split": "validation"})
    columns = [column for part in found for column in part.columns]
    return {name: [column.cells[i] for column in columns] for i, name in enumerate(METHODS)}


def test_the_table_is_that_of_the_record():
    lines = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\|.*±", line)]
    table = {cells[0].strip("`"): cells[1:] for cells in lines}
    for name, cells in shown().items():
        assert table[name] == [cell for place, cell in enumerate(cells) if place not in (3, 10)], name
    assert len(table) == len(METHODS)


def test_the_command_is_the_one_that_makes_the_record():
    (command,) = re.findall(r"\$ (unknot compare docs/\S+(?:.*\\\n)*.*)", PAGE)
    words = shlex.split(command.replace("\\\n", " "))
    given = [word for option, word in pairwise(words) if option == "--method"]
    experiment = Experiment.read(DOCS.parent / words[2])
    assert [one.label for one in contenders(given, experiment)] == METHODS
    assert words[words.index("--seeds") + 1] == "0-2"
    assert {row["seed"] for row in ROWS} == {0, 1, 2}


def test_what_a_comparison_takes_is_that_of_its_record():
    found = json.loads((DOCS / "results" / "compare-time.json").read_text())
    together, alone = (found[name]["processor_seconds"] for name in ("together", "one_after_the_other"))
    assert found["same_models"]
    assert found["together"]["seconds"] <= 300
    assert len(found["methods"]) * len(found["seeds"]) == found["runs"]
    text = " ".join(PAGE.split())
    assert (
        f"{found['runs']} runs in {together:.0f} s of processor time, {alone:.0f} s one after the other"
        in text
    )
    assert f"{found['together']['seconds']:.0f} s by the clock on {found['cores']} cores" in text
    assert f"with a load of {found['load']}" in text
    alike = found["trained_alike"]
    together, alone = (alike[name]["processor_seconds"] for name in ("together", "one_after_the_other"))
    assert alike["same_models"]
    assert len(alike["methods"]) == alike["runs"] == 4
    assert f"{together:.0f} s of processor time, {alone:.0f} s one after the other" in text
