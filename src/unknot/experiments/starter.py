"""A file to begin with: every section, usual values, and what they mean beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unknot.experiments.catalogue import KINDS, Setting, as_toml, thing
from unknot.experiments.reference import sections
from unknot.experiments.specs import FOLDER, TEXTS

FORGOTTEN = "after round 12, one of them is forgotten."
ASKABLE = "a [[request]], below, says who is to be forgotten."
HEAD = """\
# Clients train a model together; {what}
#   unknot check FILE    says what a run would do
#   unknot run FILE      runs it
#   unknot list          lists what can be named here; docs/toml.md has all keys
"""
MODELS = {"shakespeare": "gpt", "cifar10": "lenet5", "cifar100": "lenet5"}
SPOKEN = ("langid", "sentiments", TEXTS)
"""Texts with labels: what tells their classes is a language model that is there already."""
PRETRAINED = "model.gguf"
ROUNDS, PER_ROUND = 30, 10
MARGIN, EDGE = 30, 100
"""Where comments begin, and where lines end."""


class Off(dict[str, Any]):
    """Keys that are seldom needed: they stand in the file as comments."""


def starter(method: str = "rfs", data: str = "digits") -> str:
    """The text of a file for this method and this data set, which runs as it is."""
    chosen = thing(KINDS["methods"], method)
    own = thing(KINDS["data"], data)
    told = {section.name.strip("[]"): section.settings for section in sections()}
    told["data"] += own.settings
    own_clients = data in (FOLDER, TEXTS)  # whose files or texts there are is not known here
    head = HEAD.format(what=ASKABLE if own_clients else FORGOTTEN)
    parts = [head, _keys(told[""], {"seed": 0}) + "\n"]

    def section(name: str, *keys: Mapping[str, Any], extra: tuple[Setting, ...] = ()) -> None:
        head = "[[request]]" if name == "request" else f"[{name}]"
        parts.append("\n".join([head, *(_keys((*extra, *told[name]), some) for some in keys if some)]) + "\n")

    section("data", *_data(method, data), extra=_of("partitions", _partition(data)))
    if data in SPOKEN:
        pretrained = {"name": "pretrained", "path": PRETRAINED}
        section("model", pretrained, Off(initial="model.safetensors"), extra=_of("models", "pretrained"))
    else:
        section("model", {"name": MODELS.get(data, "mlp")}, Off(initial="model.safetensors"))
    section(
        "train",
        {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "epochs": 2, "batch_size": 20},
        Off(
            clip=5.0,
            proximal=0.01,
            max_steps=100,
            schedule={"name": "cosine", "length": ROUNDS, "over": "rounds"},
        ),
        extra=_of("optimizers", "sgd"),
    )
    some = {"per_round": min(PER_ROUND, _many(data))}
    section(
        "federation",
        {"rounds": ROUNDS} if own_clients else {"rounds": ROUNDS, **some},
        Off(some if own_clients else {}),
        Off(seconds=600.0, accuracy=0.95, pace="buffered", minimum=5, aggregate="fedadam", evaluate_every=5),
        extra=(*_of("paces", "synchronous"), *_of("paces", "buffered")),
    )
    section("select", {"name": "uniform"}, Off(when="unlearning"))
    section("clock", {"slowness": "pareto"}, Off(seconds_per_sample=0.005, latency=0.1))
    needed = {one.name: _Written(one.example) for one in chosen.settings if one.required}
    if method == "fats":
        needed["rounds"] = _Written(str(ROUNDS))
    rest = Off(
        {
            one.name: _Written(one.example)
            for one in chosen.settings
            if one.name not in needed and one.example not in ("", "[]")
        }
    )
    section("method", {"name": method, **needed}, rest, extra=chosen.settings)
    section("task", Off(loss="cross-entropy", metrics=["accuracy", "f1"]))
    section("engine", {"name": "stacked"}, Off(device="cuda", threads=2))
    section("scenario", Off(thresholds=[0.8, 0.9]))
    if own_clients:
        parts.append(f"# [[request]]\n{_keys(told['request'], Off(erase='NAME', round=12))}\n")
    else:
        section("request", {"erase": 3, "round": 12}, Off(samples=[0, 1, 2]))
    return "\n".join(parts)


class _Written(str):
    """A value that is TOML already."""


def _data(method: str, data: str) -> tuple[Mapping[str, Any], Off]:
    if data == FOLDER:
        return {"name": FOLDER, "path": "clients"}, Off(target="label", test="test.csv", classes=2)
    if data == TEXTS:
        own = {"name": TEXTS, "path": "texts.csv", "label": "label", "client": "client"}
        return {**own, "tokenizer": PRETRAINED}, Off(context=64, prompt="{text}", validation=0.1)
    on: dict[str, Any] = {"name": data, "partition": _partition(data), "clients": _many(data)}
    if data in SPOKEN:
        on["tokenizer"] = PRETRAINED
    if on["partition"] == "dirichlet":
        on["alpha"] = 0.5
    on["validation"] = 0.1
    off = Off(min_samples=10, root="data")
    if method == "distillation":
        on["public"] = 500
    else:
        off["public"] = 500
    return on, off


def _partition(data: str) -> str:
    """Text has no labels to go by; its speakers are its clients, as languages and authors are elsewhere."""
    return "by-owner" if data in ("shakespeare", "sentiments", TEXTS) else "dirichlet"


def _many(data: str) -> int:
    """How many clients: of sentiments, there are eight by default."""
    return 8 if data == "sentiments" else 20


def _of(kind: str, name: str) -> tuple[Setting, ...]:
    return thing(KINDS[kind], name).settings


def _keys(known: tuple[Setting, ...], keys: Mapping[str, Any]) -> str:
    """A line a key, with what it means at its side."""
    about = {one.name: one.about for one in reversed(known)}
    lines = []
    for key, value in keys.items():
        written = value if isinstance(value, _Written) else as_toml(value)
        line = f"{'# ' if isinstance(keys, Off) else ''}{key} = {written}"
        told = _brief(about[key], EDGE - max(MARGIN, len(line) + 1) - 2)
        lines.append(f"{line:{MARGIN - 1}} # {told}" if told else line)
    return "\n".join(lines)


def _brief(text: str, room: int) -> str:
    """As many clauses of an explanation as there is room for, the first at least."""
    told = text.rstrip(".")
    for end in (". ", "; ", ": ", ", "):
        while len(told) > room and end in told:
            told = told.rpartition(end)[0]
    return told.replace("`", "")
