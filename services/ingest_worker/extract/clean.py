"""Decodes bytes and normalises text."""

import codecs
import re
import unicodedata
from collections.abc import Iterable

import chardet

from services.ingest_worker.extract.format_types import Hints
from shared.errors import Rejected

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, because it begins with UTF-16's mark
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Declared encoding -> the superset that programs really wrote: https://encoding.spec.whatwg.org/#names-and-labels
_MEANT = {"iso8859-1": "cp1252", "ascii": "cp1252", "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030"}
_NO_CHARACTERS = frozenset({"Cn", "Co", "Cs"})  # unassigned, private, surrogates: half of random bytes decode to these
_STATEFUL = frozenset({"iso2022_jp", "iso2022_kr", "hz"})  # seven-bit encodings, which are also valid UTF-8
_NOT_CHARSETS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7"})
_ISO_2022_JP = re.compile(rb"\x1b\$[@B]")  # escape sequences that occur in no other encoding's text
_STRAY = 8  # control characters; a text may have a few, in an image or a program every third byte is one
# Greek, Cyrillic, Hebrew and Arabic letters, and the Latin ones beside each, which a word of these has none of.
_OTHERS = re.compile("([A-Za-z]?+)[\u0370-\u06ff\ufb1d-\ufefc](?=([A-Za-z]?+))")
_SAMPLE = 64 * 1024  # bytes; the cost of guessing an encoding grows with them

# A picture or another file in base64, on lines or on a line of its own.
_BASE64 = re.compile(
    r"\s*+(?:data:[\w/+.;=-]{1,100},)?(?:(?:[A-Za-z0-9+/]{60,}+\s*+){3,}+|[A-Za-z0-9+/]{200,}+)[A-Za-z0-9+/=\s]*+"
)
_PICTURE = re.compile(r"data:[\w/+.;=-]{1,100};base64,[A-Za-z0-9+/=\s%]*+")  # as the target of a Markdown link
_WRAPPED = re.compile("(?<=[\u3000-\u9fff\uff00-\uff9f])\n(?=[\u3000-\u9fff\uff00-\uff9f])")  # Chinese or Japanese
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_ESCAPE_SEQUENCE = re.compile("\x1b(?:\\[[0-9;?]*+[ -/]*+[@-~]|\\][^\x07\x1b]{0,1000}+(?:\x07|\x1b\\\\))")
# Control characters, soft hyphens, bidirectional overrides, byte order marks, surrogates, non-characters.
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]++"
)
# Beyond thirty combining marks on one letter, as no language has them, NFC takes quadratic time. The number is
# that of the Stream-Safe Text Format: https://www.unicode.org/reports/tr15/#Stream_Safe_Text_Format
_MOST_MARKS = 30
_MARKED = re.compile(rf"[^\w\s\x00-\x7f]{{{_MOST_MARKS + 1},}}+")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


# For ASCII, `str.translate` does the same as the patterns, ten times as fast.
_ASCII = {code: None for code in range(0x80) if _DROPPED.match(chr(code))} | dict.fromkeys(map(ord, "\r\x0b\x0c"), "\n")


def cleaned(text: str) -> str:
    """Return the text in NFC, with line feeds as line ends, without control characters and surrounding white space.

    Pictures within the text go, too.
    """
    if ";base64," in text:
        text = _PICTURE.sub("", text)
    if text.isascii() and "\x1b" not in text:
        return text.replace("\r\n", "\n").translate(_ASCII).strip()
    text = _LINE_ENDS.sub("\n", text)
    if "\x1b" in text:
        text = _ESCAPE_SEQUENCE.sub("", text)
    text = _DROPPED.sub("", text)
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", _MARKED.sub(_thinned, text))
    return text.strip()


def _thinned(run: re.Match[str]) -> str:
    """Return the characters without combining marks behind too many others."""
    marks = 0
    kept: list[str] = []
    for each in run[0]:
        marks = marks + 1 if unicodedata.combining(each) else 0
        if marks <= _MOST_MARKS:
            kept.append(each)
    return "".join(kept)


def is_base64(text: str) -> bool:
    """Return whether the text is a file in base64, which says nothing to a reader."""
    return len(text) >= 180 and _BASE64.fullmatch(text) is not None and not text.isupper() and not text.islower()


def one_line(text: str | None, limit: int = 500) -> str | None:
    """Return the cleaned text on one line, truncated to `limit` characters; None if blank."""
    return " ".join(cleaned(text or "").split())[:limit].rstrip() or None


def unwrapped(lines: Iterable[str]) -> str:
    """Return lines of one text as one line: with blanks between them, but for those of scripts without blanks."""
    return _WRAPPED.sub("", "\n".join(lines)).replace("\n", " ")


def decoded(data: bytes, hints: Hints, *, declared: str | None = None) -> str:
    """Return the decoded text: by byte order mark, as UTF-8, as declared, or with a guessed encoding.

    `declared` is the encoding that the content itself names; the sender's charset goes first.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    charsets = [name for name in map(known_encoding, (hints.charset, declared)) if name]
    if charsets and charsets[0] in _STATEFUL and b"\x1b" in data:
        return data.decode(charsets[0], "replace")
    text = _wide(data) if b"\0" in data[:_SAMPLE] else _narrow(data, charsets)
    if text is None or _is_binary(text):
        raise Rejected(f"{hints.name} is neither text nor in a supported format", "unsupported")
    return text


def known_encoding(name: str | None) -> str | None:
    """Return the encoding that programs mean by this name; None if it is unknown, or none of texts."""
    if not name:
        return None
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    if codec.name in _NOT_CHARSETS or not codec._is_text_encoding:  # noqa: SLF001 - zlib and its like
        return None
    return _MEANT.get(codec.name, codec.name)


def _wide(data: bytes) -> str | None:
    """Return the text of UTF-16 without a byte order mark, recognised by its zero bytes; None if it isn't UTF-16.

    Spaces and Latin letters have a zero byte, always on the same side.
    """
    sample = data[: _SAMPLE - _SAMPLE % 2]
    if not sample.strip(b"\0"):
        return ""
    plain = _utf8(data)
    if plain is not None and not _is_binary(plain):
        return plain  # a stray zero byte is dropped later
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    for encoding, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if others * 20 < zeros and (zeros * 5 > len(sample) or _is_text(sample.decode(encoding, "replace"))):
            return data.decode(encoding, "replace")
    return None


def _is_text(text: str) -> bool:
    return sum(unicodedata.category(character) in _NO_CHARACTERS for character in text) * 100 <= len(text)


def _is_binary(text: str) -> bool:
    return len(_CONTROLS.findall(text, 0, _SAMPLE)) > max(_STRAY, min(len(text), _SAMPLE) // 20)


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _narrow(data: bytes, charsets: list[str]) -> str | None:
    text = _utf8(data)
    if text is not None and _ISO_2022_JP.search(data, 0, _SAMPLE):
        return data.decode("iso2022_jp", "replace")
    if text is not None:
        return text
    for name in charsets:
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    sample = data[:_SAMPLE].decode("utf-8", "replace")
    # Damaged UTF-8 is decoded as UTF-8: few bytes are replaced, compared to the valid sequences (in texts of other
    # encodings at most every fourth sequence is valid by chance, in GB 18030).
    if sum(character > "\x7f" for character in sample) > 3 * sample.count("\ufffd"):
        return data.decode("utf-8", "replace")
    guess = known_encoding(chardet.detect(data[:_SAMPLE])["encoding"])
    if guess is None:
        return None
    if guess.startswith("mac-"):  # hardly anybody has them: a guess from few characters
        old = b"\r" in data and b"\n" not in data  # lines of old Macs; an accent in small letters is a small letter
        names, kind = ((guess, "cp1252"), str.islower) if old else (("cp1252", guess), str.isalpha)
        guess = max(names, key=lambda name: sum(map(kind, data[:_SAMPLE].decode(name, "ignore"))))
    text = data.decode(guess, "replace")
    others = _OTHERS.findall(text, 0, _SAMPLE)
    torn = sum(bool(before or after) for before, after in others) * 2 >= len(others) > 0
    return data.decode("cp1252", "replace") if torn else text
