"""An httpx transport on httpcore's public interface, with our own network backend.

It uses no proxy, because a proxy would resolve names itself, and the addresses would go unchecked.
"""

import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from functools import cache, cached_property

import httpcore
import httpx


class Transport(httpx.AsyncBaseTransport):
    """Sends requests through a network backend, over at most so many connections."""

    def __init__(self, network: httpcore.AsyncNetworkBackend, connections: int) -> None:
        """Take the network backend."""
        self._network = network
        self._connections = connections

    @cached_property
    def _pool(self) -> httpcore.AsyncConnectionPool:
        # Created at the first use: a worker that fetches nothing loads no certificates.
        return httpcore.AsyncConnectionPool(
            ssl_context=_certificates(),
            max_connections=self._connections,
            max_keepalive_connections=self._connections,
            keepalive_expiry=5.0,
            network_backend=self._network,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response with its body unread. Raises httpx's exceptions, and those of the network backend."""
        assert isinstance(request.stream, httpx.AsyncByteStream)
        url = request.url
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _as_httpx():
            got = await self._pool.handle_async_request(sent)
        assert isinstance(got.stream, AsyncIterable)
        return httpx.Response(got.status, headers=got.headers, stream=_Body(got), extensions=got.extensions)

    async def aclose(self) -> None:
        """Close all connections."""
        if "_pool" in self.__dict__:
            await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    """A response's body as it arrives."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for part in self._response.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _as_httpx() -> Iterator[None]:
    """Raise httpcore's exceptions as httpx's, which have the same names."""
    try:
        yield
    except Exception as error:
        kind = getattr(httpx, type(error).__name__, None)
        if type(error).__module__.startswith("httpcore") and kind is not None:
            raise kind(str(error)) from error
        raise


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates, from SSL_CERT_FILE where it is set. Loading takes a tenth of a second."""
    return httpx.create_ssl_context(trust_env=True)
