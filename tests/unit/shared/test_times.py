import pytest

from shared.times import iso, parse_iso


@pytest.mark.parametrize(
    "text", ["2026-01-31T08:15:30.250Z", "2026-01-31T08:15:30.250", "2026-01-31T09:15:30.250+01:00"]
)
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    assert iso(parse_iso(text)) == "2026-01-31T08:15:30.250Z"


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        parse_iso("soon")
