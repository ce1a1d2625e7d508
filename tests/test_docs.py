"""What the documents show is run."""

import json
import re
import tomllib
from collections import Counter
from dataclasses import replace
from importlib import import_module

import pytest
import torch
import typer

import unknot
from language_files import write_language_world
from pages import ROOT, blocks, write_files
from unknot import registry
from unknot.cli import app
from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.registry import filled
from unknot.core.weights import Weights
from unknot.experiments import Experiment, prepare, run
from unknot.experiments.exposed import Exposure
from unknot.experiments.simulate import data_of
from unknot.federation import Length
from unknot.incentive.setting import Setting
from unknot.reproduce import Reproduction, findings, load, reproduce
from unknot.select.dqn import DQNSettings, Policy
from unknot.unlearn import METHODS


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/clusters.md",
        "docs/data.md",
        "docs/events.md",
        "docs/how-to.md",
        "docs/incentives.md",
        "docs/outputs.md",
        "docs/selection.md",
        "docs/tasks.md",
        "docs/trees.md",
        "docs/tutorial.md",
        "docs/which-method.md",
    ],
)
def test_the_python_of_a_page_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(path, "python"))
    assert code
    exec(compile(code, path, "exec"), {"__name__": "docs"})


def test_the_python_of_the_page_of_language_models_runs_on_small_files(tmp_path, monkeypatch):
    monkeypatch.chdir(write_language_world(tmp_path))
    monkeypatch.setenv("UNKNOT_DATA", str(tmp_path))
    write_files("docs/language.md", tmp_path)
    (tmp_path / "runs" / "letters").mkdir(parents=True)
    served = run(Experiment.read(tmp_path / "letters.toml", ["federation.rounds=4", "request=[]"])).model
    unknot.save_model(served, "runs/letters/model.safetensors")
    names = {"__name__": "docs"}
    exec(compile("\n".join(blocks("docs/language.md", "python")), "language", "exec"), names)
    assert "client 3" not in names["history"].to_dict()["lineage"]
    served, again = names["served"].state_dict(), names["again"].state_dict()
    assert served.keys() == again.keys()
    assert all(torch.equal(served[name], again[name]) for name in served)
    small = unknot.load_adapter(unknot.pretrained("stories260K.bin"), "letters-adapters")
    assert Weights.of(small).vector.equal(Weights.of(names["model"]).vector)
    assert Weights.of(small).vector.any()


def test_an_ensemble_answers_in_plain_pytorch_as_it_does_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    exec(compile("\n".join(blocks("docs/outputs.md", "python")), "outputs", "exec"), names)
    samples = Samples(names["images"], torch.zeros(3, dtype=torch.int64), 10)
    expected = names["fed"].engine.predict(names["fed"].model, samples)
    assert torch.allclose(names["answer"].double(), expected, atol=1e-5)


def test_the_page_for_others_runs_and_what_it_registers_is_found_by_its_files(monkeypatch):
    for kind in (
        "methods",
        "aggregators",
        "selectors",
        "optimizers",
        "losses",
        "metrics",
        "models",
        "datasets",
        "partitions",
    ):
        monkeypatch.setattr(getattr(registry, kind), "_added", {})
    exec(compile("\n".join(blocks("docs/extending.md", "python")), "extending", "exec"), {"__name__": "docs"})
    files = [tomllib.loads(text) for text in blocks("docs/extending.md", "toml")]
    experiments = [Experiment.of(table) for table in files if "project" not in table]
    assert len(experiments) == len(files) - 1
    assert run(replace(experiments[-1], length=Length(rounds=2))).rounds


PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "```toml" in page.read_text() and page.name != "extending.md"  # which registers what it names
)


@pytest.mark.parametrize("page", PAGES)
def test_the_toml_of_a_page_is_read(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Policy([0, 1], DQNSettings(), Key.root(0)).save("policy.safetensors")
    for table in map(tomllib.loads, blocks(page, "toml")):
        if "psi" in table:
            Setting.of(table)
        elif "panel" in table:
            plan = Reproduction.of(table, "mine")
            assert all(one.experiment.requests for one in plan.runs("small"))
        elif "base" in table:
            filled(Exposure, table["base"]["audit"], "audit")
        else:
            Experiment.of(table)


def reproduction_of_ones_own():
    (text,) = (text for text in blocks("docs/reproductions.md", "toml") if "[[panel]]" in text)
    return text


@pytest.mark.slow
def test_a_reproduction_of_ones_own_is_run_as_the_page_has_it(tmp_path):
    (tmp_path / "my-figure.toml").write_text(reproduction_of_ones_own())
    plan = load(str(tmp_path / "my-figure.toml"))
    found = findings(plan, "small", reproduce(plan, out=tmp_path, seeds=[0], threads=1))
    (panel,), (verdict,) = found.panels, found.verdicts
    assert [line.name for line in panel.lines] == ["rfs", "mmt"]
    assert all(stat is not None for line in panel.lines for stat in line.after[0].rounds), "0.8 is reached"
    assert verdict.says in reproduction_of_ones_own()


@pytest.mark.parametrize("text", ["title", "figure", "claim", "[scale.small]", "phases", "phase = "])
def test_what_the_page_says_must_be_there_must_be(text):
    lines = reproduction_of_ones_own().splitlines()
    lines.remove(next(line for line in lines if line.startswith(text)))
    with pytest.raises(ConfigError):
        Reproduction.of(tomllib.loads("\n".join(lines)), "mine").runs("small")


@pytest.mark.parametrize(
    ("part", "key"), [("panel", "name"), ("panel", "title"), ("line", "name"), ("line", "label")]
)
def test_what_the_page_says_panels_and_lines_must_have_they_must(part, key):
    table = tomllib.loads(reproduction_of_ones_own())
    del table[part][0][key]
    with pytest.raises(ConfigError, match=rf"{key} is missing"):
        Reproduction.of(table, "mine")


def test_the_toml_of_the_readme_is_a_run():
    (text,) = blocks("README.md", "toml")
    fed = prepare(Experiment.of(tomllib.loads(text)))
    assert len(fed.data) == 20
    assert fed.method.name == "rfs"


def test_the_toml_of_the_page_of_knot_is_a_run():
    (text,) = blocks("docs/methods/knot.md", "toml")
    experiment = Experiment.of(tomllib.loads(text))
    history = run(replace(experiment, length=replace(experiment.length, rounds=1)))
    assert len({record.lane for record in history.rounds}) == 5


def test_the_toml_of_the_data_page_is_a_run(tmp_path, monkeypatch):
    for name in ("Graz", "Linz", "test"):
        (tmp_path / "clients").mkdir(exist_ok=True)
        (tmp_path / "clients" / f"{name}.csv").write_text("age,ill\n0.1,0\n0.9,1\n")
    monkeypatch.chdir(tmp_path)
    text, _ = blocks("docs/data.md", "toml")
    history = run(Experiment.of(tomllib.loads(text)))
    assert history.to_dict()["lineage"] == ["Linz"]


def test_the_toml_of_texts_finds_their_owners(tmp_path, monkeypatch):
    rows = [
        f"{user},it is {label} {i},{label}"
        for i in range(4)
        for user, label in (("ana", "bad"), ("ben", "good"))
    ]
    (tmp_path / "reviews.csv").write_text("\n".join(["user,text,label", *rows]))
    monkeypatch.chdir(tmp_path)
    _, text = blocks("docs/data.md", "toml")
    data = data_of(Experiment.of(tomllib.loads(text), ["data.tokenizer=bytes"]))
    assert sorted(data.names.values()) == ["ana", "ben"]
    assert (data.train.classes, data.train.x.shape[1]) == (3, 64)


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_what_a_page_makes_can_be_made(page):
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"make ([\w-]+)", "\n".join(blocks(page, "console")))
    assert commands
    for command in commands:
        assert f"\n{command}:" in makefile


def test_the_commands_and_options_that_pages_name_exist():
    commands = typer.main.get_command(app).commands
    seen = set()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text().replace("\\\n", " ")
        shown = "\n".join(re.findall(r"```(?:console|text)\n(.*?)```", text, flags=re.DOTALL))
        typed = re.findall(r"^(?:\$ )?unknot ([^#\n]+)", shown, flags=re.MULTILINE)
        for line in typed + re.findall(r"`unknot ([^`]+)`", text):
            name, *words = line.split()
            if name.startswith("--"):
                continue
            assert name in commands, f"{page.name}: unknot {name}"
            known = {option for one in commands[name].params for option in one.opts}
            named = {re.split(r"[=,.;]", word)[0] for word in words if word.startswith("--")}
            assert named <= known, f"{page.name}: unknot {name} has no {', '.join(named - known)}"
            seen.add(name)
    assert seen == set(commands)


def test_the_reference_has_every_public_name_once():
    named = re.findall(
        r"^\.\. auto(?:class|function):: unknot\.(\w+)$",
        "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")),
        flags=re.MULTILINE,
    )
    assert sorted(named) == sorted(set(unknot.__all__) - {"registry", "track"})


@pytest.mark.parametrize("room", ["audit", "testing", "track"])
def test_the_reference_has_every_public_name_of_a_room(room):
    text = "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    for name in import_module(f"unknot.{room}").__all__:
        if name.isupper() and name not in ("CSV", "RMIA"):
            continue  # a table of things that are there themselves
        assert re.search(rf":: unknot\.{room}\.{name}$", text, flags=re.MULTILINE), name


def test_the_overview_has_every_method_with_its_guarantee():
    page = (ROOT / "docs" / "methods" / "README.md").read_text()
    rows = re.findall(r"\(`([\w-]+)`\) \| (\w+)", page)
    assert dict(rows) == {name: method.guarantee.name.lower() for name, method in METHODS.items()}
    told = re.findall(
        r"\(`(?!standalone)[\w-]+`\) \| ([^|]+) \|", page
    )  # a yardstick is no method to forget by
    kinds = Counter("but" if "but for" in one else one.strip() for one in told)
    words = {2: "two", 3: "three", 7: "seven", 12: "twelve"}
    text = (
        f"{words[len(told)]} methods to forget ({words[kinds['exact']]} exact, {words[kinds['but']]} exact "
        f"but for what they say, {words[len(told) - kinds['exact'] - kinds['but']]} approximate)"
    )
    assert text in " ".join((ROOT / "README.md").read_text().lower().split())


def test_the_figures_of_the_readme_are_those_of_the_benchmarks():
    pages = [(ROOT / page).read_text() for page in ("README.md", "docs/benchmarks.md")]
    for name, measured in (
        ("**unknot**", "**unknot**"),
        ("[Flower]", "Flower's simulation"),
        ("[pfl]", "pfl"),
        ("[Plato]", "Plato"),
        ("[fluke]", "fluke"),
    ):
        (line,) = re.findall(rf"^\| {re.escape(name)}.*$", pages[0], flags=re.MULTILINE)
        said = [text.groups() for text in re.finditer(r"(0\.\d+) \((0\.\d+) to (0\.\d+)\)", line)]
        row = rf"^\| {re.escape(measured)} \| (0\.\d+) \| (0\.\d+) to (0\.\d+) \|"
        found = re.findall(row, pages[1], flags=re.MULTILINE)
        for texts, figures in zip(said, found, strict=True):
            for text, exact in zip(texts, figures, strict=True):
                assert text == f"{float(exact):.{len(text) - 2}f}", name


def test_the_menu_of_the_site_has_every_page():
    pages = set()
    for menu in blocks("docs/index.md", r"{toctree}"):
        pages |= {line for line in menu.splitlines() if line and not line.startswith(":")}
    assert all((ROOT / "docs" / f"{page}.md").exists() for page in pages)
    here = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert here == {page for page in pages if "/" not in page}


def test_the_figures_of_secrets_are_those_of_the_record():
    runs = json.loads((ROOT / "docs" / "results" / "secrets.json").read_text())["runs"]
    page = (ROOT / "docs" / "audits.md").read_text()
    mmt, *pga = runs
    assert mmt["outcome"] == "no trace found"
    for name in ("before", "served"):
        found = mmt[name]
        row = [name, f"{found['mean']:.1f}", f"{max(found['bits']):.1f}", f"{found['two_sided']:.3g}"]
        assert re.search(r" +".join(map(re.escape, row)), page), row
    for one in pga:
        assert f"{one['served']['mean']:.1f} bits (p = {one['p']:.2g})" in " ".join(page.split())
