"""Records of a build take turns; newer ones pass."""

from aiokafka import ConsumerRecord

from services.ingest_worker.rate_limit import RateLimit


def a_record(offset: int) -> ConsumerRecord:
    return ConsumerRecord("documents.extracted", 0, offset, 1, 1, b"", b"", None, -1, 0, ())


async def test_older_records_come_at_the_rate_and_newer_ones_at_once() -> None:
    now, pauses = [100.0], list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    limit = RateLimit(4.0, {"0": 10}, pause=pause, clock=lambda: now[0])

    for offset in (0, 1, 10, 2):
        await limit.turn(a_record(offset))
    now[0] += 60
    await limit.turn(a_record(3))

    assert pauses == [0.25, 0.5]
