# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
"""Flower's client. A module of its own, so that a message to a worker names it instead of carrying it."""

from __future__ import annotations

from functools import lru_cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from benchmarks.peers.common import WORKLOADS, make_data, make_model, train_client

app = ClientApp()


@lru_cache(maxsize=1)
def held(name: str) -> tuple[nn.Sequential, Tensor, Tensor]:
    """The model and all data, built once in each worker."""
    return make_model(WORKLOADS[name]), *make_data(WORKLOADS[name])


@app.train()
def train(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    name = message.content["config"]["workload"]
    model, x, y = held(name)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    client = int(context.node_config["partition-id"])
    train_client(model, x[client], y[client], WORKLOADS[name])
    metrics = MetricRecord({"num-examples": len(x[client])})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
