"""The layout says where things are: flat rooms stay small, and a public class name means one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Adapters of one port may play the same role under the same name.
ROLES = {
    "Consumer": {"shared/log/kafka/consumer.py", "shared/log/sqlite/consumer.py"},
    "Producer": {"shared/log/kafka/producer.py", "shared/log/sqlite/producer.py"},
}


def test_a_public_class_name_is_defined_once() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for top in ("services", "shared"):
        for file in (ROOT / top).rglob("*.py"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].add(file.relative_to(ROOT).as_posix())

    assert {name: found for name, found in places.items() if len(found) > 1 and found != ROLES.get(name)} == {}


@pytest.mark.parametrize(("room", "most"), [("shared", 10), ("services/query_api", 4)])
def test_a_room_has_few_modules_of_its_own(room: str, most: int) -> None:
    modules = [file.name for file in (ROOT / room).glob("*.py") if file.name != "__init__.py"]

    assert len(modules) <= most, modules


def test_no_test_imports_from_another_test() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {node.module}"
        for file in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and ".test_" in f".{node.module}"
    ]

    assert found == []
