"""The product's version, which a test compares with pyproject.toml, and what it was installed from."""

import json
import os
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

VERSION = "0.1.0"
CHECKOUT = os.path.exists(Path(__file__).parents[1] / "Makefile")  # noqa: PTH110 - never raises, unlike Path's


def how_to_add(extra: str) -> str:
    """Return how to install an extra here: in a checkout, from a wheel, or in a container."""
    if CHECKOUT:
        return "make extras"
    if __name__.startswith("sluice."):
        return f"pip install 'WHEEL[{extra}]', where WHEEL is the file that Sluice was installed from"
    return "EXTRAS=yes docker compose build"


def commit(root: Path = Path(__file__).parents[1], package: str = "sluice-rag") -> str:
    """Return the commit of the checkout at `root`, else that from which the package was installed; "" if unknown."""
    if (root / ".git").exists():
        try:
            command = ["git", "-C", str(root), "rev-parse", "HEAD"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - fixed
        except (OSError, subprocess.CalledProcessError):
            return ""
    try:
        origin = json.loads(distribution(package).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return ""
    found: str = origin.get("vcs_info", {}).get("commit_id", "")
    return found
