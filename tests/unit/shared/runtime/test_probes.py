from collections.abc import Mapping

import pytest
from litestar.testing import AsyncTestClient
from prometheus_client import CollectorRegistry

from shared.runtime.probes import Detail, Probed, side_app
from shared.version import VERSION

AGAIN = "records that wait or are tried again: 1, first: the model refuses a text"


@pytest.mark.parametrize(
    ("found", "status", "answer"),
    [
        ({"store": None}, 200, {"status": "ready", "checks": {"store": None}}),
        (
            {"store": None, "embed": Detail(AGAIN)},
            200,
            {"status": "ready", "checks": {"store": None, "embed": None}, "details": {"embed": AGAIN}},
        ),
        (
            {"store": "it is away", "embed": Detail(AGAIN)},
            503,
            {
                "status": "not ready",
                "checks": {"store": "it is away", "embed": None},
                "details": {"embed": AGAIN},
            },
        ),
    ],
    ids=["ready", "a detail is no trouble", "a detail beside a trouble"],
)
async def test_readiness_is_red_for_troubles_alone(
    found: Mapping[str, str | None], status: int, answer: object
) -> None:
    async def troubles() -> Mapping[str, str | None]:
        return found

    async with AsyncTestClient(side_app(Probed(troubles, CollectorRegistry()))) as client:
        response = await client.get("/readyz")

        figures = (await client.get("/metrics")).text.splitlines()

    assert (response.status_code, response.json()) == (status, answer)
    for part in found:
        up = 0.0 if found[part] == "it is away" else 1.0
        assert f'sluice_dependency_up{{part="{part}"}} {up}' in figures
    assert f'sluice_build_info{{version="{VERSION}"}} 1.0' in figures
    assert any(line.startswith("process_resident_memory_bytes ") for line in figures)
    assert ("retry-after" in response.headers) == (status == 503)
