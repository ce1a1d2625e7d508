"""What the server measures with, and its public data, are known again as clients' data is."""

import numpy as np
import pytest
from kept_runs import SIZES, build, story

from support import small_data
from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.core.samples import Samples
from unknot.store.keeper import RunKeeper

OWNER = np.array([1, 1, 2, -1, 1, 2, 2, -1, 1, 3, 3, 1])


def owned(gone: int | None = None):
    """Held-out rows that belong to clients; without those of one whose files are gone."""
    data = small_data(SIZES).replaced(public=small_data(SIZES, seed=9).train.x[:5].clone())
    data = data.replaced(validation_owner=OWNER, test_owner=OWNER)
    return data if gone is None else data.without([gone])


def kept(folder, data, requests=()):
    fed = build(data=data)
    keeper = RunKeeper.create(fed, folder)
    fed.run(2, requests=requests)
    keeper.close()


def changed(samples: Samples, part: str) -> Samples:
    x, y = samples.x.clone(), samples.y.clone()
    if part == "x":
        x[0, 0] += 1
    else:
        y[0] = 1 - y[0]
    return Samples(x, y, samples.classes)


@pytest.mark.parametrize("part", ["x", "y"])
@pytest.mark.parametrize("split", ["validation", "test"])
def test_other_held_out_data_is_refused(tmp_path, split, part):
    data = small_data(SIZES)
    kept(tmp_path / "run", data)
    other = data.replaced(**{split: changed(getattr(data, split), part)})
    with pytest.raises(StoreError, match=f"the {split} data is not what it was"):
        RunKeeper.go_on(build(data=other), tmp_path / "run")
    RunKeeper.go_on(build(data=small_data(SIZES)), tmp_path / "run").close()


def test_other_public_data_is_refused_and_so_is_none(tmp_path):
    kept(tmp_path / "run", owned())
    with pytest.raises(StoreError, match="the public data is not what it was"):
        RunKeeper.go_on(build(data=owned().replaced(public=owned().public + 1)), tmp_path / "run")
    with pytest.raises(StoreError, match="the public data is not there any more"):
        RunKeeper.go_on(build(data=owned().replaced(public=None)), tmp_path / "run")


def test_held_out_rows_that_were_given_to_somebody_else_are_refused(tmp_path):
    kept(tmp_path / "run", owned())
    with pytest.raises(StoreError, match="the validation data is not what it was"):
        RunKeeper.go_on(build(data=owned().replaced(validation_owner=OWNER[::-1])), tmp_path / "run")


def test_after_an_erasure_the_rows_that_are_left_count_with_the_clients_files_or_without(tmp_path):
    stories = []
    for place, gone in (("there", None), ("gone", 1)):
        folder = tmp_path / place
        kept(folder, owned(), erase(1, round=1))
        fed = build(data=owned(gone))
        keeper = RunKeeper.go_on(fed, folder)
        stories.append(story(fed.run(1)))
        keeper.close()
        rest = owned(1)
        other = build(data=rest.replaced(test=changed(rest.test, "x")))
        with pytest.raises(StoreError, match="the test data is not what it was"):
            RunKeeper.go_on(other, folder)
    assert stories[0] == stories[1]


def test_where_all_held_out_rows_were_the_erased_clients_the_run_goes_on(tmp_path):
    data = small_data(SIZES).replaced(validation_owner=np.ones(12, dtype=np.int64))
    kept(tmp_path / "run", data, erase(1, round=1))
    fed = build(data=data)
    keeper = RunKeeper.go_on(fed, tmp_path / "run")
    fed.run(1)
    keeper.close()
