import pytest

from services.query_api.search.fusion import fuse
from services.query_api.search.scripts import reads

LATIN = ["high water", "Größe der Kühe", "İstanbul'da hava nasıl", "42 + 17", "", "naïve café 東京"]
OTHERS = ["東京タワー", "กรุงเทพ", "القاهرة", "दिल्ली", "Москва", "서울", "Αθήνα", "API 東京タワーの使い方"]


@pytest.mark.parametrize("query", LATIN)
def test_latin_letters_are_read(query: str) -> None:
    assert reads("all-MiniLM-L6-v2", query)


@pytest.mark.parametrize("query", OTHERS)
def test_other_scripts_are_not_unless_the_model_may(query: str) -> None:
    assert not reads("all-MiniLM-L6-v2", query)
    assert reads("multilingual-e5-small", query)


def test_a_leg_counts_by_its_weight() -> None:
    legs = {"dense": [("a", 0.9), ("b", 0.1)], "sparse": [("b", 9.0), ("a", 7.0)]}

    assert [each.id for each in fuse(legs, {"dense": 0.25})] == ["b", "a"]
    assert [each.id for each in fuse(legs, {"sparse": 0.25})] == ["a", "b"]
