"""A comparison as it is shown, made by hand."""

CURVE = {"at": [-2.0, 0.0, 3.0], "mean": [0.9, 0.1, 0.9], "low": [0.8, 0.1, 0.9], "high": [1, 0.1, 0.9]}


def stat(mean, std=0.0, n=3):
    return {"mean": mean, "std": std, "n": n, "asked": 3}


def method(name, after, rounds, guarantee="exact", **more):
    stats = {
        "before": stat(0.95, 0.01),
        "after": after,
        "final": stat(0.94, 0.02),
        "test": stat(0.93, 0.001),
        "regained_rounds": rounds,
        "regained_seconds": rounds,
        "regained_client_epochs": rounds,
        "client_epochs_before": stat(400.0),
        "extra_training": stat(1.0),
        "peak_bytes_stored": stat(254_440.0),
        "bytes_sent": stat(1.1e9),
    }
    return {
        "method": name,
        "seeds": 3,
        "failed": 0,
        "guarantee": guarantee,
        "error": None,
        "warnings": [],
        "stats": stats,
        "curve": {**CURVE, "asked": [0.0]},
        **more,
    }


APART = "exact, but for what the clustering learned from the erased client's profile"
COMPARISON = {
    "experiment": "hospital",
    "data": "digits",
    "clients": 20,
    "model": "mlp",
    "metric": "accuracy",
    "share": True,
    "falls": False,
    "split": "validation",
    "fraction": 0.99,
    "seeds": [0, 1, 2],
    "requests": ["erase client 3"],
    "erasures": 1,
    "seconds": 5.0,
    "methods": [
        method("rfs", stat(0.10, 0.02), stat(14.3, 4.0)),
        method("knot, clusters=4, by=random", stat(0.90, 0.02), stat(5.0, 1.0, n=2), APART),
        method("mmt", stat(0.93, 0.02), stat(0.0)),
        method("pga", stat(0.2, 0.1), None, "approximate: pushed away"),
    ],
    "rows": [],
    "settings": {},
}
