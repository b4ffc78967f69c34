import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.settings import ConfigurationError
from shared.store.bm25 import Bm25, bm25_of
from shared.store.pairs import paired


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("東京都", "東京 京都"),
        ("京", "京"),
        ("I live in 東京都, Japan", "I live in 東京 京都 , Japan"),
        ("カタカナ", "カタ タカ カナ"),
        ("ที่นี่", "ที ีน นี"),  # without tone marks
        ("ນ້ຳ", "ນຳ"),
        ("naïve Größe привет हिन्दी 한국어", "naïve Größe привет हिन्दी 한국어"),
    ],
)
def test_runs_without_blanks_become_pairs_and_nothing_else_changes(text: str, pairs: str) -> None:
    assert paired(text).split() == pairs.split()


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_untouched(text: str) -> None:
    assert paired(text) == text


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


def test_an_index_is_read_with_the_tokenizer_it_was_built_with() -> None:
    assert bm25_of(Bm25().fingerprint).fingerprint == Bm25().fingerprint
    with pytest.raises(ConfigurationError, match="'another'"):
        bm25_of("another")
