"""Three hospitals with data of their own train together; one of them leaves, and is forgotten.

Run it: python examples/own_data.py
"""

import numpy as np

import unknot

rng = np.random.default_rng(0)


def patients(n: int) -> tuple[np.ndarray, np.ndarray]:
    """In place of your own arrays: eight measurements a patient, and whether they are ill."""
    ill = rng.integers(0, 2, n)
    return rng.normal(size=(n, 8)) + ill[:, None], ill


def main() -> None:
    data = unknot.clients(
        {"Graz": patients(200), "Linz": patients(150), "Wien": patients(300)},
        validation=patients(200),
        test=patients(400),
    )
    fed = unknot.simulate("mlp", data, method="rfs", recipe=unknot.Recipe(unknot.SGD(0.05), epochs=2))
    history = fed.run(12, requests=[unknot.erase("Graz", round=6)])

    (served,) = history.served
    print(f"{history.told(served)}: {history.guarantee}")
    print(f"accuracy {served.before['validation'].accuracy:.1%} before", end=", ")
    print(f"{served.after['validation'].accuracy:.1%} right after", end=", ")
    print(f"{history.scores['test'].accuracy:.1%} at the end, on test data")
    print("shaped by", ", ".join(history.to_dict()["lineage"]))


if __name__ == "__main__":
    main()
