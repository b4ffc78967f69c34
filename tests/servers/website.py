"""A website on loopback: pages with validators, redirects, and answers of any shape."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tests.servers.loopback import Connection, LoopbackServer

Script = Callable[[Connection], Awaitable[None]]


class Answer(NamedTuple):
    body: bytes = b""
    status: int = 200
    headers: tuple[str, ...] = ("content-type: text/html",)


def a_page(title: str, *links: str, text: str = "") -> Answer:
    anchors = " ".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
    words = text or f"{title} is a page about lanterns and herons, long enough to be taken for a text."
    return Answer(f"<html><head><title>{title}</title></head><body><p>{words}</p>{anchors}</body></html>".encode())


def to(address: str, status: int = 302) -> Answer:
    return Answer(status=status, headers=(f"location: {address}",))


class Website(LoopbackServer):
    """Answers with `pages`; whatever else is asked for isn't there. `asked` has every path in order."""

    def __init__(self, pages: dict[str, Answer | list[Answer] | Script] | None = None) -> None:
        super().__init__()
        self.pages = pages if pages is not None else {}
        self.sent: list[dict[str, str]] = []  # the headers of each request
        self.most_at_once = 0

    @property
    def asked(self) -> list[str]:
        return [path for path, _ in self.requests]

    async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
        self.sent.append(self.headers)
        self.most_at_once = max(self.most_at_once, self.at_once)
        page = self.pages.get(path, Answer(b"nothing here", 404))
        if isinstance(page, list):  # one after the other, the last for ever
            page = page.pop(0) if len(page) > 1 else page[0]
        if not isinstance(page, Answer):
            await page(connection)
            return False
        headers = dict(line.split(": ", 1) for line in page.headers)
        told = self.headers.get("if-none-match"), self.headers.get("if-modified-since")
        if any(value is not None and value in (headers.get("etag"), headers.get("last-modified")) for value in told):
            await connection.send(304, b"", *page.headers)
        else:
            await connection.send(page.status, page.body, *page.headers)
        return True
