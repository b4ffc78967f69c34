import pytest

from services.query_api.search.word_frequencies import capitals, reads, weight, weight_by_length
from tests.selection import CI_ONLY

READ = [
    "high water",
    "42 + 17",
    "",
    "opening hours of the café in 東京",
    "Kühe melken",  # two words may be names
    "redis straem manual acknowlege",
    "S-nitrosylated GAPDH and histone deacetylases",
    "Was ist der harbour master's phone number",
]
FOREIGN = [
    "Größe der Kühe auf dem Hof",
    "Vapur iskeleden saat kaçta kalkıyor",
    "¿A qué hora sale el barco?",
    "Auf welchem Port läuft die erzeugte Dokumentation?",
    "Comment créer une route vers la page courante",  # many of its words are English ones, too
    "Kết quả tìm kiếm có thể được lưu lại",  # without its accents, "thể" were an article
    "Jak dodać i usunąć wiersz",
]
OTHERS = ["東京タワー", "กรุงเทพ", "القاهرة", "दिल्ली", "Москва", "서울", "Αθήνα", "API 東京タワーの使い方"]


@pytest.mark.parametrize("query", READ)
def test_english_is_read_with_typos_terms_and_names(query: str) -> None:
    assert reads("all-MiniLM-L6-v2", query)


@pytest.mark.parametrize("query", [*FOREIGN, *OTHERS])
def test_other_languages_and_scripts_are_not_unless_the_model_may(query: str) -> None:
    assert not reads("all-MiniLM-L6-v2", query)
    assert reads("multilingual-e5-small", query)


def test_a_rarer_word_weighs_more_and_a_stop_word_nothing() -> None:
    assert weight("the") == 0
    assert 0 < weight("house") < weight("heron") < weight("xylotherapy")


def test_a_word_of_another_language_weighs_by_its_length() -> None:
    weights = [weight_by_length(word) for word in ("the", "mit", "Hafen", "Hafenmeister", "utf8", "東京", "색인가요")]
    assert weights == [0.0, 0.5, 4.0, 8.0, 5.0, 0.5, 0.5]


def test_a_capital_within_a_question_tells_a_name_or_a_noun_and_none_at_the_start_of_a_sentence() -> None:
    assert capitals("Jak przekonwertować szablony z Twiga?") == {"twiga"}
    assert capitals("Danke. Können Sie mir GPG und Schlüssel erklären? Bitte") == {"gpg", "schlussel"}
    assert capitals("JAK ZAINSTALOWAĆ GITA") == capitals("jak zainstalować gita") == frozenset()
    assert weight_by_length("twig", capital=True) == weight_by_length("vorlagenvererbung")


@CI_ONLY
@pytest.mark.timeout(60)
def test_a_word_of_any_length_is_weighed_in_linear_time() -> None:
    assert weight("é" * 100_000) == weight("é" * 1_000) == weight("x" * 100_000)
