import asyncio
import time

from prometheus_client import CollectorRegistry

from shared.runtime.loop_lag import LoopLag, run

GAP_S = 0.05
WAIT_S = 0.5


def gap(lag: LoopLag) -> float:
    [metric] = lag.collect()
    return float(metric.samples[0].value)


def test_the_longest_gap_is_told_once() -> None:
    async def measured() -> tuple[float, float]:
        lag = LoopLag(CollectorRegistry())
        await asyncio.sleep(0)
        gap(lag)
        time.sleep(GAP_S)  # noqa: ASYNC251 - this is the gap
        await asyncio.sleep(0)
        return gap(lag), gap(lag)

    first, second = run(measured())

    assert first >= GAP_S
    assert second == 0


def test_a_loop_that_waits_has_no_gap() -> None:
    async def measured() -> float:
        lag = LoopLag(CollectorRegistry())
        await asyncio.sleep(0)
        gap(lag)
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, WAIT_S)
        return gap(lag)

    assert run(measured()) < WAIT_S - GAP_S


async def test_another_loop_is_not_measured() -> None:
    assert list(LoopLag(CollectorRegistry()).collect()) == []
