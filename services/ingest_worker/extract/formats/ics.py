"""Reads calendars (iCalendar, RFC 5545) and cards of contacts (vCard, RFC 6350): a record per entry, in words."""

import quopri
import re
from calendar import day_name, month_name
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from html import unescape
from typing import NamedTuple

from services.ingest_worker.extract.clean import cleaned, decoded, known_encoding, one_line
from services.ingest_worker.extract.embedded_files import pictures
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.rows import named_rows

_HEAD = 1024  # bytes in which an entry begins
_TAIL = 64  # bytes in which the last one ends: what has prose below it is no such file
# A line in quoted-printable, which cards of old have
_CODED = re.compile(
    r"^([\w.;=-]{1,100}?);ENCODING=QUOTED-PRINTABLE([\w.;=-]{0,100}):((?:[^\n]*+(?:(?<==)\n|\n(?=[ \t])))*+[^\n]*+)",
    re.MULTILINE | re.IGNORECASE,
)
_TORN = re.compile(r"\n(?![\w.-]{1,80}[;:])")  # within a value that was not folded
_CHARSET = re.compile(r";CHARSET=([\w.:-]{1,40})", re.IGNORECASE)
_PROPERTY = re.compile(
    r"(?:(?P<group>[\w-]{1,40})\.)?(?P<name>[\w-]{1,40})(?P<about>(?:;(?:\"[^\"]*+\"|[^\":;]++)*+)*+):(?P<value>.*)",
    re.DOTALL,
)
_PARAMETER = re.compile(r";([\w-]++)(?:=((?:\"[^\"]*+\"|[^\";]++)*+))?")
_ENTRIES = frozenset({"VEVENT", "VTODO", "VJOURNAL", "VFREEBUSY", "VAVAILABILITY", "AVAILABLE", "VCARD", "VNOTE"})
_MOMENT = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?)?")
_DAY_OF_YEAR = re.compile(r"--(\d\d)-?(\d\d)")
_SPAN = re.compile(r"\+?P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,4})M)?(?:\d{1,4}S)?)?")
_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_DAYS = {name[:2].upper(): name for name in day_name}
_ORDER = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_EVERY = {"HOURLY": "hour", "DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
# Properties that tell machines something, or that are told in words
_UNSAID = re.compile(
    r"BEGIN|END|VERSION|PRODID|UID|DTSTAMP|CREATED|LAST-MODIFIED|SEQUENCE|TRANSP|CLASS|REV|SORT-STRING|CALSCALE|DTSTART"
    r"|DTEND|DURATION|DUE|X-ALT-DESC|X-AB(?:LABEL|ADR|UID|SHOWAS)|X-(?:APPLE|MOZ|MICROSOFT-CDO|MS-OLK|LIC|WR|EVOLUTION)-.*"
)
_STYLED = re.compile(r"<(style|title)\b[^<>]*+>[^<>]*+</\1>|</?[A-Za-z!][^<>]*+>", re.IGNORECASE)
_LISTED = re.compile(r",(?=\S)")
_SAID = {"FN": "Name", "N": "Name", "RRULE": "Repeats", "EXDATE": "Except", "RDATE": "Also", "TEL": "Phone"} | {
    "RECURRENCE-ID": "Instead of",
    "ADR": "Address",
    "ORG": "Organization",
    "BDAY": "Birthday",
}
_PARTED = frozenset({"N", "ADR", "ORG"})  # by semicolons
_DATED = frozenset({"EXDATE", "RDATE", "RECURRENCE-ID", "BDAY", "ANNIVERSARY", "X-ANNIVERSARY", "COMPLETED"})
_FILES = frozenset({"PHOTO", "LOGO", "SOUND", "KEY", "ATTACH"})


_GROUP, _LABEL = "the group of a property", "the label of its group"  # beside the names of parameters


class _Property(NamedTuple):
    name: str  # upper case
    about: Mapping[str, str]  # parameters; those of old cards have no name but TYPE
    value: str


def read(data: bytes, hints: Hints) -> Extraction:
    """Return each event, task, or card as a record, `Name: Ann; Phone: 12`; pictures and other files in it are noted.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    text, left_out, name = entries(cleaned(decoded(data, hints)))
    return Extraction(text=text, title=one_line(name), notes=tuple(pictures(left_out)))


def entries(text: str) -> tuple[str, int, str]:
    """Return the entries as records, the number of files within them, and the calendar's name.

    A text without entries is returned with its folded lines as one.
    """
    lines = re.sub(r"\n[ \t]", "", _CODED.sub(_uncoded, text.replace("\r\n", "\n")))
    found: list[list[_Property]] = []
    about: dict[str, str] = {}  # of the calendar
    open_parts: list[str] = []
    for line in _TORN.sub(" ", lines).split("\n"):
        parts = _PROPERTY.match(line)
        if not parts:
            continue
        kind, value = parts["name"].upper(), parts["value"].strip()
        if kind == "BEGIN":
            open_parts.append(value.upper())
            found += [[]] if value.upper() in _ENTRIES else []
        elif kind == "END":
            open_parts = open_parts[:-1]
        elif value and open_parts and open_parts[-1] in _ENTRIES:  # not of an alarm within it, or a time zone
            said = {each[1].upper(): (each[2] or "").strip('"') for each in _PARAMETER.finditer(parts["about"])}
            said |= {_GROUP: parts["group"]} if parts["group"] else {}
            found[-1].append(_Property(kind, said, value))
        elif open_parts == ["VCALENDAR"]:
            about[kind.removeprefix("X-WR-CAL")] = _meant(value)
    rows = [dict(_fields_of(entry)) for entry in filter(None, found)]
    told = [" ".join(about.get(kind, "").split()) for kind in ("DESCRIPTION", "DESC")]
    for row in rows:
        told += named_rows([[*row.values()]], [*row]) if len(row) > 1 else map(": ".join, row.items())
    name = about.get("NAME") or (next(iter(rows[0].values()), "") if len(rows) == 1 else "")
    return "\n\n".join(filter(None, told)) or lines, sum(_is_file(each) for entry in found for each in entry), name


def _uncoded(line: re.Match[str]) -> str:
    about = line[1] + line[2]
    named = _CHARSET.search(about)
    charset = known_encoding(named[1] if named else None) or "utf-8"
    value = re.sub(r"=?\n[ \t]?", "", line[3])
    plain = quopri.decodestring(value.encode(charset, "replace")).decode(charset, "replace")
    return f"{about}:{' '.join(plain.split())}"


def _meant(value: str, *, old: bool = False) -> str:
    """Return the value with the signs that it means; cards of old have but one."""
    signs = r"\\(;)" if old else r"\\([,;:nN\\])"
    return re.sub(signs, lambda sign: "\n" if sign[1] in "nN" else sign[1], value)


def _is_file(each: _Property) -> bool:
    return each.name in _FILES and not each.value.startswith(("http:", "https:"))


def _fields_of(entry: Sequence[_Property]) -> Iterator[tuple[str, str]]:
    """Yield names and values of an entry: what it is called, when it is, and what else it says, in its order."""
    old = any(each.name == "VERSION" and each.value == "2.1" for each in entry)
    entry = [
        each if each.name in _PARTED else each._replace(value=_meant(each.value, old=old)) for each in _labelled(entry)
    ]
    first = {each.name: each for each in reversed(entry)}
    says: dict[str, list[str]] = {}
    if "N" in first and "FN" not in first:
        says["Name"] = [" ".join(filter(None, reversed(_parted(first["N"].value)[:2])))]
    for name in ("FN", "SUMMARY"):
        says |= {_said(first[name]): []} if name in first else {}
    if when := _when(first):
        says["When"] = [when]
    styled = first.get("X-ALT-DESC")
    if styled and "DESCRIPTION" not in first:
        entry.append(styled._replace(name="DESCRIPTION"))
    for each in entry:
        if not (_UNSAID.fullmatch(each.name) or _is_file(each) or each is first.get("N")):
            says.setdefault(_said(each), []).append(_value(each))
    for name, values in says.items():
        if value := "; ".join(dict.fromkeys(values)):
            yield name, value


def _labelled(entry: Sequence[_Property]) -> Iterator[_Property]:
    """Yield the properties, each with the label that its group has in the address books of Apple and Google."""
    labels = {
        each.about.get(_GROUP, ""): each.value for each in entry if each.name == "X-ABLABEL" and _GROUP in each.about
    }
    for each in entry:
        label = labels.get(each.about.get(_GROUP, ""), "")
        # one that these programs know is within signs: _$!<Mobile>!$_
        yield each._replace(about={**each.about, _LABEL: label.removeprefix("_$!<").removesuffix(">!$_")})


def _said(each: _Property) -> str:
    """Return what a property is called, and in brackets what an address or number is for: home, work, fax."""
    typed = each.about.get("TYPE", "").split(",") + [
        name for name, value in each.about.items() if not value and name != _LABEL
    ]
    kinds = [kind for kind in map(str.lower, typed) if kind not in ("", "type", "pref", "internet", "voice")]
    kinds += filter(None, [each.about.get(_LABEL)])
    name = _SAID.get(each.name, each.name.removeprefix("X-").replace("-", " ").capitalize())
    return f"{name} ({', '.join(kinds)})" if kinds else name


def _parted(value: str) -> list[str]:
    """Return the parts between semicolons, with the signs that they mean."""
    return [" ".join(_meant(part).split()) for part in re.split(r"(?<!\\);", value)]


def _person(each: _Property) -> str:
    address = re.sub(r"^mailto:", "", each.value, flags=re.IGNORECASE)
    name = each.about.get("CN", "")
    said = f"{name} ({address})" if name and name != address else address
    state = each.about.get("PARTSTAT", "NEEDS-ACTION").lower()
    return said if state == "needs-action" else f"{said}, {state}"


def _value(each: _Property) -> str:
    match each.name:
        case "RRULE":
            return _rule(each.value)
        case "ORGANIZER" | "ATTENDEE":
            return _person(each)
        case name if name in _PARTED:
            return ", ".join(filter(None, _parted(each.value)))
        case name if name in _DATED:
            return "; ".join(_moment(value, each.about) for value in each.value.split(","))
        case "CATEGORIES" | "NICKNAME" | "RESOURCES":
            return _LISTED.sub(", ", each.value)
        case "DESCRIPTION" if _STYLED.search(each.value):
            return " ".join(unescape(_STYLED.sub(" ", each.value)).split())
        case _:
            return " ".join(re.sub(r"^(?:mailto|tel):", "", each.value, flags=re.IGNORECASE).split())


def _rule(rule: str) -> str:
    """Return a rule of repetition in words; its parts that are rare stay as they are."""
    parts = dict(part.upper().partition("=")[::2] for part in rule.split(";"))
    unit, step = _EVERY.get(parts.pop("FREQ", ""), ""), parts.pop("INTERVAL", "1")
    if not unit:
        return rule
    said = [f"every {unit}" if step == "1" else f"every {step} {unit}s"]
    if days := parts.pop("BYDAY", ""):
        said.append(f"on {', '.join(map(_day, days.split(',')))}")
    if days := parts.pop("BYMONTHDAY", ""):
        said.append(f"on day {days} of the month".replace("day -1 of", "the last day of"))
    if months := parts.pop("BYMONTH", ""):
        known = (
            month_name[int(each)] if each.isdecimal() and 0 < int(each) < 13 else each for each in months.split(",")
        )
        said.append(f"in {', '.join(known)}")
    if count := parts.pop("COUNT", ""):
        said.append(f"{count} times")
    if until := parts.pop("UNTIL", ""):
        said.append(f"until {_moment(until[:8], {})}")
    parts.pop("WKST", "")
    return " ".join([*said, *(f"({name.lower()} {value})" for name, value in parts.items() if value)])


def _day(code: str) -> str:
    found = _DAY.fullmatch(code.strip())
    if not found:
        return code
    number = int(found[1] or 0)
    order = _ORDER.get(number, f"{number}." if number else "")
    return f"{f'the {order} ' if order else ''}{_DAYS[found[2]]}"


def _when(first: Mapping[str, _Property]) -> str:
    """Return when an entry begins and ends, or '' if it doesn't say."""
    start, end = first.get("DTSTART"), first.get("DTEND") or first.get("DUE")
    begins, zone = _parsed(start.value, start.about) if start else (None, "")
    ends, other = _parsed(end.value, end.about) if end else (None, zone)
    if (start and begins is None) or (end and ends is None):
        return " – ".join(each.value for each in (start, end) if each)
    if begins is None:
        return f"due {_shown(ends)}{other}" if ends else ""
    if ends is None and "DURATION" in first and (span := _SPAN.fullmatch(first["DURATION"].value)):
        weeks, days, hours, minutes = (int(part or 0) for part in span.groups())
        with suppress(OverflowError):  # after the year 9999
            ends = begins + timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)
    if ends and type(ends) is type(begins) is date and end and end.name == "DTEND":
        ends = ends - timedelta(days=1) if ends > begins else begins  # the day after the last one is given
    if ends is None or ends == begins:
        return f"{_shown(begins)}{zone}"
    if zone == other and isinstance(begins, datetime) and isinstance(ends, datetime) and begins.date() == ends.date():
        return f"{_shown(begins)}–{ends:%H:%M}{zone}"
    return f"{_shown(begins)}{zone if zone != other else ''} – {_shown(ends)}{other}"


def _parsed(value: str, about: Mapping[str, str]) -> tuple[date | None, str]:
    """Return a date, or a time with its zone in brackets; None if it is neither."""
    found = _MOMENT.fullmatch(value.strip())
    if not found:
        return None, ""
    year, month, day, hour, minute, zone = found.groups()
    try:
        at = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0))  # noqa: DTZ001 - its zone is told beside it
    except ValueError:
        return None, ""
    named = "UTC" if zone == "Z" else zone or about.get("TZID", "").lstrip("/")
    return (at, f" ({named})" if named else "") if hour else (at.date(), "")


def _moment(value: str, about: Mapping[str, str]) -> str:
    if (day := _DAY_OF_YEAR.fullmatch(value)) and 0 < int(day[1]) < 13:
        return f"{int(day[2])} {month_name[int(day[1])]}"
    at, zone = _parsed(value, about)
    return f"{_shown(at)}{zone}" if at else value


def _shown(at: date) -> str:
    day = f"{at.day} {month_name[at.month]} {at.year}"
    return f"{day}, {at:%H:%M}" if isinstance(at, datetime) else day


def _format(kind: str, types: set[str], suffixes: set[str], components: str) -> Format:
    begins = re.compile(
        rb"(?:\xef\xbb\xbf)?\s*+BEGIN:V(?:%b)[ \t\r]*+\n(?:\s*+[\w.-]{1,80}[:;]|\Z)" % components.encode(),
        re.IGNORECASE,
    )
    return Format(
        document_type=kind,
        text_format="plain",
        media_types=frozenset(types),
        suffixes=frozenset(suffixes),
        sniff=lambda data: begins.match(data, 0, _HEAD) is not None and b"END:V" in data[-_TAIL:].upper(),
        read=read,
        libraries=("chardet",),
        revision=6,
    )


FORMATS = (
    _format(
        "ics", {"text/calendar", "text/x-vcalendar"}, {".ics", ".ical", ".vcs"}, "CALENDAR|EVENT|TODO|JOURNAL|NOTE"
    ),
    _format("vcf", {"text/vcard", "text/x-vcard", "text/directory"}, {".vcf", ".vcard"}, "CARD"),
)
