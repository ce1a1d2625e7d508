"""The same federation under four methods: which one to take, and what does it cost?

Run it: python examples/compare_methods.py
"""

import unknot

FEDERATION = {
    "data": {"name": "digits", "partition": "iid", "clients": 8, "samples": 60, "validation": 300},
    "model": {"name": "mlp"},
    "train": {"optimizer": "sgd", "lr": 0.1, "epochs": 2, "batch_size": 20},
    "federation": {"rounds": 12},
    "request": [{"erase": 3, "round": 6}],
}
"""What `tomllib.load` makes of a file; `unknot.compare("file.toml", ...)` reads one itself."""


def main() -> None:
    experiment = unknot.Experiment.of(FEDERATION)
    found = unknot.compare(experiment, ["rfs", "federaser", "sisa", "mmt"], seeds=[0, 1])
    for row in found.summary:  # means over the seeds; .rows has every run, .to_pandas() a table of them
        print(f"{row['method']:10}{row['before']:6.1%} before", end=", ")
        print(f"{row['after']:6.1%} right after, {row['final']:6.1%} at the end", end="; ")
        print(f"{row['extra_training']:.1f} × the training before any request; {row['guarantee']}")


if __name__ == "__main__":
    main()
