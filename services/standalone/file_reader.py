"""Gives the API a file reader made of the ingest worker's parsers, since services don't import each other."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from services.query_api.clients.open_webui import FileText, ReadFile
from shared.runtime.resources import Resources

if TYPE_CHECKING:
    from services.ingest_worker.parsers import ParserPool


# The client waits for the reply, and its request holds memory. Images take seconds of CPU time each, and they queue.
_WAIT_S: Final = 60.0


def file_reader(parsers: "ParserPool", wait_s: float = _WAIT_S) -> ReadFile:
    """Return a function that reads a file with these parsers; a file waits for one for at most `wait_s` seconds."""

    async def read(body: bytes, *, tenant: str, name: str | None, media_type: str | None) -> FileText:
        extraction = await parsers.extract(body, tenant=tenant, filename=name, media_type=media_type, wait_s=wait_s)
        known = {
            "source": name,
            "title": extraction.title,
            "documentType": extraction.document_type,
            "language": extraction.language,
            "pages": len(extraction.pages) or None,
            "notes": "; ".join(each.message for each in extraction.notes) or None,
        }
        return FileText(
            text=extraction.text, metadata={key: value for key, value in known.items() if value is not None}
        )

    return read


def api_reader(base: Resources, stack: AsyncExitStack) -> ReadFile:
    """Return the file reader of an API that runs as its own process; its parsers start with the first file."""
    made: list[ReadFile] = []

    async def read(body: bytes, *, tenant: str, name: str | None, media_type: str | None) -> FileText:
        if not made:
            from services.ingest_worker.parsers import parser_pool  # noqa: PLC0415 - most APIs never read a file

            parsers = parser_pool(base.settings)
            stack.push_async_callback(parsers.close)
            made.append(file_reader(parsers))
        return await made[0](body, tenant=tenant, name=name, media_type=media_type)

    return read
