"""Pages, groups, neighbours, variety, batches, and the context of a question."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from litestar import Litestar

from services.query_api.app import ApiParts
from tests.fakes.embedder import MemoryEmbedder
from tests.integration.api import HERONS, LANTERN, a_client, an_app, ingested, problem
from tests.selection import sampled

pytestmark = pytest.mark.asyncio(loop_scope="session")

SENTENCES = [f"Ferry number {n} leaves pier {n} at {n} o'clock, and comes back late." for n in range(1, 7)]
PARAGRAPHS = [" ".join([sentence] * 6) for sentence in SENTENCES]


async def searched(client: httpx.AsyncClient, query: str = "When does the ferry leave?", **how: Any) -> dict[str, Any]:
    reply = await client.post("/rag/search", json={"query": query, **how})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


@pytest.mark.feature(133, 134, 137)
async def test_pages_follow_each_other(client: httpx.AsyncClient) -> None:
    for n in range(12):
        await ingested(client, f"The ferry {n} leaves the pier.", path=str(n))

    whole = (await searched(client, topK=12))["results"]
    pages = [(await searched(client, topK=5, offset=offset))["results"] for offset in (0, 5, 10, 15)]

    assert [len(page) for page in pages] == [5, 5, 2, 0]
    assert [hit for page in pages for hit in page] == whole
    assert problem(await client.post("/rag/search", json={"query": "x", "topK": 10, "offset": 995}), 400)


async def test_a_text_in_six_documents_is_one_result_that_names_the_others(client: httpx.AsyncClient) -> None:
    rule = "# Tide rules\n\nThe sluice gate is opened two hours before high water by the warden on duty."
    ids = [await ingested(client, rule, path=f"copy{n}.md") for n in range(6)]
    await ingested(client, "# Gate paint\n\nThe sluice gate is painted grey every fourth year.", path="other.md")

    hits = (await searched(client, "When is the sluice gate opened?"))["results"]
    context = (await client.post("/rag/context", json={"query": "When is the sluice gate opened?"})).json()["context"]

    first = hits[0]["metadata"]
    assert {first["documentId"], *(copy["documentId"] for copy in first["copies"])} == {*ids}
    assert [hit["metadata"]["path"] for hit in hits].count("other.md") == 1
    assert sum("two hours before" in hit["text"] for hit in hits) == context.count("two hours before") == 1


async def test_results_of_one_document_are_limited_and_grouped(client: httpx.AsyncClient) -> None:
    await ingested(client, "\n\n".join(PARAGRAPHS), path="long", title="Ferries")
    await ingested(client, "One ferry leaves in summer only.", path="short")

    limited = (await searched(client, topK=10, perDocument=2))["results"]
    grouped = await searched(client, groupBy="document", topK=2, perDocument=3)
    second = await searched(client, groupBy="document", topK=1, offset=1)

    paths = [hit["metadata"]["path"] for hit in limited]
    assert (paths.count("long"), paths.count("short")) == (2, 1)
    assert grouped["results"] == []
    assert {group["path"]: len(group["results"]) for group in grouped["groups"]} == {"long": 3, "short": 1}
    for group in grouped["groups"]:
        assert group["score"] == max(hit["score"] for hit in group["results"])
        assert {hit["metadata"]["documentId"] for hit in group["results"]} == {group["documentId"]}
    assert [group["path"] for group in second["groups"]] == [grouped["groups"][1]["path"]]


async def test_a_hit_is_read_with_its_neighbours(client: httpx.AsyncClient) -> None:
    text = "\n\n".join(PARAGRAPHS)
    id_ = await ingested(client, text, path="long")
    stored = (await client.get(f"/rag/documents/{id_}/text")).text

    [hit] = (await searched(client, "Ferry number 4 leaves pier 4", topK=1, expand=1))["results"]
    [first] = (await searched(client, "Ferry number 1 leaves pier 1", topK=1, expand=5))["results"]

    around = hit["expanded"]
    assert around["start"] < hit["metadata"]["start"] < hit["metadata"]["end"] < around["end"]
    assert stored[around["start"] : around["end"]] == around["text"]
    assert first["expanded"]["start"] == 0


async def test_variety_puts_likenesses_back(client: httpx.AsyncClient) -> None:
    for n in range(5):
        await ingested(client, f"The ferry leaves the pier at nine, says poster {n}.", path=f"same{n}")
    await ingested(client, "In winter the ferry waits, as the ice is thick.", path="other")

    plain = (await searched(client, topK=3))["results"]
    varied = (await searched(client, topK=3, diversity=0.7))["results"]

    assert "other" not in [hit["metadata"]["path"] for hit in plain]
    assert "other" in [hit["metadata"]["path"] for hit in varied]
    assert varied[0] == plain[0]


async def test_a_batch_answers_each_query_as_if_it_were_alone(client: httpx.AsyncClient) -> None:
    await ingested(client, LANTERN, path="a")
    await ingested(client, HERONS, path="b")
    queries = [{"query": "lantern", "topK": 1}, {"query": "herons", "filters": {"path": "b"}}, {"query": "oil"}]

    reply = await client.post("/rag/search/batch", json={"queries": queries})

    alone = [(await client.post("/rag/search", json=query)).json() for query in queries]
    assert reply.json() == {"replies": alone}
    for bad, said in (
        ([], "queries"),
        ([{"query": "x"}, {"query": " "}], "queries[1].query"),
        ([{"query": "x", "topK": 0}], "queries[0]: topK"),
        ([{"query": "x", "filters": {"a": None}}], "queries[0].filters.a"),
    ):
        assert said in problem(await client.post("/rag/search/batch", json={"queries": bad}), 400)


@pytest.mark.feature(184)
async def test_the_context_is_what_a_prompt_would_have(client: httpx.AsyncClient) -> None:
    await ingested(client, LANTERN, path="a", title="Pier")

    found = (await client.post("/rag/context", json={"query": "When is the lantern lit?"})).json()
    nothing = (await client.post("/rag/context", json={"query": "blorptang fizzwickle mortgage"})).json()

    assert re.match(r"\[CONTEXT START\]\nboundary [0-9a-f]{16}\n\n\[1\] Pier: ", found["context"])
    assert LANTERN.splitlines()[-1] in found["context"]
    assert [(each["number"], each["title"]) for each in found["documents"]] == [(1, "Pier")]
    assert nothing == {"context": None, "documents": []}


async def test_null_means_not_given_but_not_within_filters(client: httpx.AsyncClient) -> None:
    await ingested(client, LANTERN)
    optional = ("topK", "filters", "mode", "minScore", "gate", "explain", "perDocument", "offset", "expand")

    assert await searched(client, "lantern", **dict.fromkeys(optional)) == await searched(client, "lantern")
    assert problem(await client.post("/rag/search", json={"query": "x", "filters": {"source": None}}), 400)
    assert problem(await client.post("/rag/search", json={"query": None}), 400).startswith("query")


@pytest.mark.feature(135, 136, 140, 141, 146, 148)
async def test_each_filter_restricts(client: httpx.AsyncClient) -> None:
    a = await ingested(client, LANTERN, path="guides/a.md", tags=["x", "y"], metadata={"year": 1900, "phase": "draft"})
    b = await ingested(client, LANTERN + " B", path="notes/b.md", tags=["y"], source="other", metadata={"year": 1950})

    async def found(**filters: Any) -> set[str]:
        hits = (await searched(client, "lantern", filters=filters))["results"]
        return {hit["metadata"]["documentId"] for hit in hits}

    assert await found(pathPrefix="guides/") == await found(path={"prefix": "gui"}) == await found(phase="draft") == {a}
    assert await found(year={"gt": 1900}) == await found(year={"gte": 1901, "lt": 1950.5}) == {b}
    assert await found(**{"not": {"tags": ["x"]}}) == await found(**{"not": {"source": "s"}}) == {b}
    assert await found(createdAt={"gte": "2020-01-01"}, updatedAt={"gt": "2020-01-01T00:00:00+02:00"}) == {a, b}
    assert await found(createdAt={"lt": "2020-01-01"}) == set()
    for filters, status in (
        ({"year": {"about": 1900}}, 422),
        ({"year": {}}, 422),
        ({"year": {"gte": None}}, 400),
        ({"createdAt": {"gte": "yesterday"}}, 400),
        ({"pathPrefix": ""}, 400),
        ({"not": {"not": {}}}, 400),
        ({"not": ["x"]}, 400),
    ):
        assert problem(await client.post("/rag/search", json={"query": "x", "filters": filters}), status)


@pytest.mark.feature(158)
async def test_a_follow_up_is_completed_and_explain_shows_it(client: httpx.AsyncClient) -> None:
    await ingested(client, "The harbour ferry comes back at seven in the evening.", path="ferry")
    await ingested(client, "The herons come back to the willow in spring.", path="herons")
    history = [
        {"role": "user", "content": "When does the harbour ferry leave?"},
        {"role": "assistant", "content": "At 9."},
    ]

    found = await searched(client, "And when does it come back?", conversationHistory=history, explain=True)
    chat = {"message": "And when does it come back?", "conversationHistory": history, "useRag": True, "ragTopK": 1}
    answered = (await client.post("/chat", json=chat)).json()

    assert found["query"] == "harbour ferry leave. And when does it come back?"
    assert found["results"][0]["metadata"]["path"] == "ferry"
    assert [source["metadata"]["path"] for source in answered["ragSources"]] == ["ferry"]


@pytest.mark.feature(142)
async def test_five_results_are_given_unless_the_request_says_otherwise(client: httpx.AsyncClient) -> None:
    for n in range(7):
        await ingested(client, f"The ferry {n} leaves the pier.", path=str(n))

    assert len((await searched(client))["results"]) == 5
    assert [len((await searched(client, topK=count))["results"]) for count in (3, 4, 7)] == [3, 4, 7]


@pytest.mark.feature(151, 152, 153, 154)
async def test_fixed_weights_change_the_order_and_no_score(client: httpx.AsyncClient) -> None:
    await ingested(client, "The ferry leaves.", path="short")
    await ingested(
        client, f"A boat. {HERONS} The ferry leaves the pier with a bell, and a whistle is blown.", path="long"
    )

    plain = (await searched(client, "ferry pier bell"))["results"]
    weighted = (await searched(client, "ferry pier bell", rerank="weights"))["results"]

    assert weighted[0]["metadata"]["path"] == "long"
    assert sorted(hit["score"] for hit in weighted) == sorted(hit["score"] for hit in plain)
    sentence = problem(await client.post("/rag/search", json={"query": "x", "rerank": "magic"}), 400)
    assert sentence.startswith("rerank: ")


async def test_facets_count_the_documents_that_match_the_filters(client: httpx.AsyncClient) -> None:
    year = {"year": 1900, "kind": {"of": "novel"}, "drafts": [1, True]}
    await ingested(client, "\n\n".join(PARAGRAPHS), path="a.md", tags=["x", "y"], metadata=year)
    await ingested(client, LANTERN, path="b.md", tags=["y"], metadata={"year": 1900})
    id_ = await ingested(client, HERONS, path="c.txt", source="other", metadata={"year": 1950})
    asked = ["source", "tags", "documentType", "year", "kind.of", "drafts", "nothing"]

    reply = (await searched(client, "lantern", topK=1, facets=asked))["facets"]
    within = (await searched(client, "lantern", facets=["year", "tags"], filters={"year": {"lt": 1950}}))["facets"]
    own = (await searched(client, "lantern", facets=["source", "tags"], filters={"source": "other"}))["facets"]

    assert list(reply) == asked
    assert reply["source"] == [{"value": "s", "documents": 2}, {"value": "other", "documents": 1}]
    assert reply["tags"] == [{"value": "y", "documents": 2}, {"value": "x", "documents": 1}]
    assert reply["year"] == [{"value": 1900, "documents": 2}, {"value": 1950, "documents": 1}]
    assert sum(each["documents"] for each in reply["documentType"]) == 3
    assert reply["kind.of"] == [{"value": "novel", "documents": 1}]
    assert [each["value"] for each in reply["drafts"]] == [1, True]
    assert reply["nothing"] == []
    assert within == {"year": [{"value": 1900, "documents": 2}], "tags": reply["tags"]}
    assert own == {"source": [{"value": "other", "documents": 1}], "tags": []}

    await ingested(client, HERONS + " They fish at night.", path="c.txt", source="other", metadata={"year": 1951})
    await client.delete(f"/rag/documents/{await ingested(client, 'Gone soon.', path='d')}")
    again = (await searched(client, "heron", facets=["source", "year"]))["facets"]
    assert again["source"] == reply["source"]
    assert again["year"] == [{"value": 1900, "documents": 2}, {"value": 1951, "documents": 1}]
    assert id_


async def test_facets_are_of_the_callers_tenant_and_their_names_are_checked(
    app: Litestar, client: httpx.AsyncClient, tenants: Iterator[str]
) -> None:
    await ingested(client, LANTERN, tags=["mine"])

    async with a_client(app, next(tenants)) as stranger:
        for facets in (["tags"], ["tags", "documentType"]):
            found = (await searched(stranger, "lantern", facets=facets))["facets"]
            assert found == {name: [] for name in facets}

    for names in (["tenant"], ["textBlob"], ["a..b"], [""], [f"f{n}" for n in range(9)]):
        assert "facets" in problem(await client.post("/rag/search", json={"query": "x", "facets": names}), 400)


@pytest.mark.parametrize(
    ("field", "options"),
    sampled(
        [
            ("query", {"query": " "}),
            ("offset", {"topK": 10, "offset": 995}),
            ("filters.year", {"filters": {"year": None}}),
            ("asOf", {"asOf": "yesterday"}),
            ("facets", {"facets": ["tenant"]}),
            ("rerank", {"rerank": "model"}),
            ("expansion", {"expansion": "model"}),
            ("expand", {"expand": 1, "topK": 101}),
            ("expand", {"expand": 1, "topK": 34, "groupBy": "document"}),
        ]
    ),
)
async def test_a_bad_option_is_refused_before_a_model_is_asked(
    parts: ApiParts, tenants: Iterator[str], field: str, options: dict[str, Any]
) -> None:
    model = MemoryEmbedder()
    bad = {"query": "lantern", **options}
    async with a_client(an_app(parts, embedder=model), next(tenants)) as client:
        alone = await client.post("/rag/search", json=bad)
        second = await client.post("/rag/search/batch", json={"queries": [{"query": "herons"}, bad]})

    assert problem(alone, 400).startswith(f"{field}: ")
    assert problem(second, 400).startswith(f"queries[1].{field}: ")
    assert model.asked == []
