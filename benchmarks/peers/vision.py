# mypy: disable-error-code="import-not-found"
"""torchvision, which some peers import, beside a PyTorch without CUDA.

The one on PyPI is built for CUDA: beside PyTorch for CPUs its operators cannot be loaded, and the import
fails at those that it describes. No contestant calls them, so it is enough that they have a name.
"""

from __future__ import annotations

import torch

try:
    import torchvision
except RuntimeError:
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401
