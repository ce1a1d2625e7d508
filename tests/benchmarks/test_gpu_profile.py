"""Where a GPU's time goes is read off a trace rightly: on one made by hand, in which it is known."""

from __future__ import annotations

from benchmarks.gpu_profile import spent, table


def event(kind: str, name: str, begin: float, length: float, link: int | None = None) -> dict:
    return {"ph": "X", "cat": kind, "name": name, "ts": begin, "dur": length, "args": {"correlation": link}}


def step(begin: float, link: int) -> list[dict]:
    """One convolution and one linear layer, 100 µs a kernel but for the 50 of the rest; 550 in all."""
    names = ("forward", "forward", "last", "backward", "weight_gradient")
    kernels = [event("kernel", name, begin + 100 * n, 100, link) for n, name in enumerate(names)]
    return [*kernels, event("kernel", "elementwise", begin + 500, 50, link)]


TRACE = [
    {"ph": "M", "name": "process_name"},
    event("kernel", "forward", 100, 500, 1),  # of the run before
    event("cuda_runtime", "cudaDeviceSynchronize", 500, 500),  # the window begins here, at 1000
    event("cuda_runtime", "cudaMemcpyAsync", 1200, 100, 2),
    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1250, 150, 2),  # idle before: 250
    event("cuda_runtime", "cudaLaunchKernel", 1400, 100, 3),
    event("kernel", "sort", 1500, 200, 3),  # idle before: 100
    event("cuda_runtime", "cudaGraphLaunch", 1600, 200, 4),
    *step(1900, 4),  # idle before: 200; to 2450
    event("cuda_runtime", "cudaGraphLaunch", 1900, 100, 5),
    *step(2500, 5),  # idle between: 50; to 3050
    event("cuda_runtime", "cudaMemcpyAsync", 2100, 1100, 6),  # it waits for what it brings
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 3100, 100, 6),  # idle after: 50
    event("cuda_runtime", "cudaDeviceSynchronize", 3990, 10),  # idle after: 800; ends at 4000
    event("cuda_runtime", "cudaDeviceSynchronize", 5000, 10),  # the profiler's own
]


def test_the_parts_of_a_trace_add_up_and_are_told_apart():
    found = spent(TRACE, stages=1)
    assert found["ms"] == 3.0
    assert found["at_work"] == {
        "data": 0.35,
        "convolution": 0.4,
        "linear": 0.6,
        "step": 0.1,
        "results": 0.1,
    }
    assert found["idle"] == {"before": 0.55, "between": 0.05, "after": 0.85}
    assert found["cpu"] == {"launches": 0.4, "copies": 0.1, "waits": 1.11, "python": 1.39}
    assert round(sum(found["at_work"].values()) + sum(found["idle"].values()), 9) == 3.0
    assert round(sum(found["cpu"].values()), 9) == 3.0
    assert (found["graph_launches"], found["other_launches"]) == (2, 1)


def test_what_is_not_captured_is_told_apart_by_name():
    eager = [{**e, "name": "cudaLaunchKernel"} if e["name"] == "cudaGraphLaunch" else e for e in TRACE[1:]]
    found = spent(eager, stages=1)
    assert (found["at_work"]["convolution"], found["at_work"]["linear"]) == (0.4, 0.6)
    assert found["graph_launches"] == 0


def test_the_table_has_a_column_a_cohort_and_sums():
    cell = {"profile": spent(TRACE, 1), "ms": 2.5, "loop_ms": 1234.5}
    cell |= {"floor_bytes_ms": 0.1, "floor_operations_ms": 0.2}
    lines = table({"MLP": cell, "LeNet-5": cell}).splitlines()
    assert lines[0] == "| | MLP | LeNet-5 |"
    assert "| plain loop, there | 1,234.5 | 1,234.5 |" in lines
    assert "| **CPU, meanwhile** | 3.0 | 3.0 |" in lines
    assert {line.count("|") for line in lines} == {4}
