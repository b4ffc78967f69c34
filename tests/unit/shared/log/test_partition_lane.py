from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts import document_of
from shared.log.partition_lane import PartitionLane, size
from tests.builders import a_record, an_event

if TYPE_CHECKING:
    from shared.log import Record


@given(
    keys=st.lists(st.sampled_from([None, b"a", b"b", b"c"]), max_size=80),
    gaps=st.lists(st.integers(1, 3), min_size=80, max_size=80),
    choose=st.randoms(use_true_random=False),
)
def test_order_per_key_and_the_low_mark_hold_whatever_finishes_first(
    keys: list[bytes | None], gaps: list[int], choose: object
) -> None:
    offsets = [sum(gaps[: number + 1]) for number in range(len(keys))]
    records = [an_event(offset, key) for offset, key in zip(offsets, keys, strict=True)]
    lane = PartitionLane(0)
    lane.take(records[:10])
    lane.take(records[10:])
    running: list[Record] = []
    finished: dict[bytes | None, list[int]] = defaultdict(list)
    done: set[int] = set()

    while True:
        while (record := lane.start()) is not None:
            running.append(record)
        assert len({record.key for record in running}) == len(running)
        unfinished = [offset for offset in offsets if offset not in done]
        assert lane.low == (unfinished[0] if unfinished else offsets[-1] + 1 if offsets else 0)
        assert len(lane) == len(unfinished)
        held = sum(size(record) for record in records if record.offset not in done | lane.left.keys())
        assert lane.bytes == held + sum(len(record.key or b"") for record in records if record.offset in lane.left)
        if not running:
            break
        record = running.pop(choose.randrange(len(running)))  # type: ignore[attr-defined]
        for offset in lane.next_left(record):
            lane.restore(next(each for each in records if each.offset == offset))
        lane.finish(record)
        done.add(record.offset)
        finished[record.key].append(record.offset)

    assert done == set(offsets)
    assert all(order == sorted(order) for order in finished.values())


def test_keys_of_one_chain_wait_for_each_other() -> None:
    first, other, second = (an_event(offset, key) for offset, key in enumerate((b"a/1", b"b/1", b"a/2")))
    lane = PartitionLane(0, document_of)
    lane.take([first, other, second])

    assert [lane.start(), lane.start(), lane.start()] == [first, other, None]
    lane.finish(first)
    assert lane.start() == second


def test_a_record_weighs_its_key_its_value_and_its_headers() -> None:
    assert size(an_event(0, b"abc", b"12345")) == 3 + 5 + (1 + 2) + 4
    assert size(an_event(0, None, None)) == 7


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        pytest.param(None, [("tenant", b"one")], id="a deletion's header"),
        pytest.param(b"# Tea", [("content-type", b"text/markdown"), ("tenant", b"one")], id="a text's header"),
        pytest.param(b'{"tenant":"one","data":"no object"}', [], id="JSON"),
        pytest.param(b'{"tenant":7,"data":{"tenant":"one"}}', [], id="a CloudEvent"),
        pytest.param(b'{"document":{"tenant":"one"}}', [], id="a version"),
    ],
)
def test_a_record_takes_the_turn_of_the_tenant_whom_it_names_wherever_it_does(
    value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    crowd = [a_record(b"{}", key=b"%d" % number, offset=number) for number in range(9)]  # of the default tenant
    lane = PartitionLane(0)
    lane.take([*crowd, neighbour := a_record(value, headers, key=b"other", offset=9)])

    assert neighbour in [lane.start(), lane.start()]
