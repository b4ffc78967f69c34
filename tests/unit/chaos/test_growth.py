import pytest

from tests.e2e.growth import WARM, Sample, grown

MB = 1_000_000
FLAT = Sample(memory=100 * MB, handles=20, threads=9, children=1)
BUSY = FLAT._replace(memory=150 * MB, handles=90)
WARMING = [[FLAT._replace(memory=1)]] * WARM


def test_what_is_busy_for_a_while_and_was_smaller_at_first_has_not_grown() -> None:
    assert grown({"worker": [*WARMING, [FLAT, FLAT, BUSY], [FLAT, BUSY, FLAT], [BUSY, FLAT, FLAT]]}) == []


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (FLAT._replace(memory=110 * MB), "memory grew from 100.0 to 110.0 MB"),
        (FLAT._replace(handles=23), "handles grew from 20 to 23"),
        (FLAT._replace(threads=30), "threads grew from 9 to 30"),
        (FLAT._replace(children=2), "children grew from 1 to 2"),
    ],
)
def test_what_has_more_at_the_end_than_after_the_start_has_grown(late: Sample, told: str) -> None:
    assert grown({"worker": [*WARMING, [FLAT, BUSY, FLAT], [BUSY, FLAT], [late, late]]}) == [f"worker: {told}"]
