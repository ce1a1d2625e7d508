import json
import math

import numpy as np
import pytest
import torch

import unknot
from support import small_data
from unknot.audit.canaries import Canaries, Guesses, confidences, guess, guessed, planted
from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.training import SGD, Recipe

KEY = Key.root(7)
TEN = Canaries(number=10)
RECIPE = Recipe(SGD(0.05), epochs=2, batch_size=10)


def digits():
    return unknot.federate(unknot.load("digits"), unknot.Iid(clients=4, samples=60), key=0, validation=50)


def texts():
    """Tokens, and a target at each of 4 positions."""
    data = small_data(shape=(4,))

    def words(samples):
        x = samples.x.round().long().clamp(0, 2)
        return Samples(x, x.roll(-1, 1), 3)

    return data.replaced(
        **{part: words(getattr(data, part)) for part in ("train", "test", "validation")}, public=None
    )


def held(data, client):
    return data.train.take(torch.from_numpy(data[client].rows))


def same(a, b):
    return all(torch.equal(mine, yours) for mine, yours in zip(a, b, strict=True))


def federation(data):
    return unknot.simulate("mlp", data, "rfs", RECIPE, evaluate_every=0)


def share(epsilon):
    """How often randomised response tells the truth."""
    return math.exp(epsilon) / (1 + math.exp(epsilon))


def chances(made, q):
    return [math.comb(made, k) * q**k * (1 - q) ** (made - k) for k in range(made + 1)]


def test_each_canary_is_in_by_a_coin_of_its_own():
    data = small_data()
    coins = np.array([planted(data, 1, TEN, Key.root(seed))[1] for seed in range(300)])
    assert np.abs(coins.mean(0) - 0.5).max() < 0.1
    assert np.abs(np.corrcoef(coins.T) - np.eye(10)).max() < 0.2
    assert coins.sum(1).std() == pytest.approx(math.sqrt(2.5), rel=0.15)


def test_the_same_key_draws_the_same_canaries_and_another_key_others():
    data = digits()
    _, inside, samples = planted(data, 2, Canaries(), KEY)
    _, again, repeated = planted(data, 2, Canaries(), KEY)
    _, other, others = planted(data, 2, Canaries(), Key.root(8))
    assert np.array_equal(inside, again)
    assert same((samples.x, samples.y), (repeated.x, repeated.y))
    assert not np.array_equal(inside, other)
    assert not torch.equal(samples.x, others.x)


def test_the_client_holds_its_own_samples_and_then_the_canaries_that_are_in():
    data = digits()
    after, inside, samples = planted(data, 2, TEN, KEY)
    mine = samples.subset(np.flatnonzero(inside))
    x, y = held(after, 2)
    assert same((x[:60], y[:60]), held(data, 2))
    assert same((x[60:], y[60:]), (mine.x, mine.y))
    assert after[2].ids.tolist() == list(range(60 + int(inside.sum())))
    assert len(samples) == 10


def test_nobody_elses_rows_move_or_change():
    data = digits()
    given = data.test.x.clone()
    after, _, samples = planted(data, 2, TEN, KEY)
    samples.x.zero_()
    for client in (0, 1, 3):
        assert np.array_equal(after[client].rows, data[client].rows)
        assert np.array_equal(after[client].ids, data[client].ids)
        assert same(held(after, client), held(data, client))
    assert after.test is data.test
    assert after.validation is data.validation
    assert torch.equal(data.test.x, given)


def test_a_new_id_is_none_that_was_erased_before():
    data = small_data()
    data.erase(1, [6, 7])
    after, inside, _ = planted(data, 1, TEN, KEY)
    assert after[1].ids.tolist() == [*range(6), *range(8, 8 + int(inside.sum()))]
    assert after.reduced == data.reduced


def test_a_client_without_samples_can_hold_canaries():
    after, inside, _ = planted(small_data(sizes=(0, 5)), 0, TEN, KEY)
    assert after[0].ids.tolist() == list(range(int(inside.sum())))


def test_a_canary_is_a_test_sample_with_any_of_the_wrong_labels():
    data = digits()
    _, _, samples = planted(data, 2, Canaries(number=2000), KEY)
    assert torch.equal(samples.x, data.test.x)
    off = (samples.y - data.test.y) % 10
    assert set(off.tolist()) == set(range(1, 10))
    assert off.bincount()[1:].min() > 150


def test_canaries_are_made_of_the_samples_that_are_given():
    data = small_data()
    pool = Samples(torch.full((10, 8), 9.0, dtype=torch.float64), torch.zeros(10, dtype=torch.int32), 3)
    after, inside, samples = planted(data, 1, TEN, KEY, pool)
    assert (samples.x == 9).all()
    assert set(samples.y.tolist()) == {1, 2}
    assert after.train.x.dtype == data.train.x.dtype
    assert after.train.y.dtype == data.train.y.dtype
    assert len(after.train) == len(data.train) + int(inside.sum())


def test_in_text_every_position_has_a_wrong_target():
    data = texts()
    after, _, samples = planted(data, 1, Canaries(number=12), KEY)
    assert samples.x.dtype == torch.long
    assert samples.y.shape == (12, 4)
    assert (samples.y != data.test.y).all()
    assert same(held(after, 0), held(data, 0))


def test_guesses_say_in_where_the_model_is_surest_and_out_where_it_is_least_sure():
    assert guess([0.3, -2.0, 5.0, 1.0, -7.0, 0.4], 4).tolist() == [0, -1, 1, 1, -1, 0]
    assert guess([0.3, -2.0, 5.0, 1.0, -7.0, 0.4], 6).tolist() == [-1, -1, 1, 1, -1, 1]


def test_what_any_model_believes_is_taken_off():
    assert guess([5.0, 4.0, 1.0, 0.0], 4, usual=[5.0, 2.0, 0.0, 0.0]).tolist() == [-1, 1, 1, -1]


def test_only_guesses_that_were_made_count():
    inside = np.array([True, True, False, False, True])
    assert Guesses.of(np.array([1, -1, -1, 1, 0]), inside) == Guesses(right=2, made=4, number=5)
    assert Guesses.of(np.array([1, 0, -1, 0, 0]), inside) == Guesses(right=2, made=2, number=5)


@pytest.mark.parametrize(("number", "share", "guesses"), [(200, 1.0, 200), (201, 1.0, 200), (50, 0.5, 24)])
def test_guesses_come_in_pairs(number, share, guesses):
    assert Canaries(number, share).guesses == guesses


@pytest.mark.parametrize("made", [1, 7, 200, 5000])
def test_p_is_the_exact_binomial_test(made):
    from scipy.stats import binomtest

    for right in {0, made // 3, made // 2, (made + 1) // 2, made * 3 // 5, made - 1, made}:
        found = Guesses(right, made, made)
        assert found.p == pytest.approx(binomtest(right, made, alternative="greater").pvalue, rel=1e-8)
        assert found.two_sided == pytest.approx(binomtest(right, made).pvalue, rel=1e-8)


def test_where_nothing_is_left_few_verdicts_are_false():
    draws = 2000
    scores = KEY.child("scores").uniform(np.arange(draws * 60)).reshape(draws, 60)
    coins = KEY.child("coins").uniform(np.arange(draws * 60)).reshape(draws, 60) < 0.5
    found = [Guesses.of(guess(mine, 40), inside) for mine, inside in zip(scores, coins, strict=True)]
    flagged = {one for one in set(found) if one.verdict() != "no trace found"}
    shown = {one for one in set(found) if one.p <= 0.05}
    error = 3 * math.sqrt(0.05 * 0.95 / draws)
    for rejected in (flagged, shown):
        assert 0.01 < sum(one in rejected for one in found) / draws < 0.05 + error


def test_verdicts():
    inside = KEY.uniform(np.arange(50)) < 0.5
    knows = inside + 0.1 * KEY.child("noise").uniform(np.arange(50))
    shows, over, none = (Guesses.of(guess(scores, 30), inside) for scores in (knows, -knows, np.arange(50)))
    assert shows.verdict() == "still shows"
    assert shows.right == shows.made == 30
    assert over.verdict() == "over-forgotten"
    assert over.p == pytest.approx(1)
    assert over.two_sided == shows.two_sided
    assert none.verdict() == none.verdict(kept=shows) == "no trace found"
    assert none.verdict(kept=none) == none.verdict(kept=over) == "no power"
    assert (shows.verdict(kept=shows), over.verdict(kept=shows)) == ("still shows", "over-forgotten")
    assert shows.verdict(kept=none) == over.verdict(kept=none) == "no power"
    assert Guesses(5, 5, 5).verdict() == "no trace found"


def test_epsilon_is_where_randomised_response_is_right_as_often():
    found = Guesses(right=35, made=40, number=60)
    epsilon = found.epsilon()
    assert sum(chances(40, share(epsilon))[35:]) == pytest.approx(0.05)
    assert found.epsilon(level=0.01) < epsilon < found.most()
    assert share(found.most()) == pytest.approx(0.05 ** (1 / 40))
    assert share(Guesses(5000, 5000, 5000).epsilon()) == pytest.approx(0.05 ** (1 / 5000))
    assert Guesses(20, 40, 60).epsilon() == Guesses(0, 40, 60).epsilon() == 0


def test_with_a_delta_epsilon_is_where_the_corrected_chance_meets_the_level():
    found = Guesses(right=35, made=40, number=60)
    epsilon = found.epsilon(delta=1e-4)
    chance = chances(40, share(epsilon))
    extra = max(sum(chance[35 - i : 35]) / i for i in range(1, 36))
    assert sum(chance[35:]) + 2 * 60 * 1e-4 * extra == pytest.approx(0.05)
    assert found.epsilon(delta=1e-3) < epsilon < found.epsilon()
    assert found.epsilon(delta=1.0) == 0


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_randomised_response_is_seldom_said_to_leak_more_than_it_does(epsilon, delta):
    """By the exact chance of each outcome. With a δ, each coin is shown as it is with that chance."""
    made = 40
    chance = chances(made, delta + (1 - delta) * share(epsilon))
    wrong = [k for k in range(made + 1) if Guesses(k, made, made).epsilon(delta) > epsilon + 1e-9]
    assert 0 < sum(chance[k] for k in wrong) <= 0.05


def test_a_mechanism_that_rarely_shows_all_coins_is_covered_by_delta_alone():
    made, rare = 18, 0.01
    chance = [(1 - rare) * one for one in chances(made, 0.5)]
    chance[made] += rare
    for delta, covered in ((0.0, False), (rare, True)):
        leaks = [k for k in range(made + 1) if Guesses(k, made, made).epsilon(delta) > 0]
        assert leaks
        assert (sum(chance[k] for k in leaks) <= 0.05) is covered


def test_a_kept_model_shows_its_canaries_and_one_that_forgot_does_not():
    canaries = Canaries(number=60)
    data, inside, samples = planted(digits(), 2, canaries, KEY)
    fed = federation(data)
    models = [fed.run(20).model, fed.run(10, requests=[unknot.erase(2, round=20)]).model]
    kept, found = (guessed(fed.engine, model, samples, inside, canaries) for model in models)
    assert kept.verdict() == "still shows"
    assert kept.p < 1e-9
    assert 1.5 < kept.epsilon() < kept.most()
    assert found.verdict(kept=kept) == "no trace found"
    assert found.epsilon() < 0.5
    usual = confidences(fed.engine, models[1], samples)
    assert guessed(fed.engine, models[0], samples, inside, canaries, usual).p < 1e-9


def test_a_federation_that_forgets_exactly_serves_the_same_however_the_coins_fall():
    one, other = (
        federation(planted(digits(), 2, TEN, Key.root(seed))[0])
        .run(3, requests=[unknot.erase(2, round=2)])
        .model
        for seed in (1, 2)
    )
    assert one.equal(other)


def test_what_is_found_is_told_in_plain_values():
    told = json.loads(json.dumps(Guesses(35, 40, 60).to_dict()))
    assert told["right"] == 35
    assert set(told) == {"right", "made", "number", "p", "two_sided", "epsilon", "most"}


def test_what_cannot_be_asked_is_refused():
    data = small_data()
    with pytest.raises(ConfigError, match="at least 2 canaries"):
        Canaries(number=1)
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        Canaries(share=0.0)
    with pytest.raises(ConfigError, match="12 samples to make canaries of: not enough for 200"):
        planted(data, 1, Canaries(), KEY)
    with pytest.raises(ConfigError, match="of another kind"):
        planted(data, 1, TEN, KEY, pool=digits().test)
    with pytest.raises(ConfigError, match="with one class there is none"):
        planted(small_data(classes=1), 1, TEN, KEY)
    with pytest.raises(ConfigError, match="in pairs"):
        guess([1.0, 2.0, 3.0], 3)
    with pytest.raises(ConfigError, match="in pairs"):
        guess([1.0, 2.0, 3.0], 4)
    with pytest.raises(ConfigError, match="diverged"):
        guess([1.0, math.nan], 2)
    with pytest.raises(ConfigError, match="that cannot be"):
        Guesses(3, 2, 2)
    with pytest.raises(ConfigError, match="the level between 0 and 1"):
        Guesses(2, 2, 2).epsilon(level=1.0)
