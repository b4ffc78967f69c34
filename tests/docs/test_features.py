"""docs/features.md says what the tests' marks say, and no feature is forgotten."""

from tests.docs.feature_list import FEATURES, GROUPS, UNTESTED
from tests.docs.features import marks, table
from tests.docs.readme import block

ASKED_FOR = {*range(1, 211), 263}


def test_the_page_is_what_the_marks_make_of_it() -> None:
    assert block("features") == table(), "run make docs"


def test_every_feature_has_a_test_or_a_reason_and_never_both() -> None:
    proved = marks()

    assert FEATURES.keys() >= ASKED_FOR
    assert FEATURES.keys() - proved.keys() == UNTESTED.keys()


def test_every_mark_has_its_line() -> None:
    assert marks().keys() - FEATURES.keys() == set()
    assert {number for numbers in GROUPS.values() for number in numbers} >= FEATURES.keys()
