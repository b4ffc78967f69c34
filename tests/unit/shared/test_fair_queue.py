"""A fair queue takes items round-robin by flow."""

import pytest

from shared.fair_queue import FairQueue


def test_an_item_waits_for_one_of_each_other_flow_and_for_its_own() -> None:
    queue = FairQueue[str]()
    for number in range(4):
        queue.put("searches", f"search {number}")
    queue.put("writes", "write 0")
    queue.put("writes", "write 1")
    taken = [queue.take()]
    queue.put("registry", "registry 0")

    while queue:
        taken.append(queue.take())

    assert taken == ["search 0", "write 0", "search 1", "registry 0", "write 1", "search 2", "search 3"]


def test_an_empty_queue_has_nothing_to_take() -> None:
    queue = FairQueue[str]()
    queue.put("flow", "item")
    queue.take()

    assert not queue
    with pytest.raises(StopIteration):
        queue.take()
