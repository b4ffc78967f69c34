import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.store import Sparse
from shared.store.bm25 import Bm25

ENGLISH = Bm25()


@given(st.text())
def test_every_text_has_a_vector_the_store_takes(text: str) -> None:
    for vector in (ENGLISH.document(text), ENGLISH.query(text)):
        assert len(vector.indices) == len(vector.values) == len(set(vector.indices))
        assert all(0 <= index < 2**31 for index in vector.indices)
        assert all(value > 0 for value in vector.values)


def test_a_query_meets_the_document_by_its_stem() -> None:
    assert set(ENGLISH.query("the running").indices) <= set(ENGLISH.document("She runs a mile").indices)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Die Schlüssel werden täglich gewechselt.", "Größe der Schlüsseln"),
        ("Odkaz vede na stránku s položkami košíku.", "položka v košíky"),
        ("Документы меняются каждый день.", "замена документами"),
    ],
)
def test_a_query_meets_the_document_by_other_endings_of_its_words(text: str, query: str) -> None:
    document = ENGLISH.document(text)
    assert set(ENGLISH.query(query).indices) & set(document.indices)


def test_a_text_of_ascii_alone_has_no_terms_but_its_words() -> None:
    assert len(ENGLISH.document("raise ConfigurationError(message)").indices) == 3


def test_a_word_weighs_more_the_oftener_it_is_there_but_ever_less() -> None:
    once, twice, thrice = (ENGLISH.document("apple " * n).values[0] for n in (1, 2, 3))

    assert once < twice < thrice
    assert thrice - twice < twice - once


def test_stop_words_weigh_nothing() -> None:
    assert ENGLISH.document("the of and") == Sparse([], [])


def test_a_lone_surrogate_does_no_harm() -> None:
    assert ENGLISH.document("apple \ud800") == ENGLISH.document("apple ?")


async def test_many_documents_leave_the_loop_running() -> None:
    texts = [f"document {n} of apples and pears " * 500 for n in range(100)]
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    vectors = await ENGLISH.documents(texts)
    ticking.cancel()

    assert vectors == [ENGLISH.document(text) for text in texts]
    assert ticks > 1
    assert await ENGLISH.documents([]) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我昨天去了东京塔，天气很好。", "东京塔"),
        ("私は昨日東京タワーに行きました。", "東京タワー"),
        ("เมื่อวานนี้ฉันไปเที่ยวที่กรุงเทพมหานคร", "กรุงเทพ"),
        ("ຂ້ອຍໄປຢາມນະຄອນຫຼວງວຽງຈັນ", "ວຽງຈັນ"),
        ("ខ្ញុំបានទៅទស្សនាភ្នំពេញកាលពីម្សិលមិញ", "ភ្នំពេញ"),
        ("ကျွန်တော်မနေ့ကရန်ကုန်မြို့သို့သွားခဲ့သည်", "ရန်ကုန်"),
        ("Вчера я ездил в Москву.", "Москву"),
        ("سافرت أمس إلى القاهرة", "القاهرة"),
        ("मैं कल दिल्ली गया था", "दिल्ली"),
        ("나는 어제 서울에 갔다", "서울에"),
    ],
    ids=["Han", "Kana", "Thai", "Lao", "Khmer", "Myanmar", "Cyrillic", "Arabic", "Devanagari", "Hangul"],
)
def test_a_word_within_a_sentence_is_found_in_ten_scripts(text: str, query: str) -> None:
    found = set(Bm25().query(query).indices)

    assert found
    assert found <= set(Bm25().document(text).indices)


def _score(query: str, text: str) -> float:
    asked, document = ENGLISH.query(query), ENGLISH.document(text)
    there = dict(zip(document.indices, document.values, strict=True))
    return sum(value * there.get(index, 0.0) for index, value in zip(asked.indices, asked.values, strict=True))


@pytest.mark.parametrize(("accented", "plain"), [("schön", "schon"), ("résumé", "resume"), ("łódka", "lodka")])
def test_an_exact_form_weighs_more_than_a_folded_one(accented: str, plain: str) -> None:
    assert _score(accented, accented) > _score(accented, plain) > 0
    assert _score(plain, plain) > _score(plain, accented) > 0


def test_other_words_of_a_text_weigh_the_same_beside_accents() -> None:
    plain, accented = ENGLISH.document("plain tea"), ENGLISH.document("plain tea müllerin")

    assert accented.values[:2] == pytest.approx(plain.values, rel=0.01)


def test_short_words_of_a_foreign_query_weigh_less_than_its_others() -> None:
    question = "Wie kann ich die SSH-Schlüssel für git und x86 in 京都 finden?"
    plain, foreign = ENGLISH.query(question), ENGLISH.query(question, foreign=True)
    less = {
        index
        for index, before, after in zip(plain.indices, plain.values, foreign.values, strict=True)
        if after < before
    }

    assert foreign.indices == plain.indices
    assert less == set(ENGLISH.query("wie ich die für fur git und").indices)


def test_a_single_capital_within_a_foreign_query_is_a_name_and_none_at_the_beginning_of_a_sentence() -> None:
    question = "W jaki sposób wywołać C z języka R, C++ lub D? O tym później."
    foreign = ENGLISH.query(question, foreign=True)
    whole = {index for index, value in zip(foreign.indices, foreign.values, strict=True) if value == 1}

    assert whole.issuperset(ENGLISH.query("C R D").indices)
    assert whole.isdisjoint(ENGLISH.query("w z lub o tym").indices)


@pytest.mark.parametrize("question", ["東京のホテル", "كيف أجد بيت", "איך לגור בבית"], ids=["Kana", "Arabic", "Hebrew"])
def test_short_words_of_scripts_without_vowels_or_blanks_weigh_as_before(question: str) -> None:
    assert ENGLISH.query(question, foreign=True) == ENGLISH.query(question)
