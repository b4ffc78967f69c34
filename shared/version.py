"""The product's version, which a test compares with pyproject.toml, and the commit that it was made from."""

import os
import subprocess
from pathlib import Path

VERSION = "0.1.0"
_ARCHIVED = "$Format:%H$"  # `git archive` writes the commit here, as .gitattributes says
CHECKOUT = os.path.exists(Path(__file__).parents[1] / "Makefile")  # noqa: PTH110 - never raises, unlike Path's


def how_to_add(extra: str) -> str:
    """Return how to install an extra here: in a checkout, from a wheel, or in a container."""
    if CHECKOUT:
        return "make extras"
    if __name__.startswith("sluice."):
        return f"pip install 'WHEEL[{extra}]', where WHEEL is the file that Sluice was installed from"
    return "EXTRAS=yes docker compose build"


def commit(root: Path = Path(__file__).parents[1]) -> str:
    """Return the commit of the checkout at `root`, else that of the archive which this was made from; "" if unknown."""
    if not (root / ".git").exists():
        return "" if _ARCHIVED.startswith("$") else _ARCHIVED
    try:
        command = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - fixed
    except (OSError, subprocess.CalledProcessError):
        return ""
