import asyncio
import time

from prometheus_client import CollectorRegistry

from shared.runtime.loop_lag import LoopLag


async def test_the_longest_gap_is_told_once() -> None:
    lag = LoopLag(CollectorRegistry())
    watching = asyncio.create_task(lag.watch())
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251 - this is the gap
    await asyncio.sleep(0.001)
    watching.cancel()

    (first,), (second,) = lag.collect(), lag.collect()

    assert first.samples[0].value >= 0.03
    assert second.samples[0].value == 0
