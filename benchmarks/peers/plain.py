"""The plain loop: one client after the other in one process.

Tuned: see `train_client`; the sum is taken in place on one flat vector; `--threads` is tried at one
and at all cores by the runner, and the better one counts.
"""

from __future__ import annotations

import time

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from benchmarks.peers.common import (
    arguments,
    make_data,
    make_model,
    mean_loss,
    peak_memory,
    report,
    since_start,
    train_client,
)


def main() -> None:
    name, workload, options = arguments(threads=1)
    torch.set_num_threads(options.threads)
    x, y = make_data(workload)
    model = make_model(workload)
    weights = parameters_to_vector(model.parameters()).detach()
    startup = since_start()
    seconds = []
    for _ in range(1 + options.rounds):
        start = time.perf_counter()
        mean = torch.zeros_like(weights)
        for client in torch.randperm(workload.clients)[: workload.per_round].tolist():
            vector_to_parameters(weights.clone(), model.parameters())
            train_client(model, x[client], y[client], workload)
            mean += parameters_to_vector(model.parameters()).detach()
        weights = mean / workload.per_round
        seconds.append(time.perf_counter() - start)
    memory = peak_memory()
    vector_to_parameters(weights, model.parameters())
    report(
        "plain",
        name,
        startup=startup,
        warmup=seconds[0],
        seconds=seconds[1:],
        loss=mean_loss(model, x, y),
        memory=memory,
        settings={"threads": options.threads},
    )


if __name__ == "__main__":
    main()
