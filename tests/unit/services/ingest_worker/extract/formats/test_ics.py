from email.message import EmailMessage

import pytest

from services.ingest_worker.extract import Hints, extract


def _calendar(*lines: str, kind: str = "VEVENT") -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", f"BEGIN:{kind}", *lines, f"END:{kind}", "END:VCALENDAR", ""])


def _card(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCARD", *lines, "END:VCARD", ""])


def _text(source: str, name: str = "a.ics") -> str:
    return extract(source.encode(), Hints(filename=name)).text


def test_an_event_is_told_as_a_reader_would_note_it() -> None:
    event = _calendar(
        "UID:1@example.org",
        "DTSTART;TZID=Europe/Berlin:20260512T100000",
        "DTEND;TZID=Europe/Berlin:20260512T110000",
        "SUMMARY:Fire drill",
        "LOCATION:Hall 3\\, quay 5",
        'ORGANIZER;CN="Berg: Ann":mailto:ann@example.org',
        "ATTENDEE;CN=Bob;PARTSTAT=ACCEPTED:mailto:bob@example.org",
        "ATTENDEE:mailto:cy@example.org",
        "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;UNTIL=20260630T000000Z",
        "DESCRIPTION:Meet at the gate.\\nBring",
        "  gloves\\; no bags.",
        "BEGIN:VALARM",
        "DESCRIPTION:Reminder",
        "END:VALARM",
    )

    read = extract(event.encode(), Hints(filename="a.bin"))

    assert read.text == (
        "Summary: Fire drill; When: 12 May 2026, 10:00–11:00 (Europe/Berlin); Location: Hall 3, quay 5; "
        "Organizer: Berg: Ann (ann@example.org); Attendee: Bob (bob@example.org), accepted; cy@example.org; "
        "Repeats: every 2 weeks on Monday, Wednesday until 30 June 2026; "
        "Description: Meet at the gate. Bring gloves; no bags."
    )
    assert (read.document_type, read.title, read.notes) == ("ics", "Fire drill", ())


@pytest.mark.parametrize(
    ("lines", "when"),
    [
        (["DTSTART:20260512T080000Z", "DTEND:20260512T093000Z"], "12 May 2026, 08:00–09:30 (UTC)"),
        (["DTSTART:20260512T080000", "DURATION:PT1H30M"], "12 May 2026, 08:00–09:30"),
        (["DTSTART:20260512T220000", "DTEND:20260513T020000"], "12 May 2026, 22:00 – 13 May 2026, 02:00"),
        (["DTSTART;VALUE=DATE:20260512", "DTEND;VALUE=DATE:20260513"], "12 May 2026"),
        (["DTSTART;VALUE=DATE:20260512", "DTEND;VALUE=DATE:20260515"], "12 May 2026 – 14 May 2026"),
        (
            ["DTSTART;TZID=Asia/Tokyo:20260512T080000", "DTEND;TZID=Europe/Oslo:20260512T190000"],
            "12 May 2026, 08:00 (Asia/Tokyo) – 12 May 2026, 19:00 (Europe/Oslo)",
        ),
        (["DTSTART:20260512T080000"], "12 May 2026, 08:00"),
        (["DTSTART:20261512", "DTEND:tomorrow"], "20261512 – tomorrow"),
        (["DTSTART:99991231T080000", "DURATION:P9999W"], "31 December 9999, 08:00"),
        (["DUE:20260512T080000"], "due 12 May 2026, 08:00"),
    ],
)
def test_when_an_event_is_says_its_days_times_and_zone(lines: list[str], when: str) -> None:
    assert _text(_calendar("SUMMARY:A", *lines)) == f"Summary: A; When: {when}"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("FREQ=DAILY;COUNT=10", "every day 10 times"),
        ("FREQ=MONTHLY;BYDAY=2TU,-1FR", "every month on the second Tuesday, the last Friday"),
        ("FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=9;WKST=MO", "every year on day 9 of the month in May"),
        ("FREQ=MONTHLY;BYMONTHDAY=-1;BYSETPOS=1", "every month on the last day of the month (bysetpos 1)"),
        ("FREQ=NEVER;X", "FREQ=NEVER;X"),
    ],
)
def test_a_rule_of_repetition_is_told_in_words(rule: str, said: str) -> None:
    assert _text(_calendar("SUMMARY:A", f"RRULE:{rule}")) == f"Summary: A; Repeats: {said}"


def test_a_card_is_told_under_its_name_and_its_picture_is_noted() -> None:
    card = _card(
        "VERSION:3.0",
        "N:Berg;Ann;;Dr.;",
        "FN:Dr. Ann Berg",
        "ORG:Harbour;Safety",
        "TEL;TYPE=WORK,VOICE:+49 30 12",
        "item1.EMAIL;TYPE=INTERNET:ann@example.org",
        "ADR;TYPE=HOME:;;Kai 5;Hamburg;;20095;Germany",
        "BDAY:1980-03-02",
        "NOTE:Ropes\\, boats\\nand oars",
        "PHOTO;ENCODING=b;TYPE=JPEG:" + "/9j/4AAQ" * 30,
    )

    read = extract((card + _card("FN:Bo")).encode(), Hints(filename="a.bin"))

    assert read.text == (
        "Name: Dr. Ann Berg; Organization: Harbour, Safety; Phone (work): +49 30 12; Email: ann@example.org; "
        "Address (home): Kai 5, Hamburg, 20095, Germany; Birthday: 2 March 1980; Note: Ropes, boats and oars"
        "\n\nName: Bo"
    )
    assert (read.document_type, [note.code for note in read.notes]) == ("vcf", ["picture"])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("FN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:M=FCller", "Name: Müller"),
        ("N;ENCODING=QUOTED-PRINTABLE;CHARSET=ISO-8859-1:M=FCller;Ola", "Name: Ola Müller"),
        ("FN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:=C3=98la =\nHolm", "Name: Øla Holm"),
        ("FN:A\nNOTE;ENCODING=QUOTED-PRINTABLE:caf=\n =C3=A9", "Name: A; Note: café"),
        (
            "VERSION:2.1\nFN:A\nTEL;WORK;VOICE:12\nNOTE:C:\\new\\notes",
            "Name: A; Phone (work): 12; Note: C:\\new\\notes",
        ),
    ],
)
def test_an_old_card_is_read_in_its_charset_with_its_signs(line: str, shown: str) -> None:
    assert _text(_card(line), "a.vcf") == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("BEGIN:VEVENT\nSUMMARY:Cut\nLOCATION:Quay", "Summary: Cut; Location: Quay"),
        (
            _calendar("SUMMARY:A", "DESCRIPTION:one", "two", "three: four"),
            "Summary: A; Description: one two; Three: four",
        ),
        (_calendar("LOCATION:Quay"), "Location: Quay"),
        ("BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nTZID:Oslo\nEND:VTIMEZONE", "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nTZID:Oslo"),
        ("BEGIN:VEVENT is how an event begins", "BEGIN:VEVENT is how an event begins"),
    ],
)
def test_nothing_of_a_broken_calendar_is_lost(source: str, shown: str) -> None:
    assert _text(source).removesuffix("\nEND:VTIMEZONE") == shown


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (_calendar("SUMMARY:A", "DESCRIPTION:one", "DESCRIPTION:two", kind="VJOURNAL"), "Description: one; two"),
        (_calendar("SUMMARY:A", "X-ZOOM-LINK:https://example.org/z"), "Zoom link: https://example.org/z"),
        (_card("FN:Ann", "FN:Anna", "X-SKYPE:ann.b"), "Name: Ann; Anna; Skype: ann.b"),
        (_card("FN:Ann", "X-SOCIALPROFILE;TYPE=chess:ann"), "Socialprofile (chess): ann"),
        (_card("FN:Ann", "X-ANNIVERSARY:20100505"), "Anniversary: 5 May 2010"),
        ("BEGIN:VCALENDAR\nX-WR-CALDESC:All dives\n" + _calendar("SUMMARY:A"), "All dives\n\nSummary: A"),
        (
            "BEGIN:VAVAILABILITY\nSUMMARY:Office\nBEGIN:AVAILABLE\nSUMMARY:Mondays",
            "Summary: Office\n\nSummary: Mondays",
        ),
        (_calendar("FREEBUSY:20260512T080000Z/PT1H", kind="VFREEBUSY"), "Freebusy: 20260512T080000Z/PT1H"),
    ],
)
def test_whatever_says_something_to_a_person_is_told(source: str, said: str) -> None:
    assert said in _text(source)


@pytest.mark.parametrize(
    "line",
    ["X-APPLE-TRAVEL-ADVISORY-BEHAVIOR:AUTOMATIC", "X-MOZ-GENERATION:4", "X-LIC-LOCATION:Oslo"],
)
def test_what_only_tells_a_program_something_is_left_out(line: str) -> None:
    assert _text(_calendar("SUMMARY:A", line, "LOCATION:Quay")) == "Summary: A; Location: Quay"


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
@pytest.mark.parametrize(
    "prose",
    [
        "BEGIN:VCARD\nA card begins like this.",
        "BEGIN:VEVENT begins an event.\nSUMMARY:A\nEND:VEVENT ends it.",
        f"BEGIN:VCARD\nFN:Ann\nEND:VCARD\n\nThis is how a card looks. {'It has lines with names. ' * 4}".strip(),
        "Cards:\n\nBEGIN:VCARD\nFN:Ann\nEND:VCARD",
    ],
)
def test_prose_about_cards_is_none(name: str, prose: str) -> None:
    read = extract(prose.encode(), Hints(filename=name))

    assert (read.text, read.document_type) == (prose, name.partition(".")[2])


def test_a_long_entry_has_its_name_in_each_paragraph() -> None:
    text = _text(_calendar("SUMMARY:Drill", "LOCATION:Quay", f"DESCRIPTION:{'Bring gloves. ' * 60}"))

    assert all("Drill" in paragraph for paragraph in text.split("\n\n"))


def test_an_invitation_in_a_mail_is_told_in_words() -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "Drill", "ann@example.org"
    mail.set_content("Please come.")
    mail.add_alternative(_calendar("SUMMARY:Fire drill", "DTSTART:20260512T080000Z"), subtype="calendar")

    read = extract(mail.as_bytes(), Hints(filename="m.eml")).text

    assert read.endswith("\n\nSummary: Fire drill; When: 12 May 2026, 08:00 (UTC)")


def test_a_description_in_html_alone_is_read() -> None:
    event = b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Ebb\nX-ALT-DESC;FMTTYPE=text/html:<b>Bring</b> tea &amp; rope\n"

    read = extract(event + b"END:VEVENT\nEND:VCALENDAR\n", Hints(filename="a.ics"))

    assert read.text == "Summary: Ebb; Description: Bring tea & rope"
    described = _calendar("SUMMARY:Ebb", "DESCRIPTION:<b>Bring</b> tea &amp\\; rope<br>if 3 <4", "CATEGORIES:sea,a\\,b")
    assert _text(described) == "Summary: Ebb; Description: Bring tea & rope if 3 <4; Categories: sea, a, b"


def test_what_a_card_calls_a_number_or_address_stands_beside_it() -> None:
    text = _text(
        _card(
            "VERSION:3.0", "FN:Gro", "item1.TEL:12", "item1.X-ABLabel:_$!<Loft>!$_", "item2.URL:https://a.example",
            "item2.X-ABLabel:Prices", "item3.EMAIL:g@a.example", "TEL;TYPE=home:34", "item4.X-ABLabel:Alone",
            "X-ABLabel:Loose",
        ),
        "a.vcf",
    )  # fmt: skip

    assert text == (
        "Name: Gro; Phone (Loft): 12; Url (Prices): https://a.example; Email: g@a.example; Phone (home): 34"
    )


@pytest.mark.parametrize("day", ["--0415", "--04-15"])
def test_a_birthday_may_have_no_year(day: str) -> None:
    text = extract(_card("FN:Bo", f"BDAY:{day}").encode(), Hints(filename="a.vcf")).text

    assert text == "Name: Bo; Birthday: 15 April"
