"""What a careful searcher finds, by the kinds of faults that people reported: words, copies, numbers, follow-ups."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.integration.api import ingested

pytestmark = pytest.mark.asyncio(loop_scope="session")

# By kind: a text, and a query that spells its word in another way.
_SPELLED = {
    "K19 accents": ("Die Brücke über den Fluß schließt.", "brucke fluss"),
    "K19 accents: es": ("El piñón está roto.", "pinon"),
    "K19 accents: el": ("Το λιμάνι κλείνει.", "λιμανι"),
    "K19 strokes: pl": ("Przystań Płock jest zamknięta.", "plock"),
    "K19 full width": ("Valve ＱＲ７７ is stuck.", "QR77"),
    "K19 half width: ja": ("ｸﾚｰﾝは赤い。", "クレーン"),
    "K19 ligatures": ("The ﬂag of the oﬃcer is torn.", "flag officer"),
    "K19 joined by nothing": ("The sub\u200bway\u200b stops here.", "subway"),
    "K19 hyphens that are not shown": ("The break\u00adwater is old.", "breakwater"),
    "K19 vowels: ar": ("المِينَاءُ مغلق", "الميناء"),
    "K19 vowels: he": ("הַנָּמֵל סגור", "הנמל"),
    "K19 dotted I: tr": ("İskele kapalı.", "iskele"),
}
_KOREAN = {
    "등대의 문은 초록색입니다. 배는 저녁 일곱 시에 돌아옵니다.": "등대의 문은 무슨 색인가요?",
    "사다리는 창고에 있습니다. 밧줄은 보트에 있습니다.": "사다리",
}
_TERN = "# Barge Tern\n\nThe Tern sails at ten from quay one. A berth costs eleven crowns. Its mate is Ann Lund."
_AUK = "# Barge Auk\n\nThe Auk sails at dusk from quay six. A berth costs seven crowns. Its mate is Bo Dahl."

_WHOLE = (
    "# Barges\n\nBarges carry grain. Some carry sand.\n\n## Crews\n\nA barge has two hands.\n\n"
    "## Fees\n\nGrain is free. Sand is not."
)


async def _found(client: httpx.AsyncClient, query: str, **options: Any) -> list[dict[str, Any]]:
    reply = await client.post("/rag/search", json={"query": query, **options})
    assert reply.status_code == 200, reply.text
    hits: list[dict[str, Any]] = reply.json()["results"]
    return hits


async def _answer(client: httpx.AsyncClient, question: str, *before: str) -> str:
    """Return the answer, in a conversation of which only the questions matter."""
    said = [{"role": role, "content": text} for each in before for role, text in (("user", each), ("assistant", "-"))]
    body = {"message": question, "conversationHistory": said, "useRag": True}
    answer: str = (await client.post("/chat", json=body)).json()["response"]
    return answer


async def test_a_word_is_found_however_it_is_spelled(client: httpx.AsyncClient) -> None:
    for kind, (text, _) in _SPELLED.items():
        await ingested(client, text, path=kind)

    first = {kind: await _found(client, query, mode="sparse", topK=1) for kind, (_, query) in _SPELLED.items()}

    assert {kind: [hit["metadata"]["path"] for hit in hits] for kind, hits in first.items()} == {
        kind: [kind] for kind in _SPELLED
    }


async def test_a_korean_question_finds_its_text_and_is_answered(client: httpx.AsyncClient) -> None:
    for text in _KOREAN:
        await ingested(client, text, path=text)

    for text, question in _KOREAN.items():
        best = (await _found(client, question))[0]
        assert (best["text"], best["score"] > 0.02) == (text, True)
        assert text[:10] in await _answer(client, question)


async def test_copies_of_a_text_are_one_hit_and_one_passage_of_the_prompt(client: httpx.AsyncClient) -> None:
    copied, other = "# Oil\n\nThe crane is oiled on Fridays.", "# Paint\n\nThe crane was painted last spring."
    for at in range(6):
        await ingested(client, copied, path=f"{at}.md")
    await ingested(client, other, path="other.md")

    hits = await _found(client, "When is the crane oiled?", topK=5)
    context = (await client.post("/rag/context", json={"query": "When is the crane oiled?"})).json()["context"]

    assert sorted(hit["text"] for hit in hits) == [copied, other]
    assert (context.count(copied), context.count(other)) == (1, 1)


async def test_copies_of_a_plain_text_are_one_hit_and_a_passage_says_its_section(client: httpx.AsyncClient) -> None:
    files = {
        name: ("Berths\n======\n\nFees\n----\n\nNine crowns a night." if name == "b.md" else "No swell at night.")
        for name in ("one.txt", "two (1).txt", "b.md")
    }
    for name, text in files.items():
        await client.post("/rag/ingest/upload", files={"file": (name, text.encode())})

    hits = await _found(client, "Is there swell at night?")
    context = (await client.post("/rag/context", json={"query": "What is the fee a night?"})).json()["context"]

    assert [hit["text"] for hit in hits].count("No swell at night.") == 1
    assert "section Berths > Fees; of " in context


async def test_a_chosen_document_is_told_by_its_headings_without_a_model(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, _WHOLE, path="barges.md")
    await ingested(client, _TERN, path="tern.md")

    for question in ("Summarize this document", "What is the main topic?", "Worum geht es?"):
        body = {"message": question, "useRag": True, "ragFilters": {"path": "barges.md"}}
        reply = (await client.post("/chat", json=body)).json()
        assert reply["response"] == (
            "**Barges**\n\n- Barges carry grain. [1]\n- Crews: A barge has two hands. [1]\n- Fees: Grain is free. [1]"
        )
        assert {source["metadata"]["documentId"] for source in reply["ragSources"]} == {id_}
    asked = {"message": "How many hands has a barge?", "useRag": True, "ragFilters": {"path": "barges.md"}}
    assert (await client.post("/chat", json=asked)).json()["response"].startswith("A barge has two hands.")


async def test_a_number_is_one_number_however_it_is_written(client: httpx.AsyncClient) -> None:
    for value in (4.0, -3.0, 5000.0):
        await ingested(client, f"The lock is {value} deep.", path=str(value), metadata={"deep": value})

    asked: list[tuple[Any, float]] = [(4, 4), (4.0, 4), ([4], 4), ({"gte": 4, "lte": 4.0}, 4), (-3.0, -3), (5e3, 5000)]
    for filtered, number in asked:
        hits = await _found(client, "lock", filters={"deep": filtered})
        assert [float(hit["metadata"]["path"]) for hit in hits] == [number]


async def test_a_follow_up_may_change_the_subject_or_what_is_asked(client: httpx.AsyncClient) -> None:
    await ingested(client, _TERN, path="tern.md")
    await ingested(client, _AUK, path="auk.md")
    asked = ("When does the Tern sail?", "Who is its mate?", "And the Auk?", "What about the price there?")

    answers = [await _answer(client, question, *asked[:at]) for at, question in enumerate(asked)]

    for answer, (holds, lacks) in zip(
        answers, [("at ten", "dusk"), ("Ann Lund", "Bo"), ("Bo Dahl", "Ann"), ("seven crowns", "eleven")], strict=True
    ):
        assert holds in answer
        assert lacks not in answer


async def test_a_follow_up_about_something_else_is_answered_as_if_asked_alone(client: httpx.AsyncClient) -> None:
    await ingested(client, "# People\n\nThe harbour master is Ada Brook. She came in 2011.", path="harbour.md")
    await ingested(client, "# Mill\n\nThe mill grinds rye.\n\nThe miller is Otto Reed.", path="mill.md")

    for question in ("Who is the miller?", "And who is the miller?"):
        told = await _answer(client, question, "Who is the harbour master?")
        assert ("Otto Reed" in told, "Ada Brook" in told) == (True, False), told


@pytest.mark.parametrize(
    "question", ["And how old is the miller?", "How old is the miller of this mill?", "Who mends the mill wheel?"]
)
async def test_a_follow_up_without_an_answer_ends_however_it_is_read(client: httpx.AsyncClient, question: str) -> None:
    await ingested(client, "# People\n\nThe harbour master is Ada Brook. She came in 2011.", path="harbour.md")
    await ingested(client, "# Mill\n\nThe mill grinds rye.\n\nThe miller is Otto Reed.", path="mill.md")

    async with asyncio.timeout(60):
        told = await _answer(client, question, "Who is the harbour master?")

    assert "do not answer" in told or "nothing" in told


async def test_a_whole_question_is_answered_whatever_was_said_before(client: httpx.AsyncClient) -> None:
    await ingested(client, _TERN, path="tern.md")
    await ingested(client, "# Tower\n\nThe tower has 148 steps and no lift. Mia Rank mends the clock.", path="tower.md")
    await ingested(client, "# Clock\n\nOne winding of the clock lasts three hours.", path="clock.md")

    for question, holds in (
        ("Who mends the clock?", "Mia Rank"),
        ("Is there a lift in the tower?", "no lift"),
        ("How many steps are there in the tower?", "148"),
        ("How long does one winding last?", "three hours"),
    ):
        alone = await _answer(client, question)
        assert holds in alone
        for before in ("Where do the herons nest?", "Wann öffnet der Turm?", "How is the soup made?"):
            assert await _answer(client, question, before) == alone, before
        assert holds in await _answer(client, question, "When does the Tern sail?")
