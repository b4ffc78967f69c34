"""`GET /ops/config`: the settings of the running server, for admins alone."""

import httpx
import pytest
from litestar import Litestar
from litestar.datastructures import State

from services.query_api.http.auth import Authenticate, Keyring
from services.query_api.http.problems import HANDLERS
from services.query_api.http.request import PARTS, ApiRequest
from services.query_api.ops.keys import ops_config
from shared.runtime.settings_report import SettingsReport, settings_report
from shared.settings import load_settings, read_given
from tests.integration.api import a_client


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> httpx.AsyncClient:
    monkeypatch.setenv("SLUICE_API_KEYS", "key-of-boss:t:admin,key-of-clerk:t:query")
    settings = load_settings()
    report = settings_report(settings, read_given())
    app = Litestar(
        [ops_config],
        middleware=[Authenticate(Keyring(settings.keys))],
        request_class=ApiRequest,
        state=State({PARTS: {SettingsReport: report}}),
        exception_handlers=HANDLERS,
    )
    return a_client(app)


@pytest.mark.feature(251)
async def test_admins_see_where_each_value_comes_from_and_no_secret(client: httpx.AsyncClient) -> None:
    async with client:
        reply = await client.get("/ops/config", headers={"X-API-Key": "key-of-boss"})
        clerk = await client.get("/ops/config", headers={"X-API-Key": "key-of-clerk"})

    shown = {each["name"]: (each["value"], each["source"]) for each in reply.json()["settings"]}
    assert shown["SLUICE_API_KEYS"] == ("***", "environment")
    assert shown["SLUICE_PARTITIONS"] == ("8", "default")
    assert (clerk.status_code, "key-of" in reply.text) == (403, False)
