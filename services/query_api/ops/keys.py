"""Routes that show the settings, and list and revoke API keys: all for operators, its own tenant's for an admin."""

import asyncio

import msgspec
from litestar.params import FromPath

from services.query_api.http.audit import note_concerned
from services.query_api.http.problems import Problem, unavailable
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import delete, get
from shared.runtime.key_file import KeyView, listed_keys, revoke_keys
from shared.runtime.settings_report import SettingsReport
from shared.settings import ConfigurationError, Settings


class KeyList(msgspec.Struct, frozen=True):
    """API keys, without the keys themselves."""

    items: list[KeyView]


async def _seen_by(request: ApiRequest) -> list[KeyView]:
    """Return the keys that the caller may see. Raises a 503 if the key file can't be read."""
    try:
        found = await asyncio.to_thread(listed_keys, request.part(Settings))
    except ConfigurationError as error:
        raise unavailable(str(error)) from None
    return [each for each in found if request.user.may("operator") or each.tenant == request.user.tenant]


@get(
    "/ops/keys",
    role=("admin", "operator"),
    line="list the API keys; DELETE /ops/keys/{id} revokes one",
    needs_parts=False,
)
async def ops_keys(request: ApiRequest) -> KeyList:
    """List the API keys by id, without the keys themselves: all for operators, those of its tenant for an admin."""
    return KeyList(await _seen_by(request))


@delete("/ops/keys/{key_id:str}", role=("admin", "operator"), refuses=(404, 409), conflicts=True, json_only=True)
async def ops_key_revoke(key_id: FromPath[str], request: ApiRequest) -> KeyView:
    """Revoke a key of the key file: servers refuse it within a second, and its browser sessions end.

    A key of SLUICE_API_KEYS can't be revoked here: 409. Only an operator revokes an operator's: 403.
    """
    found = next((each for each in await _seen_by(request) if each.id == key_id), None)
    if found is None:
        raise Problem(404, f"there is no key {key_id[:100]}")
    if "operator" in found.roles and not request.user.may("operator"):
        raise Problem(403, "only an operator can revoke an operator's key", details={"role": "operator"})
    try:
        await asyncio.to_thread(revoke_keys, request.part(Settings), [key_id])
    except ConfigurationError as error:
        raise unavailable(str(error)) from None
    note_concerned("key_revoked", found.tenant, found.id)
    return found


@get("/ops/config", role="operator", needs_parts=False)
async def ops_config(request: ApiRequest) -> SettingsReport:
    """Show every setting of this server and where its value comes from. Secrets and passwords are `***`."""
    return request.part(SettingsReport)
