"""Bodies in the shapes of n8n's nodes, by kind: each is taken as it was meant or refused with a sentence.

A row says what its sender expects: the document as it is then stored, whole, with a warning for each field that was
taken otherwise than it was sent; or the status, and what the sentence says of the field and its value.
"""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Nobody sets these: every request of the HTTP Request node has them.
ALWAYS = {
    "Accept": "application/json,text/html,application/xhtml+xml,application/xml,text/*;q=0.9, image/*;q=0.8, */*;q=0.7",
    "User-Agent": "axios/1.12.0",
    "Accept-Encoding": "gzip, compress, deflate, br",
}
JSON, FORM, LINES = "application/json", "application/x-www-form-urlencoded", "application/x-ndjson"
BOUNDARY = "--------------------------507b7db372ba8cce3a29bcf1"
INGEST, TEXT, BATCH, UPLOAD = "/rag/ingest", "/rag/ingest/text", "/rag/ingest/batch", "/rag/ingest/upload"
URL, SEARCH, CHAT, DOCUMENTS = "/rag/ingest/url", "/rag/search", "/chat", "/rag/documents"
HELLO = "Hello from n8n."
DOCUMENT: Mapping[str, Any] = {"source": "n8n", "path": "a.md", "text": HELLO}


class Sent(NamedTuple):
    """A request."""

    door: str
    content: bytes
    kind: str | None = JSON
    query: str = ""
    method: str = "POST"
    headers: Mapping[str, str] = {}


class Taken(NamedTuple):
    """The documents as they are stored, each with what differs from `DOCUMENT`, and the fields that are warned of."""

    warned: tuple[str, ...] = ()
    documents: tuple[Mapping[str, Any], ...] = ({},)


class Refused(NamedTuple):
    """The status, and parts of the sentence."""

    status: int
    said: tuple[str, ...]


class Answered(NamedTuple):
    """A search's or a chat's 200, and the fields that are warned of."""

    warned: tuple[str, ...] = ()


Outcome = Taken | Refused | Answered


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def ingest(*, without: Any = "", **fields: Any) -> Sent:
    """Return a document by the JSON body's fields."""
    body = {name: value for name, value in ({**DOCUMENT, **fields}).items() if name != without}
    return Sent(INGEST, encoded(body))


def raw(body: str | bytes, kind: str | None = JSON, door: str = INGEST, **more: Any) -> Sent:
    return Sent(door, body.encode() if isinstance(body, str) else body, kind, **more)


def to(door: str, body: Any, **more: Any) -> Sent:
    return Sent(door, encoded(body), **more)


def form(body: str, door: str = INGEST) -> Sent:
    return Sent(door, body.encode(), FORM)


def batch(*items: Any) -> Sent:
    return Sent(BATCH, encoded(items), headers={"Prefer": "wait=60"})


def parts(*parts: tuple[str, str | None, str | bytes], kind: str = "text/markdown", door: str = UPLOAD) -> Sent:
    """Return a multipart body: of each part its field, its file's name, and what it holds."""
    body = b""
    for name, filename, value in parts:
        disposition = f'name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
        declared = f"Content-Type: {kind}\r\n" if filename is not None else ""
        head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n{declared}\r\n"
        body += head.encode() + (value.encode() if isinstance(value, str) else value) + b"\r\n"
    return Sent(door, body + f"--{BOUNDARY}--\r\n".encode(), f"multipart/form-data; boundary={BOUNDARY}")


def upload(*fields: tuple[str, str | bytes], name: str = "a.md", content: str | bytes = HELLO, **more: Any) -> Sent:
    """Return a file beside fields, as Form-Data with an n8n Binary File."""
    return parts(
        ("data", name, content), ("source", None, "n8n"), *((each, None, value) for each, value in fields), **more
    )


def binary(query: str = "", content: bytes = HELLO.encode(), kind: str = "text/markdown", name: str = "") -> Sent:
    """Return a file as the whole body, its fields in the query."""
    return Sent(UPLOAD, content, kind, query, headers={"X-Filename": name} if name else {})


def drop(query: str = "", body: Any = None, path: str = DOCUMENTS) -> Sent:
    return Sent(path, b"" if body is None else encoded(body), None if body is None else JSON, query, "DELETE")


def taken(*warned: str, **differs: Any) -> Taken:
    return Taken(warned, (differs,))


def both(*documents: Mapping[str, Any]) -> Taken:
    return Taken((), documents)


def refused(status: int, *said: str) -> Refused:
    return Refused(status, said)


def answered(*warned: str) -> Answered:
    return Answered(warned)


KINDS: dict[str, tuple[Sent, Outcome]] = {
    # HTTP Request, JSON
    "JSON by fields": (
        ingest(title="T", tags=["x"], metadata={"k": 1}),
        taken(title="T", tags=["x"], metadata={"k": 1}),
    ),
    "JSON, pretty": (raw(json.dumps(dict(DOCUMENT), indent=2)), taken()),
    "JSON with escapes": (raw(json.dumps({**DOCUMENT, "text": "ünï 🙂"})), taken(text="ünï 🙂")),
    "JSON with a charset": (raw(encoded(dict(DOCUMENT)), "application/json; charset=utf-8"), taken()),
    "JSON by an API's type": (raw(encoded(dict(DOCUMENT)), "application/vnd.api+json"), taken()),
    "JSON without a type": (raw(encoded(dict(DOCUMENT)), None), taken()),
    "JSON declared as a form": (raw(encoded(dict(DOCUMENT)), FORM), taken()),
    "JSON with a byte order mark": (raw(b"\xef\xbb\xbf" + encoded(dict(DOCUMENT))), taken()),
    "JSON with line feeds around": (raw(b"\r\n " + encoded(dict(DOCUMENT)) + b"\n"), taken()),
    "JSON with its key in a header": (ingest()._replace(headers={"X-API-Key": "KEY", "Authorization": ""}), taken()),
    "JSON with an idempotency key": (ingest()._replace(headers={"Idempotency-Key": "n8n/a.md"}), taken()),
    "JSON with a basic credential": (
        ingest()._replace(headers={"Authorization": "Basic bjhuOm44bg=="}),
        refused(401, "key"),
    ),
    "JSON with a query credential": (
        ingest()._replace(query="apiKey=KEY", headers={"Authorization": ""}),
        refused(401, "key"),
    ),
    "JSON with a page of a list in the query": (
        ingest()._replace(query="page=2"),
        refused(400, "page", "query parameter"),
    ),
    "JSON, a comma too many": (raw('{"source":"n8n","path":"a.md","text":"t",}'), refused(400, "not valid JSON")),
    "JSON in single quotes": (raw("{'source':'n8n'}"), refused(400, "not valid JSON")),
    "JSON with a comment": (raw('{"source":"n8n" /* mine */}'), refused(400, "not valid JSON")),
    "JSON with a raw line feed in a text": (
        raw('{"source":"n8n","path":"a.md","text":"a\nb"}'),
        refused(400, "not valid JSON"),
    ),
    "JSON with undefined in it": (raw('{"source":"n8n","path":undefined}'), refused(400, "not valid JSON")),
    "JSON with NaN in it": (raw('{"source":"n8n","path":NaN}'), refused(400, "not valid JSON")),
    "JSON in Latin-1": (
        raw('{"source":"n8n","path":"a.md","text":"ü"}'.encode("latin-1")),
        refused(400, "not valid JSON"),
    ),
    "JSON in UTF-16": (raw(encoded(dict(DOCUMENT)).decode().encode("utf-16")), refused(400, "not valid JSON")),
    "JSON with half of a surrogate pair": (
        raw('{"source":"n8n","path":"a.md","text":"\\ud83d"}'),
        refused(400, "not valid JSON"),
    ),
    # The last one counts, as where n8n reads it: its own nodes never send one twice.
    "JSON with a field twice": (raw('{"source":"n8n","path":"a.md","text":"1","text":"2"}'), taken(text="2")),
    "JSON cut short": (raw('{"source":"n8n","path":"a.m'), refused(400, "not valid JSON")),
    "two JSON objects": (raw(encoded(dict(DOCUMENT)) * 2), refused(400, "not valid JSON")),
    "no body": (raw(b""), refused(400, "body is missing")),
    "no body, no type": (raw(b"", None), refused(400, "body is missing")),
    "null": (raw("null"), refused(400, "body", "null")),
    "an empty text": (raw('""'), refused(400, "body must be an object, not text")),
    "JSON stringified twice": (
        raw(encoded(encoded(dict(DOCUMENT)).decode())),
        refused(400, "body must be an object, not text"),
    ),
    "an object as a text": (raw("[object Object]"), refused(400, "not valid JSON")),
    "an expression as the body": (raw("={{ $json }}"), refused(400, "not valid JSON")),
    "a text as plain text": (raw("Just text", "text/plain"), refused(415, "text/plain", "application/json")),
    "a page as HTML": (raw("<p>x</p>", "text/html"), refused(415, "text/html", "application/json")),
    "XML": (raw("<a/>", "application/xml"), refused(415, "application/xml", "application/json")),
    "multipart fields where JSON is meant": (
        parts(("source", None, "n8n"), ("path", None, "a.md"), ("text", None, HELLO), door=INGEST),
        refused(415, "multipart/form-data", "application/json"),
    ),
    "a binary where JSON is meant": (raw(b"%PDF-1.7", "application/pdf"), refused(415, "application/pdf")),
    "an item's list": (raw(encoded([dict(DOCUMENT)])), refused(400, "body must be an object, not a list")),
    # Items as n8n wraps them
    "an item with its json": (to(INGEST, {"json": dict(DOCUMENT), "binary": {}}), refused(400, "source", "json")),
    "an item with its pairing": (
        to(INGEST, {"json": dict(DOCUMENT), "pairedItem": {"item": 0}}),
        refused(400, "source", "json"),
    ),
    "a webhook's body": (
        to(
            INGEST,
            {
                "headers": {"host": "n8n"},
                "params": {},
                "query": {},
                "body": dict(DOCUMENT),
                "webhookUrl": "http://n8n/x",
                "executionMode": "production",
            },
        ),
        refused(400, "source", "body"),
    ),
    "a webhook's body as text": (
        to(INGEST, {"headers": {}, "query": {}, "body": encoded(dict(DOCUMENT)).decode()}),
        refused(400, "source"),
    ),
    "fields under data": (to(INGEST, {"data": dict(DOCUMENT)}), refused(400, "source", "data")),
    "items of an aggregate": (to(INGEST, {"data": [dict(DOCUMENT)]}), refused(400, "source")),
    "an item with its binary": (
        ingest(binary={"data": {"mimeType": "text/plain", "fileName": "a.txt", "data": "SGk="}}),
        taken("binary"),
    ),
    # One field
    "an empty text field": (ingest(text=""), refused(400, "text: must not be empty")),
    "a blank text field": (ingest(text=" \n"), refused(400, "text: must not be empty")),
    "a null text field": (ingest(text=None), refused(400, "text: is required")),
    "no text field": (ingest(without="text"), refused(400, "text: is required")),
    "no source": (ingest(without="source"), refused(400, "source: is required")),
    "an empty source": (ingest(source=""), refused(400, "source: must not be empty")),
    "an empty path": (ingest(path=""), refused(400, "path: must not be empty")),
    "nulls for what isn't given": (
        ingest(title=None, tags=None, metadata=None, hash=None, description=None, chunkSize=None),
        taken(),
    ),
    "empty texts for what isn't given": (
        ingest(
            title="",
            tags="",
            metadata="",
            hash="",
            description="",
            chunkSize="",
            callbackUrl="",
            keep="",
            onConflict="",
            subjectId="",
        ),
        taken("chunkSize"),
    ),
    "empty lists for what isn't given": (ingest(tags=[], keep=[], metadata=[]), taken("metadata")),
    "an empty object as metadata": (ingest(metadata={}), taken()),
    "a number as path": (ingest(path=123), taken("path", path="123")),
    "a number as path, zero": (ingest(path=0), taken("path", path="0")),
    "a fraction as path": (ingest(path=1.5), taken("path", path="1.5")),
    "a large number as path": (ingest(path=12345678901234567890), taken("path", path="12345678901234567890")),
    "a number as text": (ingest(text=42), taken("text", text="42")),
    "a number as title": (ingest(title=2026), taken("title", title="2026")),
    "a boolean as text": (ingest(text=True), refused(400, "text: must be text", "not true")),
    "a boolean as title": (ingest(title=False), refused(400, "title: must be text", "not false")),
    "a boolean as path": (ingest(path=True), refused(400, "path: must be text", "not true")),
    "a list as text": (ingest(text=["a", "b"]), refused(400, "text: must be text", "list")),
    "an object as text": (ingest(text={"a": 1}), refused(400, "text: must be text", "object")),
    "a list as path": (ingest(path=["a"]), refused(400, "path: must be text", "list")),
    "an object as source": (ingest(source={"name": "n8n"}), refused(400, "source: must be text", "object")),
    "JSON as text": (ingest(text='{"a": [1, 2]}'), taken(text='{"a": [1, 2]}')),
    "null spelt as text": (ingest(text="null"), taken("text", text="null")),
    "undefined as path": (ingest(path="undefined"), taken("path", path="undefined")),
    "undefined as source": (ingest(source="undefined"), taken("source", source="undefined")),
    "null spelt as title": (ingest(title="null"), taken("title", title="null")),
    "NaN as path": (ingest(path="NaN"), taken("path", path="NaN")),
    "a date that is none as title": (ingest(title="Invalid DateTime"), taken("title", title="Invalid DateTime")),
    "an object made a text": (ingest(text="[object Object]"), refused(400, "text", "[object Object]")),
    "objects made a text": (ingest(text="[object Object],[object Object]"), refused(400, "text", "[object Object]")),
    "a promise made a text": (ingest(text="[object Promise]"), refused(400, "text", "[object Promise]")),
    "an object made a tag": (ingest(tags=["x", "[object Object]"]), refused(400, "tags[1]", "[object Object]")),
    "an object made a metadata value": (
        ingest(metadata={"by": "[object Object]"}),
        refused(400, "metadata.by", "[object Object]"),
    ),
    "an object made the metadata": (ingest(metadata="[object Object]"), refused(400, "metadata", "[object Object]")),
    "an expression as text": (ingest(text="{{ $json.text }}"), refused(400, "text", "{{ $json.text }}")),
    "an expression with its sign": (ingest(text="={{ $json.text }}"), refused(400, "text", "{{ $json.text }}")),
    "an expression of another node": (ingest(text="{{ $('Read').item.json.text }}"), refused(400, "text", "$('Read')")),
    "an expression within a path": (ingest(path="docs/{{ $json.name }}.md"), refused(400, "path", "{{ $json.name }}")),
    "an expression within a source": (
        ingest(source="={{ $json.site }}-pages"),
        refused(400, "source", "{{ $json.site }}"),
    ),
    "an expression as a tag": (ingest(tags=["{{ $json.tag }}"]), refused(400, "tags[0]", "{{ $json.tag }}")),
    "an expression as a metadata value": (
        ingest(metadata={"year": "{{ $json.year }}"}),
        refused(400, "metadata.year", "{{ $json.year }}"),
    ),
    "an expression as a title": (ingest(title="{{ $json.title }}"), refused(400, "title", "{{ $json.title }}")),
    "a text about an expression": (
        ingest(text="Write {{ $json.text }} there."),
        taken(text="Write {{ $json.text }} there."),
    ),
    "a template as text": (ingest(text="{{#each a}}{{b}}{{/each}}"), taken(text="{{#each a}}{{b}}{{/each}}")),
    "a text that begins with =": (ingest(text="=SUM(A1:A2)"), taken(text="=SUM(A1:A2)")),
    "tags with commas": (ingest(tags="x, y,,"), taken(tags=["x", "y"])),
    "tags as JSON": (ingest(tags='["x","y"]'), taken(tags=["x", "y"])),
    "tags as numbers": (ingest(tags=[1, 2]), taken("tags", tags=["1", "2"])),
    "a tag as a number": (ingest(tags=7), taken("tags", tags=["7"])),
    "a tag as a boolean": (ingest(tags=[True]), refused(400, "tags[0]: must be text")),
    "a tag as null": (ingest(tags=["x", None]), refused(400, "tags[1]: must be text")),
    "tags as objects": (ingest(tags=[{"name": "x"}]), refused(400, "tags[0]: must be text")),
    "tags as an object": (ingest(tags={"0": "x"}), refused(400, "tags: must be text or a list")),
    "blank tags": (ingest(tags=["", " x "]), taken(tags=["x"])),
    "metadata as JSON": (ingest(metadata='{"k":1}'), taken(metadata={"k": 1})),
    "metadata as JSON twice": (ingest(metadata=json.dumps('{"k":1}')), refused(400, "metadata: must be an object")),
    "metadata as pairs": (ingest(metadata=[{"key": "k", "value": "1"}]), refused(400, "metadata", "list")),
    "metadata as words": (ingest(metadata="k=1"), refused(400, "metadata is not valid JSON")),
    "metadata as a number": (ingest(metadata=5), refused(400, "metadata: must be an object")),
    "metadata of strings": (ingest(metadata={"n": "1", "b": "true"}), taken(metadata={"n": "1", "b": "true"})),
    "metadata of nulls": (ingest(metadata={"n": None, "l": [None]}), taken(metadata={"n": None, "l": [None]})),
    "metadata of dates": (
        ingest(metadata={"at": "2026-11-26T05:54:14.000+01:00", "day": "2026-11-26"}),
        taken(metadata={"at": "2026-11-26T05:54:14.000+01:00", "day": "2026-11-26"}),
    ),
    "metadata with a large number": (ingest(metadata={"id": 2**70}), refused(400, "metadata.id", "64 bits")),
    "metadata of a fraction": (ingest(metadata={"x": 0.1, "y": 1.0}), taken(metadata={"x": 0.1, "y": 1.0})),
    "metadata with a field of ours": (
        ingest(metadata={"source": "theirs", "version": 7}),
        taken(metadata={"source": "theirs", "version": 7}),
    ),
    "a chunk size as text": (ingest(chunkSize="400"), taken()),
    "a chunk size as a fraction": (
        ingest(chunkSize=400.5),
        refused(400, "chunkSize: must be a whole number, not 400.5"),
    ),
    "a chunk size as words": (ingest(chunkSize="large"), refused(400, "chunkSize", "number")),
    "a chunk size of zero": (ingest(chunkSize=0), refused(400, "chunkSize", "0")),
    "blanks around names": (ingest(source=" n8n ", path=" a.md\n"), taken()),
    "a text with blanks around": (ingest(text="  Hello.\r\nThere.  "), taken(text="Hello.\nThere.")),
    "a text with a byte order mark": (ingest(text="\ufeffHello."), taken(text="Hello.")),
    "a text of another form": (ingest(text="e\u0301"), taken(text="é")),
    "a choice that is none": (ingest(onConflict="skip"), refused(400, "onConflict", "'skip'")),
    "something to keep that is none": (ingest(keep="text"), refused(400, "keep", "'text'")),
    "an address that is none": (ingest(callbackUrl="undefined"), refused(400, "callbackUrl")),
    "an address that isn't filled in": (
        ingest(callbackUrl="{{ $execution.resumeUrl }}"),
        refused(400, "callbackUrl", "$execution"),
    ),
    "an unknown field": (ingest(mimeType="text/plain"), taken("mimeType")),
    "a misspelt field": (ingest(Tags=["x"]), taken("Tags")),
    "a misspelt field that is needed": (
        to(INGEST, {"source": "n8n", "Path": "a.md", "text": "t"}),
        refused(400, "path: is required"),
    ),
    "prepared chunks": (ingest(without="text", chunks=["Hello from n8n."]), taken()),
    "prepared chunks as JSON": (ingest(without="text", chunks='[{"text":"Hello from n8n."}]'), taken()),
    "chunks of a splitter": (
        ingest(without="text", chunks=[{"pageContent": "Hello.", "metadata": {}}]),
        refused(400, "chunks", "text"),
    ),
    "text and chunks": (ingest(chunks=["x"]), refused(400, "chunks", "exactly one")),
    "no chunks": (ingest(without="text", chunks=[]), refused(400, "chunks", "at least one")),
    # Items of other nodes, their fields beside ours
    "a Drive item": (
        ingest(
            kind="drive#file", id="1aB", name="a.md", mimeType="text/markdown", modifiedTime="2026-11-26T05:54:14.000Z"
        ),
        taken("kind", "id", "name", "mimeType", "modifiedTime"),
    ),
    "a Gmail item": (
        ingest(
            id="18c",
            threadId="18c",
            labelIds=["INBOX"],
            snippet="Hel",
            **{"from": {"value": [{"address": "a@b.example"}]}},
        ),
        taken("id", "threadId", "labelIds", "snippet", "from"),
    ),
    "a Sheets row": (ingest(row_number=2, Name="Ada", Amount="1,5"), taken("row_number", "Name", "Amount")),
    "a Notion page": (
        ingest(id="1f", name="Page", url="https://notion.example/1f", property_tags=["x"]),
        refused(400, "url", "exactly one"),
    ),
    "an RSS item": (
        ingest(
            creator="Ada",
            link="https://blog.example/1",
            pubDate="Thu, 26 Nov 2026 05:54:14 GMT",
            guid="1",
            isoDate="2026-11-26T05:54:14.000Z",
        ),
        taken("creator", "link", "pubDate", "guid", "isoDate"),
    ),
    "a form's item": (
        ingest(submittedAt="2026-11-26T05:54:14.000+01:00", formMode="production"),
        taken("submittedAt", "formMode"),
    ),
    "an item of a form alone": (
        to(INGEST, {"Your name": "Ada", "submittedAt": "2026-11-26"}),
        refused(400, "source: is required"),
    ),
    "an item of an error output": (to(INGEST, {**DOCUMENT, "error": "ENOENT"}), taken("error")),
    # Forms
    "a form": (form("source=n8n&path=a.md&text=Hello%20from%20n8n."), taken()),
    "a form with pluses": (form("source=n8n&path=a.md&text=Hello+from+n8n."), taken()),
    "a form with brackets": (
        form("source=n8n&path=a.md&text=Hello+from+n8n.&tags%5B%5D=x&tags%5B%5D=y"),
        taken(tags=["x", "y"]),
    ),
    "a form with numbered brackets": (
        form("source=n8n&path=a.md&text=Hello+from+n8n.&tags%5B0%5D=x&tags%5B1%5D=y"),
        taken("tags[0]", "tags[1]"),
    ),
    "a form with tags twice": (form("source=n8n&path=a.md&text=Hello+from+n8n.&tags=x&tags=y"), taken(tags=["x", "y"])),
    "a form with metadata": (
        form("source=n8n&path=a.md&text=Hello+from+n8n.&metadata=%7B%22k%22%3A1%7D"),
        taken(metadata={"k": 1}),
    ),
    "a form with its path twice": (
        form("source=n8n&path=a.md&path=b.md&text=t"),
        refused(400, "path: must be text", "list"),
    ),
    "a form with JSON as text": (form("source=n8n&path=a.md&text=%7B%22a%22%3A1%7D"), taken(text='{"a":1}')),
    "a form with a title in brackets": (
        form("source=n8n&path=a.md&text=Hello+from+n8n.&title=%5BDraft%5D"),
        taken(title="[Draft]"),
    ),
    "a form with a path in brackets": (form("source=n8n&path=%5Ba%5D.md&text=Hello+from+n8n."), taken(path="[a].md")),
    "a form with a description in braces": (
        form("source=n8n&path=a.md&text=Hello+from+n8n.&description=%7Bdraft%7D"),
        taken(description="{draft}"),
    ),
    "a form with an object": (
        form("source=n8n&path=a.md&text=%5Bobject+Object%5D"),
        refused(400, "text", "[object Object]"),
    ),
    "a form with an object as title": (
        form("source=n8n&path=a.md&text=t&title=%5Bobject+Object%5D"),
        refused(400, "title", "[object Object]"),
    ),
    "a form with an expression": (
        form("source=n8n&path=a.md&text=%7B%7B%20%24json.text%20%7D%7D"),
        refused(400, "text", "{{ $json.text }}"),
    ),
    "a form without a path": (form("source=n8n&text=t"), refused(400, "path: is required")),
    "a form with an empty path": (form("source=n8n&path=&text=t"), refused(400, "path: must not be empty")),
    "a form with a number as path": (form("source=n8n&path=123&text=Hello+from+n8n."), taken(path="123")),
    "a form with an empty number": (form("source=n8n&path=a.md&text=Hello+from+n8n.&chunkSize="), taken("chunkSize")),
    "a form in Latin-1": (form("source=n8n&path=a.md&text=%FC"), refused(400, "form can't be read")),
    "a text without a name": (to(TEXT, {"text": HELLO, "title": "A"}), taken(source="text", path="A")),
    "a text as a form": (form("text=Hello+from+n8n.&title=A", TEXT), taken(source="text", path="A")),
    "a text whose title is an expression": (
        to(TEXT, {"text": HELLO, "title": "{{ $json.t }}"}),
        refused(400, "title", "{{ $json.t }}"),
    ),
    # Files
    "a file with fields": (
        upload(("path", "b.md"), ("tags", "x"), ("metadata", '{"k":1}')),
        taken(path="b.md", title="a", tags=["x"], metadata={"k": 1}),
    ),
    "a file by its name": (upload(), taken()),
    "a file with an empty path": (upload(("path", "")), taken("path")),
    "a file with an empty source": (
        parts(("data", "a.md", HELLO), ("source", None, "")),
        taken("source", source="upload"),
    ),
    "a file with an umlaut": (upload(name="ü (1).md"), taken(path="ü (1).md")),
    "a file in a folder": (upload(name="folder/a.md"), taken(path="folder/a.md")),
    "a file with tags twice": (upload(("tags", "x"), ("tags", "y")), taken(tags=["x", "y"])),
    "a file with tags in brackets": (upload(("tags[]", "x"), ("tags[]", "y")), taken(tags=["x", "y"])),
    "a file with tags as JSON": (upload(("tags", '["x","y"]')), taken(tags=["x", "y"])),
    "a file with its title twice": (
        upload(("title", "One"), ("title", "Two")),
        refused(400, "title", "'One'", "'Two'"),
    ),
    "a file with its source twice": (upload(("source", "other")), refused(400, "source", "'n8n'", "'other'")),
    "a file with metadata twice": (
        upload(("metadata", '{"a":1}'), ("metadata", '{"b":2}')),
        refused(400, "metadata", "more than once"),
    ),
    "a file with two paths": (upload(("path", "a"), ("path", "b")), refused(400, "path", "'a'", "'b'")),
    "a file with an object as title": (upload(("title", "[object Object]")), refused(400, "title", "[object Object]")),
    "a file with an object as metadata": (
        upload(("metadata", "[object Object]")),
        refused(400, "metadata", "[object Object]"),
    ),
    "a file with an expression as path": (
        upload(("path", "{{ $json.path }}")),
        refused(400, "path", "{{ $json.path }}"),
    ),
    "a file with an expression within its path": (
        upload(("path", "x/{{ $json.path }}")),
        refused(400, "path", "{{ $json.path }}"),
    ),
    "a file with undefined as path": (upload(("path", "undefined")), taken("path", path="undefined", title="a")),
    "a file with an expression as a tag": (
        upload(("tags", "x"), ("tags", "{{ $json.tag }}")),
        refused(400, "tags", "{{ $json.tag }}"),
    ),
    "a file with an expression as its text": (upload(content="{{ $json.text }}"), taken(text="{{ $json.text }}")),
    "a file with a field in Latin-1": (upload(("title", b"\xfc")), refused(400, "title", "charset")),
    "a file with an unknown field": (upload(("folder", "x")), taken("folder")),
    "a file with a number that is none": (upload(("chunkSize", "large")), refused(400, "chunkSize", "large")),
    "a file with a number as text": (upload(("chunkSize", "400")), taken()),
    "a file with an empty number": (upload(("chunkSize", "")), taken("chunkSize")),
    "a file with a text beside it": (upload(("text", "x")), taken("text")),
    "a file without a name": (parts(("data", "", HELLO)), refused(400, "file", "filename")),
    "fields without a file": (
        parts(("source", None, "n8n"), ("text", None, HELLO)),
        refused(400, "file: no file was sent"),
    ),
    "nothing in multipart": (parts(), refused(400, "file: no file was sent")),
    "multipart without a boundary": (raw(b"x", "multipart/form-data", UPLOAD), refused(400, "multipart")),
    "multipart cut short": (
        raw(f"--{BOUNDARY}\r\nContent-Disp", f"multipart/form-data; boundary={BOUNDARY}", UPLOAD),
        refused(400, "multipart"),
    ),
    "an empty file": (upload(content=""), refused(400, "a.md is empty")),
    "a file of blanks": (upload(content=" \n"), refused(422, "a.md")),
    "a file of the wrong type": (upload(kind="application/json"), taken()),
    "a file of no type": (upload(kind="application/octet-stream"), taken()),
    "a file called a PDF": (upload(name="a.pdf", kind="application/pdf"), refused(422, "a.pdf")),
    "a file of JSON": (upload(name="a.json", content='{"a": 1}', kind=JSON), taken(path="a.json", text='{"a": 1}')),
    "a file of a document for another door": (
        upload(name="a.json", content=encoded(dict(DOCUMENT)), kind=JSON),
        taken(path="a.json", text=encoded(dict(DOCUMENT)).decode()),
    ),
    "two files": (
        parts(("f0", "a.md", HELLO), ("f1", "b.md", HELLO), ("source", None, "n8n")),
        both({}, {"path": "b.md"}),
    ),
    "two files of one name": (parts(("f0", "a.md", "1"), ("f1", "a.md", "2")), refused(400, "'a.md' (2 times)")),
    "two files, one path": (
        parts(("f0", "a.md", "1"), ("f1", "b.md", "2"), ("path", None, "p")),
        refused(400, "path: 1 were sent for 2 files"),
    ),
    "a file as a form": (form("data=x", UPLOAD), refused(400, "file: a form has no files")),
    "a raw file": (binary("source=n8n&path=a.md&tags=x"), taken(tags=["x"])),
    "a raw file by a header": (binary("source=n8n", name="a.md"), taken()),
    "a raw file by an encoded header": (binary("source=n8n", name=quote("ü.md")), taken(path="ü.md")),
    "a raw file with its path twice": (
        binary("source=n8n&path=a.md&path=b.md"),
        refused(400, "path", "'a.md'", "'b.md'"),
    ),
    "a raw file with its source twice": (
        binary("source=n8n&source=m&path=a.md"),
        refused(400, "source", "'n8n'", "'m'"),
    ),
    "a raw file with the same source twice": (binary("source=n8n&source=n8n&path=a.md"), taken()),
    "a raw file with tags twice": (binary("source=n8n&path=a.md&tags=x&tags=y"), taken(tags=["x", "y"])),
    "a raw file with an expression": (
        binary("source=n8n&path=%7B%7B%20%24json.p%20%7D%7D"),
        refused(400, "path", "{{ $json.p }}"),
    ),
    "a raw file with an object": (
        binary("source=%5Bobject%20Object%5D&path=a.md"),
        refused(400, "source", "[object Object]"),
    ),
    "a raw file with an unknown parameter": (binary("source=n8n&path=a.md&folder=x"), taken("folder")),
    "a raw file of nothing": (binary("source=n8n&path=a.md", b""), refused(400, "body is empty")),
    "a raw PDF that is none": (binary("source=n8n&path=a.pdf", b"%PDF-1.7 x", "application/pdf"), refused(422, "PDF")),
    "a raw document for another door": (raw(encoded(dict(DOCUMENT)), JSON, UPLOAD), refused(400, "POST /rag/ingest")),
    "a raw item for another door": (
        raw(encoded({"json": dict(DOCUMENT)}), JSON, UPLOAD),
        refused(400, "POST /rag/ingest"),
    ),
    "raw items for another door": (raw(encoded([dict(DOCUMENT)]), JSON, UPLOAD), refused(400, "POST /rag/ingest")),
    "a raw document as plain text": (
        raw(encoded(dict(DOCUMENT)), "text/plain", UPLOAD),
        refused(400, "POST /rag/ingest"),
    ),
    "a raw document of an API's type": (
        raw(encoded(dict(DOCUMENT)), "application/vnd.api+json", UPLOAD),
        refused(400, "POST /rag/ingest"),
    ),
    "a raw document with a byte order mark": (
        raw(b"\xef\xbb\xbf" + encoded(dict(DOCUMENT)), JSON, UPLOAD),
        refused(400, "POST /rag/ingest"),
    ),
    "a knowledge base's file": (upload(door="/knowledge-base")._replace(headers={"Prefer": "wait=60"}), taken()),
    # Batches
    "a batch": (batch(dict(DOCUMENT), {**DOCUMENT, "path": "b.md"}), both({}, {"path": "b.md"})),
    "a batch of one": (batch(dict(DOCUMENT)), taken()),
    "a batch as lines": (
        raw(encoded(dict(DOCUMENT)) + b"\r\n\r\n", LINES, BATCH, headers={"Prefer": "wait=60"}),
        taken(),
    ),
    "a batch of a number as path": (batch({**DOCUMENT, "path": 7}), taken("path", path="7")),
    "a batch of an unknown field": (batch({**DOCUMENT, "id": 7}), taken("id")),
    "a batch with a byte order mark": (
        raw(b"\xef\xbb\xbf" + encoded([dict(DOCUMENT)]), JSON, BATCH, headers={"Prefer": "wait=60"}),
        taken(),
    ),
    "an object as a batch": (to(BATCH, dict(DOCUMENT), headers={"Prefer": "wait=60"}), taken()),
    "nothing as a batch": (raw(b"", JSON, BATCH), refused(400, "body: is missing")),
    "a batch of items with their json": (batch({"json": dict(DOCUMENT)}), refused(422, "source", "json")),
    "a batch in an object": (to(BATCH, {"items": [dict(DOCUMENT)]}), refused(422, "source")),
    "a batch in a pretty object": (
        raw(json.dumps(dict(DOCUMENT), indent=1), JSON, BATCH),
        refused(422, "not valid JSON"),
    ),
    "a batch of texts": (batch("Hello."), refused(422, "must be an object, not text")),
    "a batch of items as text": (batch(encoded(dict(DOCUMENT)).decode()), refused(422, "must be an object, not text")),
    "a batch of nulls": (batch(None), refused(422, "must be an object, not null")),
    "a batch of lists": (batch([dict(DOCUMENT)]), refused(422, "must be an object, not a list")),
    "a batch with an expression": (
        batch({**DOCUMENT, "text": "{{ $json.text }}"}),
        refused(422, "text", "{{ $json.text }}"),
    ),
    "a batch with an object as text": (
        batch({**DOCUMENT, "title": "[object Object]"}),
        refused(422, "title", "[object Object]"),
    ),
    "a batch with an empty text": (batch({**DOCUMENT, "text": ""}), refused(422, "text: must not be empty")),
    "a batch with a comma too many": (
        raw('[{"source":"n8n","path":"a.md",},]', JSON, BATCH),
        refused(422, "not valid JSON"),
    ),
    "a batch that isn't closed": (raw('[{"source":"n8n"}', JSON, BATCH), refused(400, "array is not closed")),
    "a batch with undefined": (raw("[undefined]", JSON, BATCH), refused(422, "not valid JSON")),
    "a batch as plain text": (raw(encoded([dict(DOCUMENT)]), "text/plain", BATCH), refused(415, "text/plain")),
    "a batch in multipart": (parts(("data", "a.md", HELLO), door=BATCH), refused(415, "multipart/form-data")),
    # Pages
    "an address that an expression left empty": (to(URL, {"url": ""}), refused(400, "url")),
    "an address as an expression": (to(URL, {"url": "{{ $json.link }}"}), refused(400, "url", "{{ $json.link }}")),
    "an address with an expression within": (
        to(URL, {"url": "https://a.example/{{ $json.id }}"}),
        refused(400, "url", "{{ $json.id }}"),
    ),
    "an address without a scheme": (to(URL, {"url": "www.example"}), refused(400, "url")),
    "an address as a list": (to(URL, {"url": ["https://a.example/"]}), refused(400, "url: must be text", "list")),
    "a depth as words": (to(URL, {"url": "https://a.example/", "depth": "deep"}), refused(400, "depth", "number")),
    # Searches and questions
    "a search": (to(SEARCH, {"query": "hello", "topK": 3}), answered()),
    "a search as a form": (form("query=hello&topK=3", SEARCH), answered()),
    "a search with a number as text": (to(SEARCH, {"query": "hello", "topK": "3"}), answered()),
    "a search with an empty number": (to(SEARCH, {"query": "hello", "topK": ""}), answered("topK")),
    "a search with a number as query": (to(SEARCH, {"query": 42}), answered("query")),
    "a search with filters as JSON": (to(SEARCH, {"query": "hello", "filters": '{"source":"n8n"}'}), answered()),
    "a search with filters as a list": (to(SEARCH, {"query": "hello", "filters": []}), answered("filters")),
    "a search with filters as an empty text": (to(SEARCH, {"query": "hello", "filters": ""}), answered()),
    "a search with a flag as text": (to(SEARCH, {"query": "hello", "explain": "true"}), answered()),
    "a search with a flag as words": (to(SEARCH, {"query": "hello", "explain": "yes"}), refused(400, "explain")),
    "a search with an empty flag": (to(SEARCH, {"query": "hello", "explain": ""}), answered("explain")),
    "a search with an empty query": (to(SEARCH, {"query": ""}), refused(400, "query")),
    "a search without a query": (to(SEARCH, {"topK": 3}), refused(400, "query: is required")),
    "a search with an object as query": (
        to(SEARCH, {"query": "[object Object]"}),
        refused(400, "query", "[object Object]"),
    ),
    "a search with an expression as query": (
        to(SEARCH, {"query": "{{ $json.chatInput }}"}),
        refused(400, "query", "$json.chatInput"),
    ),
    "a search with an expression in its filters": (
        to(SEARCH, {"query": "hello", "filters": {"source": "{{ $json.source }}"}}),
        refused(400, "filters.source", "{{ $json.source }}"),
    ),
    "a search with an expression in a filter's list": (
        to(SEARCH, {"query": "hello", "filters": {"tags": ["x", "[object Object]"]}}),
        refused(400, "filters.tags[1]", "[object Object]"),
    ),
    "a search with a filter of null": (
        to(SEARCH, {"query": "hello", "filters": {"source": None}}),
        refused(400, "filters.source"),
    ),
    "a search with a filter that is empty": (to(SEARCH, {"query": "hello", "filters": {"tags": ""}}), answered()),
    "a search with a large number": (to(SEARCH, {"query": "hello", "topK": 1000000}), refused(400, "topK")),
    "a search with words as number": (to(SEARCH, {"query": "hello", "topK": "many"}), refused(400, "topK", "number")),
    "a search of an item": (to(SEARCH, {"json": {"query": "hello"}}), refused(400, "query", "json")),
    "a search with another's field": (to(SEARCH, {"query": "hello", "limit": 3}), answered("limit")),
    "a question": (to(CHAT, {"message": "Hello?", "useRag": True}), answered()),
    "a question of the chat trigger": (
        to(CHAT, {"sessionId": "1", "action": "sendMessage", "chatInput": "Hello?"}),
        refused(400, "message"),
    ),
    "a question with flags as texts": (to(CHAT, {"message": "Hello?", "useRag": "true", "ragTopK": "2"}), answered()),
    "a question with a number as conversation": (
        to(CHAT, {"message": "Hello?", "conversationId": 42, "useRag": True}),
        answered("conversationId"),
    ),
    "a question as an object": (to(CHAT, {"message": {"text": "Hello?"}}), refused(400, "message")),
    "a question that an expression left empty": (to(CHAT, {"message": ""}), refused(400, "message")),
    "a question with an expression": (
        to(CHAT, {"message": "={{ $json.chatInput }}"}),
        refused(400, "message", "$json.chatInput"),
    ),
    # Lists and deletions
    "a list with a limit as words": (Sent(DOCUMENTS, b"", None, "limit=many", "GET"), refused(400, "limit")),
    "a list with an empty limit": (Sent(DOCUMENTS, b"", None, "limit=", "GET"), refused(400, "limit")),
    "a list with its limit twice": (
        Sent(DOCUMENTS, b"", None, "limit=1&limit=2", "GET"),
        refused(400, "limit", "more than once"),
    ),
    "a list with its source twice": (
        Sent(DOCUMENTS, b"", None, "source=n8n&source=m", "GET"),
        refused(400, "source", "more than once"),
    ),
    "a list with an unknown parameter": (Sent(DOCUMENTS, b"", None, "offset=10", "GET"), refused(400, "offset")),
    "a list from an undefined cursor": (Sent(DOCUMENTS, b"", None, "cursor=undefined", "GET"), refused(400, "cursor")),
    "a list of an expression": (
        Sent(DOCUMENTS, b"", None, "source=%7B%7B%20%24json.s%20%7D%7D", "GET"),
        refused(400, "source", "{{ $json.s }}"),
    ),
    "a deletion of an undefined id": (drop(path=f"{DOCUMENTS}/undefined"), refused(404, "no such document")),
    "a deletion of an expression": (
        drop(path=f"{DOCUMENTS}/%7B%7B%20%24json.id%20%7D%7D"),
        refused(404, "no such document"),
    ),
    "a deletion of no id": (drop(path=f"{DOCUMENTS}/"), refused(400, "all")),
    "a deletion of nothing": (drop(), refused(400, "all")),
    "a deletion of an empty path": (drop("source=n8n&path="), refused(400, "path")),
    "a deletion of an empty source": (drop("source=&path=a.md"), refused(400, "source")),
    "a deletion of an empty source alone": (drop("source="), refused(400, "source")),
    "a deletion of two paths": (drop("source=n8n&path=a.md&path=b.md"), refused(400, "path")),
    "a deletion of a path that isn't there": (drop("source=n8n&path=undefined"), refused(404, "no such document")),
    "a deletion with an unknown parameter": (drop("source=n8n&prefix=a"), refused(400, "prefix")),
    "a deletion by a list": (drop(body={"filters": []}), refused(400, "filters")),
    "a deletion by filters as text": (drop(body={"filters": '{"source":"n8n"}'}), refused(400, "filters")),
    "a deletion by no filters": (drop(body={"filters": {}}), refused(400, "all")),
    "a deletion by a filter of null": (drop(body={"filters": {"source": None}}), refused(400, "filters.source")),
    "a deletion of all as text": (drop(body={"all": "true"}), refused(400, "all")),
    "a deletion by an item": (drop(body={"json": {"all": True}}), refused(400, "json")),
    "a deletion with a count as text": (
        drop(body={"filters": {"source": "n8n"}, "confirm": "1"}),
        refused(400, "confirm"),
    ),
    "a deletion by an expression": (
        drop(body={"filters": {"source": "{{ $json.s }}"}}),
        refused(400, "filters.source", "{{ $json.s }}"),
    ),
    "a deletion by an expression in the query": (
        drop("source=%7B%7B%20%24json.s%20%7D%7D"),
        refused(400, "source", "{{ $json.s }}"),
    ),
}


async def sent(client: httpx.AsyncClient, request: Sent) -> httpx.Response:
    key = client.headers["Authorization"].removeprefix("Bearer ")
    chosen = {name: value.replace("KEY", key) for name, value in request.headers.items()}
    declared = {} if request.kind is None else {"Content-Type": request.kind}
    address = f"{request.door}?{request.query.replace('KEY', key)}" if request.query else request.door
    headers = {**ALWAYS, **declared, **chosen}
    return await client.request(request.method, address, content=request.content, headers=headers)


async def stored(client: httpx.AsyncClient, id_: str) -> dict[str, Any]:
    """Return what a document holds of what was sent."""
    shown = (await client.get(f"/rag/documents/{id_}")).json()
    return {
        "source": shown["source"],
        "path": shown["path"],
        "text": (await client.get(f"/rag/documents/{id_}/text")).text,
        "title": None
        if shown["title"] == PurePosixPath(shown["path"]).stem
        else shown["title"],  # what the file's name gives
        "tags": shown["tags"],
        "metadata": shown.get("metadata", {}),
        "description": shown.get("description"),
    }


def items_of(reply: httpx.Response) -> list[dict[str, Any]]:
    body = reply.json()
    items: list[dict[str, Any]] = body.get("items", [body])
    return items


def warned(reply: httpx.Response) -> list[str]:
    """Return the fields that the reply warns of."""
    told = [*reply.json().get("warnings", ()), *(said for item in items_of(reply) for said in item.get("warnings", ()))]
    return [*dict.fromkeys(sentence.partition(":")[0] for sentence in told)]


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_taken_as_it_was_meant_or_refused_with_a_sentence(
    client: httpx.AsyncClient, kind: str
) -> None:
    request, outcome = KINDS[kind]

    reply = await sent(client, request)

    assert reply.headers["content-type"] == JSON, "n8n reads errors of this type alone"
    match outcome:
        case Refused(status, said):
            assert reply.status_code == status, reply.text
            told = " ".join(
                [reply.json()["detail"], *(item["error"] for item in reply.json()["details"].get("items", ()))]
            )
            assert [part for part in said if part not in told] == [], told
        case Taken(fields, documents):
            assert reply.status_code == 200, reply.text
            held = [await stored(client, item["documentId"]) for item in items_of(reply)]
            nothing: dict[str, Any] = {"title": None, "tags": [], "metadata": {}, "description": None}
            assert held == [{**DOCUMENT, **nothing, **each} for each in documents]
            assert warned(reply) == [*fields]
        case Answered(fields):
            assert reply.status_code == 200, reply.text
            assert warned(reply) == [*fields]
