"""Decides which addresses the fetcher and callbacks may connect to.

The address is checked when the socket connects: a name is looked up once, each address is checked against the table,
and the connection goes to one that passed. The spelling of a URL can't get around the check.
docs/adr/0018-web-pages.md.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import httpcore
import httpx

from services.ingest_worker.fetch.addresses import NEVER_ALLOWED, Address, Network, destination, special
from services.ingest_worker.fetch.transport import Transport
from shared.errors import Rejected
from shared.settings import ConfigurationError

WEB_PORTS: Final = frozenset({80, 443, 8080, 8443})
_NAME: Final = re.compile(r"(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.IGNORECASE)
_LOOPBACK_6: Final = ipaddress.ip_network("::1")

Resolver = Callable[..., Iterable[tuple[Any, ...]]]  # as socket.getaddrinfo


class AddressRefused(Exception):  # noqa: N818 - says what happened
    """A request would leave for an address that isn't allowed; the message says which and why."""


class Guard:
    """Sends requests to public addresses on the web's ports, and to hosts and networks that an operator allowed."""

    def __init__(
        self,
        allow: str = "",
        *,
        resolver: Resolver = socket.getaddrinfo,
        connections: int = 32,
        setting: str = "SLUICE_FETCH_ALLOW",
        doing: str = "fetching from",
    ) -> None:
        """Take the allow-list: hosts and networks, separated by commas. `setting` is its name, for sentences.

        Raises:
            ConfigurationError: an entry is neither.
        """
        names, networks = _allowed(allow, setting)
        self._setting = setting
        self._doing = doing
        self._transport = Transport(_GuardedNetwork(names, networks, resolver), connections)

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Return the response with its body unread. Follows no redirects and uses no proxies of the environment.

        Raises:
            Rejected: code `address_refused` or `url`; nothing was sent.
            httpx.TransportError: the host or the network failed.
        """
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


class _GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that the rules permit, and to nothing else."""

    def __init__(self, names: Sequence[str], networks: Sequence[Network], resolver: Resolver) -> None:
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
            AddressRefused: one of them isn't. ValueError: the host is no name.
            httpcore.ConnectError, httpcore.ConnectTimeout: there is no such host, or nobody answers.
        """
        named = self._is_named(host)
        if not named and not self._networks:
            _check_port(port)  # before the name is looked up: that would be a request, too
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(timeout):
                found = await asyncio.to_thread(self._resolver, host, port, 0, socket.SOCK_STREAM)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} was not found in time") from None
        except OSError as error:
            raise httpcore.ConnectError(f"{host} was not found: {error.strerror or error}") from error
        addresses = list(dict.fromkeys(row[4][0] for row in found))
        for address in addresses:
            self._check(address, port, named=named)
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
                return await self._compared(stream, address)
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - httpcore's signature
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        """Refuse."""
        raise AddressRefused(f"{path} is a Unix socket")

    async def sleep(self, seconds: float) -> None:
        """Wait, between httpcore's retries."""
        await asyncio.sleep(seconds)

    def _is_named(self, host: str) -> bool:
        name = host.lower().removesuffix(".")
        return any(fnmatchcase(name, allowed) for allowed in self._names)

    def _check(self, text: str, port: int, *, named: bool) -> None:
        """Raise AddressRefused unless the address may be connected to; an allowed host may have any."""
        address = destination(text)
        if named or any(address in network for network in self._networks if network.version == address.version):
            return
        if (reason := special(address)) is not None:
            raise AddressRefused(f"{text} is not a public address ({reason})")
        _check_port(port)

    @staticmethod
    async def _compared(stream: httpcore.AsyncNetworkStream, address: str) -> httpcore.AsyncNetworkStream:
        """Return the stream if its other end is the address that was checked."""
        peer: Address = destination(stream.get_extra_info("server_addr")[0])
        if peer != destination(address):
            await stream.aclose()
            raise AddressRefused(f"the connection to {address} went to {peer}")
        return stream


def _check_port(port: int) -> None:
    if port not in WEB_PORTS:
        raise AddressRefused(f"port {port} is none of the web's ({', '.join(map(str, sorted(WEB_PORTS)))})")


def _allowed(text: str, setting: str) -> tuple[Sequence[str], Sequence[Network]]:
    names: list[str] = []
    networks: list[Network] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        try:
            network = ipaddress.ip_network(entry)
        except ValueError:
            if not _NAME.fullmatch(entry) or re.fullmatch(r"[0-9.]+", entry):
                raise ConfigurationError(
                    f"{setting}: {entry!r} is neither a host such as wiki.internal or *.internal nor a "
                    "network such as 10.1.0.0/16"
                ) from None
            names.append(entry.lower())
            continue
        carriers = [block for block in NEVER_ALLOWED if block.version == network.version and block.overlaps(network)]
        if carriers and network != _LOOPBACK_6:
            raise ConfigurationError(f"{setting}: {entry} carries IPv4 addresses; allow the IPv4 network that is meant")
        networks.append(network)
    return names, networks
