"""Says which means this system has: confines itself as a parser is, and prints them. Run by `sluice doctor`."""

from shared.sandbox import PARSER, confine, libraries

print(", ".join(confine(PARSER, read=libraries())))  # noqa: T201 - for who started it
