"""The Python client, as it is installed: its two clients, and the retrievers of LangChain and LlamaIndex on it."""

import asyncio
from pathlib import Path

import pytest

from sluice_client import AsyncSluice, NewDocument, Sluice, SluiceError
from tests.integration.api import HERONS, LANTERN
from tests.integration.clients.site import Site
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_document_is_put_found_changed_read_and_deleted(quoting: Site) -> None:
    async with AsyncSluice(quoting.url, key=quoting.key) as sluice:
        put = await sluice.put("notes", "tea.md", "# Tea\n\nIt is in the blue tin.", tags=["kitchen"])
        again = await sluice.put("notes", "tea.md", "# Tea\n\nIt is in the blue tin.", tags=["kitchen"])
        assert put.document_id is not None
        changed = await sluice.change(put.document_id, title="Where the tea is")
        found = await sluice.find("notes", "tea.md")
        document = await sluice.document(put.document_id)
        chunks = [chunk async for chunk in sluice.chunks(put.document_id)]

        assert (put.status, put.chunk_count, again.status, changed.status) == ("created", 1, "unchanged", "updated")
        assert found is not None
        assert (found.document_id, found.title) == (put.document_id, "Where the tea is")
        assert (document.progress, document.tags, document.stages[-1].stage) == (100, ("kitchen",), "searchable")
        assert "blue tin" in await sluice.text(put.document_id) == chunks[0].text
        assert await sluice.original(put.document_id) == b"# Tea\n\nIt is in the blue tin."
        assert (await sluice.delete(put.document_id)).status == "deleted"
        assert await sluice.find("notes", "tea.md") is None
        assert {each.title async for each in sluice.documents(tags=["birds", "light"])} == {"Lantern", "Herons"}


async def test_the_blocking_client_does_the_same(quoting: Site, tmp_path: Path) -> None:
    file = tmp_path / "Fähre.md"
    file.write_text("# Ferry\n\nThe ferry leaves at nine.", encoding="utf-8")

    def run() -> None:
        with Sluice(quoting.url, key=quoting.key) as sluice:
            put = sluice.put_file("notes", file, tags=["boats"], metadata={"year": 1900})
            hits = sluice.search("When does the ferry leave?", top_k=1, filters={"year": 1900})
            answer = sluice.ask("When does the ferry leave?", filters={"tags": ["boats"]})

            assert (put.status, put.warnings) == ("created", ())
            assert (hits[0].document_id, hits[0].metadata["path"]) == (put.document_id, "Fähre.md")
            assert (answer.grounded, answer.citations[0].document_id) == (True, put.document_id)
            assert "at nine" in answer.text
            assert len(list(sluice.documents(q="Fähre"))) == 1

    await asyncio.to_thread(run)


async def test_many_documents_get_an_outcome_each(quoting: Site) -> None:
    documents = [NewDocument(source="many", path=f"{n}", text=f"Boat {n} is red.") for n in range(3)]
    bad = NewDocument(source="many", path="bad")

    async with AsyncSluice(quoting.url, key=quoting.key) as sluice:
        outcomes = await sluice.put_many([*documents, bad])
        none = await sluice.put_many([bad])

    assert [outcome.status for outcome in outcomes] == ["created", "created", "created", "failed"]
    assert (outcomes[3].path, outcomes[3].error, none[0].status) == ("bad", "text: is required", "failed")


async def test_who_does_not_wait_can_wait_later(quoting: Site) -> None:
    async with AsyncSluice(quoting.url, key=quoting.key) as sluice:
        accepted = await sluice.put("notes", "later.md", HERONS, wait_s=0)
        ended = await sluice.wait(accepted, timeout_s=60)
        broken = await sluice.put("notes", "broken.pdf", wait_s=0, chunks=["x" * 10, "word " * 400])
        with pytest.raises(SluiceError, match="400 tokens") as failed:
            await sluice.wait(broken, timeout_s=60)

    assert (accepted.status, accepted.ended, ended.status, ended.chunk_count) == ("accepted", False, "created", 1)
    assert failed.value.code == "CHUNK_TOO_LONG"


async def test_a_refusal_is_an_error_with_the_servers_sentence(quoting: Site) -> None:
    async with AsyncSluice(quoting.url, key=quoting.key) as sluice, AsyncSluice(quoting.url, key="wrong") as stranger:
        with pytest.raises(SluiceError, match="text: must not be empty") as refused:
            await sluice.put("notes", "tea.md", " ")
        with pytest.raises(SluiceError) as unknown:
            await sluice.document("0" * 8)
        with pytest.raises(SluiceError) as foreign:
            await stranger.search("tea")

    assert [error.value.code for error in (refused, unknown, foreign)] == ["INVALID", "NOT_FOUND", "UNAUTHENTICATED"]


async def test_langchains_retriever_gives_passages_with_their_scores(quoting: Site) -> None:
    from sluice_client.langchain import SluiceRetriever  # takes 1.4 s, and every worker imports this module

    async with AsyncSluice(quoting.url, key=quoting.key) as aclient:
        with Sluice(quoting.url, key=quoting.key) as client:
            retriever = SluiceRetriever(client=client, aclient=aclient, k=1, filters={"tags": ["light"]})
            awaited = await retriever.ainvoke("When is the lantern lit?")
            blocking = await asyncio.to_thread(retriever.invoke, "When is the lantern lit?")

    assert awaited == blocking
    assert (awaited[0].page_content, awaited[0].metadata["documentId"]) == (LANTERN, quoting.lantern)
    assert 0 < awaited[0].metadata["score"] <= 1


@CI_ONLY
async def test_llamaindexs_retriever_gives_nodes_with_their_scores(quoting: Site) -> None:
    from llama_index.core.schema import QueryBundle  # takes a second, and every worker imports this module

    from sluice_client.llama_index import SluiceRetriever as LlamaIndexRetriever

    async with AsyncSluice(quoting.url, key=quoting.key) as aclient:
        with Sluice(quoting.url, key=quoting.key) as client:
            retriever = LlamaIndexRetriever(client, aclient=aclient, similarity_top_k=1)
            awaited = await retriever.aretrieve(QueryBundle("When is the lantern lit?"))
            blocking = await asyncio.to_thread(retriever.retrieve, "When is the lantern lit?")

    assert [node.node.get_content() for node in awaited] == [node.node.get_content() for node in blocking] == [LANTERN]
    assert awaited[0].node.ref_doc_id == quoting.lantern
    assert 0 < (awaited[0].score or 0) <= 1
