"""A body is in memory once, and twice while it is decompressed, whatever its format: as the memory budgets count it."""

import base64
import gc
import random
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import cramjam
import msgspec
import pytest

from services.ingest_worker.content import ContentReader, body_as_sent
from services.ingest_worker.extract import Hints
from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.parsers import ParserPool
from shared.blobs.file import FileBlobs
from shared.contracts import DocumentSubmitted, LogPosition
from shared.errors import Rejected
from tests.selection import CI_ONLY
from tests.servers.loopback import Connection, running
from tests.servers.website import Script, Website

SIZE = 6 << 20  # bytes, of which a copy more is far above the slack
MOST = 13 << 19
SLACK = 0.4  # of a body: what is on its way, and growth by an eighth; a copy would be 1
_PIECE = 64 * 1024
NOISE = base64.b64encode(random.Random(1).randbytes(SIZE))[:SIZE]  # doesn't shrink much
WORDS = b"The lantern burns all night beside the heron. "


def _deflated(data: bytes, wbits: int) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, wbits)
    return packer.compress(data) + packer.flush()


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "gzip": lambda data: _deflated(data, 31),
    "x-gzip": lambda data: b"".join(_deflated(data[at : at + _PIECE], 31) for at in range(0, len(data), _PIECE)),
    "deflate": lambda data: _deflated(data, 15),
    "deflate, gzip": lambda data: _deflated(_deflated(data, -15), 31),
    "br": lambda data: bytes(cramjam.brotli.compress(data, 1)),
    "zstd, gzip": lambda data: _deflated(bytes(cramjam.zstd.compress(data)), 31),
}
MAIL = (
    b"From: a@b.example\nSubject: Lanterns\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n"
    b"Content-Type: text/plain\n\n" + WORDS + b"\n--x\nContent-Type: application/octet-stream\n"
    b"Content-Transfer-Encoding: base64\n\n" + NOISE + b"\n--x--\n"
)
FORMATS: dict[str, bytes] = {
    "text/html": b"<html><head><script>" + NOISE + b"</script></head><body><p>" + WORDS * 20 + b"</p></body></html>",
    "application/rss+xml": b"<rss><channel><title>Lanterns</title><item><title>One</title><description>"
    + WORDS
    + b"</description></item><!--"
    + NOISE
    + b"--></channel></rss>",
    "application/pdf": b"%PDF-1.4\n%" + NOISE + b"\n%%EOF",  # damaged
    "message/rfc822": MAIL,
    "application/octet-stream": random.Random(2).randbytes(SIZE),  # no format of ours
}


def _answer(body: bytes, media_type: str = "text/html", coding: str = "") -> Script:
    packed = CODINGS[coding](body)

    async def script(connection: Connection) -> None:
        head = f"content-type: {media_type}\r\ncontent-length: {len(packed)}\r\n"
        head += f"content-encoding: {coding}\r\n" if coding else ""
        await connection._write(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
        for at in range(0, len(packed), _PIECE):  # what the server has still to send is in this process, too
            await connection._write(packed[at : at + _PIECE])

    return script


@asynccontextmanager
async def _fetcher(*, robots: bool = False) -> AsyncIterator[Fetcher]:
    limits = FetchLimits(most_bytes=MOST, patience_s=60, delay_s=0, robots=robots)
    fetcher = Fetcher(Guard("127.0.0.0/8"), limits)
    yield fetcher
    await fetcher.close()


class _Held:
    """The most bytes that were held at once since the start, in bodies of `SIZE`."""

    def __enter__(self) -> Self:
        gc.collect()
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        tracemalloc.stop()

    @property
    def bodies(self) -> float:
        return tracemalloc.get_traced_memory()[1] / SIZE


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_body_of_any_coding_is_held_as_often_as_it_is_counted(coding: str) -> None:
    body = FORMATS["text/html"][:SIZE]
    async with running(Website({"/page": _answer(body, coding=coding)})) as website, _fetcher() as fetcher:
        with _Held() as held:
            async with fetcher.page(f"{website.url}/page", tenant="t") as page:
                assert page is not None
                assert page.body == body
            most = held.bodies

    room = 2 * MOST / SIZE if coding else 1  # the largest body, twice while it is decompressed
    assert most <= room + SLACK, f"{most:.2f} bodies of {coding or 'no coding'}"


@CI_ONLY
@pytest.mark.parametrize("door", ["url", "blob"])
@pytest.mark.parametrize("media_type", FORMATS)
async def test_a_body_of_any_format_is_hashed_and_sent_to_its_parser_without_a_copy(
    media_type: str, door: str, tmp_path: Path
) -> None:
    body = FORMATS[media_type]
    parsers, blobs = ParserPool(1), FileBlobs(tmp_path)
    async with running(Website({"/page": _answer(body, media_type)})) as website, _fetcher() as fetcher:
        submitted = DocumentSubmitted(tenant="t", source="s", path="page", media_type=media_type)
        if door == "url":
            submitted = msgspec.structs.replace(submitted, url=f"{website.url}/page")
        else:
            ref = await blobs.put("t", submitted.document_id, body)
            submitted = msgspec.structs.replace(submitted, blob=ref)
        reader = ContentReader(blobs=blobs, fetch=fetcher, parsers=parsers)
        await parsers.extract(b"<p>A heron.</p>", Hints(filename="first.html"), tenant="t")  # starts a process
        with _Held() as held:
            async with reader.content(submitted, None, None) as content:
                assert content.body == body
                await body_as_sent(content, LogPosition(partition=0, offset=0, time=0))
                with suppress(Rejected):  # not all are sound
                    await reader.extract(submitted, content)
            most = held.bodies
        await parsers.close()

    assert most <= 1 + SLACK, f"{most:.2f} bodies of {media_type}"


async def test_robots_txt_and_sitemaps_are_held_one_after_the_other() -> None:
    listing = b"<urlset>" + b"<!-- -->" * (SIZE // 8)
    pages = {f"/{name}.xml": _answer(listing, "text/xml") for name in "abc"}
    index = "".join(f"<sitemap><loc>URL/{name}.xml</loc></sitemap>" for name in "abc")
    rules = b"User-agent: *\nDisallow: /private\n#" + b" " * SIZE
    async with running(Website({"/page": _answer(WORDS)})) as website, _fetcher(robots=True) as fetcher:
        sitemap = f"<sitemapindex>{index}</sitemapindex>".replace("URL", website.url).encode()
        website.pages |= {"/sitemap.xml": _answer(sitemap), "/robots.txt": _answer(rules), **pages}
        with _Held() as held:
            async with fetcher.page(f"{website.url}/page", tenant="t") as page:
                assert page is not None
                await fetcher.listed(page, 100, tenant="t")
            most = held.bodies

    assert {*pages, "/robots.txt"} <= {*website.asked}
    assert most <= 1 + SLACK, f"{most:.2f} bodies"
