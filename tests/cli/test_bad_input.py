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
    "towns/a.csv": "x,y\n1,0\n2,1\n",
    "towns/b.csv": "x,y\n1,1\n2,0\n",
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


def data_in(folder: str, more: str = "") -> list[str]:
    return run(f'data={{name="folder", path="{folder}", target="y"{more}}}')


COMMANDS = [
    (["rnu"], "Did you mean 'run'"),
    (["--verison"], "--version"),
    (["run"], "Missing argument.* See unknot run --help"),
    (["run", "a.toml", "b.toml"], r"b\.toml.* See unknot run --help"),
    (["run", "a.toml", "--sed", "1"], "--seed"),
    (
        ["run", "a.toml", "--seed", "one"],
        "--seed must be a whole number. See unknot run --help",
    ),
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
    (["run", "nowhere.toml"], "name a TOML file"),
    (["run", "folder"], "cannot read folder"),
    (["run", "utf16.toml"], "UTF-8"),
    (["run", "latin1.toml"], "not valid TOML"),
    (["run", "binary.toml"], "not valid TOML"),
    (["run", "broken.toml"], "at line 1, column 6"),
    (["run", "deep.toml"], "not valid TOML"),
    (["run", "table.toml"], "Expected '='"),
    (["run", "other.toml"], "unknown key a. Known: clock, data"),
    (["check", "folder"], "cannot read folder"),
    (["check", "nowhere.toml"], "name a TOML file"),
    (["audit", "latin1.toml"], "UTF-8"),
    (["audit", "empty.toml"], "needs an experiment with erase requests"),
    (["compare", "folder"], "cannot read folder"),
    (["game", "folder"], "cannot read folder"),
    (["game", "utf16.toml"], "UTF-8"),
    (["reproduce", "nowhere.toml"], "name a TOML file"),
    (["reproduce", "utf16.toml"], "UTF-8"),
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
    (run('method="mmt"'), r"must be a section: \[method\], and method.name=mmt in it"),
    (run("rounds=3"), "unknown key rounds: it belongs to a section; write federation.rounds"),
    (run("lr=3", 'method.name="mtm"'), "write train.lr"),
    (run("clusters=3", 'method.name="knot"'), "write method.clusters"),
    (run("validation=3"), "write data.validation"),
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
    (run("engine.threads=0"), "error: engine.threads must be at least 1"),
    (run("clock.speed=2"), "Known: factor"),
    (run("federation.rounds=-1"), "at least 1"),
    (run("federation.rounds=2.5"), "whole number"),
    (run('federation.rounds="many"'), "whole number"),
    (run("federation.seconds=-1"), "positive and finite"),
    (run("federation.per_round=0"), "at least 1"),
    (run("federation.per_round=9"), "lower it or raise data.clients"),
    (run("train.lr=nan"), "finite"),
    (run("train.lr=-1"), "error: train.lr must be positive"),
    (run("train={optimizer={name='sgd', lr=-1}}"), "error: train.optimizer.lr must be positive"),
    (run("clock.factor=-1"), "error: clock.factor "),
    (run("federation.evaluate_on=['x']"), "error: federation.evaluate_on names 'validation'"),
    (run("federation={aggregate='fedbuff', server_lr=-1}"), "error: federation.server_lr must be above 0"),
    (run("federation={aggregate='trimmed-mean', trim=0.9}"), "error: federation.trim must be"),
    (run("method={name='mmt', tree='hufman'}"), "error: method.tree = 'hufman' .*Did you mean 'huffman'"),
    (
        run("method={name='mmt', probabilities=[1e300]}"),
        r"error: method.probabilities\[0\] .*between 0 and 1",
    ),
    (run("method={name='mmt', probabilities=[0, 0, 0, 0]}"), "error: method.probabilities are all zero"),
    (run("method={name='knot', by='x'}"), "error: method.by = 'x'"),
    (run("method={name='distillation', lr=-1}"), "error: method.lr must be positive"),
    (run("method={name='knot', retrain={name='federaser', interval=0}}"), "error: method.retrain.interval"),
    (run("task={loss='huber', delta=-1}"), "error: task.delta must be positive"),
    (run("data={partition='iid'}"), r"error: data.clients is missing: write clients = \.\.\. \(how many"),
    (run("data={partition='dirichlet', samples=5, min_samples=10}"), "error: data: 5 samples a client"),
    (run("data.test_samples=0"), "error: data.test_samples must be"),
    (run("model.hidden=[0]"), r"error: model.hidden\[0\] must be"),
    (run('train.lr="fast"'), "must be a number"),
    (run("train.lr=true"), "must be a number"),
    (run("train.epochs=0"), "at least 1"),
    (run("train.batch_size=-3"), "error: train.batch_size must be at least 1"),
    (run("data.clients=0"), "error: data.clients must be .*at least 1"),
    (run("data.clients=100000"), "Lower clients, samples or validation"),
    (run("data.validation=1000000"), "leaves clients some"),
    (run("seed=1.5"), "whole number"),
    (run('data={partition="dirichlet", alpha=nan}'), "positive"),
    (run('model.hidden="x"'), "error: model.hidden must be a list of whole numbers, not 'x'"),
    (run('model.initial="nowhere.safetensors"'), "cannot read nowhere.safetensors: No such file"),
    (
        run('model.initial="model.safetensors"'),
        "is not a saved model: ",
    ),
    (run('model.name="nonesuch:Thing"'), "no module nonesuch is installed, nor in"),
    (run('model.name="broken_module:Thing"'), "needs nonesuch, which is not installed"),
    (run('model.name="fine_module:Ting"'), "Did you mean 'Thing'"),
    (run('method.name="fine_module:Thing"'), "is no .*Method"),
    (run('data.name="mnist"', 'data.root="folder"'), "Download"),
    (data_in("nowhere"), "nowhere: expected a folder"),
    (data_in("folder"), r"folder: expected one file per client, \.npz or \.csv"),
    (data_in("notes"), "move what is no client's data out of the folder"),
    (data_in("columns"), "b.csv, line 2: .*'y'.* Known: x, z"),
    (data_in("words"), "Encode categories as numbers"),
    (data_in("bytes"), "a.csv: .*utf-8"),
    (run('data={name="folder"}'), "where is the folder"),
    (run('data={name="folder", path="columns", clients=3}'), "leave it out"),
    (data_in("towns", ", public=200"), r'error: data.public .*a file .*public = "public.csv", not 200'),
    (data_in("towns", ", public=true"), r'error: data.public .*public = "public.csv", not True'),
    (
        data_in("towns", ", validation=0.1"),
        r'error: data.validation .*validation = "validation.csv", not 0.1',
    ),
    (data_in("towns", ", test=5"), r'error: data.test .*test = "test.csv", not 5'),
    (data_in("towns", ", ids=[1]"), r"error: data.ids must be a table, not \[1\]"),
    (data_in("towns", ", ids={a='x'}"), "error: data.ids.a must be a whole number, not 'x'"),
    (data_in("towns", ", classes='x'"), "error: data.classes must be a whole number, not 'x'"),
    (data_in("towns", ", kind=3"), "error: data.kind must be a text, not 3"),
    (data_in("towns", ", kind='clases'"), "Did you mean 'classes'"),
    (data_in("towns", ", tokens=1"), "error: data.tokens must be true or false, not 1"),
    (data_in("towns", ", test='b.csv', public='b.csv'"), r"Name a file of its own, public = \.\.\."),
    (run('data={name="folder", path="towns", target=3}'), "data.target must be a text or a list of texts"),
    (run('data={name="folder", path="towns", target=["y", 1]}'), r"data.target\[1\] must be a text, not 1"),
    (run("model.initial=3"), "error: model.initial must be a text, not 3"),
]
REQUESTS = [
    (run("request=3"), r"write \[\[request\]\]"),
    (run("request={erase=1}"), r"write \[\[request\]\]"),
    (asking("3"), r"request 1 must be a table, \[\[request\]\] with erase"),
    (asking("{erase=9, round=1}"), "error: request 1: cannot erase client 9: .*has clients 0 to 3"),
    (asking("{erase=-1, round=1}"), "at least 0"),
    (asking("{erase='Graz', round=1}"), "has clients 0 to 3"),
    (asking("{erase=1, round=1}, {erase=1, round=2}"), "error: request 2: .*already erased"),
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
    (run("engine.device='cdua'"), "^error: engine.device: cannot train on 'cdua'; this machine has cpu"),
    (run("method={name='fats', local_steps=0}"), "^error: method.local_steps must be at least 1, not 0"),
    (run("method={name='fats', rho_sample=0.0}"), "^error: method.rho_sample must be positive, not 0.0"),
    (
        run("select={name='dqn', policy='nowhere.st'}"),
        "^error: select.policy: cannot read .*nowhere.st: .*; name a file that Policy.save wrote",
    ),
    (["run", "a.toml", "--device", 'cpu"'], "this machine has cpu"),
    (["run", "a.toml", "--engine", ""], "Known: loop, ray, stacked"),
    (["run", "a.toml", "--plot", "x.txt"], r"must end in \.png, \.svg or \.pdf"),
    (["run", "a.toml", "--plot", "none/x.png"], "there is no folder none; make it"),
    (["run", "a.toml", "--plot", "picture.png"], "that is a folder; name a file"),
    (["run", "a.toml", "--out", "file"], "not a folder"),
    (["run", "a.toml", "--out", "file/x"], "not a folder"),
    (["run", "a.toml", "--out", 300 * "x"], "name too long; give it a shorter name"),
    (["run", "a.toml", "--out", 300 * "x", "--no-keep"], "name too long; give it a shorter name"),
    (["run", "a.toml", "--out", f"new/{300 * 'x'}"], "name too long; give it a shorter name"),
    (["run", "a.toml", "--force"], "leave --force out"),
    (["run", "a.toml", "--csv", "folder"], "that is a folder; name a file"),
    (["run", "a.toml", "--csv", "none/x.csv"], "there is no folder none; make it, or name another"),
    (["run", "a.toml", "--device", "gpu"], "this machine has cpu.* 'cuda'"),
]
COMPARED = [
    (["compare", "a.toml", "--method", "mtm"], "Did you mean 'mmt'"),
    (["compare", "a.toml", "--method", ""], "has no name"),
    (["compare", "a.toml", "--method", "knot, clusters=x"], "texts stand in double quotes"),
    (["compare", "a.toml", "--method", "knot, custers=2"], "Did you mean 'clusters'"),
    (
        ["compare", "a.toml", "--method", "rfs", "--method", "rfs"],
        "named twice: name it once, or with other options",
    ),
    (["compare", "a.toml", "--seeds", "0..4"], "0,1,2 or 0-4"),
    (["compare", "a.toml", "--seeds", "4-0"], "write the lower one first"),
    (["compare", "a.toml", "--seeds", "0-99999999999"], "more than 10,000 seeds: .*name fewer"),
    (["compare", "a.toml", "--seeds", "0-9999,10000"], "more than 10,000 seeds"),
    (["compare", "a.toml", "--seeds", "9" * 5000], "at most 18 digits"),
    (["compare", "a.toml", "--seeds", "\uff10"], "0,1,2 or 0-4"),
    (["reproduce", "knot-table2", "--seeds", "0-99999999999"], "name fewer"),
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
    (["audit", "a.toml", "--level", "low"], "--level must be a number, such as 0.5"),
    (["audit", "a.toml", "--level", "nan"], "between 0 and 1"),
    (["audit", "a.toml", "--model", "nowhere.safetensors"], "No such file"),
    (
        ["audit", "a.toml", "--model", "model.safetensors"],
        "is not a saved model: ",
    ),
    (["audit", "a.toml", "--sensitivity", "-2"], "at least 8 models, or 0"),
    (["audit", "a.toml", "--backdoor", "--canaries", "3"], "ask for one of them"),
    (["audit", "a.toml", "--html", "page.html"], "name a file"),
    (["audit", "a.toml", "--plot", "picture.png"], "name a file"),
    (["audit", "a.toml", "--page", "x.html"], "No such option: --page"),
]
PLANS = [
    (["tree", "nowhere.csv"], "cannot read nowhere.csv"),
    (["tree", "folder"], "cannot read folder"),
    (["tree", "utf16.csv"], "cannot read utf16.csv as a CSV file in UTF-8"),
    (["tree", "empty.csv"], "empty.csv: expected a header of client,probability"),
    (["tree", "head.csv"], "head.csv: .*0 lines"),
    (["tree", "headless.csv"], "a header of client,probability"),
    (["tree", "less.csv"], "line 2: .*'-1'"),
    (["tree", "nan.csv"], "line 2: .*'nan'"),
    (["tree", "huge.csv"], "line 2: .*'1e999'"),
    (["tree", "word.csv"], "line 2: .*'often'"),
    (["tree", "zero.csv"], "Leave them out for all alike"),
    (["tree", "twice.csv"], "line 3: client a is there already"),
    (["tree", "short.csv"], "line 2: the probability"),
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
    (["cluster", "times.csv", "--clusters", "x"], "--clusters must be a whole number"),
    (["cluster", "times.csv", "--clusters", "2", "--a", "nan"], "finite number, 0 or more"),
    (["cluster", "times.csv", "--clusters", "2", "--c1", "0"], "1 or more"),
    (["cluster", "times.csv", "--clusters", "2", "--c2", "9"], "lower c2"),
    (["cluster", "times.csv", "--clusters", "2", "--plot", "x.doc"], "must end in"),
    (["cluster", "times-less.csv", "--clusters", "2"], "line 2: the time is '-1'"),
    (["cluster", "times-far.csv", "--clusters", "2"], r"line 2: the disparity is '2'"),
    (["cluster", "times-lack.csv", "--clusters", "1"], "a header of client,time,disparity"),
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


@pytest.mark.parametrize(("words", "remedy"), CASES, ids=[" ".join(words)[:90] for words, _ in CASES])
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
