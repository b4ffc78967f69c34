"""What a server's refusals become. A loopback server says what a real one was seen to say."""

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc  # type: ignore[import-untyped]  # it publishes no types
import grpc.aio  # type: ignore[import-untyped]
import pytest
import pytest_asyncio
from qdrant_client import AsyncQdrantClient

from shared.errors import Unavailable
from shared.store.qdrant import QdrantStore

Answering = Callable[[str], str]


@pytest_asyncio.fixture
async def answering(unused_tcp_port: int) -> AsyncIterator[Answering]:
    """Return what starts answering every request with one status line, and gives the URL."""
    status = ""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"status": {"error": "because"}, "time": 0}'
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", unused_tcp_port)

    def begin(line: str) -> str:
        nonlocal status
        status = line
        return f"http://127.0.0.1:{unused_tcp_port}"

    yield begin
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("status", ["401 Unauthorized", "429 Too Many Requests", "500 Error", "503 Unavailable"])
async def test_a_server_that_can_not_is_unavailable(answering: Answering, status: str) -> None:
    store = QdrantStore(answering(status))

    with pytest.raises(Unavailable, match="can't answer"):
        await store.start()
    await store.close()


@pytest.mark.parametrize("status", ["400 Bad Request", "413 Too Large", "422 Unprocessable"])
async def test_a_request_it_will_never_take_is_a_value_error(answering: Answering, status: str) -> None:
    store = QdrantStore(answering(status))

    with pytest.raises(ValueError, match="because"):
        await store.count("a")
    await store.close()


async def test_a_missing_collection_is_unavailable_by_its_code(answering: Answering) -> None:
    store = QdrantStore(answering("404 Not Found"))

    with pytest.raises(Unavailable, match="because") as caught:
        await store.count("a")
    await store.close()

    assert caught.value.code == "no_collection"


async def test_nobody_there_is_unavailable_by_url(unused_tcp_port: int) -> None:
    store = QdrantStore(f"http://127.0.0.1:{unused_tcp_port}")

    with pytest.raises(Unavailable, match=str(unused_tcp_port)):
        await store.start()
    await store.close()


class _GrpcClient(AsyncQdrantClient):
    """The vendor's client, on its gRPC transport, as it fails."""

    def __init__(self, code: grpc.StatusCode) -> None:
        super().__init__(":memory:")
        self._code = code

    async def count(self, *_arguments: object, **_options: object) -> None:  # type: ignore[override]
        raise grpc.aio.AioRpcError(self._code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="because")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, ValueError),
        (grpc.StatusCode.NOT_FOUND, Unavailable),
        (grpc.StatusCode.UNAVAILABLE, Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Unavailable),
    ],
)
async def test_grpc_errors_are_ours_too(code: grpc.StatusCode, error: type[Exception]) -> None:
    store = QdrantStore("grpc", client=_GrpcClient(code))

    with pytest.raises(error, match="because"):
        await store.count("a")
    await store.close()
