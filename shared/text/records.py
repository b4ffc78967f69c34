"""Rows of tables and records as our readers write them: `name: value; name: value`."""

import re

_NAME = r"(?:[^:;\n]|:(?=\d)){1,80}"  # a time, as 09:00, may be a name
_NAMED = re.compile(rf"({_NAME}): ")
_BORDER = re.compile(rf"; (?={_NAME}: )")


def fields(line: str) -> list[tuple[str, str]]:
    """Return a row's names and values, '' for a cell without a name; none if it isn't such a row."""
    if "\n" in line or "; " not in line or ": " not in line:
        return []
    found = []
    for part in _BORDER.split(line):
        named = _NAMED.match(part)
        found.append((named[1].strip(), part[named.end() :].strip()) if named else ("", part.strip()))
    return found if sum(bool(name) for name, _ in found) > 1 else []
