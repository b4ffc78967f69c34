"""What a caller says reaches the model, whole and in order, or the reply says why not. On all routes that answer."""

from collections.abc import Iterator
from typing import Any

import pytest
import pytest_asyncio

from services.query_api.app import ApiParts
from shared.answers.ollama import OllamaAnswers
from shared.answers.prompt import Prompting
from shared.model_server.ollama import OllamaAddress
from tests.answering import models_of
from tests.integration.api import a_client, an_app, ingested, problem
from tests.integration.clients.site import Site
from tests.selection import CI_ONLY
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama

pytestmark = pytest.mark.asyncio(loop_scope="session")

PNG = "iVBORw0KGgo="
OPTIONS = {
    "temperature": 0.3,
    "top_p": 0.5,
    "top_k": 7,
    "min_p": 0.1,
    "repeat_penalty": 1.2,
    "seed": 3,
    "stop": ["END"],
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
REFUSAL = "I found nothing in the documents that answers this question."
ROUTES = ("/chat", "/api/chat AgentX", "/api/chat Ollama", "/v1/chat/completions", "/v1/responses")


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _a_wide_window(model: FakeOllama) -> None:
    model.window = 10**6


def a_conversation(messages: int, size: int) -> list[dict[str, str]]:
    """Return so many messages, together of about so many bytes, that end with a question."""
    roles = ("assistant", "user") if messages % 2 == 0 else ("user", "assistant")
    text = "It is said. " * (size // messages // 12)
    return [{"role": roles[n % 2], "content": f"{n}: {text}".strip()} for n in range(messages)]


async def told(site: Site, route: str, said: list[dict[str, Any]], **more: Any) -> Any:
    path, _, contract = route.partition(" ")
    match path, contract:
        case "/v1/responses", _:
            body: dict[str, Any] = {"model": CHAT_MODEL, "input": said}
        case ("/chat", _) | (_, "AgentX"):
            body = {"message": said[-1]["content"], "conversationHistory": said[:-1]}
        case _:
            body = {"model": CHAT_MODEL, "messages": said, "stream": False}
    return await site.http.post(path, json=body | more)


@CI_ONLY
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("messages", "size"), [(2, 100), (21, 12_000), (100, 55_000), (100, 200_000), (2, 200_000)])
async def test_a_conversation_arrives_as_it_was_sent_or_is_refused(
    chatting: Site, model: FakeOllama, route: str, messages: int, size: int
) -> None:
    said = a_conversation(messages, size)

    reply = await told(chatting, route, said)

    if size == 200_000:
        if route.startswith("/v1"):
            assert (reply.status_code, reply.json()["error"]["code"]) == (422, "conversation_too_long")
        else:
            assert "tokens, and the model takes 16384" in problem(reply, 422, "CONVERSATION_TOO_LONG")
        assert model.bodies("/api/chat") == []
    else:
        assert reply.status_code == 200
        [body] = model.bodies("/api/chat")
        assert body["messages"] == said
        assert size / 4 < body["options"]["num_ctx"] <= 16_384


@pytest.mark.parametrize("route", [*ROUTES, "/api/generate"])
async def test_every_route_takes_a_gate(chatting: Site, model: FakeOllama, route: str) -> None:
    question = "When is the lantern lit?"
    named: dict[str, Any] = {} if route in ("/chat", "/api/chat AgentX") else {"model": f"rag/{CHAT_MODEL}"}
    body = named or {"useRag": True}
    if route == "/api/generate":
        body |= {"prompt": question, "stream": False}
    said = [{"role": "user", "content": question}]

    open_ = await told(chatting, route, said, **body)
    shut = await told(chatting, route, said, **body, minScore=1.0, gate="each")

    assert (open_.status_code, shut.status_code) == (200, 200)
    assert (model.reply in open_.text, REFUSAL in open_.text) == (True, False)
    assert (model.reply in shut.text, REFUSAL in shut.text) == (False, True)


async def test_a_prompt_arrives_with_its_system_text_its_pictures_and_its_options(
    chatting: Site, model: FakeOllama
) -> None:
    prompt = "It is said. " * 4000
    body = {"model": CHAT_MODEL, "prompt": prompt, "system": "Be brief.", "images": [PNG], "options": OPTIONS}

    await chatting.http.post("/api/generate", json=body)

    [sent] = model.bodies("/api/chat")
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": prompt, "images": [PNG]},
    ]
    assert OPTIONS.items() <= sent["options"].items()


@pytest.mark.parametrize("route", ["/chat", "/api/chat AgentX", "/api/chat Ollama"])
async def test_pictures_tools_and_options_arrive(chatting: Site, model: FakeOllama, route: str) -> None:
    said: list[dict[str, Any]] = [{"role": "user", "content": "What is this?", "images": [PNG]}]
    more: dict[str, Any] = {"tools": [TOOL], "options": OPTIONS}
    if route != "/api/chat Ollama":
        more |= {"images": [PNG], "temperature": 0.3}

    assert (await told(chatting, route, said, **more)).status_code == 200

    [sent] = model.bodies("/api/chat")
    assert (sent["messages"], sent["tools"]) == (said, [TOOL])
    assert OPTIONS.items() <= sent["options"].items()


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/responses"])
async def test_pictures_in_parts_arrive(chatting: Site, model: FakeOllama, route: str) -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]

    await told(chatting, route, [{"role": "user", "content": parts}], temperature=0.3, top_p=0.5)

    [sent] = model.bodies("/api/chat")
    assert sent["messages"] == [{"role": "user", "content": "What is this?", "images": [PNG]}]
    assert (sent["options"]["temperature"], sent["options"]["top_p"]) == (0.3, 0.5)


async def test_with_documents_the_oldest_messages_give_way_and_the_reply_says_so(
    chatting: Site, model: FakeOllama
) -> None:
    said = [*a_conversation(100, 150_000)[:-1], {"role": "user", "content": "When is the lantern lit?"}]

    reply = await told(chatting, "/chat", said, useRag=True)

    [sent] = model.bodies("/api/chat")
    kept = len(sent["messages"]) - 2  # the instructions and the question
    assert 20 < kept < 50
    assert sent["messages"][1:-1] == said[-1 - kept : -1]
    [warning] = reply.json()["warnings"]
    assert f"the first {99 - kept} messages" in warning


async def test_a_bound_on_the_history_holds_only_beside_passages(
    parts: ApiParts, chat_server: FakeOllama, model: FakeOllama, tenants: Iterator[str]
) -> None:
    answers = OllamaAnswers(OllamaAddress(chat_server.url, CHAT_MODEL), Prompting(history=2), timeout_s=5)
    said = a_conversation(9, 500)
    body = {"message": said[-1]["content"], "conversationHistory": said[:-1]}
    async with a_client(an_app(parts, models=models_of(answers)), next(tenants)) as client:
        await client.post("/chat", json=body)
        await client.post("/chat", json=body | {"useRag": True})

    [plain] = model.bodies("/api/chat")
    assert plain["messages"] == said


async def test_the_context_s_length_is_told_and_is_never_more_than_the_model_s_own(
    parts: ApiParts, chat_server: FakeOllama, model: FakeOllama, tenants: Iterator[str]
) -> None:
    answers = OllamaAnswers(OllamaAddress(chat_server.url, CHAT_MODEL), timeout_s=5)
    model.own_context = 4096
    async with a_client(an_app(parts, models=models_of(answers)), next(tenants)) as client:
        listed = (await client.get("/v1/models")).json()["data"]
        shown = (await client.post("/api/show", json={"model": CHAT_MODEL})).json()
        await client.post("/chat", json={"message": "Hello"})
        long = await client.post("/chat", json={"message": "Hello. " * 3000})
    model.own_context = 131_072

    assert {each["context_length"] for each in listed if CHAT_MODEL in each["id"]} == {4096}
    assert shown["model_info"]["sluice.context_length"] == 4096
    assert model.bodies("/api/chat")[0]["options"]["num_ctx"] == 4096
    problem(long, 422, "CONVERSATION_TOO_LONG")


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_reach_the_model_where_nothing_was_found(chatting: Site, model: FakeOllama, stream: bool) -> None:
    body = {"model": f"rag/{CHAT_MODEL}", "tools": [TOOL], "stream": stream}
    asked = {"role": "user", "content": "zzqx vvkw?"}
    model.calls = [{"function": {"name": "weather", "arguments": {"town": "Oslo"}}}]
    called = await chatting.http.post("/v1/chat/completions", json=body | {"messages": [asked]})
    model.calls = []
    refused = await chatting.http.post("/v1/chat/completions", json=body | {"messages": [asked]})
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    result = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "Rain."}]
    answered = await chatting.http.post("/v1/chat/completions", json=body | {"messages": [asked, *result]})

    assert [sent["tools"] for sent in model.bodies("/api/chat")] == [[TOOL]] * 3
    assert '"weather"' in called.text
    assert model.reply.split()[0] not in called.text + refused.text
    assert REFUSAL in refused.text
    assert model.reply.split()[0] in answered.text  # from the tool's result


@pytest.mark.parametrize("path", ["/chat", "/api/chat"])
async def test_a_field_that_chat_does_not_know_is_named(chatting: Site, path: str) -> None:
    body = {"message": "When is the lantern lit?", "useRag": True, "ragFilter": {"tags": "light"}, "filters": {}}

    replies = [await chatting.http.post(path, json=body | {"stream": stream}) for stream in (False, True)]

    assert "ragFilter: there is no such field; did you mean ragFilters?" in replies[0].json()["warnings"]
    assert all("filters: there is no such field; did you mean ragFilters?" in reply.text for reply in replies)


@pytest.mark.parametrize("path", ["/chat", "/api/chat", "/v1/chat/completions", "/v1/responses"])
async def test_where_a_filter_belongs_is_said(quoting: Site, path: str) -> None:
    model = {"model": "rag/extractive", "messages": [{"role": "user", "content": "x"}], "input": "x", "tags": ["a"]}
    ours = {"message": "When is the lantern lit?", "useRag": True}

    reply = await quoting.http.post(path, json={**(model if "/v1/" in path else ours), "documentIds": ["a"]})

    said = "documentIds: there is no such field; did you mean ragFilters.documentIds?"
    assert reply.json()["warnings"] == [said]


LONG = "\n\n".join(f"# Pump {n}\n\n" + f"Pump {n} feeds tank {n}. " * 200 for n in range(40))
WHOLE = (
    *("Summarize this document", "What is the main topic?", "Worum geht es?", "Résume ce document", "Go on."),
    *("Give me an overview.", "Compare these documents.", "List the key points.", "TL;DR", "What is this about?"),
    *(
        "Resume este documento",
        "O czym jest ten tekst?",
        "请总结这份文件",
        "この文書を要約して",
        "Ana konu nedir?",
        "zzqx",
    ),
)


@CI_ONLY
@pytest.mark.parametrize("questions", [WHOLE[:1], pytest.param(WHOLE[1:], marks=CI_ONLY)], ids=["one", "others"])
async def test_chosen_documents_reach_the_model_whatever_is_asked(
    chatting: Site, model: FakeOllama, questions: tuple[str, ...]
) -> None:
    long = await ingested(chatting.http, LONG, path="pumps.md", title="Pumps")  # once: it is 4 s of work
    both = [chatting.herons, chatting.lantern]
    for number, question in enumerate(questions, 1):
        asked = {"question": question, "stream": False}

        one = (await chatting.http.post("/rag/query", json=asked | {"documentIds": both[:1]})).json()
        two = (await chatting.http.post("/rag/query", json=asked | {"documentIds": both})).json()
        spread = (await chatting.http.post("/rag/query", json=asked | {"documentIds": [long]})).json()
        by_path = {"message": question, "useRag": True, "ragFilters": {"path": "herons.md"}}
        filtered = (await chatting.http.post("/chat", json=by_path)).json()

        bodies = model.bodies("/api/chat")
        assert len(bodies) == 4 * number, question
        assert {each["docId"] for each in one["sources"]} == {chatting.herons}, question
        assert {each["docId"] for each in two["sources"]} == {*both}, question
        assert filtered["ragUsed"], question
        assert spread["chunksUsed"] > 10, question
        assert "passages of the chosen documents" in spread["warnings"][0], question
        read = bodies[-2]["messages"][-1]["content"]
        assert read.index("Pump 0 feeds") < read.index("Pump 20 feeds") < read.index("Pump 38 feeds"), question


async def test_a_threshold_of_the_request_still_refuses_what_was_chosen(chatting: Site, model: FakeOllama) -> None:
    tool = {"type": "file_search", "ranking_options": {"score_threshold": 0.99}}
    body = {"model": CHAT_MODEL, "input": "Summarize this", "tools": [tool], "ragFilters": {"path": "herons.md"}}

    reply = await chatting.http.post("/v1/responses", json=body)

    assert REFUSAL in reply.text
    assert model.bodies("/api/chat") == []


async def test_a_greeting_is_answered_without_documents(chatting: Site, model: FakeOllama) -> None:
    reply = (await chatting.http.post("/chat", json={"message": "Thank you!", "useRag": True})).json()

    assert (reply["ragUsed"], reply["response"]) == (False, model.reply)
    assert model.bodies("/api/chat")[0]["messages"] == [{"role": "user", "content": "Thank you!"}]


async def test_a_follow_up_that_finds_nothing_with_the_question_before_it_is_searched_alone(
    chatting: Site, model: FakeOllama
) -> None:
    await ingested(chatting.http, "The miller of the village is Jon Falk.", path="miller.md")
    turns = ["When is the lantern of the harbour lit in winter?", "At six.", "And who is the miller of the village?"]
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(turns)]
    asked = {"messages": messages, "useRag": True, "minScore": 0.5, "ragFilters": {"path": {"prefix": "miller"}}}

    reply = (await chatting.http.post("/chat", json=asked)).json()

    assert reply["ragUsed"]
    read = model.bodies("/api/chat")[0]["messages"]
    assert [each["content"] for each in read[-3:-1]] == turns[:2]
    assert "Jon Falk" in read[-1]["content"]


async def test_a_greeting_gets_one_without_a_language_model(quoting: Site) -> None:
    turns = [{"role": "user", "content": "नमस्ते"}]

    reply = (await quoting.http.post("/chat", json={"message": "Hello!", "useRag": True})).json()
    asked = await quoting.http.post("/v1/chat/completions", json={"model": "rag/extractive", "messages": turns})
    query = await quoting.http.post("/chat", json={"message": "Hello, when is the lantern lit?", "useRag": True})

    assert reply["response"].startswith("Hello!")
    assert (reply["ragUsed"], reply["citations"]) == (False, [])
    assert asked.json()["choices"][0]["message"]["content"].startswith("नमस्ते!")
    assert query.json()["ragUsed"]


@CI_ONLY
async def test_a_model_reads_as_many_passages_as_fit_and_others_as_many_as_they_ask_for(
    chatting: Site, model: FakeOllama
) -> None:
    for n in range(14):
        await ingested(chatting.http, f"Winch {n} lifts the anchor of ferry {n}.", path=f"winch-{n}.md")
    asked = {"message": "Which winch lifts the anchor of a ferry?", "useRag": True}

    many = (await chatting.http.post("/chat", json=asked)).json()
    two = (await chatting.http.post("/chat", json=asked | {"ragTopK": 2})).json()
    found = (await chatting.http.post("/rag/search", json={"query": asked["message"]})).json()

    assert 10 <= len(many["ragSources"]) <= 20
    assert (len(two["ragSources"]), len(found["results"])) == (2, 5)
    assert all(f"[{n}]" in model.bodies("/api/chat")[0]["messages"][-1]["content"] for n in range(1, 11))


async def test_neighbours_of_a_document_are_read_as_one_passage(chatting: Site, model: FakeOllama) -> None:
    text = "\n\n".join(f"## Buoy {n}\n\n" + f"Buoy {n} marks the channel of the buoys. " * 20 for n in range(3))
    document = await ingested(chatting.http, text, path="buoys.md", title="Buoys")
    asked = {"message": "What does each buoy of the channel mark?", "useRag": True}

    reply = (await chatting.http.post("/chat", json=asked)).json()

    sources = [each for each in reply["ragSources"] if each["documentId"] == document]
    read = model.bodies("/api/chat")[0]["messages"][-1]["content"]
    assert len(sources[0]["metadata"]["chunkIds"]) > 1
    assert read.index("Buoy 0 marks") < read.index("Buoy 1 marks") < read.index("Buoy 2 marks")


async def test_a_text_in_six_documents_is_read_once_with_its_other_places(chatting: Site, model: FakeOllama) -> None:
    for n in range(6):
        await ingested(chatting.http, "# Oil\n\nThe capstan is oiled on Fridays.", path=f"oil-{n}.md")

    await chatting.http.post("/chat", json={"message": "When is the capstan oiled?", "useRag": True})

    read = model.bodies("/api/chat")[0]["messages"][-1]["content"]
    assert read.count("oiled on Fridays") == 1
    assert [f"oil-{n}.md" for n in range(6) if f"oil-{n}.md" not in read] == []


async def test_texts_are_read_in_the_language_that_is_asked_for(chatting: Site, model: FakeOllama) -> None:
    variants = {"en": {"text": "The bollard is red."}, "de": {"text": "Der Poller ist rot."}}
    body = {"source": "s", "path": "bollard.md", "chunks": [{"languageVariants": variants}]}
    document = (await chatting.http.post("/rag/ingest", json=body)).json()["documentId"]
    asked = {"message": "What colour is the bollard?", "useRag": True, "language": "de"}
    chosen = {"question": asked["message"], "documentIds": [document], "language": "de"}

    await chatting.http.post("/chat", json=asked)
    await chatting.http.post("/rag/query", json=chosen)
    context = (await chatting.http.post("/rag/context", json={"query": asked["message"], "language": "de"})).json()

    for sent in (*(body["messages"][-1]["content"] for body in model.bodies("/api/chat")), context["context"]):
        assert "Der Poller ist rot." in sent
        assert "The bollard is red." not in sent
