"""Which addresses the fetcher may connect to: the only module that uses ssrfguard.

The address is checked when the socket connects: a name is looked up once, each address is checked against the table,
and the connection goes to one that passed. The spelling of a URL can't get around the check.
docs/adr/0024-addresses-under-guard.md.
"""

import ipaddress
import re
import ssl
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Final

import httpx
from ssrfguard import DEFAULT_DENIED, AddressTable, Block, Policy, Reach, Resolver, SSRFGuardError
from ssrfguard.httpx import AsyncSafeTransport

from shared.errors import Rejected
from shared.settings import ConfigurationError

WEB_PORTS: Final = frozenset({80, 443, 8080, 8443})
_ANY_PORT: Final = frozenset(range(1, 65536))
_NAME: Final = re.compile(r"(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.IGNORECASE)
_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
# The default table lists what is known to be internal. For IPv6 that isn't enough, as translation and tunnel prefixes
# are still being added: only global unicast is permitted.
_TABLE: Final = AddressTable(
    (
        *DEFAULT_DENIED.blocks,
        Block(ipaddress.ip_network("::/0"), "not global unicast", "RFC4291", Reach.DENIED),
        Block(_GLOBAL_UNICAST, "global unicast", "RFC4291", Reach.PERMITTED),
    )
)
_NOTHING_DENIED: Final = AddressTable(())


class Guard:
    """Sends requests to public addresses on the web's ports, and to hosts and networks that an operator allowed."""

    def __init__(self, allow: str = "", *, resolver: Resolver | None = None, connections: int = 32) -> None:
        """Take the allow-list: hosts and networks, separated by commas.

        Raises:
            ConfigurationError: an entry is neither.
        """
        self._names, self._networks = _allowed(allow)
        self._resolver = resolver
        self._limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Return the response with its body unread. Follows no redirects and uses no proxies of the environment.

        Raises:
            Rejected: code `address_refused` or `url`; nothing was sent.
            httpx.TransportError: the host or the network failed.
        """
        transport = self._named if self._is_named(request.url) else self._public
        try:
            return await transport.handle_async_request(request)
        except SSRFGuardError as refusal:
            raise Rejected(
                f"fetching from {request.url.host} is forbidden: {refusal}; an operator can allow a host or network "
                "with SLUICE_FETCH_ALLOW",
                "address_refused",
            ) from refusal
        except ValueError as error:  # a name that no resolver can be asked for
            raise Rejected(f"{request.url.host} is not a valid host name: {error}", "url") from error

    async def close(self) -> None:
        """Close all connections."""
        for name in ("_named", "_public"):
            if (transport := self.__dict__.get(name)) is not None:
                await transport.aclose()

    # Created at the first use: a worker that fetches nothing loads no certificates.

    @cached_property
    def _public(self) -> AsyncSafeTransport:
        ports = _ANY_PORT if self._networks else WEB_PORTS
        return self._transport(Policy(denied_networks=_TABLE, allowed_networks=self._networks, allowed_ports=ports))

    @cached_property
    def _named(self) -> AsyncSafeTransport:
        return self._transport(
            Policy(denied_networks=_NOTHING_DENIED, allowed_hosts=frozenset(self._names), allowed_ports=_ANY_PORT)
        )

    def _transport(self, policy: Policy) -> AsyncSafeTransport:
        # No proxies: a proxy would resolve the name itself, unchecked.
        return AsyncSafeTransport(
            policy=policy, resolver=self._resolver, limits=self._limits, verify=_certificates(), trust_env=False
        )

    def _is_named(self, url: httpx.URL) -> bool:
        if not self._names:
            return False
        try:
            self._named.policy.check_host(url.raw_host.decode("ascii"))
        except SSRFGuardError:
            return False
        return True


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates, from SSL_CERT_FILE where it is set. Loading takes a tenth of a second."""
    return httpx.create_ssl_context(trust_env=True)


def _allowed(text: str) -> tuple[Sequence[str], tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]]:
    names: list[str] = []
    networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        try:
            networks.append(ipaddress.ip_network(entry))
        except ValueError:
            if not _NAME.fullmatch(entry) or re.fullmatch(r"[0-9.]+", entry):
                raise ConfigurationError(
                    f"SLUICE_FETCH_ALLOW: {entry!r} is neither a host such as wiki.internal or *.internal nor a "
                    "network such as 10.1.0.0/16"
                ) from None
            names.append(entry.lower())
    try:
        Policy(allowed_networks=tuple(networks), allowed_hosts=frozenset(names))
    except ValueError as error:
        raise ConfigurationError(f"SLUICE_FETCH_ALLOW={text}: {error}") from None
    return names, tuple(networks)
