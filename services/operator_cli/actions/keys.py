"""Makes, lists and revokes API keys in the key file."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from services.operator_cli.audited import record_keys
from services.operator_cli.client import Misuse
from shared.runtime.key_file import KeyRecord, digest_of, editing, key_id, new_key, read_keys
from shared.settings import ROLES, SHORT_KEY, Settings, load_settings


class NewKey(NamedTuple):
    """A new key, its record, and notes for the user."""

    key: str
    record: KeyRecord
    remarks: list[str]


def make(tenant: str, roles: Sequence[str], note: str) -> NewKey:
    """Add a new key to the file and return it.

    Raises:
        Misuse: a role is unknown. ConfigurationError: the tenant's name is invalid, or the file can't be written.
    """
    if unknown := sorted(set(roles).difference(ROLES)):
        raise Misuse(f"{unknown[0]} is not a role; roles are {', '.join(ROLES)}")
    settings = load_settings(host="127.0.0.1", cors_origins="")  # other values may need the key that is made here
    keyless = not settings.needs_key
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    key, record = new_key(tenant, tuple(role for role in ROLES if role in roles), created, note)
    with editing(settings.key_file) as keys:
        before = _tenants(settings, keys)
        keys.append(record)
        after = _tenants(settings, keys)
        operated = any("operator" in key.roles for key in keys) or any("operator" in key.roles for key in settings.keys)
    record_keys(settings, "keys new", [(record.tenant, record.id)])
    remarks = [f"{record.id}: a key of {tenant} for {', '.join(record.roles)}, in {settings.key_file}"]
    if keyless:
        remarks.append("This is the first key: every request needs one from now on.")
    if len(before) == 1 < len(after) and not operated:
        remarks.append(
            "There is a second tenant now, so admins are no longer operators: make a key with --role operator."
        )
    return NewKey(key, record, remarks)


def listed() -> list[dict[str, Any]]:
    """Return the keys of the file and of the environment. Raises ConfigurationError as `read_keys`."""
    settings = load_settings()
    rows = [{"id": each.id, **msgspec.structs.asdict(each)} for each in read_keys(settings.key_file)]
    for row in rows:
        del row["sha256"]
    for key in settings.keys:
        short = f"; shorter than {SHORT_KEY} characters" if len(key.key) < SHORT_KEY else ""
        roles = tuple(role for role in ROLES if role in key.roles)
        id_ = key_id(digest_of(key.key.encode()))
        rows.append(
            {"id": id_, "tenant": key.tenant, "roles": roles, "created": None, "note": f"SLUICE_API_KEYS{short}"}
        )
    return rows


def revoked(ids: Sequence[str]) -> list[str]:
    """Remove the keys from the file; return a sentence for each.

    Raises:
        Misuse: a key isn't in the file, so none was revoked. ConfigurationError: the file can't be read or written.
    """
    settings = load_settings()
    with editing(settings.key_file) as keys:
        if unknown := [id_ for id_ in ids if id_ not in {key.id for key in keys}]:
            fixed = {key_id(digest_of(key.key.encode())) for key in settings.keys}
            why = (
                "is set in SLUICE_API_KEYS: remove it there and restart the servers"
                if unknown[0] in fixed
                else f"is not in {settings.key_file}"
            )
            raise Misuse(f"the key {unknown[0]} {why}; no key was revoked")
        gone = [key for key in keys if key.id in ids]
        keys[:] = [key for key in keys if key.id not in ids]
        none_left = not keys and not settings.keys
    record_keys(settings, "keys revoke", [(key.tenant, key.id) for key in gone])
    sentences = [f"revoked {key.id} of {key.tenant}" for key in gone]
    if none_left:
        sentences.append("No key is left, so every request is refused; sluice keys new makes one.")
    return sentences


def _tenants(settings: Settings, keys: Sequence[KeyRecord]) -> set[str]:
    return {key.tenant for key in keys} | {key.tenant for key in settings.keys}
