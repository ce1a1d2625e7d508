"""What the benchmark makes of its runs: the best setting, medians, ratios, and honest losses."""

from benchmarks.growth import grown, growth_part
from benchmarks.run import check_losses, rounds_part, summarise


def run(contestant: str, seconds: float, loss: float = 0.5, **settings: int) -> dict:
    return {
        "contestant": contestant,
        "workload": "W1",
        "settings": settings,
        "versions": {"torch": "2.13.0"},
        "seconds_per_round": seconds,
        "startup_seconds": 1.0,
        "warmup_seconds": 0.5,
        "peak_memory_mib": 100.0,
        "loss": loss,
        "rounds": 20,
    }


RUNS = [
    run("plain", 0.9, threads=1),
    run("plain", 0.6, threads=2),
    run("unknot", 0.25),
    run("plain", 1.0, threads=1),
    run("plain", 0.8, threads=2),
    run("unknot", 0.2),
    run("plain", 9.0, threads=1),
    run("plain", 0.7, threads=2),
    run("unknot", 0.3),
]


def test_the_best_setting_counts_and_medians_are_compared():
    """Plain: medians 1.0 with one thread, 0.7 with two. unknot: 0.25. 0.7 / 0.25 = 2.8."""
    rows = summarise(RUNS)["W1"]
    assert rows["plain"]["seconds_per_round"] == 0.7
    assert rows["plain"]["settings"] == {"threads": 2}
    assert (rows["plain"]["fastest"], rows["plain"]["slowest"]) == (0.6, 0.8)
    assert abs(rows["plain"]["times_unknot"] - 2.8) < 1e-12
    assert rows["unknot"]["times_unknot"] == 1.0


def test_who_did_not_train_is_found():
    assert check_losses(summarise(RUNS)) == []
    lazy = summarise([*RUNS, run("pfl", 0.01, loss=2.3)])
    (message,) = check_losses(lazy)
    assert message.startswith("pfl on W1 ends with loss 2.3")


def test_the_page_names_everybody_slowest_first():
    results = {"machine": dict.fromkeys(("date", "cores", "cpu", "memory_gib", "system"), "?")}
    text = rounds_part(results | {"runs": RUNS, "repeats": 3}, summarise(RUNS))
    assert "20 timed rounds a run, medians of 3 runs." in text
    assert text.index("plain PyTorch loop | 0.7000") < text.index("**unknot** | 0.2500")


def test_growth_is_told_beside_a_tenth_of_the_clients():
    """Medians 0.2 and 0.3 s: 1.5 times as much."""

    def case(clients: int, seconds: float) -> dict:
        record = {"pace": "buffered", "clients": clients, "cohort": 1000, "rounds": 20}
        record |= {"seconds_per_round": 0.5, "cpu_seconds_per_round": seconds, "train_seconds_per_round": 0.1}
        return record | {"first_round_done_seconds": 2.0, "peak_rss_mb": 300.0}

    runs = [case(n, s) for n, s in ((10, 0.2), (100, 0.3), (10, 0.1), (100, 0.9), (10, 0.4), (100, 0.3))]
    lines = grown("buffered", [10, 100], runs)
    assert [line.get("times_before") for line in lines] == [None, 1.5]
    text = growth_part({"machine": {"date": "?"}, "repeats": 3, "lines": lines})
    assert text.splitlines()[-1] == "| buffered | 100 | 0.500 | 0.300 | 1.50 | 0.100 | 2.0 | 300 |"
