"""What is asked of every reply and every sentence after something hostile."""

import re
from typing import Final

# Names of classes, files, modules and addresses of ours and of libraries: nothing that a reader could use.
_INTERNAL: Final = re.compile(
    r"Traceback|Error\b(?<!HTTP Error)|Exception\b|0x[0-9a-f]{6,}|site-packages|\.py\b|<class |object at |"
    r"/tmp/|/w[o]rk/|\b(?:lxml|pdfium|pypdf|zipfile|msgspec|codec|litestar|sqlite|qdrant|NoneType|Errno)\b"
)


def internals(sentence: str) -> list[str]:
    """Return what in a sentence is of the program and not of its words."""
    return _INTERNAL.findall(sentence)
