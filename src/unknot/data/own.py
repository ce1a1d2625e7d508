"""Data of your own: what each client holds, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unknot.core.data import FederatedData, checked_names
from unknot.core.errors import DataError, RequestError, nearest
from unknot.core.ids import Id, client_id, one_way
from unknot.core.samples import KINDS
from unknot.data.dataset import Ints
from unknot.data.form import Form
from unknot.data.holdings import Held, as_tensor, read
from unknot.data.text import check_context
from unknot.text.alphabet import CHARACTERS


def clients(
    held: Mapping[str, Any] | Mapping[int, Any] | Sequence[Any],
    *,
    test: Any = None,
    validation: Any = None,
    public: Any = None,
    classes: int | None = None,
    kind: str | None = None,
    tokens: bool | None = None,
    ids: Mapping[str, Id] | None = None,
    vocabulary: str = CHARACTERS,
    context: int = 80,
    name: str = "data",
) -> FederatedData:
    """The data of a federation: ``clients({"Graz": (X, y), "Linz": (X2, y2)}, test=(X3, y3))``.

    `held` says what each client holds: a pair of NumPy arrays or tensors, a `torch.utils.data.Dataset` of
    pairs, or texts: a list of strings, in which each character of the `vocabulary` predicts the next,
    `context` at a time. Clients go by name, or by number: a mapping, or a list. `test` and `validation` are
    the server's, or a mapping of what is held out of each client, which is erased with it. `public` are
    inputs without targets that are nobody's.

    Targets that are whole numbers are classes, as many as the greatest label of anybody says, or
    `classes`; floating-point ones are values to predict; a table of 0 and 1 is several labels at once.
    `kind` ("classes", "labels", "values") says so where it cannot be seen. Whole numbers as inputs become
    float32, unless they are `tokens`: so they are by default where each has a target of its own.

    Draws go by a client's number: its place here, unless `ids` says which number each name has. It may
    name clients who are not here: so a federation without somebody is otherwise the same. `name` is what the
    data is called in records.
    """
    if not isinstance(vocabulary, str) or not vocabulary or len(set(vocabulary)) < len(vocabulary):
        raise DataError(f"a vocabulary is a text of characters, each of them once, not {vocabulary!r}")
    check_context(name, context)
    if kind is not None and kind not in KINDS:
        raise DataError(f"there are no targets of kind {kind!r}.{nearest(str(kind), KINDS)}")
    given, numbers = _roster(held, ids)
    names = {numbers[key]: key for key in given if isinstance(key, str)}

    def part(what: object, who: str) -> Held:
        return read(what, who, vocabulary, context)

    parts = {numbers[key]: part(what, _called(key)) for key, what in given.items()}
    parts = dict(sorted(parts.items()))
    tested = _held_out(test, "test", numbers, part)
    validated = _held_out(validation, "validation", numbers, part)
    everything = [*parts.values(), *(one for _, one in (*tested, *validated))]
    form = Form.of(everything, kind, classes, tokens, len(vocabulary) + 1)
    train, shards = form.joined(parts)
    test_samples, test_owner = form.held_out(tested, train)
    validation_samples, validation_owner = form.held_out(validated, train)
    return FederatedData(
        train,
        shards,
        test_samples,
        validation_samples if validated else None,
        {} if test_owner is None else _shares(test_owner),
        name,
        test_owner=test_owner,
        validation_owner=validation_owner,
        names=names,
        public=None if public is None else as_tensor(public, "public inputs").to(form.inputs, copy=True),
    )


def _roster(held: object, ids: Mapping[str, Id] | None) -> tuple[dict[int | str, Any], dict[int | str, int]]:
    """What is given by whom, and everybody's number."""
    if isinstance(held, list | tuple):
        held = dict(enumerate(held))
    if not isinstance(held, Mapping) or not held:
        raise DataError(
            "clients are a mapping from names to what each holds, or a list, of one at least; found "
            f"{type(held).__name__}"
        )
    try:
        if not all(isinstance(key, str) for key in held):
            found: dict[int | str, Any] = {client_id(key): what for key, what in held.items()}
            return found, {key: key for key in found}  # type: ignore[misc]
        called = checked_names({place: str(key) for place, key in enumerate(held)})
        given = {name: client_id(number) for name, number in (ids or {}).items()}
    except RequestError as error:
        raise DataError(f"a client has a name or a number: {error}") from None
    numbers: dict[int | str, int] = {name: place for place, name in called.items()}
    if ids is not None:
        numbers = {one_way(name): number for name, number in given.items()}
    if missing := set(called.values()) - numbers.keys():
        raise DataError(f"ids has no number for {min(missing)!r}: give one to every client, or leave ids out")
    if len({numbers[name] for name in called.values()}) < len(called):
        raise DataError(f"ids: two clients have the same number, {numbers}")
    return dict(zip(called.values(), held.values(), strict=True)), numbers


def _called(key: int | str) -> str:
    return key if isinstance(key, str) else f"client {key}"


def _held_out(
    given: Any, split: str, numbers: Mapping[int | str, int], part: Any
) -> list[tuple[int | None, Held]]:
    """What is held out for `split`, and whose it is: a client's, or nobody's."""
    if not isinstance(given, Mapping):
        return [] if given is None else [(None, part(given, f"the {split} samples"))]
    found: list[tuple[int | None, Held]] = []
    for key, what in given.items():
        who = one_way(key) if isinstance(key, str) else key
        if who not in numbers:
            known = map(_called, numbers)
            raise DataError(
                f"{split} samples are given of {key!r}, who is no client.{nearest(str(key), known)}"
            )
        found.append((numbers[who], part(what, f"{_called(who)}, {split} samples")))
    return sorted(found, key=lambda pair: pair[0] or 0)


def _shares(owner: Ints) -> dict[int, Ints]:
    """The test rows of each client."""
    return {client: np.flatnonzero(owner == client) for client in np.unique(owner).tolist()}
