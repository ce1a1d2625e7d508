"""Tests run side by side, a process on one thread unless a test says otherwise, and draw the same always."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")
