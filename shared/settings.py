"""The settings, read once, at start, from the environment and `sluice.toml`. A wrong value stops the start."""

import os
import re
from collections.abc import Collection, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

import msgspec
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from shared.errors import masked
from shared.inputs.limits import LARGEST, SMALLEST, TOKEN_CHARACTERS
from shared.setting_sources import PREFIX, GivenSettings, given_settings

Role = Literal["ingest", "query", "admin", "operator"]  # admin: of a tenant; operator: of the installation
ROLES: tuple[Role, ...] = get_args(Role)
SHORT_KEY = 20  # characters; a shorter key or secret can be guessed
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CONTACT = r"^[!-'*-~]{0,200}$"  # characters allowed inside a comment of the User-Agent header
_WEB_ADDRESS = r"^(https?://[^\s/?#@]+(/[^\s?#]*)?)?$"  # without a password: it is in links
_ORIGIN = r"https?://[^\s/?#@]+"  # as browsers send it: no path and no trailing slash
_TWO_CLAIMS = r"^[^\s,]+,[^\s,]+$"
_TENANT = r"[A-Za-z0-9._-]{1,64}"
_TENANT_RULE = "must have 1 to 64 letters, digits, '.', '_' or '-'"
_TOPIC = r"[A-Za-z0-9._-]{1,200}"
_QDRANT_PREFIX = r"^[A-Za-z0-9._-]{0,64}$"


class ConfigurationError(Exception):
    """The settings can't work; the message is one sentence that names the variable and the value, without passwords."""

    def __init__(self, sentence: str) -> None:
        super().__init__(masked(sentence))


class ApiKey(msgspec.Struct, frozen=True):
    """An API key with its tenant and roles."""

    key: str
    tenant: str
    roles: frozenset[Role]


class Settings(BaseModel):
    """Environment variables with the prefix `SLUICE_`, and keys of `sluice.toml` without it, in lower case."""

    # Defaults, too: whether a chunk's size is right depends on the unit.
    model_config = ConfigDict(frozen=True, validate_default=True)

    data: Path = Path("data")  # folder for all data on this machine
    host: str = "127.0.0.1"  # address to listen on; other than loopback it needs API keys
    port: int = Field(default=3000, ge=0, le=65535)  # port to listen on; 0: any free port
    allowed_hosts: str = ""  # without API keys: more host names by which clients may call: nas.local,…
    side_host: str = "127.0.0.1"  # address of a worker's health probes and metrics
    side_port: int = Field(default=0, ge=0, le=65535)  # port of a worker's health probes and metrics; 0: any free port
    public_url: str = Field(default="", pattern=_WEB_ADDRESS)  # base URL of links to documents; unset: the URL called
    cors_origins: str = ""  # origins of web pages that may call the API: https://chat.example.org,…; * needs keys
    api_keys: SecretStr = SecretStr("")  # key:tenant:role+role,… with roles ingest, query, admin and operator

    secret: SecretStr = SecretStr("")  # signs cursors, at least 20 characters; unset: one is made and kept in the store
    metrics_allow: str = ""  # addresses and networks that may read /metrics without an operator's key: 10.0.0.0/8,…
    keys_file: Path | None = None  # file of hashed API keys, made by sluice keys; unset: keys.json in SLUICE_DATA

    oidc: str = Field(default="", pattern=_WEB_ADDRESS)  # OpenID provider for the console: https://…
    oidc_client: str = ""  # this server's client id there
    oidc_secret: SecretStr = SecretStr("")  # the client's secret, if it has one
    oidc_claims: str = Field(default="tenant,roles", pattern=_TWO_CLAIMS)  # claims with a user's tenant and roles

    log: str = "sqlite:"  # the log: sqlite:, or kafka://host:9092
    log_password: SecretStr = SecretStr("")  # password of the user in SLUICE_LOG=kafka://user@host:9092
    store: str = "edge:"  # the index: edge:, or qdrant+https://host:6333?replicas=3&shards=2&ca=/file.pem
    qdrant_api_key: SecretStr = SecretStr("")  # API key of the Qdrant server
    qdrant_prefix: str = Field(default="", pattern=_QDRANT_PREFIX)  # prefix of every collection's name on Qdrant
    embedder: str = "minilm:int8"  # minilm:int8, minilm:, onnx:FOLDER, ollama://host/model, openai+https://…/model
    embedding_price: float = Field(default=0.0, ge=0)  # price of a million embedded tokens, for `sluice stats`; 0: none
    chat: str = "auto:"  # chat models, default first: auto:, extractive:, ollama://host/model, fast=openai+https://…
    chat_context: int = Field(default=16_384, ge=1024, le=10_000_000)  # tokens of a conversation with its answer
    chat_rate: int = Field(default=0, ge=0)  # answers and expansions per minute and API key; more get 429; 0: no limit
    chat_without_store: Literal["on", "off"] = "off"  # on: a model answers without documents while search is down
    chat_rag: Literal["on", "off", ""] = ""  # whether /chat without useRag searches; empty: no, and the reply warns
    rerank: str = ""  # cross-encoder that orders the best hits: http://host:8080/rerank?model=name or onnx:FOLDER
    rerank_api_key: SecretStr = SecretStr("")  # API key for that server
    rerank_timeout: float = Field(default=2.0, gt=0, le=60)  # seconds; after that, results keep their order
    prompts: Path | None = None  # folder whose system.jinja and question.jinja replace the built-in prompts
    general_knowledge: Literal["on", "off"] = "off"  # on: if no passage is relevant, a model answers and says so
    answer_links: Literal["keep", "inert"] = "keep"  # inert: links and images in answers from documents are text only
    openai_api_key: SecretStr = SecretStr("")  # API key for openai+https:// servers of embedder and chat
    blobs: str = "file:"  # large bodies: file:, file:/another/folder, or s3://bucket/prefix?endpoint=http://host:9000

    tenant_topics: str = ""  # topics of other producers, each with its tenant: acme.documents:acme,…
    keep_originals: float = Field(default=7.0, ge=1)  # days for which what was sent is kept, to be read again
    audit_retention: float = Field(default=365.0, ge=0)  # days for which the audit trail is kept; 0: for ever
    feedback_questions: str = ""  # tenants whose thumbs under answers keep the question: acme,…; * for all
    compaction_lag: float = Field(default=7.0, ge=0, le=3650)  # days that replaced versions are kept, for --as-of
    partitions: int = Field(default=8, ge=1, le=1000)  # partitions of a new topic; existing topics keep theirs
    replication: int = Field(default=0, ge=0, le=100)  # replicas of a new Kafka topic; 0: the cluster's default
    samples: Literal["on", "off"] = "on"  # on: load samples into a new folder without keys and documents
    chunk_unit: Literal["characters", "tokens"] = "characters"  # unit of SLUICE_CHUNK_SIZE and SLUICE_CHUNK_OVERLAP
    chunk_size: int = Field(default=800, ge=SMALLEST, le=LARGEST)  # largest chunk; at most 500 if the unit is tokens
    chunk_overlap: int = Field(default=0, ge=0)  # how much of a chunk the next one repeats; at most half of its size
    min_score: float = Field(default=0.02, ge=0.0, le=1.0)  # lowest score that an answer may use: docs/search.md
    gate: Literal["each", "best"] = "each"  # each: drop hits below the lowest score; best: only if none reaches it
    history: int | None = Field(default=None, ge=0, le=100)  # earlier messages beside passages; unset: as many as fit
    max_body: int = Field(default=25 * 1024 * 1024, ge=1024)  # largest request, or item of a batch, in bytes
    max_text: int = Field(default=25 * 1024 * 1024, ge=1024)  # longest text extracted from a document, in characters
    max_batch: int = Field(default=1024**3, ge=1024)  # largest batch request in bytes; batches are streamed
    max_requests: int = Field(default=500, ge=1)  # concurrent requests per kind (ingest, query, status); more get 429
    tenant_share: int = Field(default=50, ge=1, le=100)  # percent of these limits for one tenant, if there are several
    tenant_documents: int = Field(default=0, ge=0)  # documents per minute and tenant; more get 429; 0: no limit
    tenant_bytes: int = Field(default=0, ge=0)  # bytes of request bodies per minute and tenant; more get 429
    max_connections: int = Field(default=2000, ge=16)  # open connections; fewer if the process may open fewer files
    max_connections_per_address: int = Field(default=1000, ge=1)  # of one client address, except loopback and proxies
    proxies: str = ""  # reverse proxies, which alone say who calls (X-Forwarded-For): 10.0.0.7,10.1.0.0/16
    drain: float = Field(default=0.0, ge=0.0, le=300.0)  # seconds the API answers on after SIGTERM, not ready
    max_slow: int = Field(default=256, ge=1)  # concurrent uploads that take over 5 seconds; more get 429
    max_documents: int = Field(default=64, ge=1)  # documents written to the log concurrently; more wait
    body_timeout: float = Field(default=30.0, gt=0)  # seconds to send a body, plus one per 10,000 bytes received
    parsers: int = Field(default=2, ge=1, le=64)  # processes that parse files at once
    parsers_kept: int = Field(default=6, ge=1, le=256)  # idle and busy processes that parse files, each for one tenant
    parsers_confined: Literal["on", "off"] = "on"  # off: no sandbox for parsers: docs/security.md
    fetch_allow: str = ""  # private hosts and networks that may be fetched from: wiki.internal:8000,10.1.0.0/16
    callback_allow: str = ""  # private hosts and networks that callbacks may go to: n8n.internal:5678,10.1.0.0/16
    fetch_contact: str = Field(default="", pattern=_CONTACT)  # contact address or page sent in the User-Agent
    fetch_robots: Literal["on", "off"] = "on"  # off: ignore robots.txt and noindex
    fetch_timeout: float = Field(default=10.0, ge=1.0, le=120.0)  # seconds to fetch one page, retries included
    fetch_max_bytes: int = Field(default=25 * 1024 * 1024, ge=1024, le=100 * 1024 * 1024)  # largest page in bytes
    fetch_at_once: int = Field(default=2, ge=1, le=16)  # concurrent requests to one host
    fetch_delay: float = Field(default=0.2, ge=0.0, le=10.0)  # seconds between two requests to one host
    fetch_depth: int = Field(default=3, ge=0, le=10)  # largest number of links from a crawl's first page to any other
    fetch_pages: int = Field(default=1000, ge=1, le=10_000)  # largest number of documents from one crawl
    log_format: Literal["auto", "json", "console"] = "auto"  # auto: console format on a terminal, else json
    log_level: Literal["debug", "info", "warning", "error"] = "info"  # lowest level logged; warning on a terminal
    strict: Literal["on", "off"] = "off"  # on: an unknown SLUICE_ variable, or key of sluice.toml, stops the start

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def sources(self) -> dict[str, str]:
        """Return where each value comes from: environment, a file's path, a RAG_ name, command line, or default."""
        return {name: self._sources.get(name, "default") for name in type(self).model_fields}

    def shown(self, name: str) -> str:
        """Return the setting's value as text, without secrets."""
        value = getattr(self, name)
        if isinstance(value, SecretStr):
            return "***" if value.get_secret_value() else ""
        return "" if value is None else masked(str(value))

    @field_validator("chunk_size")
    @classmethod
    def _as_long_in_tokens(cls, value: int, info: object) -> int:
        most = LARGEST // TOKEN_CHARACTERS
        if getattr(info, "data", {}).get("chunk_unit") == "tokens" and value > most:
            raise ValueError(f"must be at most {most} tokens")
        return value

    @field_validator("chunk_overlap")
    @classmethod
    def _overlap_at_most_half(cls, value: int, info: object) -> int:
        size = getattr(info, "data", {}).get("chunk_size")
        if size is not None and value > size // 2:
            raise ValueError(f"must be at most half of chunk_size ({size // 2})")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _as_browsers_send_them(cls, value: str) -> str:
        for origin in _listed(value):
            if origin != "*" and not re.fullmatch(_ORIGIN, origin):
                raise ValueError(f"{origin} must be * or an origin such as https://chat.example.org, without a path")
        return value

    @field_validator("proxies", "metrics_allow")
    @classmethod
    def _networks(cls, value: str, info: ValidationInfo) -> str:
        networks = networks_of(value)  # its error names what is wrong
        if info.field_name == "proxies" and any(not each.prefixlen for each in networks):
            raise ValueError("must not be every address: whoever calls could then say to be anybody")
        return value

    @property
    def origins(self) -> tuple[str, ...]:
        """Return the origins of web pages that may call; if empty, only this server's own pages may."""
        return _listed(self.cors_origins)

    @property
    def own_names(self) -> tuple[str, ...]:
        """Return the host names, besides loopback ones, that a request's `Host` header may name."""
        names = _listed(self.allowed_hosts)
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return tuple(name for name in (*names, self.host, public) if name)

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """Return the API keys of SLUICE_API_KEYS."""
        return parse_api_keys(self.api_keys.get_secret_value())

    @field_validator("tenant_topics")
    @classmethod
    def _topics_with_tenants(cls, value: str) -> str:
        parse_tenant_topics(value)  # its error names what is wrong
        return value

    @property
    def topics_of_tenants(self) -> dict[str, str]:
        """Return the tenant of each topic of other producers."""
        return parse_tenant_topics(self.tenant_topics)

    @property
    def audit_retention_ms(self) -> int | None:
        """Return for how many ms the audit trail is kept; None: for ever."""
        return int(self.audit_retention * 86_400_000) or None

    @property
    def key_file(self) -> Path:
        """Return where `sluice keys` keeps hashed API keys."""
        return self.keys_file or self.data / "keys.json"

    @property
    def needs_key(self) -> bool:
        """Return whether callers need an API key, as known when the process starts."""
        return bool(self.keys or self.oidc) or self.keys_file is not None or self.key_file.exists()

    @property
    def keeps_data(self) -> bool:
        """Return whether this process keeps its log, index or blobs in the data folder."""
        return self.log == "sqlite:" or self.embeds_store or self.blobs == "file:"

    @property
    def embeds_store(self) -> bool:
        """Return whether the store is the embedded one, in the data folder."""
        return self.store == "edge:"

    def checked(self) -> "Settings":
        """Return self if the settings fit together.

        Raises:
            ConfigurationError: keys are malformed, strangers could call the server without one, or the secret is short.
        """
        opens = (
            f"SLUICE_HOST={self.host} is reachable from other machines"
            if self.host not in LOOPBACK
            else "SLUICE_CORS_ORIGINS=* lets every web page that is opened on this machine read everything"
            if "*" in self.origins
            else ""
        )
        if opens and not self.needs_key:
            raise ConfigurationError(
                f"{opens}, so API keys are needed: set SLUICE_API_KEYS (key:tenant:role+role,…), or make one with "
                "sluice keys new"
            )
        if self.oidc and not (self.oidc_client and self.public_url):
            raise ConfigurationError(f"SLUICE_OIDC={self.oidc} needs SLUICE_OIDC_CLIENT and SLUICE_PUBLIC_URL")
        if self.oidc.startswith("http://") and urlsplit(self.oidc).hostname not in LOOPBACK:
            raise ConfigurationError(f"SLUICE_OIDC={self.oidc} must begin with https://, or who answers is not known")
        if 0 < len(self.secret.get_secret_value()) < SHORT_KEY:  # its signatures leave the installation
            raise ConfigurationError(f"SLUICE_SECRET=*** can be guessed: it must have {SHORT_KEY} characters or more")
        return self


SECRETS = frozenset(name for name, field in Settings.model_fields.items() if field.annotation is SecretStr)


def read_given() -> GivenSettings:
    """Return what environment and file say now.

    Raises:
        ConfigurationError: a file can't be read, or a secret is given twice.
    """
    try:
        return given_settings(Settings.model_fields, os.environ, SECRETS)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def networks_of(value: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the addresses and networks of a list. Raises ValueError if one is neither."""
    return tuple(ip_network(each) for each in _listed(value))


def _listed(value: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in value.split(","))))


def checked_tenant(name: str) -> str:
    """Return the name if a tenant can have it.

    Raises:
        ConfigurationError: it can't.
    """
    if not re.fullmatch(_TENANT, name):
        raise ConfigurationError(f"the tenant {name!r} {_TENANT_RULE}")
    return name


def parse_tenant_topics(text: str) -> dict[str, str]:
    """Return the tenant of each topic of `topic:tenant,…`.

    Raises:
        ValueError: an entry has another shape, or a topic is listed twice.
    """
    found: dict[str, str] = {}
    for entry in _listed(text):
        topic, colon, tenant = entry.partition(":")
        if not colon or not re.fullmatch(_TOPIC, topic) or not re.fullmatch(_TENANT, tenant):
            raise ValueError(f"{entry} must be topic:tenant, each of letters, digits, '.', '_' or '-'")
        if topic in found:
            raise ValueError(f"the topic {topic} is listed twice, but a topic belongs to one tenant")
        found[topic] = tenant
    return found


def parse_api_keys(text: str) -> tuple[ApiKey, ...]:
    """Return the keys of `key:tenant:role+role,…`.

    Raises:
        ConfigurationError: an entry has another shape, an unknown role, a short or a repeated key.
    """
    keys: dict[str, ApiKey] = {}
    for number, entry in enumerate(_listed(text), start=1):
        parts = entry.split(":")
        if len(parts) != 3 or not all(parts):
            raise ConfigurationError(f"SLUICE_API_KEYS: entry {number} must be key:tenant:role+role")
        key, tenant, roles_text = parts
        roles = frozenset(roles_text.split("+"))
        if roles.difference(ROLES):  # not shown, as the tenant below: the key may stand in the wrong place
            raise ConfigurationError(
                f"SLUICE_API_KEYS: entry {number} has an unknown role; roles are {', '.join(ROLES)}"
            )
        if len(key) < 8:
            raise ConfigurationError(f"SLUICE_API_KEYS: the key of entry {number} must have 8 characters or more")
        if not re.fullmatch(_TENANT, tenant):
            raise ConfigurationError(f"SLUICE_API_KEYS: the tenant of entry {number} {_TENANT_RULE}")
        if key in keys:
            raise ConfigurationError(f"SLUICE_API_KEYS: entry {number} repeats a key")
        keys[key] = ApiKey(key, tenant, frozenset(role for role in ROLES if role in roles))
    return tuple(keys.values())


# Variables of the systems that Sluice replaces. Only settings that don't change what an index contains.
_RAG_NAMES: dict[str, dict[str, str]] = {
    "RAG_RELEVANCE_THRESHOLD": {"min_score": "", "gate": "best"},
    "RAG_SIMILARITY_THRESHOLD": {"min_score": "", "gate": "each"},
    "RAG_MAX_HISTORY": {"history": ""},
}


def _of_rag_names(environment: Mapping[str, str], given: Collection[str]) -> dict[str, tuple[object, str]]:
    """Return values and names of the settings that `RAG_…` variables set, except those that are `given` otherwise.

    If both thresholds are set, `RAG_RELEVANCE_THRESHOLD` wins.
    """
    found: dict[str, tuple[object, str]] = {}
    for name, fields in _RAG_NAMES.items():
        value = environment.get(name)
        if value and not any(field in given or field in found for field in fields):
            found |= {field: (fixed or value, name) for field, fixed in fields.items()}
    return found


def load_settings(**overrides: object) -> Settings:
    """Return the settings of environment and file; `overrides` (by field name) win.

    Raises:
        ConfigurationError: one sentence that names the variable and the value.
    """
    given = read_given()
    older = _of_rag_names(os.environ, given.values)
    found = {name: (each.value, each.source) for name, each in given.values.items()} | older
    found |= {name: (value, "command line") for name, value in overrides.items()}
    sources = {name: source for name, (_, source) in found.items()}
    try:
        settings = Settings(**{name: value for name, (value, _) in found.items()})
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"])
        value = "***" if name in SECRETS else first["input"]
        in_file = given.file is not None and sources.get(name) == given.file
        shown = f"{given.file}: {name}" if in_file else f"{PREFIX}{name.upper()}"
        raise ConfigurationError(f"{shown}={value}: {_in_words(first['msg'])}") from None
    settings._sources.update(sources)  # noqa: SLF001 - ours, and frozen for everybody else
    if given.unknown and settings.strict == "on":
        raise ConfigurationError(f"{'; '.join(map(str, given.unknown))} (SLUICE_STRICT=on)")
    return settings.checked()


def _in_words(message: str) -> str:
    """Return pydantic's message as a rule that follows a setting and its value, such as `must be a valid integer`."""
    rule = message.removeprefix("Value error, ").partition(", unable to")[0].replace("Input should", "must", 1)
    return f"{rule[0].lower()}{rule[1:]}"
