import pytest

from shared.text.records import fields


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Kai: B2; Schiff: Möwe", [("Kai", "B2"), ("Schiff", "Möwe")]),
        ("B2; Schiff: Möwe; Tage: 9", [("", "B2"), ("Schiff", "Möwe"), ("Tage", "9")]),
        ("Kai: B2; alt; Zeit: 9:30; 10:00", [("Kai", "B2; alt"), ("Zeit", "9:30; 10:00")]),
        ("Fähre: Petrel; 08:00: 12; 09:00: 31", [("Fähre", "Petrel"), ("08:00", "12"), ("09:00", "31")]),
        ("Note: nothing else", []),
        ("The tide turns; so does the wind.", []),
        ("a: 1;\nb: 2", []),
        ("", []),
    ],
)
def test_a_row_has_its_names_and_values(line: str, found: list[tuple[str, str]]) -> None:
    assert fields(line) == found
