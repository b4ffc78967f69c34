from services.ingest_worker.extract import Hints, extract


def test_the_text_comes_without_its_marks() -> None:
    source = rb"{\rtf1\ansi\ansicpg1252{\info{\title The tide}}{\fonttbl{\f0 Arial;}}"
    source += rb"\f0 It \b rose\b0 .\par Caf\'e9 \u8364?5.\par}"

    read = extract(source, Hints(filename="a.txt"))

    assert read.text == "It rose.\n\nCafé €5."
    assert (read.title, read.document_type) == ("The tide", "rtf")


def test_what_it_says_of_itself_is_read_in_its_own_characters() -> None:
    info = rb"{\info{\title Caf\'e9 \u1055?}{\subject Of tides}{\creatim\yr2024\mo5\dy1\hr10}{\revtim\yr2024\mo6\dy12}}"

    read = extract(rb"{\rtf1\ansi\ansicpg1252" + info + rb" Text.\par}", Hints(filename="a.rtf"))

    assert (read.title, read.description) == ("Café П", "Of tides")
    assert (read.created, read.modified) == ("2024-05-01", "2024-06-12")


def test_what_is_broken_gives_what_can_be_read() -> None:
    assert extract(b"{\\rtf1 still {\\b here", Hints()).text == "still here"
    assert extract(b"{\\rtf1 deep" + b"{" * 50_000, Hints()).text == "deep"
