"""Letters of shops: a text that needs no file."""

from unknot.core.keys import Key
from unknot.data.letters import PUBLIC, SHOPS, letters, of_shop

KEY = Key.root(0)


def test_the_same_key_writes_the_same_letters_and_more_of_them_begin_with_these():
    assert of_shop("Graz", 5, KEY) == of_shop("Graz", 8, KEY)[:5]
    assert of_shop("Graz", 5, KEY) != of_shop("Graz", 5, Key.root(1))


def test_every_place_is_filled_and_every_letter_is_of_the_usual_characters():
    for text in [*letters(PUBLIC, 200, KEY), *(text for town in SHOPS for text in of_shop(town, 50, KEY))]:
        assert "{" not in text
        assert text.isascii()
        assert len(text) <= 60


def test_a_shop_writes_of_its_own_goods_and_nobody_elses():
    goods = {town: set(words["good"]) for town, words in SHOPS.items()}
    for town, mine in goods.items():
        said = " ".join(of_shop(town, 60, KEY))
        assert all(good in said for good in mine)
        assert not any(good in said.split() for other in goods.keys() - {town} for good in goods[other])
    assert not set(PUBLIC["good"]) & set().union(*goods.values())
