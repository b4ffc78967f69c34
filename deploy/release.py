"""`make release`: what a release consists of, made from the last commit.

Wheel and source distribution are the same to the byte on every machine; the licences are those of the packages that are
installed here.
"""  # noqa: INP001 - a script, not a package

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def build(root: Path, target: Path, epoch: str) -> None:
    """Build wheel and source distribution of the tree at `root` into `target`, dated `epoch`."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    subprocess.run(command, cwd=root, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, check=True)  # noqa: S603 - ours


def describe(tree: Path, target: Path) -> None:
    """Write the bill of materials, the licences, the changes and the checksums of the tree's release into `target`."""
    subprocess.run([sys.executable, "-m", "tests.licences.sbom", str(target)], cwd=tree, check=True)  # noqa: S603 - ours
    (target / "CHANGES.md").write_text(changes((tree / "CHANGELOG.md").read_text("utf-8")), "utf-8")
    (target / "SHA256SUMS").write_text(checksums(target), "utf-8")


def changes(changelog: str) -> str:
    """Return the newest section of the changelog."""
    return "## " + re.split(r"^## ", changelog, flags=re.MULTILINE)[1].rstrip() + "\n"


def checksums(folder: Path) -> str:
    """Return what `sha256sum --check` reads, of all files there."""
    files = sorted(file for file in folder.iterdir() if file.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def main() -> None:
    """Write the release into the folder named, which must be empty or new."""
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise SystemExit(f"{target} isn't empty")
    git = ["git", "-C", str(_ROOT)]
    dated = subprocess.run([*git, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run([*git, "archive", "--output", f"{folder}/tree.tar", "HEAD"], check=True)  # noqa: S603 - ours
        with tarfile.open(f"{folder}/tree.tar") as archived:
            archived.extractall(tree, filter="data")
        build(tree, target, dated.stdout.strip())
        describe(tree, target)


if __name__ == "__main__":
    main()
