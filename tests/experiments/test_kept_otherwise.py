"""Another model, or other data, than a kept run in Python was begun with is refused in words."""

import pytest
from torch import nn

import unknot
from support import small_data
from unknot.core.errors import StoreError

pytest.importorskip("cryptography")


@pytest.mark.parametrize(
    ("model", "shape", "said"),
    [
        (
            lambda: nn.Linear(8, 3),
            (8,),
            r"model.* is .*, the run in .* has .*: build the federation as it was",
        ),
        ("mlp", (5,), "the data of client 0 is not what it was"),
    ],
)
def test_what_does_not_fit_what_was_kept_is_named_and_not_the_error_of_a_reader(tmp_path, model, shape, said):
    fed = unknot.simulate("mlp", small_data((5, 8, 3)), store=tmp_path / "run")
    fed.run(1)
    fed.close()
    with pytest.raises(StoreError, match=said) as refused:
        unknot.simulate(model, small_data((5, 8, 3), shape=shape), store=tmp_path / "run")
    assert "written form" not in str(refused.value)
    assert "Error" not in str(refused.value)
