"""Each regular expression of the product takes linear time, whatever the text. All are found and measured."""

import ast
import importlib
import itertools
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import services
import shared
from tests.loop_holds import least_cpu_s
from tests.selection import CI_ONLY

_LENGTH: Final = 20_000  # characters; a text of half as many is measured, too
_GROWTH: Final = 3.0  # times as long for twice the text: between linear, 2, and quadratic, 4
_LOOKS: Final = 5  # a neighbour of the machine may slow the longer text down; of one look, a linear pattern grew
_FLOOR_S: Final = 0.03  # CPU time; linear patterns take a few milliseconds, quadratic ones more than this
_HOPELESS_S: Final = 0.05  # for 333 or a thousand characters: cubic, or worse
_MOST: Final = 8  # literals, groups and prefixes of a pattern that shapes are made of
_FLAGS: Final = ("IGNORECASE", "DOTALL", "MULTILINE", "VERBOSE", "ASCII")
_ROOT: Final = Path(__file__).parents[2]
# Patterns that a function builds, each with what it may look like.
_BUILT: Final = {
    "asked_form.py": [r"(?<!\w)2024\.1(?!\w)", r"(?<!\w)a(?!\w)"],
    "logging_setup.py": [r"secret-a|secret-b|aaaa"],
}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
# Shapes that no rule below makes.
_KNOWN: Final = (("", "e.g. "), ("", "A. "), ("**a ", "**a "), ("", "a.a,"), ("[ context_", "start_"), ("!!! ", " a"))


class _Found(NamedTuple):
    where: str
    pattern: "re.Pattern[Any]"
    anchored: bool  # only ever asked whether a text begins with it, or is it


# Finding


@cache
def _found() -> tuple[_Found, ...]:
    found: dict[tuple[object, int, bool], _Found] = {}
    trees = {
        ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for top in (services, shared)
        for path in sorted(Path(top.__path__[0]).rglob("*.py"))
    }
    searched = _searched(trees)
    for top in (services, shared):
        for module in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
            if module.name.endswith("__main__"):
                continue
            for name, value in vars(importlib.import_module(module.name)).items():
                for pattern in _within(value):
                    anchored = isinstance(value, re.Pattern) and searched.isdisjoint({name, f"{module.name}.{name}"})
                    found.setdefault(
                        (pattern.pattern, pattern.flags, anchored), _Found(f"{module.name}.{name}", pattern, anchored)
                    )
    for name, tree in trees.items():
        inside = {id(each) for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) for each in ast.walk(node)}
        for call in ast.walk(tree):
            if (asks := _inline(call)) and isinstance(call, ast.Call) and (asks != "compile" or id(call) in inside):
                for pattern in _given(name, call):
                    anchored = asks in ("match", "fullmatch")
                    found.setdefault((pattern.pattern, pattern.flags, anchored), _Found(name, pattern, anchored))
    return tuple(found.values())


def _searched(trees: Mapping[str, ast.Module]) -> frozenset[str]:
    """Return the names that are used in any other way than `NAME.match` and `NAME.fullmatch`."""
    named: set[str] = set()
    for module, tree in trees.items():
        anchored = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr in ("match", "fullmatch")
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in anchored:
                named.add(f"{module}.{node.id}" if node.id.startswith("_") else node.id)
    return frozenset(named)


def _within(value: object, depth: int = 0) -> Iterator["re.Pattern[Any]"]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict | tuple | list | set | frozenset) and depth < 4:
        for each in itertools.chain(value, value.values() if isinstance(value, dict) else ()):
            yield from _within(each, depth + 1)


def _inline(node: ast.AST) -> str | None:
    """Return the function of `re` that the node calls with a pattern."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        called = node.func
        return called.attr if node.func.value.id == "re" and called.attr != "escape" else None
    return None


def _given(module: str, call: ast.Call) -> Iterator["re.Pattern[Any]"]:
    first, said = call.args[0], ast.unparse(call)
    flags = sum(getattr(re, flag) for flag in _FLAGS if f"re.{flag}" in said)
    if isinstance(first, ast.Constant):
        yield re.compile(first.value, flags)
    elif isinstance(first, ast.Name) and isinstance(
        value := vars(importlib.import_module(module)).get(first.id), str | bytes
    ):
        yield re.compile(value, flags)
    else:
        # At a module's level, the pattern is one of its values.
        yield from map(re.compile, _BUILT.get(f"{module.rpartition('.')[2]}.py", ()))


@CI_ONLY
def test_no_pattern_is_forgotten() -> None:
    written = sum(path.read_text().count("re.compile(") for path in _ROOT.glob("s[eh]*/**/*.py"))

    assert len(_found()) >= written


# Shapes

_Parsed: Final = importlib.import_module("re._parser")
_OPS: Final = importlib.import_module("re._constants")
_LOOPS: Final = (_OPS.MAX_REPEAT, _OPS.MIN_REPEAT, _OPS.POSSESSIVE_REPEAT)
_EACH: Final = " \n\taA1_.-\"'*[](){}<>|:;,é\u3042\u0e01\u0300"  # one of each class of characters, and usual signs


class _Parts:
    """What a pattern is made of: its literals, minimal matches of its groups, and of all that is before a loop."""

    def __init__(self, pattern: "re.Pattern[Any]") -> None:
        flags = pattern.flags if isinstance(pattern.pattern, str) else pattern.flags & ~re.UNICODE
        self.literals: dict[str, None] = {}
        self.groups: dict[str, None] = {}
        self.before: dict[str, None] = {"": None}
        self._numbered: dict[int, str] = {}
        self.whole = self._sample(_Parsed.parse(pattern.pattern, flags), "")

    def _sample(self, tree: Any, before: str) -> str:
        sample = ""
        for op, value in tree:
            sample += self._one(op, value, before + sample)
        return sample

    def _one(self, op: Any, value: Any, before: str) -> str:
        if op is _OPS.LITERAL:
            self.literals[chr(value)] = None
            return chr(value)
        if op is _OPS.NOT_LITERAL:
            self.literals[chr(value)] = None
            return "b" if value != ord("b") else "c"
        if op is _OPS.ANY:
            return "a"
        if op is _OPS.IN:
            own = [chr(each if kind is _OPS.LITERAL else each[0]) for kind, each in value if kind in _CHARACTERS]
            self.literals |= dict.fromkeys(own[:_MOST])
            return next((each for each in _EACH if _fits(value, each)), own[0] if own else "a")
        if op in _LOOPS:
            self.before[before] = None
            unit = self._sample(value[2], before)
            self.groups[unit] = None
            return unit * max(1, min(int(value[0]), 50))
        if op is _OPS.SUBPATTERN:
            self._numbered[value[0]] = group = self._sample(value[-1], before)
            self.groups[group] = None
            return group
        if op is _OPS.BRANCH:
            branches = [self._sample(each, before) for each in value[1]]
            self.groups |= dict.fromkeys(branches)
            return branches[0]
        if op in (_OPS.ASSERT, _OPS.ASSERT_NOT):
            self._sample(value[1], before)
        if op is _OPS.ATOMIC_GROUP:
            return self._sample(value, before)
        return self._numbered.get(value, "") if op is _OPS.GROUPREF else ""


_CHARACTERS: Final = (_OPS.LITERAL, _OPS.RANGE)


def _fits(options: Iterable[Any], character: str) -> bool:
    tests: dict[str, Callable[[str], bool]] = {
        "SPACE": str.isspace,
        "DIGIT": str.isdigit,
        "WORD": lambda each: each.isalnum() or each == "_",
    }
    fits = negated = False
    for op, value in options:
        if op is _OPS.NEGATE:
            negated = True
        elif op is _OPS.CATEGORY:
            _, *no, kind = str(value).split("_")
            fits |= tests[kind](character) != bool(no)
        else:
            low, high = (value, value) if op is _OPS.LITERAL else value
            fits |= low <= ord(character) <= high
    return fits != negated


def _shapes(pattern: "re.Pattern[Any]") -> Iterator[tuple[str, str]]:
    """Yield a beginning, and what is repeated behind it."""
    parts = _Parts(pattern)
    letters = [*list(parts.literals)[:_MOST], *" \na1"]
    units = list(dict.fromkeys([*letters, *sorted(parts.groups, key=len)[:_MOST]]))
    half = _LENGTH // 2
    made = itertools.chain(
        ((before, unit) for before in sorted(parts.before, key=len)[:_MOST] for unit in units),
        (("", before + unit) for before in sorted(parts.before, key=len)[:_MOST] for unit in units),
        [("", parts.whole), *_KNOWN],
        (("", one + other) for one, other in itertools.product(units, units)),
        ((one, other) for one, other in itertools.product(units, units)),
        ((one * half, other) for one, other in itertools.product(letters, letters) if one and one != other),
    )
    return ((head, unit) for head, unit in dict.fromkeys(made) if unit)


def _cpu_s(found: _Found, shape: tuple[str, str], length: int, limit_s: float = 0) -> float:
    """Return the least CPU seconds of the worst way of asking; the text's last character fits nothing."""
    head, unit = shape
    head = head[: length // 2] if len(head) > _LENGTH // 4 else head
    text: Any = head + unit * ((length - len(head)) // len(unit)) + "\0"
    empty: Any = ""
    if isinstance(found.pattern.pattern, bytes):
        text, empty = text.encode("latin-1", "replace"), b""

    def ask() -> None:
        found.pattern.fullmatch(text)
        if not found.anchored:
            found.pattern.sub(empty, text)  # searches the whole text, though it finds something

    return least_cpu_s(ask, limit_s)


def _grows(found: _Found, shape: tuple[str, str]) -> bool:
    """Return whether the time grows faster than the text."""
    shorter = (_LENGTH // 60, _LENGTH // 20)
    if any(_cpu_s(found, shape, length, _HOPELESS_S) > _HOPELESS_S for length in shorter):
        return True
    return all(
        (twice := _cpu_s(found, shape, _LENGTH, _FLOOR_S)) > _FLOOR_S
        and twice > _GROWTH * _cpu_s(found, shape, _LENGTH // 2)
        for _ in range(_LOOKS)
    )


@CI_ONLY
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("share", range(4))
def test_twice_the_text_takes_twice_the_time(share: int) -> None:
    slow = {
        found.where: (found.pattern.pattern, shape)
        for found in _found()[share::4]
        if (shape := next((each for each in _shapes(found.pattern) if _grows(found, each)), None))
    }

    assert slow == {}


@CI_ONLY
@pytest.mark.parametrize("pattern", [r"\s*x", r"\[\s*/?\s*b", r"<a>.*?</a>"])
def test_a_pattern_that_is_not_linear_is_noticed(pattern: str) -> None:
    found = _Found("", re.compile(pattern), anchored=False)

    assert any(_grows(found, shape) for shape in _shapes(found.pattern))
