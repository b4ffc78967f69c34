"""Makes requests and records that attack what reads them, by a seed: HTTP itself, multipart, batches, and the log."""

import base64
import gzip
import json
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from shared.log.headers import FORWARDED_HEADER, HASH_HEADER, MOVED_HEADER, PLACE_HEADER, REDRIVE_HEADER

LARGEST: Final = 3 << 20  # bytes of a request or a record
_MB: Final = 1 << 20


class Request(NamedTuple):
    """The bytes sent on a connection, with a description."""

    name: str
    data: bytes


class RecordBomb(NamedTuple):
    """A record for documents.submitted, with a description."""

    name: str
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, str]


def requests(seed: int, count: int) -> Iterator[Request]:
    """Yield so many requests; every kind comes once before any repeats."""
    kinds = sorted({**_HTTP, **_MULTIPART, **_BATCH}.items())
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        if number % len(kinds) == 0:
            random.Random(f"{seed}/{number // len(kinds)}").shuffle(kinds)
        name, make = kinds[number % len(kinds)]
        yield Request(name, make(rng)[:LARGEST])


def records(seed: int, count: int) -> Iterator[RecordBomb]:
    """Yield so many records; every kind comes once before any repeats."""
    kinds = sorted(_RECORDS.items())
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        if number % len(kinds) == 0:
            random.Random(f"{seed}/{number // len(kinds)}").shuffle(kinds)
        name, make = kinds[number % len(kinds)]
        made = make(rng)
        value, headers, key = made if isinstance(made, tuple) else (made, {}, None)
        yield RecordBomb(name, key, value, headers)


# HTTP


def _head(line: str, *fields: str) -> bytes:
    return "\r\n".join((line, "Host: 127.0.0.1", *fields, "", "")).encode("latin-1", "replace")


def _post(path: str, body: bytes, *fields: str, length: int | str | None = None) -> bytes:
    return _head(f"POST {path} HTTP/1.1", f"Content-Length: {len(body) if length is None else length}", *fields) + body


def _chunked(path: str, body: bytes, *fields: str) -> bytes:
    return (
        _head(f"POST {path} HTTP/1.1", "Transfer-Encoding: chunked", "Content-Type: application/json", *fields) + body
    )


_SEARCH = b'{"query": "lantern"}'
_JSON = "Content-Type: application/json"
_METHODS = ("GET", "PUT", "TRACE", "CONNECT", "OPTIONS", "PROPFIND", "get", "G" * 5000, "GET\t", "\0", "PRI", "é")
_TARGETS = (
    "*",
    "//",
    "http://169.254.169.254/",
    "/%00",
    "/%ff%fe",
    "/rag/documents/%2e%2e%2f%2e%2e%2fetc",
    "/" + "a/" * 5000,
    "/rag/documents?" + "a=1&" * 5000,
    "/rag/search;x",
    "/rag/documents?limit=%F0%9F",
    "/é",
    "127.0.0.1:443",
    "/?\x7f",
    "/rag/documents/" + "0" * 30_000,
    "/rag/documents?cursor=" + "A" * 30_000,
    "/rag/documents?limit=" + "9" * 5000,
    "/console/%2e%2e/%2e%2e/settings",
    "/openapi.json/..%5c..",
    "/mcp?x=" + "%" * 999,
)
_FIELDS = (
    "Content-Length: -1",
    "Content-Length: 99999999999999999999",
    "Content-Length: 1, 1",
    "Content-Length: +5",
    "Content-Length: 0x10",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: identity",
    "Expect: 200-maybe",
    "Expect: 100-continue",
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 99",
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAAA",
    "Connection: " + "close, " * 2000,
    "Range: bytes=" + "0-," * 5000,
    "Accept: " + "*/*;q=0.1," * 2000,
    "Accept-Encoding: " + "gzip;q=9e999," * 500,
    "Cookie: " + "a=b; " * 5000,
    "Cookie: sluice_session=" + "9" * 400 + ".x",
    "Cookie: sluice_session=٣.é",
    "Authorization: Bearer " + "x" * 40_000,
    "Authorization: Bearer \xff\xfe",
    "X-API-Key: \x80",
    "Host: a\r\nHost: b",
    "Host:",
    "Host: [::1",
    "Host: x:99999999",
    "X-Forwarded-For: " + "1.1.1.1, " * 3000,
    "X-Forwarded-Proto: javascript",
    "Prefer: wait=" + "9" * 500,
    "Prefer: wait=-1",
    "Prefer: wait=NaN",
    "If-Match: " + '"x",' * 5000,
    "If-None-Match: W/",
    "If-Modified-Since: Mon, 99 Foo 99999",
    "X-Request-Id: \t",
    "X-Request-Id: " + "x" * 9000,
    "Origin: null",
    "Origin: http://[",
    "Sec-Fetch-Site: cross-site",
    "Last-Event-ID: " + "9" * 400 + "/1/1",
    "Content-Encoding: gzip",
    "Content-Type: application/json; charset=undefined",
    "Content-Type: application/json; charset=" + "\xff" * 20,
    "Content-Type: ;;;;" + "=" * 5000,
    "X-Filename: %00%ff..%2f..",
    "X-Filename: \xe9",
    " folded: x\r\n  more",
    "No-Colon",
    "Na me: x",
    "Nul: a\0b",
    "Cr: a\rb",
    "\x00: x",
    "X: " + "v" * 65_000,
    "Date: \x7f",
    "Content-Disposition: attachment; filename*=x''%",
)
_CHUNKS = (
    b"FFFFFFFFFFFFFFFF\r\nx",
    b"-1\r\nx\r\n0\r\n\r\n",
    b"5;" + b"e=1;" * 20_000 + b"\r\nhello\r\n0\r\n\r\n",
    b"zz\r\n",
    b"0\r\n" + b"T: v\r\n" * 20_000,
    b"1\n{\n1\n}\n0\n\n",
    b"00000000000000000000000000005\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhelloEXTRA\r\n0\r\n\r\n",
    b"1\r\nx\r\n" * 100_000,
    b"2\r\n{}\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
    b"5 ;x\r\nhello\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"",
    b"5\r\nhel",
)
_NOT_HTTP = (
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\x7f" * 500,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\x12\x04\0\0\0\0\0" * 50,
    b"\0" * 70_000,
    b"\xff" * 200_000,
    b"SSH-2.0-x\r\n",
    b"GET /\r\n",
    b"GET\r\n\r\n",
    b"\r\n" * 40_000,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\nHost: x\n\n",
    b"GET  /  HTTP/1.1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"\x80\x80\x01\x03\x01",
    b"EHLO x\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A" * 200_000,
)
_BODIES = (
    b"[" * 200_000,
    b'{"query":' * 100_000,
    b'{"query": "' + b"\\u0000" * 50_000 + b'"}',
    b'{"query": "\\ud800"}',
    b"\xff\xfe{\0}\0",
    b"\xef\xbb\xbf{}",
    b"nul",
    b"NaN",
    b'{"query": "x", "topK": 1e309}',
    b'{"query": "x", "topK": ' + b"9" * 20_000 + b"}",
    b'{"query": "x", "minScore": -1e999}',
    b'{"query": "' + b"a " * 400_000 + b'"}',
    b'{"query": "x", "filters": ' + b'{"not":' * 5000 + b"{}" + b"}" * 5000 + b"}",
    b'{"query": "x", "filters": {"' + b"a." * 9000 + b'": 1}}',
    b"\0" * 100_000,
    b"{" + b",".join(b'"k%d": 1' % n for n in range(60_000)) + b"}",
    b'{"query": "x", "query": ["y"], "query": null}',
    b'{"query": 7}' * 2,
    b'"' * 99_999,
    b"-" * 99_999,
    b"\xed\xa0\x80",
    b'{"query": "\xcc\x80' + b"\xcc\x80" * 100_000 + b'"}',
    b'{"query": "x", "filters": {"year": {"gte": "\xef\xbf\xbf", "lt": 1e400}}}',
    b'{"text": "x", "source": "s", "path": "' + b"/" * 50_000 + b'"}',
)
_ROUTES = (
    "/rag/search",
    "/rag/ingest",
    "/rag/query",
    "/rag/context",
    "/rag/ingest/check",
    "/rag/search/batch",
    "/api/chat",
    "/chat",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/mcp",
    "/retrieval",
    "/ops/erase",
    "/ops/replay",
    "/rag/ingest/url",
    "/api/embed",
    "/api/generate",
    "/console/session",
    "/ops/dead-letters/redrive",
    "/rag/ingest/text",
)
_HTTP: dict[str, Callable[[random.Random], bytes]] = {
    "method": lambda rng: _head(f"{rng.choice(_METHODS)} / HTTP/1.1"),
    "target": lambda rng: _head(f"GET {rng.choice(_TARGETS)} HTTP/1.1"),
    "target of others": lambda rng: _head(
        f"{rng.choice(('DELETE', 'PATCH', 'PUT', 'HEAD'))} {rng.choice(_TARGETS)} HTTP/1.1"
    ),
    "field": lambda rng: _post(rng.choice(_ROUTES), _SEARCH, rng.choice(_FIELDS)),
    "two fields": lambda rng: _post(rng.choice(_ROUTES), _SEARCH, _JSON, *rng.sample(_FIELDS, 2)),
    "field of a read": lambda rng: _head("GET /rag/documents HTTP/1.1", rng.choice(_FIELDS)),
    "length beside chunks": lambda rng: _chunked(
        "/rag/search", b"5\r\nhello\r\n0\r\n\r\n", f"Content-Length: {rng.choice((0, 6, 4))}"
    ),
    "chunks": lambda rng: _chunked(rng.choice(_ROUTES), rng.choice(_CHUNKS)),
    "chunks of a file": lambda rng: _chunked("/rag/ingest/upload", rng.choice(_CHUNKS), "X-Filename: x.txt"),
    "not HTTP": lambda rng: rng.choice(_NOT_HTTP),
    "too short a body": lambda rng: _post(rng.choice(_ROUTES), b"{", _JSON, length=rng.choice((2, 10**6, 10**12))),
    "pipeline": lambda rng: _post("/rag/search", _SEARCH, _JSON) * rng.choice((20, 500)),
    "pipeline of others": lambda rng: _head("GET /livez HTTP/1.1") * 10 + rng.choice(_NOT_HTTP),
    "body": lambda rng: _post(rng.choice(_ROUTES), rng.choice(_BODIES), _JSON),
    "body of a search": lambda rng: _post("/rag/search", rng.choice(_BODIES), _JSON),
    "body without a type": lambda rng: _post(rng.choice(_ROUTES), rng.choice(_BODIES)),
    "packed body": lambda rng: _post(
        rng.choice(_ROUTES), gzip.compress(b" " * 50 * _MB, 1), _JSON, "Content-Encoding: gzip"
    ),
    "flipped": lambda rng: _bits(rng, _post("/rag/search", _SEARCH, _JSON, "Prefer: wait=0")),
    "cut and repeated": lambda rng: _post("/rag/search", _SEARCH, _JSON)[: rng.randrange(100)] * rng.choice((1, 50)),
}


def _bits(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 4, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


# Multipart


def _form(body: bytes, boundary: str = "b") -> bytes:
    return _post(
        "/rag/ingest/upload", body, f"Content-Type: multipart/form-data; boundary={boundary}", "Prefer: wait=0"
    )


def _part(*fields: bytes, content: bytes = b"A lantern.", boundary: bytes = b"b") -> bytes:
    return b"--" + boundary + b"\r\n" + b"\r\n".join((*fields, b"", content)) + b"\r\n"


_DISPOSITION = b'Content-Disposition: form-data; name="file"; filename="x.txt"'
_PART_FIELDS = (
    b"Content-Disposition: form-data",
    b"Content-Disposition: form-data; name=",
    b'Content-Disposition: form-data; name="a"; filename=',
    b"Content-Disposition",
    b'Content-Disposition: form-data; name="' + b"x" * 100_000 + b'"',
    b'Content-Disposition: form-data; name="file"; filename="' + b"../" * 9000 + b'etc"',
    b'Content-Disposition: form-data; name="file"; filename="a\0b.txt"',
    b"Content-Disposition: form-data; name=file; filename*=utf-7''%2BADw-",
    b"Content-Disposition: form-data; name=file; filename*=undefined''x",
    b"Content-Disposition: form-data; name=file; filename*=''%ff%fe%00",
    b'Content-Disposition: form-data; name="metadata"',
    b'Content-Disposition: form-data; name="chunkSize"',
    b'Content-Disposition: form-data; name="keep"',
    b'Content-Disposition: form-data; name="path[]"; filename="\xe2\x80\xae\xff.txt"',
    b"Content-Disposition: attachment; name=a" + b"; x=y" * 9000,
    b"Content-Disposition: form-data; name*0=a; name*1=b",
)
_PART_TYPES = (
    b"Content-Type: text/plain; charset=undefined",
    b"Content-Type: text/plain; charset=unicode_escape",
    b"Content-Type: multipart/mixed; boundary=c",
    b"Content-Type: " + b"a/" * 9000,
    b"Content-Transfer-Encoding: base64",
    b"Content-Type: text/plain; charset=\xff\0",
    b"Content-Type: text/plain; charset=idna",
    b"Content-Encoding: gzip",
    b"X: " + b"v" * 300_000,
    b"\0\0\0",
)
_MULTIPART: dict[str, Callable[[random.Random], bytes]] = {
    "part": lambda rng: _form(
        _part(rng.choice(_PART_FIELDS), rng.choice(_PART_TYPES)) + _part(_DISPOSITION) + b"--b--\r\n"
    ),
    "field of a part": lambda rng: _form(
        _part(rng.choice(_PART_FIELDS), content=rng.choice((b"\xff\xfe", b"{" * 9000, b"9" * 9000, b"\\ud800")))
        + _part(_DISPOSITION)
        + b"--b--"
    ),
    "type of a part": lambda rng: _form(_part(_DISPOSITION, rng.choice(_PART_TYPES)) + b"--b--\r\n"),
    "many parts": lambda rng: _form(
        _part(rng.choice((_DISPOSITION, b'Content-Disposition: form-data; name="a"')), content=b"")
        * rng.choice((200, 12_000))
        + b"--b--"
    ),
    "open part": lambda rng: _form(
        _part(_DISPOSITION) + rng.choice((b"", b"--b", b"--b\r\nContent", b"\r\n--b-", b"--" * 99_999))
    ),
    "fields of a part": lambda rng: _form(b"--b\r\n" + b"X: v\r\n" * rng.choice((500, 50_000)) + b"\r\nx\r\n--b--"),
    "boundary": lambda rng: _form(
        _part(_DISPOSITION) + b"--b--",
        boundary=rng.choice(("", '"', "c", "b" * 60_000, '"b\\"', "b; boundary=c", "\xff", "--", "-" * 70, '"b')),
    ),
    "preamble": lambda rng: _form(
        rng.choice((b"\r\n" * 400_000, b"x" * 2 * _MB, b"--c\r\n" * 90_000)) + _part(_DISPOSITION) + b"--b--"
    ),
    "boundary that is nearly there": lambda rng: _form(
        _part(_DISPOSITION, content=b"\r\n--" * 200_000 + b"\r\n--c" * 90_000) + b"--b--"
    ),
    "flipped parts": lambda rng: _form(_bits(rng, _part(_DISPOSITION, b"Content-Type: text/plain") * 3 + b"--b--\r\n")),
}


# Batches


def _batch(body: bytes, kind: str) -> bytes:
    return _post("/rag/ingest/batch", body, f"Content-Type: {kind}", "Prefer: wait=0")


_ITEM = b'{"source": "s", "path": "p", "text": "A lantern."}'
_ITEMS = (
    b"[" * 90_000,
    b'{"metadata":' * 90_000,
    b"nul",
    b"-",
    b'"',
    b'{"source": "\\ud800", "path": "p", "text": "t"}',
    b"\xff",
    b'{"source": "s", "path": "\\u0000", "text": "t"}',
    b"\0" * 9000,
    b"9" * 90_000,
    b'{"source": "s", "path": "p", "text": "t", "metadata": {"a": 1e999}}',
    b'{"source": "s", "path": "p", "text": "t", "subjectId": ' + b"9" * 300 + b"}",
    b'{"source": "s", "path": "p", "chunks": [{"text": 7}]}',
    b'{"source": "s", "path": "p", "text": "t", "tags": [' + b'"x",' * 60_000 + b'"y"]}',
    b'{"source": "s", "path": "p", "text": "t", "metadata": {"' + b"a." * 5000 + b'": {"$gt": 1}}}',
    b"{}" * 5000,
    b"[]",
    b'{"source": "s", "path": "p", "text": "' + b"\\\\" * 90_000 + b'"}',
    b'{"source": "s", "path": "p", "text": "t", "url": "http://169.254.169.254/"}',
    b'{"source": "s", "path": "p", "text": "t", "callbackUrl": "file:///"}',
)
_BATCH: dict[str, Callable[[random.Random], bytes]] = {
    "item of an array": lambda rng: _batch(
        b"[" + b",".join((_ITEM, rng.choice(_ITEMS), _ITEM)) + b"]", "application/json"
    ),
    "item of lines": lambda rng: _batch(b"\n".join((_ITEM, rng.choice(_ITEMS), _ITEM)), "application/x-ndjson"),
    "array": lambda rng: _batch(
        rng.choice(
            (
                b"[" + b"," * 90_000 + b"]",
                b"]" * 90_000,
                b"[" + _ITEM + b"," + b"[" * 90_000,
                b"[[" + _ITEM + b"]]" * 9000,
                b'["' + b"x" * 2 * _MB,
                b"[" + _ITEM + b"]" * 90_000,
                b"{" + _ITEM + b"}",
                b'[\\"',
                b"[" + b'"\\' * 90_000,
            )
        ),
        "application/json",
    ),
    "lines": lambda rng: _batch(
        rng.choice(
            (
                b"\n" * _MB,
                b"\r\n \t" * 300_000,
                b"\xef\xbb\xbf" + _ITEM,
                _ITEM.decode().encode("utf-16"),
                _ITEM * 9,
                b"\x1e" + _ITEM + b"\n",
                b"x" * 2 * _MB,
                _ITEM + b"\0\n",
            )
        ),
        "application/x-ndjson",
    ),
    "type of a batch": lambda rng: _batch(
        _ITEM,
        rng.choice(("application/x-ndjson; charset=utf-16", "text/plain", "*/*", "application/json; charset=\xff", "")),
    ),
}


# Records


def _document(**fields: Any) -> bytes:
    return json.dumps({"source": "bombs", "path": "p", "text": "A lantern."} | fields).encode()


def _odd(rng: random.Random) -> Any:
    return rng.choice(
        (
            None,
            7,
            -1,
            2**70,
            1.5,
            "",
            "x",
            "\0",
            "x" * 300_000,
            [],
            {},
            [[]],
            {"a": {"b": 1}},
            True,
            ["x", 7],
            "\ud800",
            1e308,
        )
    )


_NAMES = (
    "source",
    "path",
    "tenant",
    "text",
    "chunks",
    "content",
    "blob",
    "url",
    "crawl",
    "mediaType",
    "media_type",
    "filename",
    "title",
    "description",
    "tags",
    "metadata",
    "chunk_size",
    "chunk_overlap",
    "keep",
    "on_conflict",
    "patch",
    "if_version",
    "hash",
    "deleted",
    "callback_url",
    "erases",
    "submitted_at",
)
_BLOBS = (
    {"sha256": "0" * 64, "size": 10},
    {"sha256": "../../../etc/passwd", "size": 1},
    {"sha256": "", "size": -1},
    {"sha256": "f" * 64, "size": 2**62},
    {"sha256": "a" * 63 + "/", "size": 1},
)
_URLS = (
    "file:///etc/passwd",
    "http://169.254.169.254/latest",
    "http://127.0.0.1:1/",
    "http://[::ffff:127.0.0.1]/",
    "gopher://x",
    "http://" + "a" * 5000,
    "//x",
    "http://x:99999/",
    "http://user:pw@127.0.0.1/",
    "data:text/plain,x",
    "",
)
_POSITIONS = (
    "9" * 19 + "/1/1",
    "0/0/9999999999999999",
    "-1/-1/-1",
    "1/2",
    "٣/1/1",
    "0/0/0",
    "x",
    "/" * 999,
    "5000001/7/7",
)
RecordParts = tuple[bytes | None, Mapping[str, str], bytes | None]
_RECORDS: dict[str, Callable[[random.Random], bytes | RecordParts | None]] = {
    "bytes": lambda rng: rng.choice(
        (
            b"",
            b"\0" * 90_000,
            rng.randbytes(5000),
            b"\xff\xfe",
            b"\xef\xbb\xbf{}",
            b"nul",
            b"PK\x03\x04",
            b"\x80\x04\x95.",
            gzip.compress(b" " * 9_000_000),
        )
    ),
    "schema registry": lambda rng: b"\0" + struct.pack(">I", rng.randrange(2**32)) + b"\x02\x06abc",
    "deep": lambda rng: rng.choice(
        (
            b"[" * 300_000,
            b'{"metadata":' * 90_000,
            _document(metadata=7).replace(b"7", b'{"a":' * 30_000 + b"1" + b"}" * 30_000),
        )
    ),
    "field": lambda rng: _document(**{rng.choice(_NAMES): _odd(rng)}),
    "fields": lambda rng: _document(**{name: _odd(rng) for name in rng.sample(_NAMES, 6)}),
    "numbers": lambda rng: _document(chunk_size=7, path="n").replace(
        b"7", rng.choice((b"1e999", b"9" * 5000, b"-0", b"NaN", b"1.0", b"0x7"))
    ),
    "twice": lambda _: (
        b'{"source": "bombs", "source": 7, "path": "p", "path": "q", "text": "t", "tenant": "a", "tenant": "default"}'
    ),
    "many fields": lambda _: json.dumps({f"k{n}": n for n in range(50_000)}).encode(),
    "blob": lambda rng: json.dumps({"source": "bombs", "path": "b", "blob": rng.choice(_BLOBS)}).encode(),
    "url": lambda rng: json.dumps({"source": "bombs", "path": "u", "url": rng.choice(_URLS)}).encode(),
    "crawl": lambda rng: json.dumps(
        {
            "source": "bombs",
            "path": "c",
            "url": rng.choice(_URLS),
            "crawl": {"depth": _odd(rng), "pages": _odd(rng), "host": _odd(rng)},
        }
    ).encode(),
    "base64": lambda rng: json.dumps(
        {
            "source": "bombs",
            "path": "c",
            "content": rng.choice(("!", "=" * 99, "QQ", "Q" * 400_001, base64.b64encode(rng.randbytes(999)).decode())),
        }
    ).encode(),
    "chunks": lambda rng: json.dumps(
        {
            "source": "bombs",
            "path": "c",
            "chunks": rng.choice(
                (
                    [],
                    [7],
                    [{"text": 7}],
                    [{"text": "x", "metadata": {"a": {}}}],
                    [{"text": "x"}] * 9000,
                    [[[]]],
                    [{"text": "x" * 400_000}],
                )
            ),
        }
    ).encode(),
    "metadata": lambda rng: _document(
        metadata=rng.choice(
            (
                {"tenant": "other"},
                {"": 1},
                {"a.b": {"$in": []}},
                {"a\0": 1},
                {"a": [1, "x", {}]},
                {str(n): n for n in range(20_000)},
                {"a": 2**80},
            )
        )
    ),
    "tenant": lambda rng: _document(
        tenant=rng.choice(("other", "", "../x", "a/b", "x" * 9000, "\0", "default ", "DEFAULT", "é"))
    ),
    "deleted with a body": lambda _: _document(deleted=True),
    "erasure": lambda rng: _document(
        erases=rng.choice(("x", "0" * 36, "../..", "", "00000000-0000-5000-8000-000000000000")), deleted=True
    ),
    "patch": lambda rng: json.dumps(
        {"source": "bombs", "path": "none", "patch": True, "if_version": rng.choice((0, 2**53, 2**64))}
    ).encode(),
    "callback": lambda rng: _document(callback_url=rng.choice(_URLS)),
    "position": lambda rng: (_document(), {PLACE_HEADER: rng.choice(_POSITIONS)}, None),
    "forwarded": lambda rng: (
        _document(),
        {FORWARDED_HEADER: f"t/{rng.choice(_POSITIONS)}", MOVED_HEADER: rng.choice(_POSITIONS)},
        None,
    ),
    "redrives": lambda rng: (
        _document(),
        {REDRIVE_HEADER: rng.choice(("-1", "9" * 500, "x", "٣")), HASH_HEADER: "0" * 16},
        None,
    ),
    "event": lambda rng: (
        _document(),
        {
            "ce_specversion": rng.choice(("1.0", "9.9", "")),
            "ce_source": "\0",
            "ce_subject": "x" * 90_000,
            "content-type": rng.choice(("text/html; charset=undefined", "application/cloudevents+json", "x" * 9000)),
        },
        None,
    ),
    "event in JSON": lambda rng: json.dumps(
        {
            "specversion": "1.0",
            "id": 7,
            "type": [],
            "source": _odd(rng),
            "subject": _odd(rng),
            "data": _odd(rng),
            "datacontenttype": _odd(rng),
        }
    ).encode(),
    "null": lambda rng: (
        None,
        rng.choice(({}, {"source": "bombs"}, {"ce_subject": "x" * 9000}, {"source": "\0", "path": "\0"})),
        rng.choice((None, b"", b"x" * 90_000, b"\xff" * 16, b"00000000-0000-5000-8000-000000000000")),
    ),
    "many headers": lambda rng: (_document(), {f"h{n}": "v" * rng.choice((1, 900)) for n in range(500)}, b"k" * 9000),
    "of another topic": lambda rng: rng.choice(
        (
            b'{"document": {"document_id": "x"}, "text": null}',
            b'{"stage": "ingest", "code": "x"}',
            b'{"document_id": "x", "status": "created", "place": [0, 0, 0]}',
        )
    ),
    "large": lambda rng: _document(text="a " * 400_000, path="large"),
}
