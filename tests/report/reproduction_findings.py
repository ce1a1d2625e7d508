"""What a small reproduction found, for tests of its tables, pages and pictures."""


def stat(mean, std=None, n=1, asked=None):
    return {"mean": mean, "std": std, "n": n, "asked": n if asked is None else asked}


def compared(what, mean, low, high, so, favour=None):
    found = {"mean": mean, "low": low, "high": high, "n": 3}
    favour = mean if favour is None else favour
    return {"what": what, "difference": found, "so": so, "contrary": "", "level": "", "favour": favour}


def line(name, label, rounds, level):
    return {
        "name": name,
        "label": label,
        "guarantee": "exact",
        "seeds": [0, 1],
        "after": [
            {
                "request": "leave 1",
                "kind": "erase",
                "round": 2,
                "at": 2,
                "before": stat(0.8, 0.01, 2),
                "first": stat(0.1, 0.0, 2),
                "recovering": stat(level, 0.02, 2),
                "end": stat(0.7, 0.0, 2),
                "rounds": [rounds],
            }
        ],
        "curve": {
            "at": [1, 2, 2, 3, 4],
            "mean": [0.4, 0.8, 0.1, level, 0.7],
            "low": [0.3, 0.7, 0.1, level - 0.1, 0.7],
            "high": [0.5, 0.9, 0.1, level + 0.1, 0.7],
        },
        "costs": {"client_epochs": 0.95, "seconds": 1.0, "bytes_sent": 0.95, "bytes_stored": 1.0},
        "seconds": stat(12.0, 1.0, 2),
        "measures": {"recovering": stat(level, 0.02, 2), "ids": stat(3.25)},
        "choices": {},
        "lanes": False,
        "note": "",
    }


FOUND = {
    "name": "exact-figx",
    "title": "A title",
    "paper": "A paper",
    "figure": "Figure X",
    "claim": "The paper finds a thing.",
    "scale": "small",
    "axis": "rounds",
    "baseline": None,
    "bars": ["recovering", "ids"],
    "curves": True,
    "counted": True,
    "panels": [
        {
            "name": "digits",
            "title": "digits",
            "trained": "mlp on digits",
            "thresholds": [0.75],
            "metric": "accuracy",
            "split": "test",
            "lines": [line("rfs", "RFS", stat(26.0, 2.0, 2), 0.5), line("mmt", "MMT", None, 0.6)],
            "published": {"rfs": "51", "mmt": "16", "fats": "never"},
            "published_for": "",
            "labels": {"rfs": "RFS", "mmt": "MMT", "fats": "FATS"},
            "reason": None,
            "until": None,
            "note": "A note.",
        },
        {
            "name": "cifar100",
            "title": "CIFAR-100",
            "trained": "",
            "thresholds": [0.4],
            "metric": "accuracy",
            "split": "test",
            "lines": [],
            "published": {"rfs": "54"},
            "published_for": "",
            "labels": {"rfs": "RFS"},
            "reason": "cifar100 is not here.",
            "earlier": "",
            "until": None,
            "note": "",
        },
    ],
    "verdicts": [
        {
            "says": "MMT does better than RFS",
            "panel": "digits",
            "outcome": "holds in part",
            "why": "MMT level with RFS",
            "seeds": 2,
            "detail": "MMT 60.0 %, RFS 50.0 %",
            "earlier": False,
            "ours": False,
            "by": "",
            "published": "",
            "comparisons": [compared("MMT − RFS", 10.0, -1.25, 21.25, 0)],
        }
    ],
    "machines": ["A chip, 2 cores"],
    "commits": ["abc"],
    "doubts": [],
}
