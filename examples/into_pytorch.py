"""Out of a federation, into plain PyTorch: save what is served, and load it without unknot.

Run it: python examples/into_pytorch.py
"""

import json
import tempfile
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import nn

import unknot


def network() -> nn.Module:
    """Any module of yours, if it keeps no statistics over batches."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def main() -> None:
    digits = unknot.load("digits")
    data = unknot.federate(digits, unknot.Iid(clients=5, samples=100))
    fed = unknot.simulate(network, data, recipe=unknot.Recipe(unknot.SGD(0.1), epochs=2))
    history = fed.run(10, requests=[unknot.erase(3, round=4)])

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.safetensors")
        fed.save(file)

        model = network()
        model.load_state_dict(safetensors.torch.load_file(file))
        with safetensors.safe_open(file, "pt") as opened:
            notes = json.loads(opened.metadata()["unknot"])

    with torch.no_grad():
        answers = model(digits.test.x).argmax(-1)
    right = (answers == digits.test.y).double().mean().item()
    print(f"in unknot {history.scores['test'].accuracy:.2%}, in plain PyTorch {right:.2%} on test data")
    print("the file says whose data shaped it, by number:", *notes["clients"])


if __name__ == "__main__":
    main()
