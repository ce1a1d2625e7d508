"""Work for a GPU that is written down once, in a CUDA graph, and played again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from unknot.core.garbage import no_garbage_search_at_all


def captured(
    work: Callable[[], object], device: torch.device, pool: Any = None
) -> tuple[torch.cuda.CUDAGraph | None, str]:
    """The work written down, not done; or None, and why that cannot be.

    Its tensors stay where they are as long as the graph lives. Graphs that are never played at once may have
    a `pool` of memory in common.
    """
    graph, why_not = torch.cuda.CUDAGraph(), ""
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    here = torch.cuda.current_stream(device)
    side.wait_stream(here)
    with torch.cuda.stream(side), no_garbage_search_at_all():
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            work()
        except RuntimeError as error:
            why_not = str(error).splitlines()[0]
        try:
            graph.capture_end()
        except RuntimeError as error:
            why_not = why_not or str(error).splitlines()[0]
    here.wait_stream(side)
    return None if why_not else graph, why_not
