"""Removes the syntax from Markdown. Pure."""

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PARSER = MarkdownIt("commonmark", {"html": False}).enable("table")


def plain(markdown: str) -> str:
    """Return the text of the Markdown, with a blank line between blocks and a tab between table cells.

    The numbers of a list are kept as text.
    """
    blocks: list[str] = []
    number = ""
    row: list[str] | None = None
    table: list[str] = []
    for token in _PARSER.parse(markdown):
        match token.type:
            case "tr_open":
                row = []
            case "tr_close":
                table.append("\t".join(row or ()))
                row = None
            case "table_close":
                blocks.append("\n".join(table))
                table = []
            case "fence" | "code_block":
                blocks.append(token.content.rstrip("\n"))
            case "inline" if row is not None:
                row.append(_words(token))
            case "list_item_open":
                number = f"{token.info}{token.markup} " if token.info else ""
            case "inline":
                blocks.append(number + _words(token))
                number = ""
            case "list_item_close":
                number = ""
    return "\n\n".join(block for block in blocks if block) + "\n"


def _words(inline: Token) -> str:
    words: list[str] = []
    for token in inline.children or ():
        if token.type in ("softbreak", "hardbreak"):
            words.append("\n")
        else:  # an image's content is its description; other syntax has no content
            words.append(token.content)
    return "".join(words)
