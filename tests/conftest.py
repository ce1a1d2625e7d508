"""Tests run side by side, a process on one thread unless a test says otherwise, and draw the same always."""

import gc

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")


def pytest_collection_finish():
    """What is there by now stays: looking through it for garbage, again and again, takes long."""
    gc.collect()
    gc.freeze()
