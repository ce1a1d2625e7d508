"""The table of an attack on what was erased: before the request, after the unlearning, without the data."""

from __future__ import annotations

from unknot.report.cells import NONE, Rows, Shown

MODELS = {"before": "before the request", "after": "after the unlearning", "control": "control"}
FIGURES = {"f1": "F1", "auc": "AUC", "tpr": "TPR at 1 %"}
TOLD = {"before": "sees", "after": "flagged"}
MADE = (
    "The attack is Shokri's, with shadow models that learned from samples of clients that stay. It is made "
    "on three models: *before the request* (FedAvg), *after the unlearning*, and a *control*, where there is "
    "one, which FedAvg trained for as many rounds as the first without the erased "
    "client. Members are the erased client's samples, the others as many test samples, with the same "
    "number of each class: with another mix, the attack would only have to know the client's classes. *F1* "
    "is that of its own verdicts: by the toss of a coin it is 0.50, by always saying *member* 0.67, and by "
    "never saying so 0. So it falls too when a model merely grows less sure of everything; whether the "
    "samples can still be told apart is in *AUC* (0.50 is guessing) and *TPR at 1 %*, the share of members "
    "found with 1 % of false alarms. *Told from the control*: in how many seeds one of these two lies above "
    "the control's interval of 99 %. If not even the model before the request does, the attack sees "
    "nothing, and its F1 says nothing of forgetting. *Rounds*: in how many the client took part."
)


def exposed(panel: Shown) -> bool:
    return any("f1_after" in line["measures"] for line in panel["lines"])


def exposure_rows(panel: Shown) -> tuple[list[str], Rows]:
    """Three rows a line, one a model."""
    header = ["", "model", *FIGURES.values(), "told from the control", "rounds"]
    rows: Rows = []
    for line in panel["lines"]:
        found = line["measures"]
        if "f1_after" not in found:
            continue
        for i, (model, words) in enumerate(MODELS.items()):
            told = found.get(TOLD.get(model, ""))
            rows.append(
                [
                    line["label"] if i == 0 else "",
                    words + (_fall(found.get("f1_fall")) if model == "after" else ""),
                    *(_figure(found.get(f"{name}_{model}"), 2 + (name != "f1")) for name in FIGURES),
                    "" if told is None else f"in {round(told['mean'] * told['n'])} of {told['n']} seeds",
                    _figure(found.get("asked"), 1) if model == "before" else "",
                ]
            )
    return header, rows


def _figure(stat: Shown | None, digits: int) -> str:
    if stat is None:
        return NONE
    spread = "" if stat["std"] is None else f" ± {stat['std']:.{digits}f}"
    return f"{stat['mean']:.{digits}f}{spread}"


def _fall(stat: Shown | None) -> str:
    """`` (F1 45 % less)``."""
    if stat is None:
        return ""
    return f" (F1 {abs(100 * stat['mean']):.0f} % {'less' if stat['mean'] >= 0 else 'more'})"
