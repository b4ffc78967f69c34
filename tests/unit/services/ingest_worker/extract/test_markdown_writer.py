from services.ingest_worker.extract.markdown_writer import NUMBER, MarkdownBlock, framed, joined


def test_adjacent_list_items_and_code_lines_are_joined() -> None:
    blocks = [
        MarkdownBlock("# Tea"),
        MarkdownBlock("- green", "list"),
        MarkdownBlock("- black", "list"),
        MarkdownBlock("a = 1", "code"),
        MarkdownBlock("b = 2", "code"),
        MarkdownBlock("End."),
    ]

    assert joined(blocks).strip() == "# Tea\n\n- green\n- black\n\n```\na = 1\nb = 2\n```\n\nEnd."


def test_a_header_comes_once_and_before_the_text() -> None:
    assert framed(["Handbook", "Handbook"], "Text.", ["Confidential"]) == "Handbook\n\nText.\n\nConfidential"


def test_what_the_text_contains_or_only_numbers_pages_is_left_out() -> None:
    assert framed(["Text."], "Text.", [f"Page {NUMBER} of {NUMBER}", "12", "Seite"]) == "Text."


def test_a_list_that_begins_deeper_is_no_code() -> None:
    blocks = [MarkdownBlock(f"{' ' * deep}- {deep}", "list") for deep in (4, 6, 2, 4)]

    assert joined(blocks).strip() == "- 4\n  - 6\n- 2\n  - 4"
