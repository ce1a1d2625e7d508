"""Tasks of every kind on the data of the engines' tests: what is to be told, and by which loss."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from engine_worlds import make_data
from unknot.core.keys import Key
from unknot.core.loss import BinaryCrossEntropy, CrossEntropy, Huber, OwnLoss, SoftTargets
from unknot.core.samples import IGNORED


def kind_of(name, kind, targets=(3,)):
    """The data of a model's tests with targets of another kind."""
    data = make_data(name)
    draw = Key.root(4).child("targets").generator()
    shape = (len(data.train), *targets)
    y = draw.standard_normal(shape) if kind == "values" else draw.integers(0, 2, shape).astype(float)
    train = replace(data.train, y=torch.from_numpy(y), kind=kind, classes=targets[-1] if targets else 1)
    return data.replaced(train=train, test=train)


def masked(data):
    """Texts of which some positions, and all of one text, are masked."""
    y = data.train.y.clone()
    y[torch.from_numpy(Key.root(5).generator().random(y.shape) < 0.4)] = IGNORED
    y[3] = IGNORED
    train = replace(data.train, y=y)
    return data.replaced(train=train, test=train)


def probabilities(data):
    train = replace(data.train, y=data.train.y.softmax(-1))
    return data.replaced(train=train, test=train)


def pinball(outputs, targets):
    far = targets - outputs
    return torch.maximum(0.8 * far, -0.2 * far).mean(-1)


def scalar(outputs, targets):
    return (outputs - targets).abs().mean()


def branching(outputs, targets):
    """The mean of what vmap cannot run: it looks at numbers."""
    far = [(o - t).abs().max() for o, t in zip(outputs, targets, strict=True)]
    return sum(d if float(d.detach()) < 1.0 else d.square() for d in far) / len(far)


TASKS = {
    "weights": (lambda name: make_data(name), CrossEntropy((0.5, 2.0, 1.0))),
    "smoothing": (lambda name: make_data(name), CrossEntropy(smoothing=0.1)),
    "both": (lambda name: make_data(name), CrossEntropy((0.5, 2.0, 1.0), 0.2)),
    "labels": (lambda name: kind_of(name, "labels"), None),
    "weighted labels": (lambda name: kind_of(name, "labels"), BinaryCrossEntropy((1.0, 3.0, 0.5))),
    "values": (lambda name: kind_of(name, "values"), None),
    "huber": (lambda name: kind_of(name, "values"), Huber(0.7)),
    "soft": (lambda name: probabilities(kind_of(name, "values")), SoftTargets(2.0)),
    "own": (lambda name: kind_of(name, "values"), OwnLoss(pinball)),
    "own scalar": (lambda name: kind_of(name, "values"), OwnLoss(scalar)),
    "own module": (lambda name: kind_of(name, "values"), OwnLoss(nn.HuberLoss(reduction="none"))),
    "own branching": (lambda name: kind_of(name, "values"), OwnLoss(branching)),
}
