import pytest
import torch

from support import small_data
from unknot.audit.queries import MOVES, asked
from unknot.core.data import Samples
from unknot.core.errors import ConfigError


def images():
    x = torch.arange(2 * 9, dtype=torch.float32).reshape(2, 1, 3, 3)
    return Samples(x, torch.tensor([0, 1]), 2)


def test_one_query_is_the_samples_themselves():
    for samples in (images(), small_data().train):
        (same,) = asked(samples)
        assert same is samples


def test_images_are_moved_by_a_pixel_and_their_edge_is_filled_with_itself():
    samples = images()
    given = samples.x.clone()
    found = asked(samples, len(MOVES))
    assert len(found) == 9
    by_move = dict(zip(MOVES, found, strict=True))
    assert by_move[0, 0] is samples
    assert by_move[0, 1].x[0, 0].tolist() == [[0, 0, 1], [3, 3, 4], [6, 6, 7]]  # to the right
    assert by_move[-1, 0].x[0, 0].tolist() == [[3, 4, 5], [6, 7, 8], [6, 7, 8]]  # up
    assert by_move[1, -1].x[0, 0].tolist() == [[1, 2, 2], [1, 2, 2], [4, 5, 5]]
    assert torch.equal(samples.x, given)


def test_queries_differ_and_labels_do_not():
    found = asked(images(), 9)
    assert len({tuple(each.x.flatten().tolist()) for each in found}) == 9
    assert all(torch.equal(each.y, found[0].y) and each.classes == 2 for each in found)


@pytest.mark.parametrize("queries", [0, -1, 10])
def test_there_are_nine_ways_to_ask(queries):
    with pytest.raises(ConfigError, match=f"1 to 9 queries for each sample, not {queries}"):
        asked(images(), queries)


def test_tables_and_texts_have_no_pixels_to_move():
    text = Samples(torch.zeros(2, 5, 7, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long), 3)
    for samples in (small_data().train, text):
        with pytest.raises(ConfigError, match="that is for images"):
            asked(samples, 2)
