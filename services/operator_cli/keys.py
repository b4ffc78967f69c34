"""Makes, lists and revokes API keys in the key file."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from services.operator_cli.errors import Misuse
from services.operator_cli.installation import record_keys
from shared.errors import Rejected
from shared.runtime.key_file import KeyRecord, editing, listed_keys, new_key, revoke_keys
from shared.settings import ROLES, Settings, load_settings


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


def revoked(ids: Sequence[str]) -> list[str]:
    """Remove the keys from the file; return a sentence for each.

    Raises:
        Misuse: a key isn't in the file, so none was revoked. ConfigurationError: the file can't be read or written.
    """
    settings = load_settings()
    try:
        gone = revoke_keys(settings, ids)
    except Rejected as error:
        raise Misuse(error.sentence) from None
    record_keys(settings, "keys revoke", [(key.tenant, key.id) for key in gone])
    sentences = [f"revoked {key.id} of {key.tenant}" for key in gone]
    if not listed_keys(settings):
        sentences.append("No key is left, so every request is refused; sluice keys new makes one.")
    return sentences


def _tenants(settings: Settings, keys: Sequence[KeyRecord]) -> set[str]:
    return {key.tenant for key in keys} | {key.tenant for key in settings.keys}
