"""API keys in a file: only their hashes, made and revoked by `sluice keys`, and read again when the file changes."""

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import structlog

from shared.contracts import like
from shared.errors import Rejected
from shared.settings import ROLES, SHORT_KEY, ConfigurationError, Role, Settings, checked_tenant

log = structlog.get_logger(__name__)

LOOK_S: Final = 1.0  # how soon a change takes effect
_RANDOM_BYTES: Final = 24  # 32 characters


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key without the key itself."""

    sha256: str  # 64 hex digits
    tenant: str
    roles: tuple[Role, ...]
    created: str  # ISO 8601
    note: str = ""

    @property
    def id(self) -> str:
        """Return 16 hex digits that name the key in lists and in the audit trail."""
        return key_id(bytes.fromhex(self.sha256))


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key as lists show it."""

    id: str
    tenant: str
    roles: tuple[Role, ...]
    created: str | None
    note: str
    revocable: bool  # it is in the file; the others are set in SLUICE_API_KEYS


class _Content(msgspec.Struct, frozen=True):
    keys: tuple[KeyRecord, ...]


def digest_of(key: bytes) -> bytes:
    """Return the SHA-256 of a key. Keys are random, so a slow hash would gain nothing."""
    return hashlib.sha256(key).digest()


def key_id(digest: bytes) -> str:
    """Return 16 hex digits that name the key in lists and in the audit trail."""
    return digest.hex()[:16]


def new_key(tenant: str, roles: tuple[Role, ...], created: str, note: str = "") -> tuple[str, KeyRecord]:
    """Return a random key and its record.

    Raises:
        ConfigurationError: the tenant's name can't be one.
    """
    key = f"sluice_{secrets.token_urlsafe(_RANDOM_BYTES)}"
    record = KeyRecord(
        sha256=digest_of(key.encode()).hex(), tenant=checked_tenant(tenant), roles=roles, created=created, note=note
    )
    return key, record


class KeyFile:
    """The keys of a file, as they are now.

    If the file disappears or can't be read, the last keys stay valid, so an accident never opens the API.
    """

    def __init__(self, path: Path, *, required: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the path; with `required`, a missing file counts as one without keys.

        Raises:
            ConfigurationError: the file is there and can't be read.
        """
        self._path = path
        self._clock = clock
        self._state = _state(path)
        self._keys: tuple[KeyRecord, ...] | None = () if required else None
        if self._state is not None:
            self._keys = read_keys(path)
        self._looked = clock()

    def keys(self) -> tuple[KeyRecord, ...] | None:
        """Return the keys; the same tuple as long as nothing changes. None if there never was a file."""
        if self._clock() - self._looked >= LOOK_S:
            self._looked = self._clock()
            state = _state(self._path)
            if state not in (None, self._state):
                self._state = state
                try:
                    self._keys = read_keys(self._path)
                except ConfigurationError as error:
                    log.error("key_file_ignored", reason=str(error))  # noqa: TRY400 - the sentence says it all
                else:
                    log.info("keys_changed", count=len(self._keys))
        return self._keys


def key_file_of(settings: Settings) -> KeyFile:
    """Return the file of the settings.

    Raises:
        ConfigurationError: it is there and can't be read.
    """
    return KeyFile(settings.key_file, required=settings.keys_file is not None or bool(settings.oidc))


def read_keys(path: Path) -> tuple[KeyRecord, ...]:
    """Return the keys of the file, none if it is missing.

    Raises:
        ConfigurationError: it can't be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Content).keys
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"the file of API keys {path} can't be read: {error}") from None


def listed_keys(settings: Settings) -> list[KeyView]:
    """Return the keys of the file and of the environment. Raises ConfigurationError as `read_keys`."""
    found = [like(KeyView, each, revocable=True) for each in read_keys(settings.key_file)]
    for key in settings.keys:
        short = f"; shorter than {SHORT_KEY} characters" if len(key.key) < SHORT_KEY else ""
        roles = tuple(role for role in ROLES if role in key.roles)
        id_ = key_id(digest_of(key.key.encode()))
        note = f"SLUICE_API_KEYS{short}"
        found.append(KeyView(id=id_, tenant=key.tenant, roles=roles, created=None, note=note, revocable=False))
    return found


def revoke_keys(settings: Settings, ids: Collection[str]) -> list[KeyRecord]:
    """Remove the keys from the file, and return them.

    Raises:
        Rejected: a key isn't in the file, so none was revoked. ConfigurationError: the file can't be read or written.
    """
    with editing(settings.key_file) as keys:
        if unknown := [id_ for id_ in ids if id_ not in {key.id for key in keys}]:
            fixed = {key_id(digest_of(key.key.encode())) for key in settings.keys}
            why = (
                "is set in SLUICE_API_KEYS: remove it there and restart the servers"
                if unknown[0] in fixed
                else f"is not in {settings.key_file}"
            )
            raise Rejected(f"the key {unknown[0]} {why}; no key was revoked", "no_key")
        gone = [key for key in keys if key.id in ids]
        keys[:] = [key for key in keys if key.id not in ids]
    return gone


@contextmanager
def editing(path: Path) -> Iterator[list[KeyRecord]]:
    """Yield the keys of the file as a list. When the block ends, the list replaces the file's keys atomically.

    Raises:
        ConfigurationError: the file can't be read or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two commands at once
            keys = list(read_keys(path))
            yield keys
            _write(path, keys)
    except OSError as error:
        raise ConfigurationError(f"the file of API keys {path} can't be written: {error}") from None


def _write(path: Path, keys: list[KeyRecord]) -> None:
    content = msgspec.json.format(msgspec.json.encode(_Content(tuple(keys))), indent=2)
    made = path.with_suffix(".new")
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content + b"\n")
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)


def _state(path: Path) -> tuple[int, int, int] | None:
    """Return time, size and inode of the file, which tell whether it changed; None if it can't be found."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
