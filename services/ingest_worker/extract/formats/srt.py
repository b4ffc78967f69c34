"""Reads subtitles (SubRip, WebVTT, SubViewer, SubStation): cues joined to sentences, each with its time."""

import re
from collections.abc import Iterator
from html import unescape
from itertools import takewhile
from typing import NamedTuple

from services.ingest_worker.extract.clean import cleaned, decoded, unwrapped
from services.ingest_worker.extract.format_types import Extraction, Format, Hints

_TIME = r"(?:(\d{1,4}):)?(\d\d):(\d\d)[.,]\d{1,3}"
_TIMING = re.compile(rf"(?:Dialogue: ?[\w=]*,)?[ \t]*{_TIME}[ \t]*(?:-->|,)[ \t]*{_TIME}(?:(?:,[^,\n]*){{6}},(.*))?")
_BEGINS = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:WEBVTT|\[Script Info\]|\s{0,9}\d{1,9}\s{0,9}\n\d\d:\d\d:\d\d[.,]\d{3} --> )"
)
_SPEAKER = re.compile(r"<v(?:\.[^\s<>]{0,100})?[ \t]([^<>]{1,200})>")
_TAG = re.compile(r"<[^<>]{0,200}>|\{\\[^{}]{0,200}\}")
_NAMED = re.compile(r"[A-ZÀ-Þ][\w.'-]{0,40}(?: [\w.'-]{1,40}){0,2}: ")
_ENDS = re.compile(r"[.!?…。！？♪][\"'”’»)\]]*\Z")
_PAUSE = 4  # seconds of silence that end a paragraph
_LONGEST = 400  # characters of a paragraph whose speaker never ends a sentence


class _Cue(NamedTuple):
    start: int  # seconds
    end: int
    lines: list[str]


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a paragraph per sentence or few: `[00:00:04] The crane was built in 1927.`

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    source = cleaned(decoded(data, hints))
    text = "\n\n".join(f"[{_shown(start)}] {words}" for start, words in _paragraphs(source))
    return Extraction(text=text or source)


def _paragraphs(source: str) -> Iterator[tuple[int, str]]:
    start, end, parts = 0, 0, list[str]()
    length = 0
    before: list[str] = []
    speaker = ""
    for cue in _cues(source):
        lines = [line for line in cue.lines if line not in before]  # captions that roll show each line twice
        before = cue.lines
        if not lines:
            end = cue.end
            continue
        named = _NAMED.match(lines[0])
        goes_on = named is not None and named[0] == speaker
        speaker = named[0] if named else speaker
        speaks = lines[0].startswith(("- ", "– ")) or (named and not goes_on)
        if parts and (speaks or cue.start - end > _PAUSE or length > _LONGEST or _ENDS.search(parts[-1])):
            yield start, unwrapped(parts)
            parts, length = [], 0
        if parts and named:
            lines[0] = lines[0][named.end() :]
        start, end = start if parts else cue.start, cue.end
        parts += lines
        length += sum(map(len, lines))
    if parts:
        yield start, unwrapped(parts)


def _cues(source: str) -> Iterator[_Cue]:
    lines = source.split("\n")
    for at, line in enumerate(lines):
        timing = _TIMING.match(line)
        if timing is None:
            continue
        *times, said = timing.groups()
        hours, minutes, seconds, until_hours, until_minutes, until_seconds = (int(each or 0) for each in times)
        following = (lines[below] for below in range(at + 1, len(lines)))
        shown = takewhile(lambda each: each.strip() and not _TIMING.match(each), following)
        yield _Cue(
            3600 * hours + 60 * minutes + seconds,
            3600 * until_hours + 60 * until_minutes + until_seconds,
            # What follows a text in the same line is another line of the table.
            [_plain(said.replace("\\N", " "))] if said else list(filter(None, map(_plain, shown))),
        )


def _plain(line: str) -> str:
    return " ".join(unescape(_TAG.sub("", _SPEAKER.sub(r"\1: ", line))).split())


def _shown(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


FORMAT = Format(
    document_type="srt",
    text_format="plain",
    media_types=frozenset({"application/x-subrip", "text/vtt"}),
    suffixes=frozenset({".srt", ".vtt", ".sbv", ".ass", ".ssa"}),
    sniff=lambda data: _BEGINS.match(data) is not None,
    read=read,
    light=True,
    libraries=("chardet",),
    revision=2,
)
