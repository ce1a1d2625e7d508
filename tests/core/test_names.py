"""Clients have names, and names work wherever numbers do."""

import numpy as np
import pytest
from torch import nn

from support import small_data, toy_federation
from unknot.core.errors import DataError, ErasedDataError, ForbiddenLineageError, RequestError
from unknot.core.lineage import Ledger, Lineage, Unit
from unknot.core.requests import Erase, Join, Moment, Named, Target, erase, join, resolved
from unknot.core.weights import Weights
from unknot.data.corrupt import corrupt
from unknot.unlearn import RFS

NAMES = {0: "Graz", 1: "Linz", 2: "Wien", 4: "Bad Ischl"}


def towns():
    return small_data().replaced(names=NAMES)


def test_a_client_is_found_by_its_name():
    data = towns()
    assert data["Linz"] is data[1]
    assert "Linz" in data
    assert "Rom" not in data
    assert data.number("Wien") == data.number(2) == 2
    assert [data.label(client) for client in (2, 3)] == ["Wien", "client 3"]


def test_who_is_there_can_be_asked_by_name():
    data = towns()
    fed = toy_federation(RFS(), data)
    history = fed.run(2, requests=[erase("Graz", round=1)])
    assert data.clients == (0, 1, 2, 3, 4, 5)
    for there in (data.clients, fed.members, fed.desk.members):
        assert "Linz" in there
        assert "Rom" not in there
    for there in (fed.members, fed.data.clients):
        assert "Graz" not in there
    assert "Graz" in fed.data.erased
    assert history.told(history.served[0]) == "erase Graz"
    with pytest.raises(TypeError, match=r"clients are numbers here, and 'Linz' is a name: ask data\.number"):
        _ = "Linz" in toy_federation(RFS()).members


def test_a_lineage_shows_names():
    units = Lineage([Unit(1), Unit(3), Unit(2, 1)])
    assert repr(units.named(NAMES)) == "Lineage(Linz, client 3, Wien (revision 1))"
    assert repr(units) == "Lineage(client 1, client 3, client 2 (revision 1))"


def test_an_erased_client_keeps_its_name():
    data = towns()
    data.erase("Graz")
    data.erase("Linz", [0, 2])
    assert data.erased == {0}
    assert data.reduced == {1: {0, 2}}
    assert "Graz" not in data
    with pytest.raises(ErasedDataError, match=r"^Graz's data has been erased"):
        data["Graz"]
    with pytest.raises(RequestError, match=r"^Graz was already erased"):
        data.erase("Graz")
    with pytest.raises(RequestError, match=r"^Linz holds no sample 2"):
        data.erase(1, [2])
    assert repr(data).endswith("1 erased)")


@pytest.mark.parametrize(
    "make",
    [lambda d: d.fork(), lambda d: d.replaced(name="x"), lambda d: d.lent(), lambda d: corrupt(d, ["Graz"])],
    ids=["fork", "replaced", "lent", "corrupt"],
)
def test_names_go_with_every_copy(make):
    assert make(towns()).names == NAMES


def test_those_who_are_there_are_named():
    assert towns().describe_clients() == "clients Graz, Linz, Wien, 3, Bad Ischl, 5"
    with pytest.raises(RequestError, match="cannot erase client 9: this federation has clients Graz, Linz"):
        towns().erase(9)


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (towns(), "Gratz", r"there is no client 'Gratz'\. Did you mean 'Graz'\?"),
        (towns(), "0", r"there is no client '0'\. Known: Bad Ischl, Graz, Linz, Wien\."),
        (small_data(), "3", r"there is no client '3'\. This federation has clients 0 to 5\."),
        (small_data(), "Graz", r"This federation has clients 0 to 5"),
    ],
)
def test_a_name_that_nobody_has_is_refused_with_the_nearest(data, name, message):
    for ask in (data.number, data.erase, data.__getitem__):
        with pytest.raises(RequestError, match=message):
            ask(name)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({0: ""}, "the name of client 0 must be a text in one line"),
        ({0: " Graz"}, "neither begins nor ends with a space"),
        ({0: "Graz\nLinz"}, r"not 'Graz\\nLinz'"),
        ({1: 7}, "the name of client 1 .* not 7"),
        ({0: "Graz", 3: "Graz"}, "two clients are called 'Graz'"),
    ],
)
def test_names_that_name_nobody_are_refused(names, message):
    with pytest.raises(DataError, match=message):
        small_data().replaced(names=names)


# Requests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "meant"),
    [
        (erase("Graz", round=3), erase(0, round=3)),
        (erase(["Wien", 3, "Graz"], time=2.5), erase([0, 2, 3], time=2.5)),
        (erase({"Linz": [1, 0], 3: None}, round=3), erase({1: [0, 1], 3: None}, round=3)),
        (erase(np.array(["Graz", "Linz"]), round=1), erase([0, 1], round=1)),
        (erase((name for name in ("Graz", "Linz")), round=1), erase([0, 1], round=1)),
        (join("Linz", round=2), join(1, round=2)),
        (join(["Linz", 0], round=2), join([0, 1], round=2)),
    ],
    ids=str,
)
def test_a_request_by_name_is_the_one_by_number(request_, meant):
    assert isinstance(request_, Named)
    assert request_.at == meant.at
    assert request_.resolve(towns()) == meant
    assert resolved([request_, meant], towns()) == [meant, meant]


def test_requests_say_names():
    assert str(erase(["Graz", 3], round=3)) == "erase Graz, client 3"
    assert str(erase({"Linz": [1, 0]}, round=3)) == "erase 2 samples of Linz"
    assert str(join("Linz", round=2)) == "join Linz"
    data = towns()
    assert (
        Erase((Target(0), Target(3, (1,))), Moment(1)).told(data.label) == "erase Graz, 1 sample of client 3"
    )
    assert Join((0, 3), Moment(1)).told(data.label) == "join Graz, client 3"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (lambda: erase("Gratz", round=1).resolve(towns()), "Did you mean 'Graz'"),
        (lambda: erase(["Graz", 0], round=1).resolve(towns()), "Graz is named twice"),
        (lambda: join(["Graz", "Graz"], round=1).resolve(towns()), "Graz is named twice"),
        (lambda: erase({"Graz": []}, round=1), "no samples of Graz are named"),
        (lambda: erase({"Graz": [0.5]}, round=1), "the id of a sample of Graz must be a whole number"),
        (lambda: erase({"Graz": 3}, round=1), "the samples of Graz must be a list of ids, not 3"),
        (lambda: erase(["Graz", -1], round=1), "a client's id must be a whole number"),
        (lambda: erase("Graz", round=1, time=2.0), "a round or at a time"),
    ],
)
def test_what_is_wrong_with_a_request_by_name_is_said(request_, message):
    with pytest.raises(RequestError, match=message):
        request_()


def test_lineages_and_ledgers_speak_of_names():
    label = towns().label
    lineage = Lineage([Unit(0), Unit(1, 2), Unit(3), Unit(4), Unit(4, 1)])
    assert lineage.describe(label) == ["Graz", "Linz (revision 2)", "client 3", "Bad Ischl (2 units)"]
    ledger = Ledger(label)
    ledger.forbid(0)
    weights = Weights.of(nn.Linear(2, 1), Lineage([Unit(0)]))
    with pytest.raises(ForbiddenLineageError, match="refused to serve: it carries Graz, whose data"):
        ledger.check(weights, "serve")
