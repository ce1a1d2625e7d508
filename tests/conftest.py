"""Tests run side by side: each process computes on one thread unless a test says otherwise."""

import torch

torch.set_num_threads(1)
