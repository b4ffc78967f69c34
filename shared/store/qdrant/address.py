"""Parses the setting `qdrant+https://host:6333?option=value`. Pure."""

from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from shared.settings import ConfigurationError

REST_PORT: Final = 6333
_SCHEMES: Final = frozenset({"qdrant+http", "qdrant+https"})
_OPTIONS: Final = ("replicas", "shards", "ca")


class QdrantAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a server or of a node of a cluster, and the properties of new collections."""

    url: str
    replicas: int | None = None  # of a new collection; None: the server's default
    shards: int | None = None  # likewise
    ca: str | None = None  # file of trusted certificate authorities; None: the usual ones

    @property
    def encrypted(self) -> bool:
        """Return whether the connection uses TLS."""
        return self.url.startswith("https:")

    @property
    def loopback(self) -> bool:
        """Return whether the server is on this machine."""
        return urlsplit(self.url).hostname in {"127.0.0.1", "::1", "localhost"}


def qdrant_address(setting: str) -> QdrantAddress:
    """Return the address that a setting names; the port is 6333 unless given.

    Raises:
        ConfigurationError: it has another shape; the sentence says what is wrong.
    """
    try:
        parts = urlsplit(setting)
        given = parts.port
    except ValueError:  # its words may have a piece of a password
        raise ConfigurationError(f"SLUICE_STORE={setting} is not an address") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("SLUICE_STORE: a Qdrant server takes no user; its key goes into SLUICE_QDRANT_API_KEY")
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.fragment or given == 0:
        raise ConfigurationError(f"SLUICE_STORE={setting} must be edge: or qdrant+http://host:{REST_PORT}")
    host = parts.netloc if given else f"{parts.netloc.removesuffix(':')}:{REST_PORT}"
    options = _options(parts.query)
    address = QdrantAddress(
        url=f"{parts.scheme.removeprefix('qdrant+')}://{host}{parts.path.rstrip('/')}",
        replicas=_count("replicas", options.get("replicas")),
        shards=_count("shards", options.get("shards")),
        ca=options.get("ca"),
    )
    if address.ca is not None and not address.encrypted:
        raise ConfigurationError(f"SLUICE_STORE: ca={address.ca} needs qdrant+https://")
    return address


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise ConfigurationError(f"SLUICE_STORE: unknown option {name!r}; the options are {', '.join(_OPTIONS)}")
        options[name] = value
    return options


def _count(name: str, given: str | None) -> int | None:
    if given is None:
        return None
    count = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
    if not 0 < count <= 1000:
        raise ConfigurationError(f"SLUICE_STORE: {name}={given} must be 1 to 1000")
    return count
