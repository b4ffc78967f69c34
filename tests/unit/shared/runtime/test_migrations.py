"""The list of migrations: numbers without gaps, and which migrations an installation needs."""

import pytest

from shared.log.sqlite import migrations as log_file
from shared.runtime.migrations import MIGRATIONS, NEWEST, DataFormat, due, format_of
from shared.state import pairing, registry_copy

BOTH = frozenset({pairing.KEY, registry_copy.KEY})


def found(**fields: object) -> DataFormat:
    given: dict[str, object] = {"log": log_file.VERSION, "keys": BOTH, "index": "registered"}
    return DataFormat(**(given | fields))  # type: ignore[arg-type]  # by name


def test_the_numbers_have_no_gap_and_those_of_the_log_s_file_are_its_own() -> None:
    assert [each.number for each in MIGRATIONS] == list(range(2, NEWEST + 1))
    of_file = [(each.number, each.what) for each in MIGRATIONS if each.apply is None]
    assert of_file == [(each.number, each.what) for each in log_file.MIGRATIONS]


@pytest.mark.parametrize(
    ("state", "numbers"),
    [
        (found(), []),
        (found(log=1), [2, 3, 4]),
        (found(log=3), [4]),
        (found(keys=frozenset(), index="unregistered"), [5, 6, 7]),
        (found(keys=frozenset({pairing.KEY}), index="unregistered"), [6, 7]),
        (found(keys=frozenset({pairing.KEY})), [7]),
        (found(log=1, keys=frozenset(), index="none"), [2, 3, 4]),  # a start makes the index, or rebuilds it
    ],
)
def test_what_is_due_follows_from_what_is_found(state: DataFormat, numbers: list[int]) -> None:
    assert [each.number for each in due(state)] == numbers
    assert format_of(state) == (numbers[0] - 1 if numbers else NEWEST)
