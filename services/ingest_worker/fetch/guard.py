"""Decides which addresses the fetcher and callbacks may connect to.

The address is checked when the socket connects: a name is looked up once, each address is checked against the table,
and the connection goes to one that passed. The spelling of a URL can't get around the check.
docs/adr/0018-web-pages.md.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import Any, Final, TypeVar

import httpcore
import httpx

from services.ingest_worker.fetch.addresses import NEVER_ALLOWED, Address, Network, destination, special
from services.ingest_worker.fetch.dns_lookup import Lookup, Names
from shared.errors import Rejected
from shared.settings import ConfigurationError


class Transport(httpx.AsyncHTTPTransport):
    """Sends requests through a network backend of ours, which httpx has no option for."""

    def __init__(self, network: httpcore.AsyncNetworkBackend, connections: int) -> None:
        """Take the network backend, and the most connections."""
        self._network = network
        self._connections = connections

    @cached_property
    def _pool(self) -> httpcore.AsyncConnectionPool:  # type: ignore[override]  # where httpx looks for it
        # Created at the first use: a worker that fetches nothing loads no certificates.
        return httpcore.AsyncConnectionPool(
            ssl_context=_certificates(),
            max_connections=self._connections,
            max_keepalive_connections=self._connections,
            keepalive_expiry=5.0,
            network_backend=self._network,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        if "_pool" in self.__dict__:
            await self._pool.aclose()


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates, from SSL_CERT_FILE where it is set. Loading takes a tenth of a second."""
    return httpx.create_ssl_context(trust_env=True)


# Bytes read at once. The usual 64 kB may be 2,600 responses `100 Continue`, which take 70 ms of the event loop, and
# then come again, for each page. 8 kB take 10 ms; a page of 20 MB takes 0.2 s longer.
_PIECE: Final = 8192
WEB_PORTS: Final = frozenset({80, 443, 8080, 8443})
_NAME: Final = re.compile(r"(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.IGNORECASE)
_WITH_PORT: Final = re.compile(r"(?:\[(.+)\]|([^:]+)):([1-9][0-9]{0,4})")  # an IPv6 network in brackets
_LOOPBACK_6: Final = ipaddress.ip_network("::1")

_T = TypeVar("_T")
_AtPort = tuple[_T, int | None]  # None: any port
_tenant: ContextVar[str] = ContextVar("tenant")  # for whom a connection is made: httpcore doesn't pass it on


class AddressRefused(Exception):  # noqa: N818 - says what happened
    """A request would leave for an address that isn't allowed; the message says which and why."""


class Guard:
    """Sends requests to public addresses on the web's ports, and to hosts and networks that an operator allowed."""

    def __init__(
        self,
        allow: str = "",
        *,
        resolver: Lookup = socket.getaddrinfo,
        connections: int = 32,
        setting: str = "SLUICE_FETCH_ALLOW",
        doing: str = "fetching from",
    ) -> None:
        """Take the allow-list: hosts and networks, each perhaps with a port, separated by commas.

        `setting` is its name, for sentences.

        Raises:
            ConfigurationError: an entry is neither.
        """
        allowed = _allowed(allow, setting)
        self._setting = setting
        self._doing = doing
        self._transport = Transport(_GuardedNetwork(*allowed, Names(resolver)), connections)

    async def send(self, request: httpx.Request, tenant: str) -> httpx.Response:
        """Return the response with its body unread. Follows no redirects and uses no proxies of the environment.

        Raises:
            Rejected: code `address_refused` or `url`; nothing was sent.
            Busy: the tenant's names have to wait, because others of its names aren't found.
            httpx.TransportError: the host or the network failed.
        """
        _tenant.set(tenant)
        try:
            return await self._transport.handle_async_request(request)
        except AddressRefused as refusal:
            raise Rejected(
                f"{self._doing} {request.url.host} is forbidden: {refusal}; an operator can allow a host or network "
                f"with {self._setting}",
                "address_refused",
            ) from refusal
        except ValueError as error:  # a name that no resolver can be asked for
            raise Rejected(f"{request.url.host} is not a valid host name: {error}", "url") from error

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


class _SmallReads(httpcore.AsyncNetworkStream):
    """A stream that is read in pieces of `_PIECE`, and gives the event loop back after each."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        return await self._stream.read(min(max_bytes, _PIECE), timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _SmallReads(await self._stream.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that the rules permit, and to nothing else: the base class refuses Unix sockets."""

    def __init__(self, names: Sequence[_AtPort[str]], networks: Sequence[_AtPort[Network]], resolver: Names) -> None:
        self._names = names
        self._networks = networks
        self._resolver = resolver
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Return a connection to the first of the host's addresses that answers, if all of them are permitted.

        Raises:
            AddressRefused: one of them isn't. ValueError: the host is no name. Busy: see `Names`.
            httpcore.ConnectError, httpcore.ConnectTimeout: there is no such host, or nobody answers.
        """
        named = self._is_named(host, port)
        networks = [network for network, only in self._networks if only in (None, port)]
        if not named and not networks:
            _check_port(port)  # before the name is looked up: that would be a request, too
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolver.addresses(host, port, _tenant.get())
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} was not found in time") from None
        except OSError as error:
            raise httpcore.ConnectError(f"{host} was not found: {error.strerror or error}") from error
        for address in addresses:
            _check(address, port, networks, named=named)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            left = None if timeout is None else timeout - (loop.time() - began)
            if left is not None and left <= 0:
                break
            try:
                stream = await self._network.connect_tcp(address, port, left, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _SmallReads(await self._compared(stream, address))
        raise failure

    def _is_named(self, host: str, port: int) -> bool:
        name = host.lower().removesuffix(".")
        return any(fnmatchcase(name, allowed) for allowed, only in self._names if only in (None, port))

    @staticmethod
    async def _compared(stream: httpcore.AsyncNetworkStream, address: str) -> httpcore.AsyncNetworkStream:
        """Return the stream if its other end is the address that was checked."""
        peer: Address = destination(stream.get_extra_info("server_addr")[0])
        if peer != destination(address):
            await stream.aclose()
            raise AddressRefused(f"the connection to {address} went to {peer}")
        return stream


def _check(text: str, port: int, networks: Sequence[Network], *, named: bool) -> None:
    """Raise AddressRefused unless the address may be connected to; an allowed host may have any."""
    address = destination(text)
    if named or any(address in network for network in networks if network.version == address.version):
        return
    if (reason := special(address)) is not None:
        raise AddressRefused(f"{text} is not a public address ({reason})")
    _check_port(port)


def _check_port(port: int) -> None:
    if port not in WEB_PORTS:
        raise AddressRefused(f"port {port} is none of the web's ({', '.join(map(str, sorted(WEB_PORTS)))})")


def _allowed(text: str, setting: str) -> tuple[Sequence[_AtPort[str]], Sequence[_AtPort[Network]]]:
    names: list[_AtPort[str]] = []
    networks: list[_AtPort[Network]] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        found = _WITH_PORT.fullmatch(entry)
        host, port = (found[1] or found[2], int(found[3])) if found else (entry, None)
        try:
            network = ipaddress.ip_network(host)
        except ValueError:
            if not _NAME.fullmatch(host) or re.fullmatch(r"[0-9.]+", host):
                raise ConfigurationError(
                    f"{setting}: {entry!r} is neither a host such as wiki.internal, *.internal or n8n:5678 nor a "
                    "network such as 10.1.0.0/16 or 10.1.0.0/16:8080"
                ) from None
            names.append((host.lower(), port))
            continue
        carriers = [block for block in NEVER_ALLOWED if block.version == network.version and block.overlaps(network)]
        if carriers and network != _LOOPBACK_6:
            raise ConfigurationError(f"{setting}: {entry} carries IPv4 addresses; allow the IPv4 network that is meant")
        networks.append((network, port))
    return names, networks
