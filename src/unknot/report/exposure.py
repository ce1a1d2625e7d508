"""The table of an attack on what was erased: before the request, after the unlearning, without the data."""

from __future__ import annotations

from unknot.report.cells import NONE, Rows, Shown

MODELS = {"before": "before the request", "after": "after the unlearning", "control": "controls"}
FIGURES = {"f1": "F1", "auc": "AUC", "tpr": "TPR at 1 %"}
MADE = (
    "The attack is Shokri's, with shadow models that learned from samples of clients that stay. It is made "
    "on the model *before the request* (FedAvg), on the one *after the unlearning*, and on *controls*, 19 of "
    "them unless the audit's settings say otherwise: models that FedAvg trained with other seeds, without "
    "the erased client, for as many rounds as what they are compared with. Their row has the medians of "
    "those that trained as long as the model after the unlearning. Members are the erased client's samples, "
    "the others as many test samples, with the same number of each class: with another mix, the attack "
    "would only have to know the client's classes. *F1* is that of its own verdicts: by the toss of a coin "
    "it is 0.50, by always saying *member* 0.67, and by never saying so 0. So it falls too when a model "
    "merely grows less sure of everything; whether the samples can still be told apart is in *AUC* (0.50 is "
    "guessing) and *TPR at 1 %*, the share of members found with 1 % of false alarms, which takes 1,000 "
    "others. *Outcome*: a model is ranked among its controls by one statistic, fixed beforehand: how far "
    "members score above the others, given what the attack says of the controls. It is told from them if "
    "none of the 20 is as odd, on either side: by chance alone that happens in 5 % of cases. If the model "
    "before the request does not stand out as one that remembers, the attack has *no power*, and its F1 "
    "says nothing of forgetting. Where it is *seen*, the data *still shows* in the model after the "
    "unlearning if that stands out in the same way; it is *over-forgotten* if the model knows less of it "
    "than those that never had it, which also tells who left; and there is *no trace found* if the model is "
    "one of many. *Rounds*: in how many the client took part."
)


def exposed(panel: Shown) -> bool:
    return any("f1_after" in line["measures"] for line in panel["lines"])


def exposure_rows(panel: Shown) -> tuple[list[str], Rows]:
    """Three rows a line, one a model; the last one's is of all controls, where there are any."""
    header = ["", "model", *FIGURES.values(), "outcome", "rounds"]
    rows: Rows = []
    for line in panel["lines"]:
        found = line["measures"]
        if "f1_after" not in found:
            continue
        said = _outcomes(found) if "sees" in found else {}
        for i, (model, words) in enumerate(MODELS.items()):
            if model == "control" and f"f1_{model}" not in found:
                continue
            rows.append(
                [
                    line["label"] if i == 0 else "",
                    words + (_fall(found.get("f1_fall")) if model == "after" else ""),
                    *(_figure(found.get(f"{name}_{model}"), 2 + (name != "f1")) for name in FIGURES),
                    said.get(model, ""),
                    _figure(found.get("asked"), 1) if model == "before" else "",
                ]
            )
    return header, rows


def _outcomes(found: Shown) -> dict[str, str]:
    """By model: ``seen in 3 of 3 seeds``, ``still shows in 2 of 3 seeds; no trace found in 1``."""
    said = {"before": f"seen in {_seeds(found['sees'])} seeds"}
    if "flagged" in found:
        seeds = found["flagged"]["n"]
        seen, shows, over = (
            round(found[name]["mean"] * seeds) for name in ("sees", "flagged", "over_forgotten")
        )
        counts = {
            "still shows": shows,
            "over-forgotten": over,
            "no trace found": seen - shows - over,
            "no power": seeds - seen,
        }
        first, *rest = (f"{word} in {number}" for word, number in counts.items() if number > 0)
        said["after"] = "; ".join([f"{first} of {seeds} seeds", *rest])
    return said


def _seeds(stat: Shown) -> str:
    return f"{round(stat['mean'] * stat['n'])} of {stat['n']}"


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
