import pytest

from services.ingest_worker.extract.declared import declared, opening_heading, own_title


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ("Annual report", "Annual report"),
        ("  Annual\n report ", "Annual report"),
        ("Microsoft Word - Annual report", "Annual report"),
        ("untitled", None),
        ("Presentation 1", None),
        ("report.docx", None),
        ("", None),
        (None, None),
    ],
)
def test_a_programs_placeholder_is_no_title(given: str | None, title: str | None) -> None:
    assert own_title(given) == title


@pytest.mark.feature(92)
def test_the_heading_at_the_start_stands_in_for_a_missing_title() -> None:
    assert opening_heading("## Tea\n\nText") == "Tea"
    assert opening_heading("Text\n\n# Tea") is None
    assert declared({"title": "untitled"}, "# Tea\n")["title"] == "Tea"
    assert declared({"title": "Own"}, "# Tea\n")["title"] == "Own"
