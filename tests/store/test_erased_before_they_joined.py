"""One request may name who takes part and who does not yet: both go from the folder, and the run goes on."""

import pytest

import unknot
from unknot.store.keeper import keeper_of
from unknot.store.naming import named_in
from unknot.store.own_keys import keyring_of

NAMES = ("Graz", "Linz", "Wien", "Bregenz")


def world(folder):
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=4, samples=20))
    return unknot.simulate("mlp", data.replaced(names=dict(enumerate(NAMES))), store=folder)


@pytest.mark.parametrize("who", [[1, 3], [3, 1], [3]])
def test_who_would_have_joined_later_is_erased_from_the_disk_with_the_others(tmp_path, who):
    folder = tmp_path / "run"
    fed = world(folder)
    fed.run(3, requests=[unknot.join(3, round=2), unknot.erase(who, round=1)])
    fed.close()
    assert set(fed.history.served[0].clients) == set(who)
    keys, left = keyring_of(folder), [client for client in range(4) if client not in who]
    assert [client for client in range(4) if keys.holds(client)] == left
    assert sorted(named_in(folder)) == left
    held = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"Bregenz" not in held


def test_the_run_is_gone_on_with_after_it(tmp_path):
    fed = world(tmp_path / "run")
    fed.run(3, requests=[unknot.join(3, round=2), unknot.erase([1, 3], round=1)])
    fed.close()
    again = world(tmp_path / "run")
    assert again.run(2).rounds[-1].round == 5
    assert again.model.lineage.clients == {0, 2}
    again.close()


def test_samples_of_who_joins_later_are_sealed_under_a_new_key_with_the_others_gone(tmp_path):
    folder = tmp_path / "run"
    fed = world(folder)
    before = keeper_of(fed)  # the key as it was: what it seals cannot be read once samples were erased
    sealed = keyring_of(folder).seal(3, b"what they shaped", b"test")
    requests = [unknot.join(3, round=2), unknot.erase({1: None, 3: [0, 7]}, round=1)]
    fed.run(3, requests=requests)
    before.close()
    with pytest.raises(unknot.UnknotError):
        keyring_of(folder).open(3, sealed, b"test")
