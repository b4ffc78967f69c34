import random

import msgspec
import numpy as np
import pytest

from services.query_api.search.candidates import Candidate
from services.query_api.search.relevance import features, question, scorer_of
from services.query_api.search.word_table import FILE, SimilarWordTable, reads, similar_words, weight
from shared.embedder.minilm import WEIGHTS_SHA256, package_folder, tensors
from shared.text.words import stem
from tests.bench.similar_words import nearest, vocabulary

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


@pytest.mark.timeout(60)
def test_a_word_of_any_length_is_weighed_in_linear_time() -> None:
    assert weight("é" * 100_000) == weight("é" * 1_000) == weight("x" * 100_000)


@pytest.mark.parametrize(
    ("word", "similar"),
    [("cancer", "tumor"), ("doctor", "physician"), ("ship", "vessel"), ("buy", "purchas"), ("car", "automobil")],
)
def test_words_with_nearly_the_same_meaning_are_similar(word: str, similar: str) -> None:
    assert similar in dict(similar_words().of(word))


@pytest.mark.parametrize("word", ["kubernetes", "", "the", "Cancer", "σ", "ab cd"])
def test_a_word_that_is_not_in_the_table_has_no_similar_words(word: str) -> None:
    assert list(similar_words().of(word)) == []


def test_the_nearest_come_first_and_no_word_is_similar_to_itself() -> None:
    table = msgspec.msgpack.decode(FILE.read_bytes(), type=SimilarWordTable)

    for word in table.words:
        near = similar_words().of(word)
        cosines = [cosine for _, cosine in near]
        assert near
        assert stem(word) not in dict(near)
        assert len(dict(near)) == len(near)
        assert cosines == sorted(cosines, reverse=True)
        assert table.least - 0.002 <= cosines[-1] <= cosines[0] <= 1
    assert not any(weight(word) == 0 for word in table.words)


def test_the_table_is_what_the_packaged_model_says() -> None:
    table = msgspec.msgpack.decode(FILE.read_bytes(), type=SimilarWordTable)
    assert table.weights_sha256 == WEIGHTS_SHA256
    numbers = vocabulary()
    weights = tensors(np.memmap(package_folder() / "model.safetensors", dtype=np.uint8, mode="r"))
    vectors = np.array(weights["embeddings.word_embeddings.weight"])[list(numbers.values())]
    chosen = random.Random(7).sample(range(len(numbers)), 20)
    names = list(numbers)

    found = nearest(names, vectors, chosen)

    for at, near in zip(chosen, found, strict=True):
        assert list(near) == [other for other, _ in similar_words().of(names[at])]
        assert list(near.values()) == pytest.approx([cosine for _, cosine in similar_words().of(names[at])], abs=0.003)


def test_a_passage_with_similar_words_fits_better_than_one_without() -> None:
    asked = question("Which doctor treats cancer?")
    model = scorer_of("all-MiniLM-L6-v2")

    same, similar, other = (
        features(asked, Candidate(text, cosine=0.5))
        for text in ("The doctor treats cancer.", "A physician treats tumors.", "A heron treats winter.")
    )

    assert same.similar == other.similar == 0
    assert 0 < similar.similar < 1 - similar.coverage
    assert model.score(*other) <= model.score(*similar) <= model.score(*same)


def test_the_title_counts_and_each_word_by_its_nearest_one_only() -> None:
    asked = question("cancer treatment")

    titled = features(asked, Candidate("Nothing more.", ["Tumors"], cosine=0.5))
    once = features(asked, Candidate("Tumors.", cosine=0.5))
    often = features(asked, Candidate("Tumors, leukemia, chemotherapy; tumors.", cosine=0.5))

    assert 0 < titled.similar == once.similar
    assert once.similar <= often.similar < 1
