"""Bodies for each route of `/openapi.json` that cost as much as their size allows."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from services.query_api.app import ROUTES
from services.query_api.http.openapi import examples
from services.query_api.http.route_decorator import SMALL
from shared.settings import Settings

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

Shape = Callable[[int], bytes]  # a JSON value of about so many bytes


def _repeated(part: bytes, size: int) -> bytes:
    return part * max(1, size // len(part))


def _text(part: bytes) -> Shape:
    return lambda size: b'"' + _repeated(part, size) + b'"'


def _list(part: bytes) -> Shape:
    return lambda size: b"[" + _repeated(part + b",", size)[:-1] + b"]"


def _names(size: int) -> bytes:
    return b"{" + b",".join(b'"n%08d":1' % n for n in range(max(1, size // 14))) + b"}"


def _long_name(size: int) -> bytes:
    return b'{"' + b"n" * (size // 2) + b'":[' + _repeated(b"1,", size // 2)[:-1] + b"]}"


def _deep(size: int) -> bytes:
    part = b"[" * 50 + b"1" + b"]" * 50
    return b"[" + _repeated(part + b",", size)[:-1] + b"]"


SHAPES: dict[str, Shape] = {
    "text": _text(b"a"),
    "words": _text(b"e.g. **a A. "),
    "blanks": _text(b" "),
    "lines": _text(b"\\n"),
    "brackets": _text(b"[[(<"),
    "quotes": _text(b'\\"'),
    "commas in a text": _text(b"ab,"),
    "backslashes": _text(b"\\\\"),
    "marks": _text("a\u0327\u0301\u0316".encode()),
    "escapes": _text(b"\\u0301"),
    "JSON of lists": lambda size: json.dumps("[" + "[]," * (size // 3) + "1]").encode(),
    "ones": _list(b"1"),
    "texts": _list(b'""'),
    "lists": _list(b"[]"),
    "objects": _list(b"{}"),
    "deep": _deep,
    "names": _names,
    "long name": _long_name,
}
RAW: dict[str, Shape] = {
    "unclosed lists": lambda size: b"[" * size,
    "unclosed objects": lambda size: _repeated(b'{"a":', size),
    "closed": lambda size: b"]" * size,
    "commas": lambda size: b"[" + b"," * size,
    "unclosed texts": lambda size: b"[" + b'"' * (size - 1),
    "blank": lambda size: b" " * size,
    "line feeds": lambda size: b"\n" * size,
    "lines of objects": lambda size: _repeated(b"{}\n", size),
    "nothing": lambda _: b"",
    "a byte": lambda _: b"1",
}
FORMS: dict[str, Shape] = {
    "escapes": lambda size: b"text=" + _repeated(b"%41", size),
    "fields": lambda size: _repeated(b"a=1&", size),
    "values": lambda size: b"text=" + b"a" * size,
    "equals": lambda size: b"=" * size,
    "pluses": lambda size: b"a=" + b"+" * size,
}


class ShapedBody(NamedTuple):
    """A body, and how it was made."""

    name: str
    content: bytes
    media_type: str = JSON

    @staticmethod
    def within(rest: Mapping[str, Any], field: str, value: bytes) -> bytes:
        """Return an object with the rest and the field."""
        start = json.dumps(dict(rest)).encode()[:-1]
        return start + (b"," if rest else b"") + json.dumps(field).encode() + b":" + value + b"}"


def fields_of(spec: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas of the body's fields, by name."""
    schema = operation["requestBody"]["content"].get(JSON, {}).get("schema", {})
    for _ in range(3):
        if "$ref" in schema:
            schema = spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        schema = next((each for each in schema.get("oneOf", ()) if "$ref" in each), schema)
    found: dict[str, Any] = schema.get("properties", {})
    return found


def example_of(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of the operation's example, if it is an object."""
    example = examples().get(operation["operationId"])
    return dict(example.body) if example is not None and isinstance(example.body, dict) else {}


def limit_of(operation: Mapping[str, Any]) -> int:
    """Return the most bytes that the operation's route reads; for settings, what they are by default."""
    [handler] = (each for each in ROUTES if each.operation_id == operation["operationId"])
    most = handler.opt.get("takes", SMALL).bytes
    return most if isinstance(most, int) else int(Settings.model_fields["max_body"].default)


def shaped(spec: Mapping[str, Any], operation: Mapping[str, Any], size: int, *, every: int = 1) -> Iterator[ShapedBody]:
    """Yield bodies of at most so many bytes: each field in each shape, and bodies that aren't JSON objects.

    Of the former, one of `every` so many. It shares no factor with the number of shapes: else some would never come.
    """
    assert math.gcd(every, len(SHAPES)) == 1
    example = example_of(operation)
    pairs = [(field, name) for field in (*fields_of(spec, operation), "unknown") for name in SHAPES]
    for field, name in pairs[::every]:
        rest = {key: value for key, value in example.items() if key != field}
        room = size - len(json.dumps(rest)) - len(field) - 120
        yield ShapedBody(f"{field}: {name}", ShapedBody.within(rest, field, SHAPES[name](max(1, room))))
    for name, shape in (SHAPES | RAW).items():
        yield ShapedBody(name, shape(size - 120)[:size])
    for name, shape in FORMS.items():
        yield ShapedBody(f"form: {name}", shape(size - 10)[:size], FORM)


def _largest(route: str, field: str, **rest: Any) -> Callable[[int], tuple[str, list[ShapedBody]]]:
    def made(most: int) -> tuple[str, list[ShapedBody]]:
        found = [
            ShapedBody(f"{field}: {name}", ShapedBody.within(rest, field, shape(most - 300)))
            for name, shape in SHAPES.items()
        ]
        return route, [
            *found,
            *(ShapedBody(name, shape(most - 300)) for name, shape in RAW.items() if name != "nothing"),
        ]

    return made


# The routes that take bodies of the largest size. Each gives its path and bodies of at most so many bytes.
LARGEST_BODIES: Final = {
    "text": _largest("/rag/ingest", "text", source="s", path="p"),
    "text alone": _largest("/rag/ingest/text", "text"),
    "tags": _largest("/rag/ingest", "tags", source="s", path="p", text="t"),
    "chunks": _largest("/rag/ingest", "chunks", source="s", path="p"),
    "metadata": _largest("/rag/ingest", "metadata", source="s", path="p", text="t"),
    "conversation": _largest("/v1/responses", "input", model="rag/extractive"),
    "embeddings": _largest("/v1/embeddings", "input", model="none"),
}

_ONES: Final = [1] * 19_000  # nearly as many values as metadata may have
# What costs on its way to the index.
DOCUMENTS: Final[dict[str, dict[str, Any]]] = {
    "metadata of a document": {"text": "The lantern is lit at six.\n\n" * 1500, "metadata": {"a": _ONES}},
    "metadata of chunks": {"chunks": [{"text": f"Lantern {n}.", "metadata": {"a": _ONES}} for n in range(10)]},
    "long chunks": {"chunks": [{"text": "e\u0327\u0301a " * 3_900 + str(n), "embeddingText": "a"} for n in range(70)]},
    "many chunks": {"chunks": [{"text": f"Lantern {n}. " + "x" * 900, "embeddingText": "a"} for n in range(9_000)]},
}
