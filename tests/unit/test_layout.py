"""The layout says where things are: flat rooms stay small, and a public class name means one thing."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from services.query_api.app import ROUTES
from services.query_api.console import pages
from services.query_api.http.route_decorator import handlers_in
from shared.settings import Settings
from tests.unit.module_tests import NO_DECISIONS, TESTED_BY, branches, expected, syntax

ROOT = Path(__file__).resolve().parents[2]
# Adapters of one port may play the same role under the same name.
ROLES = {
    "Consumer": {"shared/log/kafka/consumer.py", "shared/log/sqlite/consumer.py"},
    "Producer": {"shared/log/kafka/producer.py", "shared/log/sqlite/producer.py"},
}

# Modules that are started, not imported.
PROGRAMS = {
    "services.operator_cli.__main__",
    "shared.sandbox.__main__",
    "shared.store.edge_server",
}


def test_a_public_class_name_is_defined_once() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for module, code in _product():
        for node in syntax(code).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module.as_posix())

    assert {name: found for name, found in places.items() if len(found) > 1 and found != ROLES.get(name)} == {}


@pytest.mark.parametrize(("room", "most"), [("shared", 12), ("services/query_api", 4)])
def test_a_room_has_few_modules_of_its_own(room: str, most: int) -> None:
    modules = [file.name for file in (ROOT / room).glob("*.py") if file.name != "__init__.py"]

    assert len(modules) <= most, modules


def test_no_test_imports_from_another_test() -> None:
    codes = {file: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")}
    found = [
        f"{file.relative_to(ROOT)}: {node.module}"
        for file, code in codes.items()
        if re.search(r"from \S*\btest_", code)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module and ".test_" in f".{node.module}"
    ]

    assert found == []


@cache
def _product() -> tuple[tuple[Path, str], ...]:
    """Return each product module, from the repository's root, and its code."""
    files = [file for top in ("services", "shared") for file in (ROOT / top).rglob("*.py")]
    return tuple((file.relative_to(ROOT), file.read_text(encoding="utf-8")) for file in files)


def _dotted(module: Path) -> str:
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


@cache
def _suites() -> tuple[str, ...]:
    """Return the code of the contract suites."""
    return tuple(file.read_text(encoding="utf-8") for file in (ROOT / "tests/contract").glob("test_*.py"))


def _under_contract(module: Path) -> bool:
    """Return whether the module belongs to a port and a contract suite imports it: the suite is its test."""
    if module.parts[1] not in ("answers", "blobs", "embedder", "log", "reranker", "store"):
        return False
    name = re.escape(".".join(module.with_suffix("").parts).removesuffix(".__init__"))
    return any(re.search(rf"^from {name} import", suite, re.MULTILINE) for suite in _suites())


@cache
def _untested() -> tuple[str, ...]:
    """Return the modules that branch and have no test of their name, nor a contract suite."""
    return tuple(
        module.as_posix()
        for module, code in _product()
        if branches(code) and not (ROOT / expected(module)).exists() and not _under_contract(module)
    )


def test_a_module_with_a_decision_has_a_test_of_its_name_or_is_listed() -> None:
    missing = {module: expected(Path(module)).as_posix() for module in _untested()}

    assert {module: test for module, test in missing.items() if module not in TESTED_BY | NO_DECISIONS} == {}


def test_only_modules_without_a_test_of_their_name_are_listed() -> None:
    assert sorted({*TESTED_BY, *NO_DECISIONS} - set(_untested())) == []
    assert not TESTED_BY.keys() & NO_DECISIONS.keys()
    assert sorted(test for test in set(TESTED_BY.values()) if not (ROOT / test).is_file()) == []


def test_every_setting_is_read_somewhere() -> None:
    read = {node.attr for _, code in _product() for node in ast.walk(syntax(code)) if isinstance(node, ast.Attribute)}

    assert Settings.model_fields.keys() - read == set()


def test_every_route_that_is_written_is_mounted() -> None:
    app = (ROOT / "services/query_api/app.py").read_text(encoding="utf-8")
    found = {(each.fn.__module__, each.fn.__name__) for each in [*ROUTES, *handlers_in(pages.__name__)]}
    forgotten = {
        f"{module}: {node.name}"
        for module, code in _product()
        if module.is_relative_to("services/query_api")
        for node in syntax(code).body
        if isinstance(node, ast.AsyncFunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and getattr(decorator.func, "id", "") in ("get", "post", "put", "patch", "delete")
        # Found in a room, listed by the app, or by its own room, which the app lists.
        and (_dotted(module), node.name) not in found
        and not re.search(rf"(?<!async def )\b{node.name}\b", f"{app}\n{code}".replace(f'"{node.name}"', ""))
    }

    assert forgotten == set()


def test_every_module_is_imported_by_another_one() -> None:
    names = {_dotted(module): module for module, _ in _product()}
    imported = {each.fn.__module__ for each in ROUTES}  # found by their folder
    for _, code in _product():
        for node in ast.walk(syntax(code)):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}

    orphans = {name for name, module in names.items() if name not in imported and module.name != "__init__.py"}
    # So are formats; the others are programs.
    assert {name for name in orphans if ".extract.formats." not in name} == PROGRAMS
