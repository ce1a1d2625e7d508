import gzip
import tomllib

import pytest

from small_reproductions import GAMES
from small_reproductions import runs as small_runs
from unknot.core.errors import ConfigError, DataError, RequestError
from unknot.core.requests import erase, join
from unknot.data.registry import catalogue
from unknot.experiments.seeds import Stat
from unknot.experiments.simulate import read
from unknot.report.reproduction import markdown
from unknot.reproduce import findings, load, made, names, overview, parse_seeds, reproduce
from unknot.reproduce.__main__ import main
from unknot.reproduce.findings import _not_yet
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.layers import merge
from unknot.reproduce.parts import Draws
from unknot.reproduce.record_file import keep, kept
from unknot.reproduce.records import read as read_records
from unknot.reproduce.reproduction import Reproduction

EXACT = (
    "exact-fig1",
    "exact-fig2",
    "exact-fig3a",
    "exact-fig3b",
    "exact-fig3c",
    "exact-fig6a",
    "exact-fig6b",
    "exact-fig7",
    "exact-fig8",
    "exact-table1",
)

TINY = """
title = "Tiny"
figure = "Figure 0"
claim = "It is tiny."
seeds = [0, 1]

[base]
phases = 2
request = [{ erase = 1, phase = 1 }]
data = { partition = "iid", clients = 4, samples = 20, validation = 0, test = "clients", test_samples = 10 }
train = { lr = 0.1, batch_size = 10 }
federation = { evaluate_on = ["test"] }
engine = { threads = 1 }

[scale.small]
phase = 2

[scale.paper]
phase = 3
seeds = [7]

[[claims]]
says = "the slow one is worse"
order = ["fast", "slow"]

[[panel]]
name = "digits"
title = "digits"
thresholds = [0.2]
published = { fast = 3, slow = "never" }

[[panel]]
name = "more"
title = "digits of more clients"
off = true
data = { clients = 5 }

[[panel]]
name = "letters"
title = "letters"
data = { name = "femnist", root = "/nowhere" }

[[panel]]
name = "words"
title = "words"
thresholds = [0.7]
published = { fast = 16 }
not_run = "Not run: needs language models."

[[line]]
name = "fast"
label = "Fast"
method = { name = "rfs" }

[[line]]
name = "slow"
label = "Slow"
method = { name = "rfs" }
train = { lr = 0.001 }
scale.paper.train = { lr = 0.002 }
"""


def tiny(change=lambda table: None) -> Reproduction:
    table = tomllib.loads(TINY)
    change(table)
    return Reproduction.of(table, "tiny")


# The files that come with unknot ----------------------------------------------------------------


def test_all_of_the_papers_figures_are_there():
    assert tuple(name for name in names() if name.startswith("exact-")) == EXACT


@pytest.mark.parametrize("name", [name for name in names() if isinstance(load(name), Reproduction)])
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_file_resolves_to_experiments(name, scale):
    plan = load(name)
    runs = plan.runs(scale)
    assert runs
    assert len({run.key for run in runs}) == len(runs)
    for run in {(run.panel.name, run.line.name, bool(run.case)): run for run in runs}.values():  # seeds aside
        made = run.experiment
        assert "test" in made.setup.evaluate_on
        assert made.data.test == "clients" or name not in EXACT
        if scale == "small":
            assert made.data.name == "digits"
    for panel in plan.panels_at(scale):
        assert panel.not_run or any(run.panel is panel for run in runs)


def test_the_settings_are_the_papers():
    runs = {
        (run.panel.name, run.line.name): run.experiment for run in load("exact-table1").runs("paper", [0])
    }
    mnist, cifar, hundred = (runs[name, "rfs"] for name in ("mnist", "cifar10", "cifar100"))
    assert (mnist.data.partition.clients, mnist.data.partition.samples, mnist.data.test_samples) == (
        10,
        200,
        200,
    )
    assert mnist.data.partition.ratio == 0.02
    optimizer = mnist.setup.recipe.optimizer
    assert (optimizer.lr, optimizer.weight_decay, mnist.setup.recipe.batch_size) == (0.01, 0.1, 20)
    assert (mnist.setup.recipe.clip, mnist.setup.recipe.epochs, mnist.length.rounds) == (10.0, 1, 200)
    assert mnist.requests == (erase(1, round=100),)
    assert runs["mnist-unit", "rfs"].data.options == {"normalize": "unit"}
    assert (cifar.data.partition.samples, cifar.data.test_samples, cifar.data.partition.ratio) == (
        1000,
        300,
        0.2,
    )
    assert (cifar.setup.recipe.optimizer.lr, cifar.setup.recipe.batch_size, cifar.length.rounds) == (
        0.01,
        64,
        600,
    )
    assert cifar.requests == (erase(1, round=300),)
    assert (
        hundred.data.partition.samples,
        hundred.setup.recipe.epochs,
        hundred.setup.recipe.optimizer.momentum,
    ) == (
        400,
        10,
        0.9,
    )
    (continual,) = (
        run.experiment
        for run in load("exact-fig2").runs("paper", [0])
        if (run.panel.name, run.line.name) == ("3u2n", "mmt")
    )
    assert continual.requests == (
        erase(1, round=100),
        join(10, round=110),
        erase(3, round=200),
        join(11, round=210),
        erase(5, round=300),
    )
    assert continual.data.partition.clients == 12


def test_a_panel_does_not_wait_for_what_another_one_had():
    plan = small_runs()
    runs = plan.runs("small")
    _, letters = plan.panels
    assert _not_yet(letters, runs, set()) == "not run yet: it needs the data set femnist"
    assert _not_yet(letters, runs, {"the data set femnist"}) == "not run yet"


def test_the_overview_says_what_is_needed():
    entries = {entry.name: entry for entry in overview()}
    small, paper = entries["exact-fig2"].scales
    assert (small.name, small.data) == ("small", {"digits": True})
    here = {entry.name: entry.present for entry in catalogue()}
    assert paper.data == {"mnist": here["mnist"]}
    assert all(size.takes for entry in entries.values() for size in entry.scales)


# What a file means ------------------------------------------------------------------------------


def test_layers_are_merged_section_by_section():
    assert merge({"a": {"x": 1, "y": [1, 2]}, "b": 1}, {"a": {"y": [3]}, "c": 2}) == {
        "a": {"x": 1, "y": [3]},
        "b": 1,
        "c": 2,
    }
    small, paper = (
        {(run.panel.name, run.line.name): run.experiment for run in tiny().runs(scale, [0])}
        for scale in ("small", "paper")
    )
    assert small["digits", "slow"].setup.recipe.optimizer.lr == 0.001
    assert paper["digits", "slow"].setup.recipe.optimizer.lr == 0.002
    assert paper["digits", "fast"].setup.recipe.optimizer.lr == 0.1
    assert paper["digits", "fast"].requests == (erase(1, round=3),)
    assert small["more", "fast"].data.partition.clients == 5
    assert {run.seed for run in tiny().runs("small")} == {0, 1}
    assert {run.seed for run in tiny().runs("paper")} == {7}


def test_a_panel_may_have_seeds_of_its_own():
    plan = tiny(lambda table: table["panel"][0].update(seeds=[5]))
    seeds = {
        name: [run.seed for run in plan.runs("small") if run.panel.name == name]
        for name in ("digits", "more")
    }
    assert seeds == {"digits": [5, 5], "more": [0, 0, 1, 1]}
    assert {run.seed for run in plan.runs("small", [3])} == {3}


def test_a_dear_line_may_have_fewer_of_a_panels_seeds():
    plan = tiny(lambda table: table["panel"][0].update(seeds=[0, 1, 2], fewer={"slow": [0, 2]}))
    asked = [(run.line.name, run.seed) for run in plan.runs("small") if run.panel.name == "digits"]
    assert asked == [("fast", 0), ("slow", 0), ("fast", 1), ("fast", 2), ("slow", 2)]
    named = {(run.line.name, run.seed) for run in plan.runs("small", [1]) if run.panel.name == "digits"}
    assert named == {("fast", 1), ("slow", 1)}  # who names seeds has them


def test_a_panel_may_do_without_a_line(tmp_path):
    plan = tiny(lambda table: table["panel"][0].update(without=["slow"]))
    assert {run.line.name for run in plan.runs("small") if run.panel.name == "digits"} == {"fast"}
    file = reproduce(plan, out=tmp_path, seeds=[0])
    found = findings(plan, "small", file, [0])
    assert [line.name for line in found.panels[0].lines] == ["fast"]
    assert found.verdicts == ()  # what is before what was not run, nobody can say


def test_draws_count_how_often_each_client_leaves():
    draws = Draws((0.5, 0.0, 0.5), count=1000)
    leavers = draws.leavers(3)
    assert leavers == draws.leavers(3) != draws.leavers(4)
    assert set(leavers) == {0, 2}
    assert sum(leavers.values()) == 1000
    assert abs(leavers[0] - 500) < 4 * 250**0.5
    plan = tiny(lambda table: table.update(draws={"probabilities": [0, 0, 0.3, 0.7], "count": 10}))
    runs = [run for run in plan.runs("small", [0]) if (run.panel.name, run.line.name) == ("digits", "fast")]
    assert {run.experiment.requests[0].targets[0].client for run in runs} <= {2, 3}
    assert sum(run.weight for run in runs) == 10


def held(**changes):
    """A change to the file: of its first panel."""
    return lambda t: t["panel"][0].update(changes)


def claims(**claim):
    """A change to the file: this is its only claim."""
    return lambda t: t.update(claims=[{"says": "x", **claim}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(titel="x"), "Did you mean 'title'"),
        (lambda t: t.pop("title"), "title is missing"),
        (lambda t: t["panel"][0].update(treshold=1), "Did you mean"),
        (lambda t: t["panel"][0].update(at="middle"), "middle"),
        (lambda t: t["panel"][0]["published"].update(fats=3), "Did you mean 'fast'"),
        (lambda t: t["line"][0].update(scale={"smal": {}}), "Did you mean 'small'"),
        (lambda t: t["line"][1].update(name="fast"), "name of its own"),
        (lambda t: t["claims"][0].update(order=["fast", "slwo"]), "Did you mean 'slow'"),
        (lambda t: t["claims"][0].update(measure="speed"), "measure"),
        (
            lambda t: t["claims"][0].update(above=0.0),
            "one of order, above, below, never, gap, less and alike",
        ),
        (lambda t: t.update(bars=["speed"]), "bars"),
        (lambda t: t["scale"].update(huge={}), "huge"),
        (lambda t: t.update(draws={"probabilities": []}), "probabilities"),
        (lambda t: t.update(draws={"probabilities": [1e300]}), "between 0 and 1"),
        (lambda t: t.update(draws=3), "draws must be a section"),
        (lambda t: t.update(panel=3), "panel must be a list of sections"),
        (lambda t: t.update(line=[3]), r"line\[0\] must be a section"),
        (lambda t: t.update(claims=3), "claims must be a list of sections"),
        (lambda t: t["claims"][0].update(order=3), "order must be a list"),
        (lambda t: t.update(claims=[{"says": "x", "alike": 0.1}]), "a claim is about lines"),
        (lambda t: t.update(claims=[{"says": "x", "above": 0.1}]), "a claim is about lines"),
        (lambda t: t.update(seeds=[]), "tiny.seeds is empty: name a seed"),
        (lambda t: t.update(seeds=[-3]), "tiny.seeds has -3: a seed is 0 or more"),
        (lambda t: t["scale"]["paper"].update(seeds=[0, 0, 1]), "scale.paper.seeds has 0 twice"),
        (lambda t: t["panel"][0].update(seeds=[]), "panel digits's seeds is empty"),
        (lambda t: t["panel"][0].update(seeds=[1, 1]), "panel digits's seeds has 1 twice"),
        (held(seeds=[0, 1, 2], fewer={"slow": [0, 9]}), r"fewer.slow has seed 9, .* seeds are 0, 1, 2:"),
        (held(seeds=[0, 1, 2], fewer={"slow": [-1]}), "fewer.slow has -1: a seed is 0 or more"),
        (held(seeds=[0, 1, 2], fewer={"slow": []}), "fewer.slow is empty"),
        (held(seeds=[5], fewer={"slow": [0]}), "fewer.slow has seed 0, .* seeds are 5:"),
        (held(seeds=[0], fewer={"slow": [0]}, without=["slow"]), "fewer.slow: the panel does without"),
        (held(fewer={"slow": [0]}), "at paper scale the panel's seeds are 7"),
        (held(fewer={"slwo": [0]}), "Did you mean 'slow'"),
        (
            lambda t: t["line"][1].update(drops=["train"]),
            r"line slow's drops\[0\] = 'train': write section.key",
        ),
        (lambda t: t["line"][1].update(drops=["trian.lr"]), "write section.key"),
        (lambda t: t["line"][1].update(drops=["train.lrr"]), "there is no train.lrr below it .*'train.lr'"),
        (
            lambda t: t["panel"][0].update(drops=["train.lr", "clock.low"]),
            r"panel digits's drops\[1\]: there is no clock.low below it to drop",
        ),
        (held(thresholds=[75]), "panel digits's thresholds by accuracy are shares: above 0 and at most 1"),
        (claims(alike=2.0, lines=["fast", "slow"]), "claim.alike is a share here"),
        (claims(above=45.0, lines=["fast"]), "claim.above is a share here"),
        (claims(above=45.0, lines=["fast"], measure="f1_fall"), "claim.above is a share here"),
    ],
)
def test_a_wrong_file_says_what_to_change(change, message):
    with pytest.raises(ConfigError, match=message):
        tiny(change)


def test_what_is_like_another_has_its_lines_held_to_the_seeds_that_are_left():
    """Figure 5 holds rapid retraining on CIFAR-10 to two of three seeds."""

    def fewer(**panel):
        line = [{"name": name} for name in ("fedbuff", "rapid")]
        table = {"like": "knot-fig5", "panel": [{"name": "cifar10", **panel}], "line": line}
        plan = Reproduction.of({**table, "title": "x", "figure": "x", "claim": "x"}, "mine")
        runs = [run for run in plan.runs("paper") if run.panel.name == "cifar10"]
        return [run.seed for run in runs if run.line.name == "rapid"], plan.panels[0].fewer

    assert fewer() == ([0, 1], {"rapid": (0, 1)})
    assert fewer(seeds=[0]) == ([0], {"rapid": (0,)})
    assert fewer(seeds=[5]) == ([5], {})
    assert fewer(without=["rapid"]) == ([], {})


@pytest.mark.parametrize("name", [name for name in names() if isinstance(load(name), Reproduction)])
def test_a_file_of_ones_own_may_be_like_any_reproduction_and_name_some_of_its_lines(name):
    """What the other says of lines that are not here is left out: its baseline, what panels do without."""
    other, titles = load(name), {"title": "x", "figure": "x", "claim": "x"}
    for line in other.lines:
        plan = Reproduction.of({"like": name, "line": [{"name": line.name}], **titles}, "mine")
        assert [kept.name for kept in plan.lines] == [line.name]
        assert plan.baseline == (line.name if other.baseline == line.name else None)
    whole = Reproduction.of({"like": name, **titles}, "mine")
    assert (whole.lines, whole.panels, whole.baseline) == (other.lines, other.panels, other.baseline)
    assert whole.uses == (name, *other.uses)


def test_what_a_file_says_itself_of_lines_that_it_does_not_have_is_refused():
    own = {"like": "knot-fig5", "line": [{"name": "knot"}], "title": "x", "figure": "x", "claim": "x"}
    for key, value in (("without", ["rapid"]), ("fewer", {"rapid": [0]}), ("published", {"rapid": 1})):
        with pytest.raises(ConfigError, match=f"unknown key 'rapid' in panel cifar10's {key}"):
            Reproduction.of({**own, "panel": [{"name": "cifar10", key: value}]}, "mine")
    with pytest.raises(ConfigError, match=r"unknown key mine\.baseline\.fedbuff"):
        Reproduction.of({**own, "baseline": "fedbuff"}, "mine")


def test_a_request_comes_in_a_phase_that_there_is():
    def asked(**request):
        return tiny(lambda t: t["base"].update(request=[{"erase": 1, **request}]))

    assert asked(phase=1).runs("small", [0])
    for phase in (9, 2, -1):
        with pytest.raises(ConfigError, match=rf"request 1.phase is {phase}, but there are phases 0 to 1"):
            asked(phase=phase).runs("small", [0])
    with pytest.raises(ConfigError, match="request 1 comes at round 5, but the run has 4"):
        asked(phase=1, after=3).runs("small", [0])


def test_phases_and_their_length_go_together():
    def base(phases, phase, request=({"erase": 1, "phase": 1},)):
        def change(table):
            table["base"] |= {"request": list(request)}
            table["scale"]["small"].pop("phase")
            for key, value in (("phases", phases), ("phase", phase)):
                table["base"].pop(key, None)
                if value is not None:
                    table["base"][key] = value

        return tiny(change).runs("small", [0])

    for request in ([], [{"erase": 1, "phase": 1}]):
        with pytest.raises(ConfigError, match="phases must be at least 1, not -1"):
            base(-1, 2, request)
        with pytest.raises(ConfigError, match="phases must be at least 1, not 0"):
            base(0, 2, request)
        with pytest.raises(ConfigError, match="phase must be at least 1, not 0"):
            base(2, 0, request)
        with pytest.raises(
            ConfigError, match="phase, the rounds of one, is 2, but phases, how many, is missing"
        ):
            base(None, 2, request)
        with pytest.raises(
            ConfigError, match="phases, how many, is 2, but phase, the rounds of one, is missing"
        ):
            base(2, None, request)
    with pytest.raises(
        ConfigError, match="request 1 comes at a phase, but phase, the rounds of one, and phases"
    ):
        base(None, None)
    with pytest.raises(ConfigError, match="phases must be a whole number, not 'x'"):
        base("x", 2)


def test_a_claim_about_a_line_that_is_not_is_told_by_what_it_says():
    with pytest.raises(ConfigError, match=r"the claim 'x' names line 'fee'.*Known: fast, slow"):
        tiny(claims(order=["fast", "fee"]))
    with pytest.raises(ConfigError, match=r"the claim 'x' names panel 'digit'.*Did you mean 'digits'"):
        tiny(claims(order=["fast", "slow"], panels=["digit"]))
    game = tomllib.loads(GAMES)
    for claim, told in (({"panel": "q"}, "names panel 'q'"), ({"lines": ["gredy"]}, "Did you mean 'greedy'")):
        one = {"says": "x", "panel": "p", "settle": 2, "lines": ["greedy"], **claim}
        with pytest.raises(ConfigError, match=f"the claim 'x' .*{told}"):
            GameReproduction.of({**game, "claims": [one]} | {"kind": "game"}, "mine")


def test_a_name_in_capitals_is_known_for_what_it_is(tmp_path):
    with pytest.raises(ConfigError, match=r"has no line or panel 'RFS'.*Did you mean 'rfs'"):
        reproduce(small_runs(), out=tmp_path, only=["RFS"])


def test_a_scale_that_a_file_lacks_is_told_by_what_to_write():
    plan = tiny(lambda t: t["scale"].pop("small"))
    with pytest.raises(ConfigError, match=r"tiny has no scale 'small': write \[scale.small\] into its file"):
        plan.runs("small")
    game = GameReproduction.of({**tomllib.loads(GAMES), "scale": {}}, "mine")
    with pytest.raises(ConfigError, match=r"mine has no scale 'small': write \[scale.small\] into its file"):
        game.draws_at("small")


def test_runs_are_taken_over_from_what_there_is(tmp_path):
    used = tiny(lambda t: t.update(uses=["nobody"]))
    with pytest.raises(ConfigError, match="uses 'nobody', but there is no reproduction of that name"):
        reproduce(used, out=tmp_path, seeds=[0], only=["digits", "fast"])
    assert not list(tmp_path.iterdir())
    (tmp_path / "nobody-paper.json.gz").touch()  # of another scale: there is such a one
    assert reproduce(used, out=tmp_path, seeds=[0], only=["digits", "fast"]).exists()


def test_a_game_is_not_taken_over():
    table = {**tomllib.loads(TINY), "like": "incentive-fig4a"}
    with pytest.raises(ConfigError, match="games cannot be taken over by like"):
        Reproduction.of(table, "tiny")


def test_what_is_no_reproduction_is_said_to_be_what_it_is(tmp_path):
    (tmp_path / "README.md").touch()
    with pytest.raises(ConfigError, match=r"README.md': the file of that name is no TOML file"):
        load(str(tmp_path / "README.md"))
    with pytest.raises(ConfigError, match="that is a folder; name the TOML file in it"):
        load(str(tmp_path))
    with pytest.raises(ConfigError, match=r"there is no reproduction 'nowhere.md'\."):
        load("nowhere.md")


def test_names_and_seeds_that_are_not():
    with pytest.raises(ConfigError, match="Did you mean 'exact-fig2'"):
        load("exact-fig22")
    with pytest.raises(ConfigError, match="has no scale 'medium'"):
        tiny().runs("medium")
    with pytest.raises(ConfigError, match="whole numbers"):
        parse_seeds("0;1")
    assert parse_seeds("0,2") == (0, 2)


# Running -----------------------------------------------------------------------------------------


def test_from_a_file_to_findings_and_on_where_it_stopped(tmp_path):
    plan, told = tiny(), []
    file = reproduce(plan, out=tmp_path, seeds=[0], only=["fast"], tell=told.append)
    assert file == tmp_path / "tiny-small.json.gz"
    assert [text for text in told if "of" in text][-1] == "1 of 1: digits/fast/0"
    assert any("letters" in text and "femnist is not here" in text for text in told)
    assert findings(plan, "small", file).panels[0].reason == "not run yet: Slow"

    told.clear()
    reproduce(plan, out=tmp_path, tell=told.append)
    done = [text.split(": ")[1] for text in told if text[0].isdigit()]
    assert done == ["digits/slow/0", "digits/fast/1", "digits/slow/1"]  # what was done is not done again

    told.clear()
    reproduce(plan, out=tmp_path, tell=told.append)
    assert not [text for text in told if text[0].isdigit()]

    found = findings(plan, "small", file)
    digits, letters, words = found.panels
    fast, slow = digits.lines
    assert fast.seeds == slow.seeds == (0, 1)
    assert fast.after[0].request == "leave 1"
    assert fast.after[0].before.n == 2
    assert fast.costs.client_epochs == pytest.approx((4 + 3) / 8)  # 4 clients, then 3, beside 4 throughout
    assert (digits.published, digits.reason) == ({"fast": "3", "slow": "never"}, None)
    assert letters.reason == "not run yet: it needs the data set femnist"
    assert words.reason == "Not run: needs language models."
    (verdict,) = found.verdicts
    assert verdict.outcome in ("holds", "not shown")  # two seeds: an interval is wide
    assert verdict.comparisons[0].difference.mean > 0
    assert "Fast" in verdict.detail
    assert found.machines


def test_a_changed_configuration_is_run_again_and_elsewhere_is_not(tmp_path):
    told = []
    file = reproduce(tiny(), out=tmp_path, seeds=[0], only=["fast"])
    reproduce(tiny(), out=tmp_path, seeds=[0], only=["fast"], device="cpu", threads=1, tell=told.append)
    assert not [text for text in told if text[0].isdigit()]  # where it runs is no part of what it is
    changed = tiny(lambda table: table["base"]["train"].update(lr=0.2))
    assert findings(changed, "small", file, [0]).panels[0].earlier
    reproduce(changed, out=tmp_path, seeds=[0], only=["fast"], tell=told.append)
    assert told[-1] == "1 of 1: digits/fast/0"
    assert findings(changed, "small", file, [0]).panels[0].lines
    assert not findings(changed, "small", file, [0]).panels[0].earlier
    overrides = ["train.batch_size=5"]
    assert not findings(changed, "small", file, [0], overrides).panels[0].lines
    reproduce(changed, out=tmp_path, seeds=[0], only=["fast"], overrides=overrides)
    assert findings(changed, "small", file, [0], overrides).panels[0].lines
    # Thresholds are read off the records: another one needs no other run.
    other = tiny(
        lambda t: (t["base"]["train"].update(lr=0.2, batch_size=5), t["panel"][0].update(thresholds=[0.99]))
    )
    ((line,), *_) = (panel.lines for panel in findings(other, "small", file, [0]).panels)
    assert line.after[0].rounds == (None,)


def test_a_panel_of_an_earlier_configuration_says_so_and_so_do_its_verdicts(tmp_path):
    file = reproduce(tiny(), out=tmp_path, seeds=[0])
    changed = tiny(lambda table: table["base"]["train"].update(batch_size=5))
    found = findings(changed, "small", file, [0])
    assert "train.batch_size is 10, today 5" in found.panels[0].earlier
    assert [verdict.earlier for verdict in found.verdicts] == [True]
    # Another client erased is another question, not an earlier answer; nor is what --set asks for.
    other = tiny(lambda table: table["base"].update(request=[{"erase": 2, "phase": 1}]))
    assert not findings(other, "small", file, [0]).panels[0].lines
    assert not findings(tiny(), "small", file, [0], ["train.lr=0.3"]).panels[0].lines
    # Of a panel that is partly run anew, only that is shown.
    reproduce(changed, out=tmp_path, seeds=[0], only=["fast"])
    panel = findings(changed, "small", file, [0]).panels[0]
    assert ([line.name for line in panel.lines], panel.earlier) == (["fast"], "")


def test_data_is_read_once_and_a_run_leaves_it_as_it_was(tmp_path, monkeypatch):
    reads = []
    monkeypatch.setattr(made, "read", lambda experiment: reads.append(1) or read(experiment))
    together = reproduce(tiny(), out=tmp_path / "together", seeds=[0], only=["digits"])
    assert len(reads) == 1
    alone = reproduce(tiny(), out=tmp_path / "alone", seeds=[0], only=["digits", "slow"])
    models = [
        {item["key"]: item["history"]["model"] for item in kept(file).values()} for file in (together, alone)
    ]
    assert models[0]["digits/slow/0"] == models[1]["digits/slow/0"]


def test_a_panel_drops_what_it_has_no_use_for():
    def change(table):
        table["base"]["model"] = {"name": "mlp", "hidden": [8]}
        table["panel"][1].update(model={"name": "lenet5"}, drops=["model.hidden"])

    runs = {(run.panel.name, run.line.name): run.table for run in tiny(change).runs("small", [0])}
    assert runs["digits", "fast"]["model"] == {"name": "mlp", "hidden": [8]}
    assert runs["more", "fast"]["model"] == {"name": "lenet5"}


def test_what_is_dropped_may_be_there_in_some_runs_alone():
    def change(table):
        table["line"][1].update(drops=["clock.low"])
        table["panel"][1].update(clock={"low": 1})

    runs = {(run.panel.name, run.line.name): run.table for run in tiny(change).runs("small", [0])}
    assert "clock" not in runs["digits", "slow"]
    assert runs["more", "slow"]["clock"] == {}
    assert runs["more", "fast"]["clock"] == {"low": 1}


def test_what_is_off_is_run_when_it_is_named(tmp_path):
    told = []
    file = reproduce(tiny(), out=tmp_path, seeds=[0], only=["more", "slow"], tell=told.append)
    assert told == ["1 of 1: more/slow/0"]
    assert "more" in {panel.name for panel in findings(tiny(), "small", file, [0]).panels}
    with pytest.raises(ConfigError, match="Did you mean 'slow'"):
        reproduce(tiny(), out=tmp_path, only=["slwo"])


def test_a_mistake_is_found_before_anything_is_trained(tmp_path):
    plan = tiny(lambda table: table["line"][1].update(method={"name": "rfx"}))
    with pytest.raises(ConfigError, match="Did you mean 'rfs'"):
        reproduce(plan, out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_records_that_cannot_be_read_are_not_written_over(tmp_path):
    packed = (
        b"",
        b"{",
        gzip.compress(b"{"),
        gzip.compress(b'{"format": 0, "runs": []}'),
        gzip.compress(b"[]"),
    )
    file = tmp_path / "tiny-small.json.gz"
    for content in packed:
        file.write_bytes(content)
        with pytest.raises(DataError, match="move it away"):
            reproduce(tiny(), out=tmp_path, seeds=[0], only=["fast"])
        assert file.read_bytes() == content


def test_it_runs_without_the_command_line(tmp_path, capsys):
    path = tmp_path / "own.toml"
    path.write_text(TINY)
    options = ["--out", str(tmp_path), "--seeds", "3", "--only", "slow", "--set", "train.batch_size=5"]
    assert main([str(path), *options]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "own-small.json.gz")
    (record,) = kept(tmp_path / "own-small.json.gz").values()
    assert record["config"]["train"]["batch_size"] == 5
    assert record["config"]["seed"] == 3
    assert len(record["history"]["model"]) == 16
    assert main(["exact-fig0"]) == 2
    assert "there is no reproduction" in capsys.readouterr().err
    assert main([]) == 0
    assert capsys.readouterr().out.split() == list(names())


# What came out ----------------------------------------------------------------------------------


def test_mean_and_spread_over_seeds():
    # 1, 2, 4: mean 7/3, squared distances 16/9 + 1/9 + 25/9 = 42/9, over n − 1 = 2: 7/3.
    stat = Stat.of([1.0, 2.0, 4.0, None])
    assert stat.mean == pytest.approx(7 / 3)
    assert stat.std == pytest.approx((7 / 3) ** 0.5)
    assert (stat.n, stat.asked) == (3, 4)
    assert Stat.of([5.0]) == Stat(5.0, None, 1, 1)
    assert Stat.of([None]) is None


def test_cases_count_as_often_as_they_were_drawn(tmp_path):
    plan = tiny(lambda table: table.update(draws={"probabilities": [0.3, 0.0, 0.7, 0.0], "count": 10}))
    file = reproduce(plan, out=tmp_path, seeds=[0], only=["fast"])
    weights = plan.draws.leavers(0)
    runs = {key: [one.value for one in item.trace.points] for key, item in read_records(file).records.items()}
    expected = sum(
        count * runs[f"digits/fast/0/client {client} leaves"][-1] for client, count in weights.items()
    )
    (line,) = findings(plan, "small", file, [0]).panels[0].lines
    assert line.curve.mean[-1] == pytest.approx(expected / 10)
    assert line.after[0].request == "leave, drawn"
    first = next(iter(kept(file).values()))
    file.unlink()
    keep(file, first)
    assert not findings(plan, "small", file, [0]).panels[0].lines  # half of the cases say nothing yet
    assert line.after[0].before.n == 1


# The data that a reproduction needs -------------------------------------------------------------


def test_the_test_set_is_the_clients_shares_and_stays(tmp_path):
    from unknot.experiments import prepare

    run = next(run for run in tiny().runs("small", [0]))
    fed = prepare(run.experiment)
    assert len(fed.data.test) == 40  # 4 clients, 10 samples each
    whole = prepare(tiny().runs("small", [0], ["data.test=all"])[0].experiment)
    for client in fed.data.clients:
        mine, same = fed.data.test_rows[client], whole.data.test_rows[client]
        assert fed.data.test.x[mine].equal(whole.data.test.x[same])
    fed.run(1)
    fed.run(2, requests=[erase(1, round=2)])
    assert len(fed.data.test) == 40


def test_a_corrupt_client_reaches_the_federation():
    from unknot.experiments import prepare

    overrides = ["data.corrupt=[1]", "data.corruption=zero"]
    fed = prepare(tiny().runs("small", [0], overrides)[0].experiment)
    assert not fed.data.train.x[fed.data[1].rows].any()
    assert fed.data.train.x[fed.data[0].rows].any()
    with pytest.raises(ConfigError, match="Did you mean 'zero'"):
        tiny().runs("small", [0], ["data.corruption=zeros"])[0].experiment  # noqa: B018
    with pytest.raises(ConfigError, match="Did you mean 'clients'"):
        tiny().runs("small", [0], ["data.test=client"])[0].experiment  # noqa: B018


# Audits of runs ---------------------------------------------------------------------------------


def test_a_run_with_an_audit_has_its_measures_and_one_without_has_not(tmp_path):
    def audited(table):
        table["base"]["audit"] = {"shadows": 4, "samples": 30, "controls": 3, "level": 0.25}

    plain, asked = tiny(), tiny(audited)
    file = reproduce(plain, out=tmp_path, seeds=[0], only=["digits", "fast"])
    (line,) = findings(plain, "small", file, [0]).panels[0].lines
    assert not any(name.startswith(("f1", "auc", "sees")) for name in line.measures)
    assert findings(asked, "small", file, [0]).panels[0].earlier  # an audit is part of the configuration

    reproduce(asked, out=tmp_path, seeds=[0], only=["digits", "fast"])
    (line,) = findings(asked, "small", file, [0]).panels[0].lines
    f1 = {name: line.measures[f"f1_{name}"].mean for name in ("before", "after", "control", "fall")}
    assert f1["fall"] == pytest.approx(1 - f1["after"] / f1["before"])
    assert {"sees", "flagged", "over_forgotten"} < set(line.measures)
    assert {line.measures[f"p_{name}"].mean for name in ("before", "after")} <= {0.25, 0.5, 0.75, 1.0}
    assert line.measures["asked"].mean == 2
    with pytest.raises(ConfigError, match="in pairs"):
        reproduce(asked, out=tmp_path, overrides=["audit.shadows=3"])
    with pytest.raises(ConfigError, match="at least 19 controls"):
        reproduce(asked, out=tmp_path, overrides=["audit.level=0.05"])
    with pytest.raises(ConfigError, match=r"audit.*shadows"):
        reproduce(asked, out=tmp_path, overrides=["audit.shadow=4"])
    with pytest.raises(ConfigError, match="audit must be a section, not 3"):
        reproduce(asked, out=tmp_path, overrides=["audit=3"])


@pytest.mark.parametrize("name", ["incentive-fig3", "incentive-fig5d"])
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_figures_of_the_attack_take_the_runs_of_the_accuracies(name, scale):
    """All but the panel that no other figure has."""

    def tables(plan):
        return [{**run.table, "name": ""} for run in plan.runs(scale) if run.panel.name != "few-clients"]

    there = [table for letter in "abc" for table in tables(load(f"incentive-fig5{letter}"))]
    mine = tables(load(name))
    assert all(table in there for table in mine)
    assert all("audit" in table for table in mine)
    assert {f"incentive-fig5{letter}" for letter in "abc"} <= set(load(name).uses)


def test_a_mistake_in_the_second_line_is_found_before_the_first_is_trained(tmp_path):
    for section in ({"federation": {"per_round": 40}}, {"request": [{"erase": 40, "phase": 1}]}):
        wrong = tiny(lambda t, section=section: t["line"][1].update(section))
        with pytest.raises((ConfigError, RequestError), match=r"digits/slow: .*(40|client)"):
            reproduce(wrong, out=tmp_path)
        assert not list(tmp_path.iterdir())


def test_a_line_without_a_method_is_refused(tmp_path):
    nothing = tiny(lambda t: t["line"][1].pop("method"))
    with pytest.raises(ConfigError, match="tiny/digits/slow has no method: name one in the line"):
        reproduce(nothing, out=tmp_path)


def test_a_claim_that_could_not_be_judged_is_named(tmp_path):
    claims = [
        {"says": "hidden", "measure": "f1_after", "below": 0.5, "lines": ["fast"]},
        {"says": "shrinks", "gap": ["fast", "slow"]},
        {"says": "sooner", "order": ["fast", "slow"]},
    ]
    plan = tiny(lambda t: t.update(claims=claims))
    found = findings(plan, "small", reproduce(plan, out=tmp_path, seeds=[0]), [0])
    assert found.not_judged == ("hidden", "shrinks")
    assert "Not judged, since these runs did not measure it: hidden." in markdown(found.to_dict(), "c", None)
    nothing = findings(plan, "small", tmp_path / "none.json.gz", [0])
    assert nothing.not_judged == ()
