import pytest

from services.ingest_worker.extract import Extraction, Hints, extract


def _read(text: str) -> Extraction:
    return extract(text.encode(), Hints(filename="guide.md"))


def test_front_matter_speaks_for_the_document_and_stays_out_of_its_text() -> None:
    read = _read(
        "---\ntitle: 'Brewing: a guide'\ntags: [tea, 2024, tea]\ndescription: >\n  How to\n  brew.\n"
        "lang: en\ndate: 2024-02-30\n---\n\n# Brewing\n\nBoil water.\n"
    )

    assert read.text == "# Brewing\n\nBoil water."
    assert (read.title, read.description, read.language) == ("Brewing: a guide", "How to brew.", "en")
    assert read.tags == ("tea", "2024")
    assert read.document_type == "md"


def test_toml_front_matter_and_tags_in_one_line() -> None:
    read = _read('+++\ntitle = "Tea"\ntags = "green, black"\n+++\nBoil water.')

    assert (read.title, read.tags, read.text) == ("Tea", ("green", "black"), "Boil water.")


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA rule, not front matter.\n\n---\n\nMore.",
        "---\ntitle: [broken\n---\nBody.",
        "---\n" + "[" * 5000 + "\n---\nBody.",
        "---\ntitle: never closed",
        "+++\nnot = toml = at all\n+++\nBody.",
    ],
)
def test_what_only_looks_like_front_matter_is_text(text: str) -> None:
    assert _read(text).text == text


@pytest.mark.feature(85)
@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Intro.\n\n## Second level ##\n\n# First", "Second level"),
        ("Steeping\n========\n\nText.", "Steeping"),
        ("```\n# a comment\n```\n\n# Real", "Real"),
        ("# Anchored {#here}\n", "Anchored"),
        ("#\n\n# Named", "Named"),
        ("No heading, #hashtag.", "guide"),
        ("# " + "x" * 5000, "x" * 120),
    ],
)
def test_the_first_heading_is_the_title(text: str, title: str) -> None:
    assert _read(text).title == title
