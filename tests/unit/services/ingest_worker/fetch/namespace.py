"""The table of spellings in a network of its own, in which every address is this machine: whatever a broken guard let
past would arrive, and nothing can leave. Prints how many connections came of the table, and of what is public.
"""

import asyncio
import json
import sys

from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from shared.errors import Rejected
from shared.log.failure import Backoff
from tests.unit.services.ingest_worker.fetch.spellings import PUBLIC, PUBLIC_6, SPELLINGS, resolved

PORTS = (80, 443, 8080, 8443, 6333, 22, 25)


async def _ask(fetcher: Fetcher, url: str) -> None:
    try:
        async with fetcher.page(url, tenant="t"):
            pass
    except Rejected:
        pass


async def main() -> None:
    arrived: list[str] = []

    async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(str(writer.get_extra_info("sockname")[0]))
        writer.close()

    listening = [await asyncio.start_server(connected, host, port) for host in ("0.0.0.0", "::") for port in PORTS]
    limits = FetchLimits(patience_s=30, delay_s=0, turn_s=60, robots=False)
    fetcher = Fetcher(Guard(resolver=resolved), limits, backoff=Backoff(0, 0))
    for url in SPELLINGS:
        await _ask(fetcher, url)
    forbidden = list(arrived)
    for host in (PUBLIC, f"[{PUBLIC_6}]"):
        await _ask(fetcher, f"http://{host}/")
    await fetcher.close()
    for server in listening:
        server.close()
    json.dump({"asked": len(SPELLINGS), "forbidden": forbidden, "public": arrived[len(forbidden) :]}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
