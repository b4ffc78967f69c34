"""Makes links and images inert in an answer's Markdown: an image that loads tells its server what its URL says."""

import re
from typing import Final

# Markdown takes `](` for a link or image, `]:` for a link's definition, and `<x` for a link or HTML; not with a blank.
_JOINT: Final = re.compile(r"(?<=\])(?=[(:\[])|(?<=<)(?=[A-Za-z/!?])")
_UNDECIDED: Final = ("]", "<")


class InertLinks:
    """Puts a blank into each link, image and HTML tag of a stream, so that its address is text and nothing loads.

    `![a](https://x)` becomes `![a] (https://x)`. Code gets the blank, too.
    """

    def __init__(self) -> None:
        """Begin an answer."""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown so far."""
        text = _JOINT.sub(" ", self._held + piece)
        self._held = text[-1] if text.endswith(_UNDECIDED) else ""
        return text[: len(text) - len(self._held)]

    def rest(self) -> str:
        """Return the text that was held back; call it at the end of the stream."""
        held, self._held = self._held, ""
        return held
