"""Checks that every reply and every error sentence must pass after hostile input."""

import re
from typing import Final

# Names of classes, files, modules and memory addresses: they help no user.
_INTERNAL: Final = re.compile(
    r"Traceback|Error\b(?<!HTTP Error)|Exception\b|0x[0-9a-f]{6,}|site-packages|\.py\b|<class |object at |"
    r"/tmp/|/dev/shm/|/w[o]rk/|\b(?:lxml|pdfium|pypdf|zipfile|msgspec|codec|litestar|sqlite|qdrant|NoneType|Errno)\b"
)


def internals(sentence: str) -> list[str]:
    """Return the parts of a sentence that leak internals of the program."""
    return _INTERNAL.findall(sentence)
