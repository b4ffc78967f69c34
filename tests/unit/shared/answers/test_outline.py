from shared.answers import Passage
from shared.answers.outline import MOST_PLACES, outline


def a_part(number: int, text: str, section: str = "", document: str = "a", title: str = "Boats") -> Passage:
    metadata = {"documentId": document, "sectionTitle": section}
    return Passage(number=number, text=text, title=title, score=1.0, metadata=metadata)


def test_a_document_is_told_by_its_title_its_headings_and_the_first_sentence_under_each() -> None:
    parts = [
        a_part(1, "# Boats\n\nBoats float. They leak.\n\n## Oars\n\n```\nrow\n```\n\nOars are long [7].", "Boats"),
        a_part(2, "Oars are of ash.", "Boats > Oars"),
        a_part(3, "## Sails\n\n- red\n- white", "Boats > Sails"),
    ]

    read, pieces = outline(parts)

    told = "".join(pieces)
    assert told.startswith("**Boats**\n\n- Boats float. [1]\n- Oars: Oars are long")
    assert "[7]" not in told
    assert told.endswith("\n- Sails: - red - white [2]")
    assert [(each.number, each.text) for each in read] == [(1, parts[0].text), (2, parts[2].text)]


def test_each_passage_without_headings_and_each_heading_of_the_same_name_is_told() -> None:
    bare = [a_part(number, f"Boat {number} floats. It leaks.") for number in (1, 2)]
    hours = "# Ferry\n\n## Hours\n\nAt nine.\n\n# Museum\n\n## Hours\n\nAt ten."
    ready = [
        a_part(4, "At six.", "Shop > Hours"),
        a_part(5, "At one.", "Bar > Hours"),
        a_part(6, "Daily.", "Bar > Hours"),
    ]

    _, pieces = outline([*bare, a_part(3, hours, "Ferry > Hours")])
    _, of_ready = outline(ready)

    assert [piece.rpartition("- ")[2] for piece in pieces[1:]] == [
        "Boat 1 floats. [1]",
        "Boat 2 floats. [2]",
        "Hours: At nine. [3]",
        "Hours: At ten. [3]",
    ]
    assert [piece.rpartition("- ")[2] for piece in of_ready[1:]] == ["Hours: At six. [1]", "Hours: At one. [2]"]


def test_several_documents_stand_apart_and_a_long_one_is_spread_evenly() -> None:
    long = [a_part(n, f"# Part {n}\n\nIt is {'so ' * 90}.", document="b" if n > 30 else "a") for n in range(1, 61)]

    _, pieces = outline(long)

    told = "".join(pieces)
    assert told.count("**Boats**\n\n- ") == 2
    assert told.count("\n- ") == MOST_PLACES
    assert "Part 58" in told
    assert "…" in told


def test_every_document_is_told_beside_a_long_one_even_by_a_row_or_code() -> None:
    long = [a_part(n, f"# Part {n}\n\nIt is so.") for n in range(1, 61)]
    short = [a_part(61, "# End\n\nIt is last.", document="b"), a_part(62, "```\nrow\n```", document="c")]

    read, pieces = outline([*long, *short])

    told = "".join(pieces)
    assert told.count("\n- ") == MOST_PLACES
    assert "\n- End: It is last. [19]" in told
    assert told.endswith("row ``` [20]")
    assert len(read) == MOST_PLACES
    assert outline([a_part(1, "")]) == ((), [])
