"""What a document's page tells: its fields, stages, progress and original; and the warnings of replies."""

import hashlib
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar
from structlog.testing import capture_logs

from services.query_api.app import ApiParts
from shared.blobs import collect
from shared.contracts import BlobRef
from shared.state.ledger import Entry
from shared.topics import SUBMITTED
from tests.contract.logs import until
from tests.integration.api import HERONS, LANTERN, MAX_BODY, a_client, ingested, problem
from tests.integration.pipeline import records_of
from tests.selection import CI_ONLY
from tests.unit.services.ingest_worker.files import a_pdf, a_zip, locked

pytestmark = pytest.mark.asyncio(loop_scope="session")

PDF_NAME = "Ünïcode <b>.bin"


async def shown(client: httpx.AsyncClient, id_: str) -> dict[str, Any]:
    reply = await client.get(f"/rag/documents/{id_}")
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


@pytest.mark.feature(26)
@pytest.mark.feature(32)
@pytest.mark.feature(55)
async def test_a_documents_view_tells_its_fields_and_when_it_passed_each_stage(client: httpx.AsyncClient) -> None:
    fields = {"title": "Pier", "description": "How it is lit", "tags": ["harbour"], "metadata": {"year": 1900}}

    document = await shown(client, await ingested(client, LANTERN, hash="v1", chunkSize=400, **fields))

    assert {name: document[name] for name in fields} == fields
    assert (document["hash"], document["chunkSize"], document["progress"]) == ("v1", 400, 100)
    assert (document["bytes"], document["sha256"]) == (len(LANTERN), hashlib.sha256(LANTERN.encode()).hexdigest())
    assert (document["documentType"], document["chunkCount"], document["state"]) == ("md", 1, "ready")
    assert [stage["stage"] for stage in document["stages"]] == ["received", "extracted", "chunked", "searchable"]
    times = [stage["at"] for stage in document["stages"]]
    assert times == sorted(times)
    assert all(stage["seconds"] >= 0 for stage in document["stages"][1:])


@pytest.mark.parametrize(
    ("ahead", "passed"),
    [(None, ["received"]), (1, ["received", "extracted"]), (0, ["received", "extracted", "chunked"])],
)
async def test_a_waiting_document_shows_which_stages_it_has_passed(
    parts: ApiParts, client: httpx.AsyncClient, ahead: int | None, passed: list[str]
) -> None:
    id_ = await ingested(client, LANTERN, path=f"{ahead}.md")

    def waiting(seen: Entry | None) -> Entry:
        assert seen is not None
        version = 0 if ahead is None else seen.accepted.version + ahead  # its chunks are there; or those of no version
        last = msgspec.structs.replace(seen.last, status="accepted", version=version, extracted_at=0, chunked_at=0)
        return msgspec.structs.replace(seen, last=last)

    await parts.ledger.update(id_, waiting)

    assert [each["stage"] for each in (await shown(client, id_))["stages"]] == passed


@pytest.mark.feature(34)
async def test_a_document_is_found_in_lists_by_its_description(client: httpx.AsyncClient) -> None:
    await ingested(client, LANTERN, path="a.md", description="How the PIER is lit")
    await ingested(client, HERONS, path="b.md")

    found = (await client.get("/rag/documents", params={"q": "pier a.md"})).json()["items"]

    assert [item["path"] for item in found] == ["a.md"]


async def test_a_list_leaves_out_what_only_the_documents_view_has(client: httpx.AsyncClient) -> None:
    await ingested(client, LANTERN, metadata={"year": 1900})

    [item] = (await client.get("/rag/documents")).json()["items"]

    assert not item.keys() & {"metadata", "stages", "progress", "sha256"}


async def test_a_patch_keeps_what_is_known_of_the_body(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, LANTERN, hash="v1", metadata={"year": 1900})
    before = await shown(client, id_)

    await client.patch(f"/rag/documents/{id_}", json={"description": "New"})
    after = await shown(client, id_)

    assert (after["description"], after["metadata"]) == ("New", {"year": 1900})
    assert [after[name] for name in ("sha256", "bytes", "hash")] == [
        before[name] for name in ("sha256", "bytes", "hash")
    ]
    assert (await client.get(f"/rag/documents/{id_}/original")).text == LANTERN


async def test_a_failed_submission_shows_where_it_ended(client: httpx.AsyncClient) -> None:
    reply = await client.post("/rag/ingest/upload", files={"f": ("a.pdf", b"%PDF-1.4 broken")})
    document = await shown(client, reply.json()["details"]["documentId"])

    assert (document["status"], document["progress"], document["state"]) == ("failed", 100, "failed")
    assert [stage["stage"] for stage in document["stages"]] == ["received", "failed"]


async def test_what_could_not_be_read_is_told_wherever_the_document_is(client: httpx.AsyncClient) -> None:
    begin = (await client.get("/rag/changes")).json()["cursor"]
    note = {"code": "unsupported", "place": "a.bin", "message": "a.bin is neither text nor in a supported format"}
    file = ("all.zip", a_zip({"a.bin": b"\0\1\2" * 99, "b.md": "Low tide."}), "application/zip")

    sent = (await client.post("/rag/ingest/upload", files={"f": file})).json()
    again = (await client.post("/rag/ingest/upload", files={"f": file})).json()
    knowledge = (await client.post("/knowledge-base", files={"f": file}, headers={"Prefer": "wait=60"})).json()
    patched = await client.patch(f"/rag/documents/{sent['documentId']}", json={"title": "Tides"})
    document = await shown(client, sent["documentId"])
    [item] = (await client.get("/rag/documents")).json()["items"]
    changes = (await client.get("/rag/changes", params={"cursor": begin})).json()["items"]
    whole = await client.post("/rag/ingest/upload", files={"f": ("all.zip", a_zip({"b.md": "Low tide."}))})

    assert (sent["status"], again["status"]) == ("created", "unchanged")
    for told in (sent, again, patched.json(), document, item):
        assert (told["notes"], told["noteCount"]) == ([note], 1)
    assert knowledge["notes"] == [note]
    assert {(each["noteCount"], *each["noteCodes"]) for each in changes} == {(1, "unsupported")}
    assert "a.bin" not in str(changes)
    assert "notes" not in whole.json()
    assert "notes" not in await shown(client, sent["documentId"])


async def test_what_a_file_says_about_itself_is_found_filtered_and_shown(client: httpx.AsyncClient) -> None:
    front = "---\nauthor: Zwetschgina Plum\nreviewers: [Ada, Bo]\ncreated: 2024-05-01\n---\n"
    text = f"{front}# Tide\n\nIt rose."
    fields = {"metadata": '{"file": {"author": "a sender"}, "year": 1900}'}
    sent = await client.post("/rag/ingest/upload", data=fields, files={"f": ("tide.md", text, "text/markdown")})
    await ingested(client, HERONS, metadata={"file": {"author": "Zwetschgina Plum"}})
    says = {"author": "Zwetschgina Plum", "reviewers": ["Ada", "Bo"], "created": "2024-05-01"}

    async def hits(query: str, **filters: Any) -> list[dict[str, Any]]:
        reply = await client.post("/rag/search", json={"query": query, "filters": filters})
        return [each["metadata"] for each in reply.json()["results"]]

    found = await hits("Zwetschgina")
    assert (await hits("Who are the reviewers?"))[0]["file"] == says
    filtered = [
        await hits("birds", **{name: value})
        for name, value in (
            ("file.author", "Zwetschgina Plum"),
            ("file.reviewers", "Bo"),
            ("file.created", {"gte": "2024-05-01", "lt": "2025-01-01"}),
        )
    ]

    assert [each["file"] for each in (found[0], *(each for [each] in filtered))] == [says] * 4
    assert (await shown(client, sent.json()["documentId"]))["file"] == says
    assert await hits("birds", **{"file.author": "a sender"}) == []


@pytest.mark.parametrize("value", [2.0, 1000.0, -1.0, 2])
async def test_a_whole_number_is_found_however_it_is_written(client: httpx.AsyncClient, value: float) -> None:
    await ingested(client, HERONS, metadata={"v": value, "within": [{"w": value}]})

    for filters in ({"v": float(value)}, {"v": int(value)}, {"v": {"gte": value, "lte": value}}):
        reply = await client.post("/rag/search", json={"query": "herons", "filters": filters})
        assert [each["metadata"]["within"] for each in reply.json()["results"]] == [[{"w": value}]]


@CI_ONLY
@pytest.mark.feature(54)
@pytest.mark.parametrize("size", [100, MAX_BODY // 2])  # in the record, and as a blob
async def test_the_original_is_a_download_that_runs_nothing(client: httpx.AsyncClient, size: int) -> None:
    body = b"<script>alert(1)</script>\n" + b"Herons nest here. " * (size // 18)
    sent = await client.post("/rag/ingest/upload", files={"f": (PDF_NAME, body, "text/html")})

    reply = await client.get(f"/rag/documents/{sent.json()['documentId']}/original")

    assert (reply.status_code, reply.content) == (200, body)
    assert reply.headers["content-type"].startswith("text/html")
    assert reply.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%C3%9Cn")
    assert (reply.headers["x-content-type-options"], reply.headers["content-security-policy"]) == ("nosniff", "sandbox")


async def test_a_page_of_a_pdf_is_shown_as_a_picture_while_its_original_is_kept(client: httpx.AsyncClient) -> None:
    sent = await client.post(
        "/rag/ingest/upload", files={"f": ("tide.pdf", a_pdf("The tide falls."), "application/pdf")}
    )
    original = f"/rag/documents/{sent.json()['documentId']}/original"

    shown = await client.get(original, params={"page": 1})

    assert (shown.status_code, shown.headers["content-type"], shown.content[:4]) == (200, "image/png", b"\x89PNG")
    problem(await client.get(original, params={"page": 2}), 404, "NOT_FOUND")
    assert (await client.get(original, params={"page": 0})).status_code in (400, 422)
    text = f"/rag/documents/{await ingested(client, LANTERN)}/original"
    problem(await client.get(text, params={"page": 1}), 404, "NOT_FOUND")


async def test_a_repeated_submission_keeps_the_original_at_hand(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, LANTERN)
    assert await ingested(client, LANTERN) == id_

    assert (await client.get(f"/rag/documents/{id_}/original")).text == LANTERN


@pytest.mark.parametrize("door", ["text", "file"])
async def test_a_document_is_read_again_where_its_reader_has_changed(
    client: httpx.AsyncClient, parts: ApiParts, door: str
) -> None:
    fields: dict[str, Any] = {"title": "Pier", "description": "Lit", "tags": ["harbour"]}
    if door == "text":
        id_ = await ingested(client, LANTERN, metadata={"year": 1900}, **fields)
    else:
        more = {**fields, "metadata": '{"year": 1900}', "chunkSize": "400"}
        sent = await client.post("/rag/ingest/upload", data=more, files={"f": ("a.md", LANTERN, "text/markdown")})
        id_ = sent.json()["documentId"]
    before = await shown(client, id_)
    fresh = (await client.post(f"/rag/documents/{id_}/reread")).json()
    entry = await parts.ledger.get(id_)
    assert entry is not None

    def as_of_older(reader: str, text: BlobRef | None) -> Callable[[Entry | None], Entry | None]:
        older = msgspec.structs.replace(entry.accepted, extractor=reader, text=text)
        return lambda seen: seen and msgspec.structs.replace(seen, accepted=older)

    await parts.ledger.update(id_, as_of_older("md:0", entry.accepted.text))
    same = (await client.post(f"/rag/documents/{id_}/reread")).json()
    await parts.ledger.update(id_, as_of_older("md:1", BlobRef(sha256="0" * 64, size=1)))
    other = (await client.post(f"/rag/documents/{id_}/reread")).json()

    assert [each["status"] for each in (fresh, same, other)] == ["unchanged", "unchanged", "updated"]
    after = await shown(client, id_)
    for name in ("title", "description", "tags", "metadata", "sha256", "chunkCount"):
        assert after[name] == before[name]
    assert after.get("chunkSize") == before.get("chunkSize")


@CI_ONLY
async def test_a_locked_file_is_read_with_its_senders_password_which_stays_nowhere(
    client: httpx.AsyncClient, parts: ApiParts
) -> None:
    file = {"f": ("a.pdf", locked(a_pdf("Low tide."), "geheim-4711"), "application/pdf")}
    with capture_logs() as logged:
        sent = await client.post("/rag/ingest/upload", data={"password": "geheim-4711"}, files=file)
        again = await client.post("/rag/ingest/upload", data={"password": "geheim-4711"}, files=file)
    wrong = await client.post("/rag/ingest/upload", data={"password": "another"}, files={"f": ("b.pdf", file["f"][1])})
    without = await client.post("/rag/ingest/upload", files={"f": ("c.pdf", file["f"][1])})
    in_address = await client.post("/rag/ingest/upload", params={"password": "x"}, content=b"text")

    assert (sent.json()["status"], again.json()["status"]) == ("created", "unchanged")
    assert "Low tide" in (await client.get(f"/rag/documents/{sent.json()['documentId']}/text")).text
    assert "password" in problem(wrong, 422, "PASSWORD")
    assert "password" in problem(without, 422, "PASSWORD")
    problem(in_address, 400)
    assert "geheim-4711" not in str(logged) + str(await records_of(parts.log, SUBMITTED))


@CI_ONLY
async def test_what_is_gone_says_what_decides_how_long_originals_are_kept(
    client: httpx.AsyncClient, parts: ApiParts
) -> None:
    deleted = await ingested(client, LANTERN, path="deleted")
    await client.delete(f"/rag/documents/{deleted}")
    body = HERONS.encode() * 5000
    large = await client.post("/rag/ingest/upload", files={"f": ("large.txt", body)})
    document = await shown(client, large.json()["documentId"])
    entry = await parts.ledger.get(document["documentId"])
    assert entry is not None
    await collect(parts.blobs, (entry.tenant, entry.document_id), frozenset(), -60.0)

    gone = problem(await client.get(f"/rag/documents/{document['documentId']}/original"), 404, "NOT_KEPT")

    assert "documents.submitted keeps what was sent for 7 days" in gone
    assert "deleted" in problem(await client.get(f"/rag/documents/{deleted}/original"), 404, "NOT_KEPT")


async def test_source_and_path_name_the_one_document_to_delete(client: httpx.AsyncClient) -> None:
    await ingested(client, LANTERN, path="a/b.md")
    await ingested(client, HERONS, path="c.md")

    gone = await client.delete("/rag/documents", params={"source": "s", "path": "a/b.md"})
    left = (await client.get("/rag/documents", params={"source": "s"})).json()["items"]

    assert (gone.json()["matched"], gone.json()["items"][0]["status"]) == (1, "deleted")
    assert [item["path"] for item in left] == ["c.md"]
    problem(await client.delete("/rag/documents", params={"source": "s", "path": "none"}), 404)


@pytest.mark.parametrize(
    "query",
    [
        {"source": "s", "path": ""},
        {"path": "c.md"},
        {"source": "", "path": "c.md"},
        {"source": ""},
        {"source": "s", "path": "c.md", "confirm": "1"},
        {"source": "s", "path": ["c.md", "d.md"]},
    ],
)
async def test_an_empty_or_missing_name_never_deletes_more(client: httpx.AsyncClient, query: Any) -> None:
    await ingested(client, HERONS, path="c.md")

    problem(await client.delete("/rag/documents", params=query), 400, "INVALID")

    assert len((await client.get("/rag/documents")).json()["items"]) == 1


async def test_a_missing_path_is_counted_and_confirmed(client: httpx.AsyncClient) -> None:
    await ingested(client, HERONS, path="c.md")

    counted = await client.delete("/rag/documents", params={"source": "s"})

    assert (counted.json()["matched"], counted.json()["items"]) == (1, [])
    assert counted.json()["message"] == "nothing was deleted yet: send confirm=1 to delete 1 document"
    none = await client.request("DELETE", "/rag/documents", json={"filters": {"source": ["nowhere"]}})
    assert (none.json()["matched"], none.json()["message"]) == (0, "no document matches")
    assert len((await client.get("/rag/documents")).json()["items"]) == 1


# Warnings


async def test_unknown_fields_are_taken_ignored_and_named(client: httpx.AsyncClient) -> None:
    body = {"source": "s", "path": "p", "text": LANTERN, "titel": "Lantern"}

    by_json = await client.post("/rag/ingest", json=body)
    by_form = await client.post("/rag/ingest", data=body)
    by_upload = await client.post("/rag/ingest/upload", data={"titel": "x"}, files={"f": ("a.txt", b"Herons.")})
    search = await client.post("/rag/search", json={"query": "lantern", "topk": 3})

    assert (by_json.status_code, by_json.json()["status"]) == (200, "created")
    for reply in (by_json, by_form, by_upload):
        assert reply.json()["warnings"] == ["titel: there is no such field; did you mean title?"]
    assert search.json()["warnings"] == ["topk: there is no such field; did you mean topK?"]
    assert "warnings" not in (await client.post("/rag/search", json={"query": "lantern"})).json()


@pytest.mark.parametrize(
    ("method", "path", "body", "near"),
    [
        ("POST", "/rag/ingest", {"source": "s", "path": "p", "txt": LANTERN}, "txt: text"),
        ("POST", "/rag/ingest", {"SOURCE": "s", "path": "p", "text": LANTERN}, "SOURCE: source"),
        ("POST", "/rag/search", {"qery": "lantern"}, "qery: query"),
        ("POST", "/rag/query", {"question": "lantern", "documentId": ["x"]}, "documentId: documentIds"),
        ("POST", "/chat", {"mesage": "lantern", "useRag": True}, "mesage: message"),
        ("POST", "/chat", {"message": "lantern", "UseRAG": True}, "UseRAG: useRag"),
        ("PATCH", "/rag/documents/d", {"tagz": ["a"]}, "tagz: tags"),
        ("DELETE", "/rag/documents", {"filter": {"source": "s"}}, "filter: filters"),
    ],
)
async def test_a_refusal_names_the_unknown_fields_too(
    client: httpx.AsyncClient, method: str, path: str, body: dict[str, Any], near: str
) -> None:
    reply = await client.request(method, path, json=body)
    field, _, meant = near.partition(": ")

    assert reply.status_code >= 400
    assert f"{field}: there is no such field; did you mean {meant}?" in reply.text


async def test_who_asks_for_strict_handling_is_refused(client: httpx.AsyncClient) -> None:
    strict = {"Prefer": "wait=20, handling=strict"}
    body = {"source": "s", "path": "p", "text": LANTERN}

    sentence = problem(await client.post("/rag/ingest", json=body | {"x": 1}, headers=strict), 400, "INVALID")
    taken = await client.post("/rag/ingest", json=body, headers=strict)
    batch = await client.post("/rag/ingest/batch", json=[body, body | {"path": "q", "x": 1}], headers=strict)

    assert sentence == "x: there is no such field"
    assert taken.json()["status"] == "created"
    assert [item["status"] for item in batch.json()["items"]] == ["unchanged", "failed"]


async def test_clients_of_other_products_may_send_what_they_like(client: httpx.AsyncClient) -> None:
    body = {"model": "rag/extractive", "messages": [{"role": "user", "content": "lantern"}], "frequency_penalty": 0}

    completion = await client.post("/v1/chat/completions", json=body, headers={"Prefer": "handling=strict"})
    chat = await client.post("/chat", json={"message": "lantern", "useRag": True, "provider": "x"})

    assert completion.status_code == chat.status_code == 200
    assert "warnings" not in completion.json()
    assert chat.json()["warnings"] == ["provider: there is no such field"]


@pytest.mark.feature(23)
async def test_a_hash_is_shown_doubted_and_decides_nothing(client: httpx.AsyncClient) -> None:
    right, wrong = hashlib.sha256(LANTERN.encode()).hexdigest(), "0" * 64
    body = {"source": "s", "path": "p", "text": LANTERN}

    first = (await client.post("/rag/ingest", json=body | {"hash": right})).json()
    again = (await client.post("/rag/ingest", json=body | {"hash": wrong})).json()
    changed = (await client.post("/rag/ingest", json=body | {"hash": right, "text": HERONS})).json()

    assert (first["status"], again["status"], changed["status"]) == ("created", "unchanged", "updated")
    assert "warnings" not in first
    assert again["warnings"] == [f"hash: the body's sha256 is {right}, not the one that was sent"]
    assert len(changed["warnings"]) == 1
    assert (await shown(client, first["documentId"]))["hash"] == right


async def test_each_item_of_a_batch_names_its_document_and_its_warnings(client: httpx.AsyncClient) -> None:
    items = [
        {"source": "s", "path": "a", "text": LANTERN, "titel": "x"},
        {"source": "s", "path": "b", "txt": HERONS},
        {"source": "s", "path": "a", "text": HERONS},
        5,
    ]

    reply = await client.post("/rag/ingest/batch", json=items, headers={"Prefer": "wait=20"})

    told = reply.json()["items"]
    assert [(item.get("source"), item.get("path")) for item in told] == [
        ("s", "a"),
        ("s", "b"),
        ("s", "a"),
        (None, None),
    ]
    assert [item["status"] for item in told] == ["superseded", "failed", "updated", "failed"]
    assert told[0]["warnings"] == ["titel: there is no such field; did you mean title?"]
    assert told[1]["warnings"] == ["txt: there is no such field; did you mean text?"]


async def test_a_sender_that_may_not_read_sees_how_its_submission_ended(parts: ApiParts, app: Litestar) -> None:
    async with a_client(app) as writer:
        writer.headers["X-API-Key"] = "key-writer"
        body = {"source": "s", "path": "mine.md", "text": LANTERN, "title": "Pier", "metadata": {"year": 1900}}
        sent = await writer.post("/rag/ingest", json=body, headers={"Prefer": "respond-async"})
        seen: dict[str, Any] = {}

        async def ended() -> bool:
            seen.update((await writer.get(sent.headers["Location"])).json())
            return bool(seen["status"] != "accepted")

        await until(ended)
        bare = await writer.get(f"/rag/documents/{sent.json()['documentId']}")
        text = await writer.get(f"/rag/documents/{sent.json()['documentId']}/text")
        token = httpx.URL(sent.headers["Location"]).params["submission"]
        other = await writer.post("/rag/ingest", json=body | {"path": "other.md"}, headers={"Prefer": "wait=60"})
        foreign = await writer.get(f"/rag/documents/{other.json()['documentId']}", params={"submission": token})

    assert sent.status_code == 202
    assert (foreign.json()["source"], foreign.json()["path"], foreign.json()["version"]) == ("", "", 0)
    assert (seen["status"], seen["progress"], seen["title"], seen["tags"]) == ("created", 100, None, [])
    assert not seen.keys() & {"metadata", "sha256", "filename", "hash", "etag", "description"}
    assert problem(bare, 403).startswith("this API key lacks the role query; with ingest")
    assert problem(text, 403)
