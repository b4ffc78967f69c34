"""Checks names, points and payloads before an engine gets them.

Qdrant's embedded engine accepts values that it can't keep. NaN gives a vector with meaningless scores. A sparse vector
with lists of unequal length makes it panic. A payload that is nested too deeply is logged but can't be read back, so
the collection doesn't open again. All of these are refused here, with the name of the point and of the key. Reads
accept any id: one that is no UUID is just not found.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shared.store import EVERYTHING, Filter, Leg, Payload, Point, Sparse, Vector

MAX_DEPTH = 32  # levels of a payload; the engine's write-ahead log fails at about 100
MAX_SPARSE_INDEX = 2**32 - 1
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def check_name(name: str) -> str:
    """Return the collection's name.

    Raises:
        ValueError: it is not 1 to 100 of `A-Z a-z 0-9 . _ -`, or it is a folder's `.` or `..`.
    """
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise ValueError(f"collection name {name!r} must be 1 to 100 letters, digits, '.', '_' or '-'")
    return name


def is_id(text: str) -> bool:
    """Return whether the text is a UUID as we write them: lower case, with hyphens."""
    return _UUID.fullmatch(text) is not None


def check_limit(limit: int) -> int:
    """Return the limit.

    Raises:
        ValueError: it is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit {limit} must be at least 1")
    return limit


def check_after(after: str | None) -> str | None:
    """Return `after`, the id after which a page begins.

    Raises:
        ValueError: it is no id, so it can't come from an earlier page.
    """
    if after is not None and not is_id(after):
        raise ValueError(f"after={after!r} is not a cursor of an earlier page")
    return after


def check_narrow(where: Filter) -> Filter:
    """Return `where`, the filter of a deletion.

    Raises:
        ValueError: it is the empty one, which matches every point.
    """
    if where == EVERYTHING:
        raise ValueError("the empty filter would delete every point; drop the collection instead")
    return where


def json_path(field: str) -> str:
    """Return the dotted path as Qdrant reads it: keys with a blank or an umlaut in quotes.

    Raises:
        ValueError: a key is empty or holds a quotation mark.
    """
    keys = field.split(".")
    if not all(keys) or '"' in field:
        raise ValueError(f"field {field!r} must be keys separated by dots, none of them empty or with a quotation mark")
    return ".".join(key if _PLAIN_KEY.fullmatch(key) else f'"{key}"' for key in keys)


def value_at(payload: Payload, path: Sequence[str]) -> Any:
    """Return the value at the path of keys; None where there is none."""
    value: Any = payload
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def check_points(points: Sequence[Point]) -> None:
    """Check that both stores keep the points exactly as they are.

    Raises:
        ValueError: an id, a vector or a payload can't be kept; the message names the point and the key.
    """
    for point in points:
        owner = f"point {point.id}"
        if not is_id(point.id):
            raise ValueError(f"point id {point.id!r} must be a UUID in lower case with hyphens")
        if point.dense is not None:
            _check_dense(point.dense, owner)
        if point.sparse is not None:
            _check_sparse(point.sparse, owner)
        check_payload(point.payload, owner)


def check_legs(legs: Sequence[Leg]) -> None:
    """Check that each leg has one finite vector, and that at most one of these is dense.

    Raises:
        ValueError: a leg has none or two vectors, or one that is malformed; the message gives its number.
    """
    if sum(leg.dense is not None for leg in legs) > 1:
        raise ValueError("a search has one dense leg at most")
    for number, leg in enumerate(legs):
        owner = f"leg {number}"
        if (leg.dense is None) == (leg.sparse is None):
            raise ValueError(f"{owner} must have either a dense or a sparse vector")
        if leg.dense is not None:
            _check_dense(leg.dense, owner)
        if leg.sparse is not None:
            _check_sparse(leg.sparse, owner)


def check_payload(payload: Mapping[str, Any], owner: str) -> None:
    """Check that the payload consists of JSON values that come back equal (a tuple comes back as a list).

    Raises:
        ValueError: the message names `owner`, the dotted key and what is wrong with its value.
    """
    flaw = _flaw(payload, 0)
    if flaw is not None:
        path, reason = flaw
        raise ValueError(f"{owner}: {'.'.join(reversed(path)) or 'payload'} {reason}")


def _check_dense(vector: Vector, owner: str) -> None:
    if vector.dtype != np.float32 or vector.ndim != 1:
        raise ValueError(f"{owner}: the dense vector must be one row of float32, not {vector.dtype} {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{owner}: the dense vector holds NaN or infinity at {int(np.argmin(np.isfinite(vector)))}")


def _check_sparse(sparse: Sparse, owner: str) -> None:
    indices, values = sparse.indices, sparse.values
    if len(indices) != len(values):
        raise ValueError(f"{owner}: the sparse vector has {len(indices)} indices and {len(values)} values")
    if not indices:
        return
    if len(set(indices)) != len(indices):
        raise ValueError(f"{owner}: the sparse vector repeats an index")
    if min(indices) < 0 or max(indices) > MAX_SPARSE_INDEX:
        raise ValueError(f"{owner}: the sparse vector has an index outside 0 to {MAX_SPARSE_INDEX}")
    if not all(map(math.isfinite, values)):  # numpy would make an array of them first
        raise ValueError(f"{owner}: the sparse vector holds NaN or infinity")


def _flaw(value: Any, depth: int) -> tuple[list[str], str] | None:
    """Return the path to the first bad value, innermost key first, and the reason."""
    kind = type(value)
    if kind is str:
        return None if _encodable(value) else ([], "holds a lone surrogate, which UTF-8 can't write")
    if value is None or kind is bool:
        return None
    if kind is int:
        return None if _SMALLEST <= value <= _LARGEST else ([], f"is {value}, which doesn't fit 64 bits")
    if kind is float:
        return None if math.isfinite(value) else ([], f"is {value}, which JSON can't write")
    if kind is dict:
        return _flaw_within(value.items(), depth)
    if kind in {list, tuple}:
        return _flaw_within(enumerate(value), depth, named=False)
    return [], f"is of type {kind.__name__}, which JSON lacks"


def _flaw_within(parts: Any, depth: int, *, named: bool = True) -> tuple[list[str], str] | None:
    if depth >= MAX_DEPTH:
        return [], f"is nested deeper than {MAX_DEPTH} levels"
    for key, part in parts:
        if named and not (type(key) is str and (key.isascii() or _encodable(key))):
            return [repr(key)], "is no key that JSON can write"
        if part is None or (type(part) is str and part.isascii()):  # nearly all, and a call costs more than this
            continue
        flaw = _flaw(part, depth + 1)
        if flaw is not None:
            flaw[0].append(str(key))
            return flaw
    return None


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
