"""Reads JSON and JSON Lines: a paragraph per record or row; other JSON unchanged, but long lines are indented."""

import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any

from services.ingest_worker.extract.clean import cleaned, decoded, is_base64
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.html_markdown import part_text
from services.ingest_worker.extract.rows import labelled
from services.ingest_worker.extract.table_header import LOOK_AHEAD, find_header, is_figure

_LINE = 500  # characters; a longer line was written by a program, and is indented
_GROWTH = 8  # times as long at most; deeply nested values would grow with the square of their length
_WRONG = 20  # more lines than objects, after which the others aren't tried
_DEPTH = 2  # objects around a list of records
_CARRIED = 200  # characters of a field that the objects within its object repeat
_NEAR = 50  # fields of which one may be the text that another one has in parts
_NAMES = 3  # of the objects around a value that its name is made of
# A list of these on lines of their own; alone on its line, a number looks like that of a page.
_NUMBERS = re.compile(r"\[\s*+((?:-?\d[\d.eE+-]*+|null)(?:,\s++(?:-?\d[\d.eE+-]*+|null))*+)\s*+\]")
_CALLED = frozenset({"name", "key", "field", "label", "title"})  # what the name of a pair is called
# What Telegram says of a part of a text; one that says more, or is of another type, is no part.
_PART = frozenset({"type", "text", "href", "language", "user_id", "document_id", "collapsed"})
_TYPE = re.compile(
    r"plain|bold|italic|underline|strikethrough|spoiler|code|pre|link|text_link|mention|mention_name|hashtag|cashtag"
    r"|bot_command|email|phone|bank_card|custom_emoji|blockquote|unknown"
)
_TOUCH = re.compile(r"(?![\u2e80-\ua4cf]{1,2})[^\W_]{2}")  # where words meet that are none of one text
_NAMING = re.compile(r"(?i)col|field|head|name|schema")  # what a list of the names of columns is called
_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2)


def records(text: str) -> str:
    """Return the paragraphs of a text that is a list of records, as `name: value; name: value`; else ''."""
    found = _listed(text)
    return cleaned(found) if len(found) <= _GROWTH * len(text) else ""


def read(data: bytes, hints: Hints) -> Extraction:
    """Return `name: value; name: value` for each object of a list or line. Other and invalid JSON stays as it is.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    text = cleaned(decoded(data, hints))
    lines = text.split("\n")
    if found := records(text):
        return Extraction(text=found)
    if any(len(line) > _LINE for line in lines):
        text = "\n\n".join(map(_laid_out, lines)) if len(lines) > 1 else _laid_out(text)
    text = _NUMBERS.sub(lambda each: f"[{' '.join(each[1].split())}]", text)
    return Extraction(text=cleaned(text))


def _listed(text: str) -> str:
    try:
        return "\n\n".join(filter(None, _paragraphs(_value(text))))
    except (ValueError, RecursionError):
        pass
    found, objects = list[str](), 0
    for number, line in enumerate(filter(str.strip, text.split("\n"))):
        if 2 * objects < number - _WRONG:
            return ""
        try:
            value = _value(line)
        except (ValueError, RecursionError):
            value = None
        objects += isinstance(value, dict)
        found += record(value) if isinstance(value, dict) else [line]
    return "\n\n".join(filter(None, found)) if objects > 1 else ""


# As text, so that no digit is lost.
_value = partial(json.loads, parse_float=str, parse_int=str, parse_constant=str)


def _paragraphs(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        if _of_objects(value):
            for each in value:
                yield from record(each)
        elif _is_table(value):
            yield labelled([list(map(_shown, row)) for row in value])
        elif _is_mixed(value):
            for each in value:
                yield from record(each) if isinstance(each, dict) else [_shown(each)]
        return
    value = _with_records(value)
    told = list(_told(value, 0)) if isinstance(value, dict) else []
    is_page = _is_page(value)
    if (told and 3 * sum(map(_size, told)) > 2 * _size(value)) or is_page:
        inner: list[tuple[str, list[Any]]] = []
        yield "; ".join(_fields(value, (), inner, least=1 if is_page else 2))
        for name, records in inner:
            yield f"# {name}"
            for each in records:
                yield from record(each)


def _with_records(value: Any, depth: int = 0) -> Any:
    """Return the value with objects for rows, whose names stand in a list beside them, or in the first one."""
    if not isinstance(value, dict) or depth > _DEPTH:
        return value
    found = {name: _with_records(each, depth + 1) for name, each in value.items()}
    for name, rows in value.items():
        if not _is_grid(rows):
            continue
        beside = ((other, _column_names(each)) for other, each in value.items() if _NAMING.search(other))
        other, names = next((each for each in beside if len(each[1]) == len(rows[0])), (name, []))
        if not names:
            header = find_header([list(map(_shown, row)) for row in rows[:LOOK_AHEAD]])
            names = header.names if header and header[:2] == (0, 1) else []
        if len(set(names)) == len(rows[0]):
            found.pop(other, None)
            found[name] = [dict(zip(names, row, strict=True)) for row in rows[other == name :]]
    return found


def _is_grid(value: Any) -> bool:
    rows = [row if isinstance(row, list) else [] for row in value] if isinstance(value, list) else []
    nested = any(isinstance(each, list | dict) for row in rows for each in row)
    return len(rows) > 1 and len(set(map(len, rows))) == 1 < len(rows[0]) and not nested


def _column_names(value: Any) -> list[str]:
    """Return the names that a list has, as texts or as objects that are called so; [] if it has others."""
    listed = [each if isinstance(each, dict) else {"name": each} for each in (value if isinstance(value, list) else [])]
    called = [next((each[name] for name in sorted(each.keys() & _CALLED)), None) for each in listed]
    names = [name for name in called if isinstance(name, str)]
    return names if len(names) == len(called) else []


def _is_table(value: list[Any]) -> bool:
    """Return whether the value is a list of at least three rows with equal numbers of values, not of numbers alone."""
    return len(value) > 2 and _is_grid(value) and not all(map(is_figure, map(_shown, chain.from_iterable(value))))


def _is_mixed(value: list[Any]) -> bool:
    """Return whether objects and single values stand in one list."""
    return {isinstance(each, dict) for each in value} == {True, False} and not any(
        isinstance(each, list) for each in value
    )


def _is_page(value: Any) -> bool:
    """Return whether the value is a list of records with counts, links and the like beside it."""
    if not isinstance(value, dict):
        return False
    lists = [each for each in value.values() if isinstance(each, list | dict)]
    beside = [each for each in value.values() if not isinstance(each, list | dict)]
    listed = len(lists) == 1 and isinstance(lists[0], list) and _of_objects(lists[0])
    return listed and all(len(str(each)) <= _CARRIED for each in beside)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))


def _told(value: dict[str, Any], depth: int) -> Iterator[list[Any] | str]:
    """Yield the lists of records and the parts of web pages in the object, and in those within it."""
    for each in value.values():
        if (isinstance(each, list) and _of_objects(each, least=2)) or (isinstance(each, str) and _markup(each)):
            yield each
        elif isinstance(each, dict) and depth < _DEPTH:
            yield from _told(each, depth + 1)


def _markup(text: str) -> str:
    """Return the text of a part of a web page; '' for any other text."""
    return part_text(text) if "</" in text else ""


def _of_objects(value: list[Any], least: int = 1) -> bool:
    return len(value) >= least and all(isinstance(each, dict) for each in value)


def record(value: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield an object's fields, then the objects of each list in it, which begin with the first of these fields.

    `above` are fields with which each begins.
    """
    inner: list[tuple[str, list[Any]]] = []
    fields = list(_fields(value, (), inner))
    yield "; ".join((*above, *fields))
    for _, records in inner:
        for each in records:
            yield from record(each, (*above[-1:], *(field for field in fields[:1] if len(field) <= _CARRIED)))


def _fields(
    value: dict[str, Any], path: tuple[str, ...], inner: list[tuple[str, list[Any]]], least: int = 2
) -> Iterator[str]:
    """Yield the fields of the object and of those in it; lists of at least so many objects go into `inner`."""
    for name, each in value.items():
        if name == "@context" or _is_repeated(each, value):  # the vocabulary of JSON-LD
            continue
        named = (*path[1 - _NAMES :], " ".join(name.split()))
        if isinstance(pairs := _unlisted(each), dict):
            yield from _fields(pairs, named, inner, least)
        elif isinstance(each, list) and _of_objects(each, least):
            inner.append((" ".join(named), each))
        elif shown := _shown(each):
            yield f"{' '.join(named)}: {shown}"


def _unlisted(value: Any) -> Any:
    """Return the pairs of names and values that are listed as objects as one object; other values as they are."""
    if not isinstance(value, list) or not _of_objects(value):
        return value
    names = {next(iter(each.keys() - {"value"}), "") for each in value}
    if all(len(each) == 2 and "value" in each for each in value) and len(names) == 1 and names <= _CALLED:
        name = names.pop()
        fields = {str(each[name]): each["value"] for each in value}
        return fields if len(fields) == len(value) else value
    return value


def _is_repeated(parts: Any, fields: dict[str, Any]) -> bool:
    """Return whether the value lists the parts of a text that stands in another field, as Telegram writes it."""
    text = _joined(parts) if isinstance(parts, list) and _of_objects(parts) else ""
    beside = (each for each in fields.values() if isinstance(each, str) or (isinstance(each, list) and _is_mixed(each)))
    return bool(text) and any(_joined(each) == text for each in islice(beside, _NEAR))


def _joined(value: Any) -> str:
    """Return the text of which the value is made: strings, and objects with a text, its type and a link; else ''."""
    parts = [value] if isinstance(value, str) else value
    texts = (each["text"] if isinstance(each, dict) and _is_part(each) else each for each in parts)
    says = [each for each in texts if isinstance(each, str)]
    if len(says) < len(parts) or any(_TOUCH.fullmatch(before[-1:] + after[:1]) for before, after in pairwise(says)):
        return ""
    to = (f" ({each['href']})" if isinstance(each, dict) and "href" in each else "" for each in parts)
    return "".join(chain.from_iterable(zip(says, to, strict=True)))


def _is_part(value: dict[str, Any]) -> bool:
    return "text" in value and value.keys() <= _PART and _TYPE.fullmatch(str(value.get("type"))) is not None


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if not isinstance(value, list):
        text = str(value)
        return "" if is_base64(text) else " ".join((_markup(text) or text).split())
    inner: list[tuple[str, list[Any]]] = []
    if _is_mixed(value):
        if text := _joined(value):
            return " ".join(text.split())
        said = [", ".join(_fields(each, (), inner)) if isinstance(each, dict) else _shown(each) for each in value]
        if not inner:
            return ", ".join(filter(None, said))
    if any(isinstance(each, list | dict) for each in value):
        return json.dumps(value, ensure_ascii=False)
    return ", ".join(filter(None, map(_shown, value)))


def _laid_out(line: str) -> str:
    if len(line) <= _LINE:
        return line
    parts: list[str] = []
    room = _GROWTH * len(line)
    try:
        pieces = _ENCODER.iterencode(json.loads(line))
        while part := "".join(islice(pieces, 1_000)):
            parts.append(part)
            room -= len(part)
            if room < 0:
                return line
    except (ValueError, RecursionError):  # invalid, or nested too deeply
        return line
    return "".join(parts)


FORMAT = Format(
    document_type="json",
    text_format="sections",
    media_types=frozenset({"application/json", "application/x-ndjson", "application/jsonl", "application/ld+json"}),
    suffixes=frozenset({".json", ".jsonl", ".ndjson", ".geojson", ".jsonld"}),
    read=read,
    light=True,
    libraries=("chardet",),
    revision=10,
)
