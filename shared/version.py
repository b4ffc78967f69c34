"""The product's version, which a test compares with pyproject.toml, and the commit that it was made from."""

import json
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

VERSION = "0.1.0"


def commit(root: Path = Path(__file__).parents[1], package: str = "sluice") -> str:
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
