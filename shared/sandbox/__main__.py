"""Confines itself like a parser and prints the mechanisms that this system has. Run by `sluice doctor`."""

from shared.sandbox import PARSER, confine, libraries

print(", ".join(confine(PARSER, read=libraries())))  # noqa: T201 - for who started it
