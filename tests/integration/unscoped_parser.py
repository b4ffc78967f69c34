"""`hostile_parser` as on a kernel whose Landlock has no scopes (before 6.12)."""

from shared.sandbox import landlock
from tests.integration import hostile_parser

if __name__ == "__main__":
    landlock.SCOPES = 0
    hostile_parser.main()
