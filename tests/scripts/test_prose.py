"""Figures, counts and words in a text are as their sources have them; those without one are found."""

import pytest

from scripts.prose import refreshed, unsourced, untrue


def test_a_count_in_a_word_stays_one_while_there_is_a_word_for_it():
    found, of = "seeds knot-fig5 location30 knot total", "seeds knot-fig5 location30 knot"
    assert refreshed(f"in two<!--{found}--> of Ten<!--{of}-->") == f"in four<!--{found}--> of Five<!--{of}-->"
    nobody, many = "seeds knot-fig5 location30 fedavg kept", "draws incentive-fig4a"
    assert refreshed(f"one<!--{nobody}-->, two<!--{many}-->") == f"none<!--{nobody}-->, 100<!--{many}-->"


def test_a_difference_is_written_with_signs_and_its_interval():
    source = "diff knot-fig5 location30 knot fedbuff kept"
    assert refreshed(f"+1 [+0, +2]<!--{source}--> s") == f"−7 [−87, +73]<!--{source}--> s"
    sparse = "diff knot-fig5 location30 knot fedbuff seconds sparse"
    assert refreshed(f"+1.0 [+0, +2]<!--{sparse}-->") == f"−104.3 [−235.1, +26.5]<!--{sparse}-->"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MMT serves 83.7 % at once", 1),
        ("it takes 94 s, or 12 rounds", 2),
        ("it is −7 s behind", 1),
        ("−7 [−87, +73] s", 3),
        ("figures are of 800 and 700 texts", 2),
        ("83.7<!--exact-table1 mnist mmt first--> % and seeds 0 and 3 in Figure 4", 0),
        ("−7 [−87, +73]<!--diff knot-fig5 location30 knot fedbuff kept--> s, and 0 lies within", 0),
        ("GPT-2 on CIFAR-10, `lr = 0.01`, [there](page-3.md), in period 50", 0),
    ],
)
def test_a_figure_without_a_source_is_found(text, found):
    assert len(unsourced(f"## A paper\n\n### What we found\n\n{text}\n\n## The same for you\n")) == found


COUNTED = "five<!--seeds knot-fig5 location30 knot-->"


@pytest.mark.parametrize(
    "text",
    [
        "in four of five seeds",
        "in 4 of 5 seeds",
        f"in four of {COUNTED} seeds",
        f"in {COUNTED} of six seeds",
        "KNOT in two of three by writers",
        "Five seeds each",
        "with one\nseed alone",
        "in two\nof three seeds",
        "in none of three seeds",
        "98 of 100 draws",
        "in two seeds of three",
        "FedBuff in two, FedAvg and others in one.",
        "the model after in none.",
    ],
)
@pytest.mark.parametrize("place", ["What we found", "Before it"])
def test_a_count_of_seeds_or_draws_without_a_source_is_found(text, place):
    page = f"## A paper\n\n### {place}\n\n{text}\n\n## The same for you\n"
    assert unsourced(page)


@pytest.mark.parametrize(
    "text",
    [
        f"in {COUNTED} of {COUNTED} seeds",
        f"FedBuff in {COUNTED}, both level",
        "one of the two is in one place",
    ],
)
def test_what_has_a_source_or_counts_something_else_is_not(text):
    assert unsourced(f"## A paper\n\n{text}\n") == []


def test_a_word_that_is_not_so_is_found():
    level = "knot-fig5 cifar10 knot random total"
    before, behind = "knot-fig5 cifar10 knot fedbuff total", "knot-fig5 cifar10 fedbuff knot total"
    assert untrue(f"Level<!--way {level}-->, **before**<!--way {before}-->") == []
    assert untrue(f"later<!--way {behind}--> and not shown<!--way {level}-->") == []
    assert untrue(f"before<!--way {level}-->") == [f"before of {level}: level"]
    assert untrue(f"sooner<!--way {before} & {behind}-->") == [f"sooner of {behind}: behind"]
    assert untrue(f"nicer<!--way {level}-->") == [f"no word of {level}: level"]
