"""How a measurement tells what it found."""

from collections.abc import Callable

Row = Callable[[str, str, str], None]  # what was measured, how much it was, the bar beside it
