"""Documents in scripts that the default model doesn't read, and that are written without blanks, are found."""

import httpx
import pytest

from tests.integration.api import ingested
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

# By language: what answers, what doesn't, the question.
LIBRARY = {
    "zh": ("渡轮每天早上九点从北岸出发。", "灯塔的灯每晚六点点亮。", "渡轮什么时候出发"),
    "ja": ("フェリーは毎朝九時に北の港を出ます。", "灯台の明かりは毎晩六時に灯されます。", "フェリーは何時に出ますか"),
    "th": ("เรือข้ามฟากออกจากท่าเรือทุกเช้าเวลาเก้าโมง", "ไฟประภาคารเปิดทุกเย็นเวลาหกโมง", "เรือข้ามฟากออกเมื่อไร"),
    "ar": ("تغادر العبارة الميناء كل صباح في التاسعة", "يضاء المصباح كل مساء في السادسة", "متى تغادر العبارة"),
    "hi": ("नाव हर सुबह नौ बजे बंदरगाह से निकलती है", "दीपक हर शाम छह बजे जलता है", "नाव कब निकलती है"),
    "ru": ("Паром отходит от причала в девять утра.", "Маяк зажигают каждый вечер в шесть.", "Когда отходит паром"),
    "ko": (
        "페리는 매일 아침 아홉 시에 항구를 떠납니다.",
        "등대는 저녁 여섯 시에 켜집니다.",
        "페리는 언제 떠납니까",
    ),
    "de": ("Die Fähre legt jeden Morgen um neun ab.", "Das Leuchtfeuer brennt abends.", "Wann legt die Fähre ab"),
    "tr": ("Vapur her sabah dokuzda iskeleden kalkar.", "Fener her akşam altıda yakılır.", "Vapur ne zaman kalkar"),
    "el": ("Το πλοίο φεύγει κάθε πρωί στις εννέα.", "Ο φάρος ανάβει κάθε βράδυ στις έξι.", "Πότε φεύγει το πλοίο"),
}


@CI_ONLY
async def test_a_question_finds_its_sentence_in_ten_languages(client: httpx.AsyncClient) -> None:
    for language, (right, wrong, _) in LIBRARY.items():
        for name, text in (("right", right), ("wrong", wrong)):
            await ingested(client, text, path=f"{language}/{name}", metadata={"lang": language})

    first: dict[str, str] = {}
    within: dict[str, str] = {}
    for language, (_, _, question) in LIBRARY.items():
        for found, filters in ((first, {}), (within, {"pathPrefix": f"{language}/"})):
            reply = await client.post("/rag/search", json={"query": question, "topK": 1, "filters": filters})
            [hit] = reply.json()["results"]
            found[language] = hit["metadata"]["path"]

    assert first == within == {language: f"{language}/right" for language in LIBRARY}
