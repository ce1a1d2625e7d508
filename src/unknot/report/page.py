"""A run as one page that stands alone: what it gave, what each request cost, and how to use the model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from unknot.core.toml import to_toml
from unknot.federation import History, Recovery, Served
from unknot.federation.events import value_of
from unknot.report import page_pictures as pictures
from unknot.report import svg
from unknot.report.cells import shown
from unknot.report.html import Html, code, details, document, element, facts, html, joined, notice, table
from unknot.report.page_pictures import Sheet
from unknot.report.words import (
    adapters_of,
    engine_of,
    frozen_part,
    label,
    model_name,
    pending,
    refused,
    regained,
    rounds_of,
    size,
    trained_part,
    where,
)

MEANING = {
    "exact": "Exact: once a request has been served, what is served has the same bits whatever the erased "
    "data was.",
    "approximate": "Approximate: what is served is meant to be close to a model that never had the erased "
    "data; it is not the same, and some of the erased data may still show.",
    "none": "Nothing is promised: what is served may know all of the erased data.",
}
"""What the first word of a guarantee means."""
TONE = {"exact": "good", "approximate": "warn", "none": "bad"}
Record = Mapping[str, Any]
YOURS = ")  # model: your torch.nn.Module"
YOURS_ON_ITS_BASE = ", strict=False)  # model: your torch.nn.Module, as it was trained, on its base"
LOAD = (
    "import safetensors.torch\n\n"
    f'model.load_state_dict(safetensors.torch.load_file("model.safetensors"){YOURS}'
)
LOAD_ENSEMBLE = (
    "import safetensors.torch\n\n"
    'tensors = safetensors.torch.load_file("model.safetensors")  # part0.…, part1.…, one module each\n'
    "first = {k[6:]: t for k, t in tensors.items() if k.startswith('part0.')}\n"
    f"model.load_state_dict(first{YOURS}"
)
STYLE = (
    svg.STYLE
    + """
td .small { display: block; color: var(--soft) }
.swatch { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .4em }
td code { font-size: .8rem }
"""
)


def page(record: Record) -> str:
    """The page of a run's record, as `History.to_dict` gives it or JSON kept it."""
    history = History.of(record)
    sheet = Sheet(history)
    told = [history.recovery(one) if one.kind == "erase" else None for one in history.served]
    name = str(history.experiment.get("name") or history.method)
    return document(
        f"{name}: {history.method}",
        *_head(history, name),
        *_notices(record, history),
        *_guarantee(history),
        _summary(history, told),
        *_section("How good it was", pictures.quality(sheet) or _unmeasured()),
        *_section("Requests, and what each cost", _requests(sheet, told, record.get("asked", ()))),
        *_section("Who was at work", pictures.timeline(sheet)),
        *_section(sheet.lane_word.capitalize(), _lanes(sheet)),
        *_trees(sheet),
        *_section("What could be served", _choices(history)),
        *_section("The model", _model(record)),
        *_section("Settings and environment", _settings(history)),
        element("footer", element("p", f"Written by unknot {history.environment.get('unknot', '')}.")),
        style=STYLE,
    )


def _section(title: str, content: Html | None) -> list[Html]:
    return [] if content is None else [element("h2", title), content]


# The head.


def _head(history: History, name: str) -> list[Html]:
    data, model = history.setup.get("data", {}), history.setup.get("model", {})
    parameters = trained_part(model) if "parameters" in model else ""
    if model.get("base"):
        parameters += f" over {frozen_part(model)}"
    called = model_name(model.get("name", ""), history.experiment.get("model", {}).get("path"))
    named = f"{called}: {parameters}" if model.get("name") else f"a model of {parameters}"
    clients = f"{data['name']}, {_count(data['clients'], 'client')}" if "name" in data else ""
    parts = [clients, named if parameters else "", history.method, f"seed {history.seed}"]
    return [element("h1", name), element("p", " · ".join(filter(None, parts)), class_="soft")]


def _guarantee(history: History) -> list[Html]:
    """In the run's own words, and what the first of them means."""
    kind = next((kind for kind in MEANING if history.guarantee.startswith(kind)), "none")
    word, rest = history.guarantee[: len(kind)], history.guarantee[len(kind) :]
    tone = "warn" if rest and kind == "exact" else TONE[kind]
    return [
        element("p", element("strong", word.capitalize(), class_=tone), rest, "."),
        element("p", MEANING[kind], class_="soft small"),
    ]


def _notices(record: Record, history: History) -> list[Html]:
    """What went wrong comes first."""
    return [
        *(notice(_sentence(text), "bad") for text in pending(history)),
        *(notice(_sentence(text), "bad") for text in history.ended.warnings),
        *(notice(_sentence(text), "bad") for text in refused(record)),
        *(notice(_sentence(history.let_pass), "bad") for _ in history.waived[:1]),
        *(notice(_sentence(str(aside)), "warn") for aside in history.set_aside_observers),
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _unmeasured() -> Html:
    text = "Nothing was measured during the run: there is no validation data, or it was not asked for."
    return element("p", text, class_="soft")


# Figures.


def _summary(history: History, told: Sequence[Recovery | None]) -> Html:
    costs, metric = history.costs, history.metric
    cards: list[tuple[object, ...]] = []
    for split, score in history.scores.items():
        for name, value in score.metrics.items():
            text = metric.shown(value) if name == metric.name else shown(value, name)
            cards.append((f"{split} {name}", text, f"at the end, {score.samples:,} samples"))
    erasures = [served for served in history.served if served.kind == "erase"]
    if len(erasures) == 1:
        (served,), recovery = erasures, told[history.served.index(erasures[0])]
        before, after = value_of(served.before), value_of(served.after)
        if before is not None:
            cards.append((f"{metric.name} before the erasure", metric.shown(before)))
        if after is not None:
            note = _glued(regained(history, recovery))
            cards.append((f"{metric.name} right after", metric.shown(after), *filter(None, [note])))
    cards += [
        ("rounds", rounds_of(history)),
        ("simulated time", f"{history.time:,.1f} s"),
        ("client epochs", f"{costs.client_epochs:,.0f}", f"{_count(costs.jobs, 'job')}"),
        ("sent down / up", f"{size(costs.bytes_down)} / {size(costs.bytes_up)}"),
        ("stored on the server", size(costs.bytes_stored)),
    ]
    if costs.server_samples:
        cards.append(("samples read by the server", f"{costs.server_samples:,}"))
    if costs.set_aside:
        cards.append(("updates set aside", f"{costs.set_aside:,}"))
    if costs.cancelled:
        cards.append(("called back", _count(costs.cancelled, "client")))
    cards.append(("real time", f"{history.seconds['total']:.1f} s", engine_of(history)))
    return facts(cards)


def _count(many: int, what: str) -> str:
    return f"{many:,} {what}{'' if many == 1 else 's'}"


def _requests(
    sheet: Sheet, told: Sequence[Recovery | None], numbers: Sequence[int | None] = ()
) -> Html | None:
    """In a row each; of one that was asked of a kept run from outside, with its number there."""
    history, metric = sheet.history, sheet.history.metric
    if not history.served:
        return None
    measured = any(value_of(one.before) is not None for one in history.served)
    rows = []
    for i, (served, recovery) in enumerate(zip(history.served, told, strict=True), 1):
        asked = numbers[i - 1] if i <= len(numbers) else None
        also = [] if asked is None else [f"request {asked} in unknot show"]
        notes = joined(element("span", n, class_="small") for n in (*also, *_notes(history, served)))
        row: list[object] = [i, joined([history.told(served), notes])]
        row.append(_glued(where(served, len(sheet.lanes) > 1)))
        if measured:
            row += [metric.shown(value_of(served.before)), metric.shown(value_of(served.after))]
            row.append(_glued(regained(history, recovery)))
        rows.append(row)
    heads = ["", "request", "when"]
    if measured:
        heads += [f"{metric.name} before", "right after", f"{metric.name} since"]
    return table(heads, rows, numbers={0, 3, 4} if measured else {0})


def _glued(text: str) -> str:
    """With its numbers and their units in one line."""
    return re.sub(r"(\d) (?=\w)", "\\1\N{NO-BREAK SPACE}", text)


def _notes(history: History, served: Served) -> list[str]:
    """What a request did at once."""
    found = []
    if visitors := sorted({trip.client for trip in served.visits}):
        who = ", ".join(map(history.label, visitors))
        found.append(f"at a last visit, {who} worked for the method that forgets")
    if served.cancelled:
        found.append(f"{_count(len(served.cancelled), 'client')} in flight called back")
    if served.restarted:
        found.append(f"begins again: {label(served.restarted, 60)}")
    if not served.clients:
        found.append("nothing was left to do")
    return found


def _who(history: History, clients: Sequence[int]) -> str:
    return label([history.names.get(client, client) for client in clients], 60)


# Lanes, trees, choices.


def _lanes(sheet: Sheet) -> Html | None:
    """A row a lane: who is in it, how far it came, how good its own model was at the end."""
    history = sheet.history
    if len(sheet.lanes) < 2:
        return None
    rows = []
    for lane in sheet.lanes:
        came = sorted({c for served in history.served for c in served.entered.get(lane, ())})
        went = sorted({c for served in history.served for c in served.left.get(lane, ())})
        moved = [f"{word} {_who(history, who)}" for word, who in (("left:", went), ("joined:", came)) if who]
        swatch = element("span", class_="swatch", style=f"background: {sheet.colour(lane)}")
        rows.append(
            [
                joined([swatch, lane]),
                joined(
                    [
                        _who(history, history.members.get(lane, ())) or "–",
                        *(element("span", text, class_="small") for text in moved),
                    ]
                ),
                sum(one.lane == lane for one in history.rounds),
                sum(lane in served.restarted for served in history.served),
                history.metric.shown(pictures.own_end(history, lane)),
            ]
        )
    heads = [
        sheet.lane_word[:-1],
        "clients at the start",
        "rounds",
        "begun again",
        f"own {history.metric.name}",
    ]
    return joined([pictures.clusters(sheet), table(heads, rows, numbers={2, 3, 4})])


def _trees(sheet: Sheet) -> list[Html]:
    found = pictures.trees(sheet)
    if not found:
        return []
    several = len(found) > 1 or len(sheet.lanes) > 1
    drawn = [joined([element("h3", lane) if several else "", picture]) for lane, picture in found]
    left = len(sheet.history.nodes) - len(found)
    more = [element("p", f"{left} more are in record.json.", class_="soft")] if left > 0 and several else []
    return [element("h2", "Influence tree" + ("s" if several else "")), *drawn, *more]


def _choices(history: History) -> Html | None:
    """The models that could be served, side by side."""
    if not history.choices:
        return None
    splits = list(dict.fromkeys(split for scores in history.choices.values() for split in scores))
    chosen = next((name for name, scores in history.choices.items() if scores == history.scores), None)
    rows = []
    for name, scores in history.choices.items():
        row: list[object] = [f"{name} (served)" if name == chosen else name]
        for split in splits:
            score = scores.get(split)
            row += ["–", "–"] if score is None else [history.metric.shown(score.value), f"{score.loss:.3f}"]
        rows.append(row)
    heads = ["model", *(head for split in splits for head in (f"{split} {history.metric.name}", "loss"))]
    return table(heads, rows, numbers=range(1, len(heads)))


# The model, and what it came from.


def _model(record: Record) -> Html | None:
    if record["model"] is None:
        return None
    lineage = record["lineage"] or []
    whose = f"{', '.join(lineage[:40])}{f' and {len(lineage) - 40} more' if len(lineage) > 40 else ''}"
    if record["waived"]:
        whose += f"; and by what was kept of {', '.join(record['waived'])}"
    many = record["ensemble"]
    what = f"{many} models that answer together. " if many else ""
    about = record["setup"].get("model", {})
    load = LOAD_ENSEMBLE if many else LOAD
    if about.get("base"):  # a file has what is trained alone
        load = load.replace(YOURS, YOURS_ON_ITS_BASE)
    return joined(
        [
            element("p", what, "Digest ", element("code", record["model"]), "."),
            *_base(about),
            element(
                "p", f"Shaped by the data of {_count(len(lineage), 'client')}: {whose}." if lineage else ""
            ),
            element("p", "In plain PyTorch:"),
            code(load),
            element(
                "p",
                element("code", 'unknot.load_model("model.safetensors")'),
                " also says whose data shaped it, and a federation that starts from it can forget them.",
            ),
        ]
    )


def _base(model: Record) -> list[Html]:
    """What is trained, and over what; nothing where nothing is frozen."""
    if not model.get("base"):
        return []
    adapters = f" ({found})" if (found := adapters_of(model)) else ""
    told = (
        f"{model['parameters']:,} parameters are trained{adapters} and are in the file. {model['frozen']:,} "
        "are frozen, and are not: they are the base, with the digest "
    )
    return [element("p", told, element("code", model["base"]), ".")]


def _settings(history: History) -> Html:
    """For who wants to have the run again."""
    told = {name: value for name, value in history.environment.items() if name != "engine"}
    rows = [[name, value] for name, value in told.items()]
    rows += [[f"engine: {name}", value] for name, value in history.environment.get("engine", {}).items()]
    setup = json.dumps(history.setup, indent=1, ensure_ascii=False)
    return joined(
        [
            details("The experiment, as a file", code(to_toml(history.experiment)))
            if history.experiment
            else "",
            details("What the federation was made of", code(setup)),
            details(
                "What it ran on",
                table([], [[element("span", name, class_="soft"), html(value)] for name, value in rows]),
            ),
        ]
    )
