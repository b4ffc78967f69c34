import httpx
from litestar import Litestar, delete, get

from services.query_api.http.allowed_methods import AllowedMethods


@get("/things")
async def listed() -> None: ...


@delete("/things")
async def removed() -> None: ...


@get("/other")
async def other() -> None: ...


async def test_options_names_the_methods_of_all_handlers_of_the_path() -> None:
    app = Litestar([listed, removed, other], before_send=[AllowedMethods()], openapi_config=None, logging_config=None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:  # type: ignore[arg-type]
        things, others = await client.options("/things"), await client.options("/other")

    assert (things.status_code, things.headers["allow"]) == (204, "DELETE, GET, OPTIONS")
    assert others.headers["allow"] == "GET, OPTIONS"
