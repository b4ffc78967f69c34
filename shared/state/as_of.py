"""Past moments of documents.extracted, and whether an index of one can still be built."""

from shared.errors import Rejected
from shared.log import Log
from shared.state.generations import CODE, AsOf
from shared.times import iso, now_ms, offset_or_time
from shared.topics import EXTRACTED


def moment_of(given: int | str) -> AsOf:
    """Return the moment for an offset or a time, without the partitions' offsets. A time without a zone is UTC.

    Raises:
        Rejected: it is neither; callers put the field's name before the sentence.
    """
    try:
        return AsOf(until={}, **offset_or_time(given))
    except (ValueError, OverflowError):
        sentence = f"{str(given)[:100]!r} is neither an offset nor a time such as 2026-11-20T18:00:00Z"
        raise Rejected(sentence, CODE) from None


async def reachable(moment: AsOf, log: Log) -> AsOf:
    """Return the moment with its offsets.

    Raises:
        Rejected: it is in the future, or compaction may have deleted what was there. Unavailable: the log is away.
    """
    ends = await log.end_offsets(EXTRACTED)
    if moment.time is None:
        offset = moment.offset or 0
        if offset > max(ends.values(), default=0):
            raise Rejected(f"{EXTRACTED} has no offset {offset} yet: it ends at {max(ends.values(), default=0)}", CODE)
        until = {str(tp.partition): min(offset, end) for tp, end in ends.items()}
    else:
        if moment.time > now_ms():
            raise Rejected(f"{moment.label} is in the future", CODE)
        until = {str(tp.partition): offset for tp, offset in (await log.offsets_since(EXTRACTED, moment.time)).items()}
    found = AsOf(until=until, time=moment.time, offset=moment.offset)
    if await overtaken(found, log):
        raise Rejected(
            f"{moment.label} is too far back: compaction may have deleted versions of that moment from {EXTRACTED}. "
            f"{await _earliest(log)}; SLUICE_COMPACTION_LAG says for how many days replaced versions stay",
            CODE,
        )
    return found


async def overtaken(as_of: AsOf, log: Log) -> bool:
    """Return whether compaction may have deleted versions that the moment has. Raises Unavailable."""
    replaced = await log.replaced_below(EXTRACTED)
    return not as_of.until or any(as_of.until.get(str(tp.partition), 0) < offset for tp, offset in replaced.items())


async def _earliest(log: Log) -> str:
    """Return a sentence with the earliest moment that can be shown."""
    replaced = await log.replaced_below(EXTRACTED)
    early, late = 0, now_ms() + 1
    while early < late:  # the earliest time at which all offsets are high enough
        middle = (early + late) // 2
        since = await log.offsets_since(EXTRACTED, middle)
        if all(since[tp] >= offset for tp, offset in replaced.items()):
            late = middle
        else:
            early = middle + 1
    return f"The earliest moment is {iso(late)}, or offset {max(replaced.values(), default=0)}"
