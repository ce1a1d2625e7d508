"""What a person gets wrong: a line that says what was found and what to do, status 2, and nothing else."""

import re

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.engine.loop import LoopEngine
from unknot.engine.stacked import StackedEngine

FILE = """
[data]
partition = "iid"
clients = 4
samples = 20
validation = 50
[federation]
rounds = 4
[[request]]
erase = 1
round = 2
"""
GAME = "psi = [150, 200]\nzeta = [12, 15]\nf_u = [90, 100]\nf_c = [32, 35]\ndata = [85, 100]\n"
TEXTS = {
    "a.toml": FILE,
    "empty.toml": "",
    "broken.toml": "[data\n",
    "deep.toml": "a = " + "[" * 5000,
    "table.toml": "client,probability\n1,2\n",
    "other.toml": "a = 1\n",
    "game.toml": GAME,
    "game-key.toml": GAME.replace("psi", "psy"),
    "game-short.toml": GAME.replace("[12, 15]", "[12]"),
    "game-less.toml": GAME.replace("150", "-150"),
    "game-text.toml": GAME.replace("[12, 15]", "'a'"),
    "game-nan.toml": GAME.replace("150", "nan"),
    "game-huge.toml": GAME.replace("150", "1e308"),
    "tree.csv": "client,probability\na,0.1\nb,0.2\nc,0.7\n",
    "huge.csv": "client,probability\na,1e999\nb,1\n",
    "less.csv": "client,probability\na,-1\nb,1\n",
    "nan.csv": "client,probability\na,nan\nb,1\n",
    "word.csv": "client,probability\na,often\nb,1\n",
    "zero.csv": "client,probability\na,0\nb,0\n",
    "head.csv": "client,probability\n",
    "empty.csv": "",
    "headless.csv": "1,2\n3,4\n",
    "twice.csv": "client,probability\na,1\na,2\n",
    "short.csv": "client,probability\na\n",
    "column.csv": "client,probabilty\na,1\n",
    "times.csv": "client,time,disparity\na,1,0.2\nb,2,0.3\nc,3,0.1\nd,4,0.9\n",
    "times-less.csv": "client,time,disparity\na,-1,0.2\nb,2,0.3\n",
    "times-far.csv": "client,time,disparity\na,1,2\nb,2,0.3\n",
    "times-lack.csv": "client,time\na,1\n",
    "file": "no folder",
    "notes/read.txt": "no data",
    "columns/a.csv": "x,y\n1,2\n",
    "columns/b.csv": "x,z\n1,2\n",
    "words/a.csv": "x,y\n1,b\nq,0\n",
    "broken_module.py": "import nonesuch\n",
    "fine_module.py": "Thing = 3\n",
    "model.safetensors": "nonsense",
}
BYTES = {
    "utf16.toml": FILE.encode("utf-16"),
    "latin1.toml": 'name = "Köln"\n'.encode("latin-1"),
    "binary.toml": bytes(range(256)),
    "utf16.csv": "client,probability\na,1\n".encode("utf-16"),
    "bytes/a.csv": b"\xff\xfe\x00",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    for name in ("folder", "picture.png", "page.html"):
        (folder / name).mkdir()
    for name, content in {**BYTES, **{name: text.encode() for name, text in TEXTS.items()}}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def run(*settings: str) -> list[str]:
    return ["run", "a.toml", *(word for setting in settings for word in ("--set", setting))]


def asking(requests: str) -> list[str]:
    return run(f"request=[{requests}]")


def data_in(folder: str) -> list[str]:
    return run(f'data={{name="folder", path="{folder}", target="y"}}')


COMMANDS = [
    (["rnu"], "Did you mean 'run'"),
    (["--verison"], "--version"),
    (["run"], "Missing argument.* See unknot run --help"),
    (["run", "a.toml", "b.toml"], r"b\.toml.* See unknot run --help"),
    (["run", "a.toml", "--sed", "1"], "--seed"),
    (["run", "a.toml", "--seed", "one"], "--seed.*int"),
    (["run", "a.toml", "--seed"], "--seed.*requires an argument"),
    (["demo", "x"], "unexpected extra argument"),
    (["demo", "--plot", "x.bmp"], r"must end in \.png"),
    (["demo", "--out", "file"], "not a folder"),
    (["new", "x"], "See unknot new --help"),
    (["new", "--method", "mtm"], "Did you mean 'mmt'"),
    (["new", "--data", "digts"], "Did you mean 'digits'"),
    (["list", "metods"], "Did you mean 'methods'"),
    (["list", "methods", "mtm"], "Did you mean 'mmt'"),
    (["list", "methods", "mmt", "x"], "See unknot list --help"),
    (["list", "methods", "--reference"], "leave KIND, NAME and --json out"),
    (["data", "--verify", "digts"], "Did you mean 'digits'"),
    (["check", "a.toml", "--engine", "lopo"], "Did you mean 'loop'"),
    (["check", "a.toml", "--device", "cdua"], "this machine has cpu"),
    (["reproduce", "knot-tabel2"], "Did you mean 'knot-table2'"),
    (["reproduce", "folder"], "Known: exact-fig1"),
    (["reproduce", "other.toml"], "unknown key other.a. Known: axis"),
    (["reproduce", "knot-table2", "--scale", "big"], "small"),
    (["reproduce", "knot-table2", "--seeds", "x"], "0,1,2 or 0-4"),
    (["reproduce", "knot-table2", "--only", "nobody"], "no line or panel 'nobody'"),
    (["reproduce", "knot-table2", "--out", "file"], "not a folder"),
]
FILES = [
    (["run", "nowhere.toml"], "look at its name"),
    (["run", "folder"], "name the TOML file in it"),
    (["run", "utf16.toml"], "save it as a TOML file in that encoding"),
    (["run", "latin1.toml"], "not text in UTF-8"),
    (["run", "binary.toml"], "not text in UTF-8"),
    (["run", "broken.toml"], "at line 1, column 6"),
    (["run", "deep.toml"], "nested too deeply"),
    (["run", "table.toml"], "Expected '='"),
    (["run", "other.toml"], "unknown key a. Known: clock, data"),
    (["check", "folder"], "name the TOML file in it"),
    (["check", "nowhere.toml"], "look at its name"),
    (["audit", "latin1.toml"], "save it as a TOML file"),
    (["audit", "empty.toml"], "needs an experiment with erase requests"),
    (["compare", "folder"], "name the TOML file in it"),
    (["game", "folder"], "name the TOML file in it"),
    (["game", "utf16.toml"], "save it as a TOML file"),
    (["reproduce", "nowhere.toml"], "look at its name"),
    (["reproduce", "utf16.toml"], "save it as a TOML file"),
]
SETTINGS = [
    (run("x"), r"section\.key=value"),
    (run("=3"), r"section\.key=value"),
    (run("train..lr=3"), r"section\.key=value"),
    (run("train.lr"), r"section\.key=value"),
    (run("train=3"), r"must be a section: \[train\]"),
    (run("data=[1]"), r"must be a section: \[data\]"),
    (run("request.round=3"), "request is not a section"),
    (run("name.x=3"), "name must be a text"),
    (run("train.lr="), "train.lr must be a number"),
    (run("trian.lr=1"), "Did you mean 'train'"),
    (run("train.lrr=1"), "Did you mean 'lr'"),
    (run("foo=1"), "unknown key foo. Known: clock"),
    (run('method.nmae="mmt"'), "Did you mean 'name'"),
    (run('method.name="mtm"'), "Did you mean 'mmt'"),
    (run('method="mmt"'), r"must be a section: \[method\]"),
    (run('model.name="mpl"'), "Did you mean 'mlp'"),
    (run('data.name="digit"'), "Did you mean 'digits'"),
    (run('data.partition="idd"'), "Did you mean 'iid'"),
    (run('federation.pace="sync"'), "Known: buffered, synchronous"),
    (run('federation.aggregate="fedavgg"'), "Did you mean 'fedavg'"),
    (run('select.name="unform"'), "Did you mean 'uniform'"),
    (run('task.loss="mse2"'), "Known: .*squared-error"),
    (run('task.metrics=["acuracy"]'), "Did you mean 'accuracy'"),
    (run('train.optimizer="sdg"'), "Did you mean 'sgd'"),
    (run('train.schedule="cosin"'), "Did you mean 'cosine'"),
    (run('engine.name="lopo"'), "Did you mean 'loop'"),
    (run('engine.dtype="float16"'), "Did you mean 'float64'"),
    (run("engine.threads=0"), "at least 1"),
    (run("clock.speed=2"), "Known: factor"),
    (run("federation.rounds=-1"), "at least 1"),
    (run("federation.rounds=2.5"), "whole number"),
    (run('federation.rounds="many"'), "whole number"),
    (run("federation.seconds=-1"), "positive and finite"),
    (run("federation.per_round=0"), "at least 1"),
    (run("federation.per_round=9"), "lower it or raise data.clients"),
    (run("train.lr=nan"), "finite"),
    (run("train.lr=-1"), "positive"),
    (run('train.lr="fast"'), "must be a number"),
    (run("train.lr=true"), "must be a number"),
    (run("train.epochs=0"), "at least 1"),
    (run("train.batch_size=-3"), "at least 1"),
    (run("data.clients=0"), "at least 1"),
    (run("data.clients=100000"), "Lower clients, samples or validation"),
    (run("data.validation=1000000"), "leave clients some"),
    (run("seed=1.5"), "whole number"),
    (run('data={partition="dirichlet", alpha=nan}'), "positive"),
    (run('model.hidden="x"'), r"such as \[80\]"),
    (run('model.initial="nowhere.safetensors"'), "cannot read nowhere.safetensors: No such file"),
    (run('model.initial="model.safetensors"'), "is not a saved model"),
    (run('model.name="nonesuch:Thing"'), "no module nonesuch is installed, nor in"),
    (run('model.name="broken_module:Thing"'), "needs nonesuch, which is not installed"),
    (run('model.name="fine_module:Ting"'), "Did you mean 'Thing'"),
    (run('method.name="fine_module:Thing"'), "is no .*Method"),
    (run('data.name="mnist"', 'data.root="folder"'), "Download"),
    (data_in("nowhere"), "expected a folder with a file a client"),
    (data_in("folder"), r"expected a file a client, \.npz or \.csv"),
    (data_in("notes"), "move what is no client's data out of the folder"),
    (data_in("columns"), "there is no column 'y' to predict. Known: x, z"),
    (data_in("words"), "Encode categories as numbers"),
    (data_in("bytes"), "expected a file that can be read"),
    (run('data={name="folder"}'), "where is the folder"),
    (run('data={name="folder", path="columns", clients=3}'), "leave it out"),
]
REQUESTS = [
    (run("request=3"), r"write \[\[request\]\]"),
    (run("request={erase=1}"), r"write \[\[request\]\]"),
    (asking("3"), r"request 1 must be a table, \[\[request\]\] with erase"),
    (asking("{erase=9, round=1}"), "has clients 0 to 3"),
    (asking("{erase=-1, round=1}"), "at least 0"),
    (asking("{erase='Graz', round=1}"), "has clients 0 to 3"),
    (asking("{erase=1, round=1}, {erase=1, round=2}"), "already erased"),
    (asking("{erase=[1, 1], round=1}"), "named twice"),
    (asking("{erase=[], round=1}"), "at least one client"),
    (asking("{erase=1.5, round=1}"), "whole number"),
    (asking("{erase=1, round=-1}"), "at least 0"),
    (asking("{erase=1, round=1.5}"), "whole number"),
    (asking("{erase=1, time=nan}"), "finite number of seconds"),
    (asking("{erase=1, time='noon'}"), "finite number of seconds"),
    (asking("{erase=1}"), "give exactly one of them"),
    (asking("{erase=1, round=1, time=2.0}"), "give exactly one of them"),
    (asking("{round=1}"), "needs 'erase' or 'join'"),
    (asking("{erase=1, join=2, round=1}"), "not both"),
    (asking("{erase=1, round=1}, {erase=2, rond=1}"), "'rond' in request 2. Did you mean 'round'"),
    (asking("{erase=1, samples=[100], round=1}"), "holds no sample 100"),
    (asking("{erase=1, samples=[-1], round=1}"), "at least 0"),
    (asking("{erase=1, samples=[], round=1}"), "no samples of client 1 are named"),
    (asking("{erase=1, samples=[0, 0], round=1}"), "named twice"),
    (asking("{erase=1, samples=3, round=1}"), "must be a list"),
    (asking("{join=1, samples=[1], round=1}"), "samples are erased, not joined"),
    (asking("{join=9, round=1}"), "there is data of clients 0 to 3"),
    (asking("{join=1, round=1}, {join=1, round=2}"), "is a member already"),
]
PLACES = [
    (["run", "a.toml", "--device", "cdua"], "this machine has cpu"),
    (["run", "a.toml", "--device", 'cpu"'], "this machine has cpu"),
    (["run", "a.toml", "--engine", ""], "Known: loop, stacked"),
    (["run", "a.toml", "--plot", "x.txt"], r"must end in \.png, \.svg or \.pdf"),
    (["run", "a.toml", "--plot", "none/x.png"], "there is no folder none; make it"),
    (["run", "a.toml", "--plot", "picture.png"], "that is a folder; name a file"),
    (["run", "a.toml", "--out", "file"], "not a folder"),
    (["run", "a.toml", "--out", "file/x"], "not a folder"),
    (["run", "a.toml", "--force"], "leave --force out"),
    (["run", "a.toml", "--csv", "folder"], "that is a folder"),
    (["run", "a.toml", "--csv", "none/x.csv"], "there is no folder none"),
]
COMPARED = [
    (["compare", "a.toml", "--method", "mtm"], "Did you mean 'mmt'"),
    (["compare", "a.toml", "--method", ""], "has no name"),
    (["compare", "a.toml", "--method", "knot, clusters=x"], "texts stand in double quotes"),
    (["compare", "a.toml", "--method", "knot, custers=2"], "Did you mean 'clusters'"),
    (["compare", "a.toml", "--method", "rfs", "--method", "rfs"], "named twice"),
    (["compare", "a.toml", "--seeds", "0..4"], "0,1,2 or 0-4"),
    (["compare", "a.toml", "--seeds", "4-0"], "write the lower one first"),
    (["compare", "a.toml", "--seed", "3"], "--seeds"),
    (["compare", "a.toml", "--plot", "x.bmp"], "must end in"),
    (["compare", "a.toml", "--html", "x.txt"], r"must end in \.html"),
    (["compare", "a.toml", "--html", "page.html"], "that is a folder; name a file"),
]
AUDITED = [
    (["audit", "a.toml", "--set", "request=[]"], "needs an experiment with erase requests"),
    (["audit", "a.toml", "--attack", "lyra"], "there are lira"),
    (["audit", "a.toml", "--controls", "3"], "at least 19 controls"),
    (["audit", "a.toml", "--controls", "-1"], "at least 19 controls"),
    (["audit", "a.toml", "--level", "2"], "between 0 and 1"),
    (["audit", "a.toml", "--level", "nan"], "between 0 and 1"),
    (["audit", "a.toml", "--model", "nowhere.safetensors"], "No such file"),
    (["audit", "a.toml", "--model", "model.safetensors"], "is not a saved model"),
    (["audit", "a.toml", "--sensitivity", "-2"], "at least 8 models, or 0"),
    (["audit", "a.toml", "--backdoor", "--canaries", "3"], "ask for one of them"),
    (["audit", "a.toml", "--html", "page.html"], "name a file"),
    (["audit", "a.toml", "--plot", "picture.png"], "name a file"),
    (["audit", "a.toml", "--page", "x.html"], "No such option: --page"),
]
PLANS = [
    (["tree", "nowhere.csv"], "name a CSV file"),
    (["tree", "folder"], "name a CSV file"),
    (["tree", "utf16.csv"], "save it as a CSV file in that encoding"),
    (["tree", "empty.csv"], "needs a header"),
    (["tree", "head.csv"], "no clients"),
    (["tree", "headless.csv"], "begin with client,probability"),
    (["tree", "less.csv"], "line 2: .* must not be negative"),
    (["tree", "nan.csv"], "line 2: .* must be a finite number"),
    (["tree", "huge.csv"], "line 2: .* must be a finite number"),
    (["tree", "word.csv"], "line 2: .* must be a finite number"),
    (["tree", "zero.csv"], "Leave them out for all alike"),
    (["tree", "twice.csv"], "line 3: client a is there already"),
    (["tree", "short.csv"], "line 2: 1 cells, the header has 2"),
    (["tree", "column.csv"], "Did you mean 'probability'"),
    (["tree", "tree.csv", "--kind", "hufman"], "Did you mean 'huffman'"),
    (["tree", "tree.csv", "--branching", "3"], "use --kind b-ary"),
    (["tree", "tree.csv", "--kind", "b-ary", "--branching", "1"], "Use 2 or more"),
    (["tree", "tree.csv", "--kind", "budget"], "needs --budget"),
    (["tree", "tree.csv", "--kind", "greedy"], "needs a column 'expires'"),
    (["tree", "tree.csv", "--plot", "t.png"], r"must end in \.svg"),
    (["tree", "tree.csv", "--plot", "none/t.svg"], "make it, or name another"),
    (["cluster", "times.csv"], "Missing option '--clusters'"),
    (["cluster", "times.csv", "--clusters", "0"], "1 or more"),
    (["cluster", "times.csv", "--clusters", "x"], "valid int"),
    (["cluster", "times.csv", "--clusters", "2", "--a", "nan"], "finite number, 0 or more"),
    (["cluster", "times.csv", "--clusters", "2", "--c1", "0"], "1 or more"),
    (["cluster", "times.csv", "--clusters", "2", "--c2", "9"], "lower c2"),
    (["cluster", "times.csv", "--clusters", "2", "--plot", "x.doc"], "must end in"),
    (["cluster", "times-less.csv", "--clusters", "2"], "must not be negative"),
    (["cluster", "times-far.csv", "--clusters", "2"], r"must lie in 0\.\.1"),
    (["cluster", "times-lack.csv", "--clusters", "1"], "begin with client,time,disparity"),
    (["game", "empty.toml"], "psi"),
    (["game", "game-key.toml"], "Did you mean 'psi'"),
    (["game", "game-short.toml"], "give one for each server"),
    (["game", "game-less.toml"], "must not be negative"),
    (["game", "game-text.toml"], "give a list"),
    (["game", "game-nan.toml"], "must be finite"),
    (["game", "game-huge.toml"], "count in a larger unit"),
    (["game", "game.toml", "--plot", "x.doc"], "must end in"),
    (["game", "game.toml", "--plot", "none/x.svg"], "make it, or name another"),
]
CASES = [*COMMANDS, *FILES, *SETTINGS, *REQUESTS, *PLACES, *COMPARED, *AUDITED, *PLANS]


@pytest.mark.parametrize(("words", "remedy"), CASES, ids=[" ".join(words) for words, _ in CASES])
def test_a_mistake_is_a_line_with_a_remedy_and_nothing_else(desk, monkeypatch, words, remedy):
    for engine in (LoopEngine, StackedEngine):
        monkeypatch.setattr(engine, "train", lambda *_, **__: pytest.fail("it was trained"))
    monkeypatch.chdir(desk)
    result = CliRunner().invoke(app, words, env={"COLUMNS": "2000"})
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert re.search(remedy, result.stderr), result.stderr
