import pytest

from services.ingest_worker.extract.reading_direction import reading_order, with_brackets


@pytest.mark.parametrize(
    ("seen", "read"),
    [
        ("The Hebrew for sea is םי and for ship הינא here.", "The Hebrew for sea is ים and for ship אניה here."),
        ("2020 זאמ Google Cloud Platform-ב", "ב-Google Cloud Platform מאז 2020"),
        ("info@museum.example.org ראודה", "הדואר info@museum.example.org"),
        ("2024-05-01 :ךיראת", "תאריך: 2024-05-01"),
        ("01-05-2024 :خيراتلا", "التاريخ: 2024-05-01"),
        ("0123 555 6 962+ فتاه", "هاتف +962 6 555 0123"),
        ("1,250.50 ריחמ", "מחיר 1,250.50"),
        ("50% החנה", "הנחה 50%"),
        ("Model X-200 םגד", "דגם Model X-200"),
        ("plain text, 12 of 13", "plain text, 12 of 13"),
        ("12.5", "12.5"),
    ],
)
def test_letters_are_read_in_their_direction(seen: str, read: str) -> None:
    assert "".join(seen[at] for at in reading_order(seen, from_left=False)) == read


def test_a_line_that_begins_with_either_is_read_as_what_is_around_it() -> None:
    def read(from_left: bool) -> str:
        return "".join(seen[at] for at in reading_order(seen, from_left=from_left))

    seen = "the sea םי"

    assert read(True) == "the sea ים"
    assert read(False) == "ים the sea"


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("a )b( c", "a (b) c"),
        ("a (b( c", "a (b) c"),
        (")2024 and", "(2024 and"),
        ("2026( and", "2026) and"),
        ("a ]b[, c", "a [b], c"),
        ("a (b) c", "a (b) c"),
        ("f(x)", "f(x)"),
        ("none", "none"),
    ],
)
def test_brackets_stand_around_what_they_hold(stored: str, read: str) -> None:
    assert with_brackets(stored) == read
