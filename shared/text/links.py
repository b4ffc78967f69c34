"""Links in texts: an address is shown with its words, and isn't a part of what they mean."""

import re
from typing import Final

REST: Final = r"[^\s()<>]{0,2000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200})?"  # of an address, with brackets in it
_ADDRESS: Final = rf"(?:[a-z][a-z0-9+.-]{{1,20}}:|[#/.]|[\w%-]{{1,100}}[./]){REST}"
_TITLE: Final = r'(?: "[^"\n]{0,200}")?'
_MARKDOWN: Final = re.compile(rf"!?\[([^\[\]\n]{{0,500}})\]\(<?{_ADDRESS}>?{_TITLE}\)", re.IGNORECASE)
_BEHIND: Final = re.compile(rf" \((?:https?|mailto):{REST}\)", re.IGNORECASE)


def without_targets(text: str) -> str:
    """Return the text without the addresses of its Markdown links, and without those in brackets behind a word.

    A text of nothing else is returned unchanged.
    """
    shown = _MARKDOWN.sub(r"\1", text) if "](" in text else text
    shown = _BEHIND.sub("", shown) if ":" in shown else shown
    return shown if shown.strip() else text
