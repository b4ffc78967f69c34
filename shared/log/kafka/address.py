"""Parses the setting `kafka://user:pass@host:9092,host2?option=value`."""

import re
import ssl
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args
from urllib.parse import parse_qsl, unquote

import msgspec
from pydantic import SecretStr

from shared.settings import ConfigurationError

SCHEME: Final = "kafka://"
DEFAULT_PORT: Final = 9092

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
Compression = Literal["gzip", "snappy", "lz4", "zstd"]

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")


class KafkaAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a cluster, and how to connect to it."""

    servers: tuple[str, ...]  # host:port
    username: str | None = None
    password: str | None = None
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism = "PLAIN"
    ssl_cafile: str | None = None  # trusted certificate authorities; None: the system's
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = None  # of the key
    group_instance_id: str | None = None  # unique to this process; a restart within the session moves no partition
    compression: Compression | None = None  # of records that we write; records with any of them can be read

    def __repr__(self) -> str:
        """Return the address without secrets."""
        return f"kafka://{','.join(self.servers)} ({self.security_protocol})"

    def connection(self) -> Mapping[str, Any]:
        """Return the options of all of aiokafka's clients.

        Raises:
            ConfigurationError: a certificate or a key can't be read.
        """
        return {
            "bootstrap_servers": list(self.servers),
            "security_protocol": self.security_protocol,
            "ssl_context": self._ssl_context() if self.security_protocol.endswith("SSL") else None,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile)
            if self.ssl_certfile is not None:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile, self.ssl_password)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(filter(None, (self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile)))
            raise ConfigurationError(f"SLUICE_LOG: {files} can't be used for TLS: {error}") from error
        return context


_OPTIONS: Final = tuple(
    name for name in KafkaAddress.__struct_fields__ if name not in ("servers", "username", "password")
)
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "security_protocol": get_args(SecurityProtocol),
    "sasl_mechanism": get_args(SaslMechanism),
    "compression": get_args(Compression),
}


def kafka_address(setting: str, secret: SecretStr | None = None) -> KafkaAddress:
    """Return the address that a setting names; user and password are percent-encoded, as in any URL.

    A `secret` is the user's password as it is, where the setting has none.

    Raises:
        ConfigurationError: it has another shape; the sentence says what is wrong, and never the password.
    """
    authority, _, query = setting.removeprefix(SCHEME).partition("?")
    if "@" in query:  # else the error would be about an unknown option
        raise ConfigurationError("SLUICE_LOG: user and password must be percent-encoded, %3F for a question mark")
    credentials, _, hosts = authority.rpartition("@")
    name, _, within = credentials.partition(":")
    given = secret.get_secret_value() if secret else ""
    if given and (within or not name):
        raise ConfigurationError(f"SLUICE_LOG_PASSWORD needs a user without a password: SLUICE_LOG={SCHEME}user@…")
    password = given or unquote(within)
    options = _options(query)
    protocol = options.get("security_protocol", "SASL_PLAINTEXT" if credentials else "PLAINTEXT")
    if str(protocol).startswith("SASL") and not (name and password):
        raise ConfigurationError(f"SLUICE_LOG: {protocol} needs a user and a password: {SCHEME}user:password@…")
    if credentials and not str(protocol).startswith("SASL"):
        raise ConfigurationError(f"SLUICE_LOG: {protocol} takes no user; use security_protocol=SASL_SSL")
    return KafkaAddress(
        servers=tuple(_server(host) for host in hosts.rstrip("/").split(",")),
        username=unquote(name) or None,
        password=password or None,
        **{**options, "security_protocol": protocol},
    )


def _server(host: str) -> str:
    found = _HOST.fullmatch(host)
    if found is None or not 0 < int(found["port"] or DEFAULT_PORT) < 65536:
        raise ConfigurationError(
            f"SLUICE_LOG: {host!r} must be a host, or host:port, as in {SCHEME}host:{DEFAULT_PORT}"
        )
    return host if found["port"] else f"{host}:{DEFAULT_PORT}"


def _options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise ConfigurationError(f"SLUICE_LOG: unknown option {name!r}; the options are {', '.join(_OPTIONS)}")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ConfigurationError(f"SLUICE_LOG: {name}={value} must be one of {', '.join(_CHOICES[name])}")
        options[name] = value
    return options
