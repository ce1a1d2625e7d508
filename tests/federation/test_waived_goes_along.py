"""Whom an approximate method has let pass is said by what it serves, and by whatever begins from that."""

from support import ToyEngine, small_data, toy_federation, toy_weights
from unknot.core.lineage import Lineage, Unit
from unknot.core.requests import erase
from unknot.core.saved import load_model, save_model
from unknot.federation import Federation, Guarantee
from unknot.select import DQN
from unknot.unlearn import PGA, RFS, FedEraser

SIZES = [5, 8, 3, 6, 7, 4]
NAMES = dict(enumerate(["Graz", "Linz", "Wien", "Bern", "Rom", "Oslo"]))


def served(data=None, request=None, method=None):
    fed = toy_federation(method or PGA(), data or small_data(SIZES))
    fed.run(5, requests=[request or erase(1, round=3)])
    return fed.model


def goes_on(model, data=None, method=None, **options):
    return Federation(ToyEngine(), model, data or small_data(SIZES), method or RFS(), **options)


def saved(model, tmp_path):
    save_model(model, tmp_path / "model")
    return load_model(tmp_path / "model")


def test_what_is_served_names_whom_it_was_let_pass(tmp_path):
    model = served()
    assert 1 not in model.lineage.clients
    assert model.lineage.waived == {1}
    assert saved(model, tmp_path).lineage == Lineage(map(Unit, model.lineage.clients)).waiving([1])
    assert served(method=RFS()).lineage.waived == set()


class Looks(RFS):
    """It reads what it keeps, and goes by that behind the core's back."""

    guarantee = Guarantee.APPROXIMATE

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        desk.keepsakes.put("whole", None, lane.model)

    def forget(self, desk, request, touched):
        desk.keepsakes.get("whole")
        super().forget(desk, request, touched)


def test_whoever_was_let_pass_is_named_though_no_weights_say_so():
    assert served(method=Looks()).lineage.waived == {1}


def test_whatever_is_made_of_it_names_them_too():
    model = served()
    other = toy_weights()
    for made in (model + other, other - model, 0.5 * model, model.to(dtype=model.vector.dtype)):
        assert made.lineage.waived == {1}
    assert other.carrying(model.lineage).lineage.waived == {1}
    assert other.carrying(Lineage(model.lineage)).carrying(model.lineage).lineage.waived == {1}


def test_an_exact_method_that_begins_from_it_says_what_it_does_not_cover(tmp_path):
    for model in (served(), saved(served(), tmp_path)):
        fed = goes_on(model)
        history = fed.run(3)
        assert history.waived == ["client 1"]
        assert history.guarantee == (
            "exact, but for what the initial model keeps of client 1, let pass by the run that it comes from"
        )
        assert fed.model.lineage.waived == {1}
        assert {1} <= fed.model.lineage.clients


def test_who_was_let_pass_can_be_erased_again_and_then_nothing_is_left(tmp_path):
    """The federation begins anew, from a start that nobody shaped: that is exact."""
    fed = goes_on(saved(served(), tmp_path), restart=toy_weights())
    history = fed.run(5, requests=[erase(1, round=2)])
    rest = small_data(SIZES)
    rest.erase(1)
    twin = toy_federation(RFS(), rest)
    twin.run(3)
    assert fed.model.equal(twin.model)
    assert (history.waived, history.guarantee, fed.model.lineage.waived) == ([], "exact", set())


def test_where_they_have_left_before_training_goes_on_and_they_stay_on_record(tmp_path):
    rest = small_data(SIZES)
    rest.erase(1)
    fed = goes_on(saved(served(), tmp_path), rest)
    history = fed.run(3, requests=[])
    assert history.waived == ["client 1"]
    assert "keeps of client 1" in history.guarantee
    assert 1 not in fed.model.lineage.clients
    assert fed.model.lineage.waived == {1}


def test_so_it_is_with_names_and_with_who_is_not_there_any_more(tmp_path):
    data = small_data(SIZES).replaced(names=NAMES)
    model = saved(served(data, erase(1, round=3)), tmp_path)
    others = small_data(SIZES[1:]).replaced(names={k: NAMES[k + 1] if k else "Bonn" for k in range(5)})
    fed = goes_on(model, others, restart=toy_weights())
    history = fed.run(2)
    assert history.waived == ["Linz"]
    assert "keeps of Linz, let pass" in history.guarantee
    assert "Linz" in fed.model.lineage.clients


def test_a_second_approximate_method_hands_both_on(tmp_path):
    fed = goes_on(saved(served(), tmp_path), method=FedEraser(interval=1), restart=toy_weights())
    assert "; so is what the initial model keeps of client 1, let pass by the" in fed.run(2).guarantee
    rest = small_data(SIZES)
    rest.erase(1)
    fed = goes_on(saved(served(), tmp_path), rest, PGA(), restart=toy_weights())
    assert fed.run(2).waived == ["client 1"]


def test_a_policy_that_learned_from_such_models_knows_them(tmp_path):
    fed = toy_federation(PGA(), small_data(SIZES), select=DQN())
    fed.run(6, requests=[erase(1, round=2)])
    policy = fed.lanes["global"].selector.policy
    assert 1 in policy.lineage.waived
    policy.save(tmp_path / "policy")
    assert 1 in type(policy).load(tmp_path / "policy").lineage.clients
    assert 1 in toy_federation(RFS(), small_data(SIZES), select=DQN(policy=policy)).state.select_knows.clients
