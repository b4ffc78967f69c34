"""Validates chunks that a caller prepared: returns the valid ones, and an error for each of the others. Pure.

A chunk is an object, or a string with its text. The field names are those of the systems that such chunks come from;
docs/chunks.md lists them. An invalid chunk is skipped and reported; the others are indexed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

import msgspec

from shared.contracts import ChunkType, Note, PreparedChunk
from shared.inputs.limits import InvalidField
from shared.inputs.metadata import checked_metadata

_WORD = re.compile(r"\w+")
_BLANKED = str.maketrans({chr(code): " " for code in range(128) if not _WORD.match(chr(code))})  # is faster
_ENDS = re.compile(r"[.!?…。！？｡:;|`][\"'”’»)\]」』*_]*$")
_LETTERS = 4  # shorter words are seldom terms, in any language that has words
_UNSPACED = "\u2e7f"  # above it are scripts without blanks between words, where short words count
_ENOUGH = 20  # words; fewer count as a label
# English; in other languages only the length decides.
_COMMON = frozenset(
    """
    about after also another because been before being between both could each from further have here into itself
    just more most much only other over same should some such than that their them then there these they this those
    through under until very were what when where which while will with would your
    """.split()  # noqa: SIM905 - a list that can be read
)


class ChunkQuality(NamedTuple):
    """Three measures of a chunk, each 0..1."""

    diversity: float  # distinct words to words
    density: float  # terms to words; a term is no common word and has four letters or a digit
    completeness: float  # a third each: no sentence runs into it, none is cut at its end, it has enough words

    @property
    def score(self) -> float:
        """Return all in one, 0..1, three digits."""
        return round(0.3 * self.diversity + 0.4 * self.density + 0.3 * self.completeness, 3)


def quality(text: str, kind: str) -> ChunkQuality:
    """Return the measures of a chunk of the given type; all are 0 where it has no word."""
    lower = text.lower()
    words = lower.translate(_BLANKED).split() if lower.isascii() else _WORD.findall(lower)
    if not words:
        return ChunkQuality(0.0, 0.0, 0.0)
    total = len(words)
    terms = [
        word
        for word in words
        if word not in _COMMON and (len(word) >= _LETTERS or not word.isalpha() or word[0] > _UNSPACED)
    ]
    structured = kind in ("code", "table", "list")
    begins = structured or not text[0].islower()
    ends = structured or _ENDS.search(text, max(0, len(text) - 8)) is not None
    return ChunkQuality(
        diversity=len(set(words)) / total,
        density=len(terms) / total,
        completeness=(begins + ends + (total >= _ENOUGH)) / 3,
    )


MOST_CHUNKS: Final = 10_000  # of one document
LONGEST: Final = 20_000  # characters of a chunk's text
MOST_PAGE: Final = 2**31 - 1
SEPARATOR: Final = "\n\n"  # between the chunks in the text of their document
BODY: Final = b'{"sluiceChunks":'  # the first bytes of a document of prepared chunks on the log

_LONGEST_ERROR: Final = 200  # characters
_MARKS: Final = (b'"embeddingStrings"', b'"languageVariants"')
_TEXT = ("text", "content", "text_content")
_EMBEDDED = ("embeddingText", "embedding_text")
_ID = ("id", "chunkId", "chunk_id", "_id")
_ACTIVE = ("is_active", "isActive")
_SECTION = ("sectionTitle", "section")
_PAGE = ("pageNumber", "page")
_TYPE = ("chunkType",)
_READ = frozenset(
    (*_TEXT, *_EMBEDDED, *_ID, *_ACTIVE, *_SECTION, *_PAGE, *_TYPE, "metadata", "tags", "embeddingStrings")
)
_TYPES: frozenset[str] = frozenset(get_args(ChunkType))


class SkippedChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chunk that was skipped."""

    index: int  # 0-based, in the caller's list
    error: str
    id: str | None = None  # the caller's
    file: str | None = None  # in which it is


class PreparedChunks(msgspec.Struct, frozen=True, kw_only=True):
    """The valid chunks of a list, and what was wrong with the others."""

    chunks: tuple[PreparedChunk, ...]
    skipped: tuple[SkippedChunk, ...] = ()
    inactive: int = 0  # number of chunks that the caller marked inactive
    sent: int  # number of all

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return a note about each skipped chunk, then one about the inactive ones."""
        places = [f"chunk {each.index}{f' ({each.id})' if each.id else ''}" for each in self.skipped]
        notes = [
            Note(code="chunk", place=place, message=f"{place} was left out: {each.error}")
            for place, each in zip(places, self.skipped, strict=True)
        ]
        if self.inactive:
            message = f"{self.inactive} of {self.sent} chunks are not active"
            notes.append(Note(code="chunk", place="", message=message))
        return tuple(notes)


def body_of(chunks: Sequence[Any]) -> bytes:
    """Return the chunks encoded as a document; the order of their fields doesn't change the bytes."""
    return msgspec.json.encode({"sluiceChunks": chunks}, order="sorted")


def chunk_file(data: bytes) -> list[Any] | None:
    """Return the objects of a JSON file that are chunks by their fields; None if it is another file."""
    if data.lstrip()[:1] not in (b"[", b"{") or not any(mark in data for mark in _MARKS):
        return None
    try:
        listed = listed_chunks(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    marked = any(
        isinstance(chunk, dict) and ("embeddingStrings" in chunk or "languageVariants" in chunk) for chunk in listed
    )
    return listed if marked else None


def listed_chunks(value: Any) -> list[Any]:
    """Return the chunks: a list, an object with one under `chunks`, or a chunk alone."""
    if isinstance(value, dict):
        value = value.get("sluiceChunks", value.get("chunks", [value]))
    return value if isinstance(value, list) else [value]


def prepared_chunks(chunks: Sequence[Any], clean: Callable[[str], str] = str.strip) -> PreparedChunks:
    """Return the valid chunks in order, and an error for each of the others; `clean` normalises their texts."""
    ready: list[PreparedChunk] = []
    skipped: list[SkippedChunk] = []
    inactive, ids = 0, dict[str, int]()
    for index, value in enumerate(chunks[:MOST_CHUNKS]):
        own = _identity(value)
        first = index if own is None else ids.setdefault(own, index)
        error = None
        if first != index:
            error = f"chunk {first} has the same id"
        else:
            try:
                chunk, active = _read(value, clean)
            except (_Wrong, InvalidField) as wrong:
                error = str(wrong)[:_LONGEST_ERROR]
        if error is not None:
            skipped.append(SkippedChunk(index=index, error=error, id=own))
        elif active:
            ready.append(chunk)
        else:
            inactive += 1
    if (more := len(chunks) - MOST_CHUNKS) > 0:
        error = f"a document may have at most {MOST_CHUNKS} chunks, so the last {more} are left out"
        skipped.append(SkippedChunk(index=MOST_CHUNKS, error=error))
    return PreparedChunks(chunks=tuple(ready), skipped=tuple(skipped), inactive=inactive, sent=len(chunks))


def prepared_text(chunks: Sequence[PreparedChunk]) -> str:
    """Return the text of a document of prepared chunks."""
    return SEPARATOR.join(chunk.text for chunk in chunks)


class _Wrong(ValueError):  # noqa: N818 - says what the chunk is
    pass


def _identity(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    found = _first(value, _ID)
    return str(found)[:200] if isinstance(found, str | int) and not isinstance(found, bool) else None


def _read(value: Any, clean: Callable[[str], str]) -> tuple[PreparedChunk, bool]:
    """Return the chunk, and whether it is active."""
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, Mapping):
        raise _Wrong("a chunk must be an object or a string")
    text, embedding = _text(value, clean), _embedding(value, clean)
    tags, named = _tags(value.get("tags"))
    active, section, page, kind = (_first(value, names) for names in (_ACTIVE, _SECTION, _PAGE, _TYPE))
    _expect(isinstance(active, bool | None), "is_active", "true or false", active)
    _expect(isinstance(section, str | None), "sectionTitle", "a string", section)
    _expect(isinstance(kind, str | None), "chunkType", "a string", kind)
    _expect(page is None or (type(page) is int and page >= 1), "pageNumber", "an integer from 1", page)
    _expect(page is None or page <= MOST_PAGE, "pageNumber", f"at most {MOST_PAGE}", page)
    _expect(section is None or len(section) <= LONGEST, "sectionTitle", f"at most {LONGEST} characters long", "longer")
    chunk = PreparedChunk(
        text=text,
        embedding=embedding if embedding != text else None,
        section=section,
        page=page,
        type=kind if kind in _TYPES else "semantic",
        tags=tags,
        metadata=checked_metadata(_metadata(value, named), "metadata"),
    )
    return chunk, active is not False


def _metadata(value: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    given = value.get("metadata") or {}
    _expect(isinstance(given, Mapping), "metadata", "an object", given)
    metadata = {**{name: each for name, each in value.items() if name not in _READ}, **given}
    for name, each in named.items():
        if metadata.setdefault(name, each) != each:
            raise _Wrong(f"tags.{name} is {each!r}, and metadata.{name} {metadata[name]!r}")
    for name, names in (("chunk_id", _ID), ("is_active", _ACTIVE)):
        if (found := _first(value, names)) is not None:
            metadata[name] = found
    return metadata


def _expect(right: bool, field: str, what: str, found: Any) -> None:
    if not right:
        raise _Wrong(f"{field} must be {what}, not {found!r}"[:200])


def _first(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return the first of the fields that the chunk, or else its metadata, has."""
    inner = value.get("metadata")
    for each in (value, inner if isinstance(inner, Mapping) else {}):
        for name in names:
            if each.get(name) is not None:
                return each[name]
    return None


def _text(value: Mapping[str, Any], clean: Callable[[str], str]) -> str:
    found = next((value[name] for name in _TEXT if value.get(name) is not None), None)
    if found is None:
        found = _variant(value.get("languageVariants"))
    text = _cleaned(found, "text", clean)
    if len(text) > LONGEST:
        raise _Wrong(f"text has {len(text)} characters, but at most {LONGEST} are allowed")
    return text


def _variant(variants: Any) -> Any:
    """Return the English text, else that of the first language."""
    if variants is None:
        return None
    _expect(isinstance(variants, Mapping) and bool(variants), "languageVariants", "an object of languages", variants)
    chosen = variants.get("en", next(iter(variants.values())))
    return chosen.get("text") if isinstance(chosen, Mapping) else chosen


def _embedding(value: Mapping[str, Any], clean: Callable[[str], str]) -> str | None:
    found = next((value[name] for name in _EMBEDDED if value.get(name) is not None), None)
    field = _EMBEDDED[0]
    strings = value.get("embeddingStrings")
    if found is None and strings is not None:
        _expect(isinstance(strings, Mapping), "embeddingStrings", "an object", strings)
        found, field = strings.get("semantic"), "embeddingStrings.semantic"
    return None if found is None else _cleaned(found, field, clean)


def _cleaned(found: Any, field: str, clean: Callable[[str], str]) -> str:
    if found is None:
        raise _Wrong(f"{field} is missing")
    _expect(isinstance(found, str), field, "a string", found)
    text = clean(found)
    if not text:
        raise _Wrong(f"{field} is empty")
    return text


def _tags(found: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the tags of a list, or the fields of an object, which become metadata to filter by."""
    if found is None:
        return (), {}
    if isinstance(found, Mapping):
        for name, each in found.items():
            _expect(isinstance(each, str | int), f"tags.{name}", "a string or an integer", each)
        return (), dict(found)
    if not isinstance(found, list) or not all(isinstance(tag, str) for tag in found):
        raise _Wrong("tags must be a list of strings, or an object")
    return tuple(dict.fromkeys(tag.strip() for tag in found if tag.strip())), {}
