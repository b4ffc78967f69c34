import pytest

from services.ingest_worker.extract import Extraction, Hints, detect, extract
from shared.errors import Rejected


def a_letter(subject: str, text: str, *, day: int, number: str, answers: str = "", sender: str = "eva") -> str:
    return (
        f"From {sender}@example.org Mon Sep  {day} 08:15:00 2025\nFrom: {sender}@example.org\nSubject: {subject}\n"
        f"Date: Mon, 0{day} Sep 2025 08:15:00 +0000\nMessage-ID: <{number}@example.org>\n"
        + (f"In-Reply-To: <{answers}@example.org>\n" if answers else "")
        + f"Content-Type: text/plain; charset=utf-8\n\n{text}\n\n"
    )


def _read(*letters: str) -> Extraction:
    return extract("".join(letters).encode(), Hints(filename="liste.mbox"))


def test_messages_are_sections_in_the_order_of_their_threads() -> None:
    read = _read(
        a_letter("Re: Segel", "Am Montag.", day=3, number="c", answers="a"),
        a_letter("Anker", "Der Anker fehlt.", day=2, number="b"),
        a_letter("Segel", "Wann kommt das Segel?", day=1, number="a"),
        a_letter("AW: Anker", "Er liegt im Schuppen.", day=4, number="d"),
    )

    assert [line for line in read.text.split("\n") if line.startswith("# ")] == [
        "# Segel",
        "# Re: Segel",
        "# Anker",
        "# AW: Anker",
    ]
    assert (read.document_type, read.title, read.notes) == ("mbox", "liste", ())


def test_messages_are_decoded_and_a_line_that_begins_with_from_ends_none() -> None:
    coded = a_letter("=?utf-8?q?B=C3=B6e?=", "=C3=9Cber Nacht\nFrom here on\n>From 12:00 on", day=1, number="a")

    read = _read(coded.replace("charset=utf-8", "charset=utf-8\nContent-Transfer-Encoding: quoted-printable"))

    assert read.text.startswith("# Böe\n\nSubject: Böe\n")
    assert read.text.endswith("Über Nacht\nFrom here on\nFrom 12:00 on")


def test_quoted_lines_are_left_out_only_where_they_stand_earlier() -> None:
    read = _read(
        a_letter("Lot", "Das Lot ist neu.\n\nEs wiegt drei Kilo.", day=1, number="a"),
        a_letter(
            "Re: Lot",
            "Danke.\n\n> Das Lot ist neu.\n>\n> Es wiegt drei Kilo.\n> Nie gesagt.\n>\n> Auch das nicht.",
            day=2,
            number="b",
        ),
        a_letter("Re: Lot", "Gern.\n\n> Danke.\n>> Das Lot ist neu.\n", day=3, number="c"),
    )

    assert read.text.count("Das Lot ist neu.") == 1
    assert read.text.count("Danke.") == 1
    assert "Danke.\n\n> Nie gesagt.\n>\n> Auch das nicht." in read.text


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Am Montag schrieb Eva:\n> Das Lot ist neu.\nGut.", "Am Montag schrieb Eva:\n> …\nGut."),
        ("Eva:\n> Das Lot ist neu.\n\nGut.", "Eva:\n\n> …\nGut."),
        ("Gut.\n> Das Lot ist neu.", "Gut."),  # nothing follows
        ("Eva:\n> Das Lot ist neu.\n> Nie gesagt.\nGut.", "Eva:\n> Nie gesagt.\nGut."),
        ("Eva:\n> Nie gesagt.\nGut.", "Eva:\n> Nie gesagt.\nGut."),
        ("Gut.\n\nBis dann.", "Gut.\n\nBis dann."),
    ],
)
def test_an_answer_does_not_follow_the_name_of_another_where_a_quote_is_left_out(reply: str, text: str) -> None:
    read = _read(a_letter("Lot", "Das Lot ist neu.", day=1, number="a"), a_letter("Re: Lot", reply, day=2, number="b"))

    assert read.text.endswith(f"+0000\n\n{text}")


def test_what_a_reply_quotes_is_left_out_though_its_html_form_says_more() -> None:
    forms = (
        ("Lot", "Is the lead new?", "<p>Is the lead new?"),
        (
            "Re: Lot",
            "It is.\n\n> Is the lead new?",
            "<p>It is.<blockquote>Is the lead new?</blockquote><p>Sent from my iPhone",
        ),
        (
            "Re: Lot",
            "Good.\n\n> It is.\n>\n>> Is the lead new?",
            "<p>Good.<blockquote>It is.<blockquote>Is the lead new?</blockquote></blockquote><p>A secret mail",
        ),
    )
    parts = "--b\nContent-Type: text/plain\n\n{}\n--b\nContent-Type: text/html\n\n{}\n--b--"
    mails = [
        a_letter(subject, parts.format(plain, html), day=day, number=f"m{day}").replace(
            "text/plain; charset=utf-8", "multipart/alternative; boundary=b"
        )
        for day, (subject, plain, html) in enumerate(forms, start=1)
    ]

    text = _read(*mails).text

    assert (text.count("Is the lead new?"), text.count("It is."), text.count("Sent from my iPhone")) == (1, 1, 1)


def test_a_mailbox_is_known_by_its_content_and_a_mail_is_none() -> None:
    letter = a_letter("Lot", "Neu.", day=1, number="a").encode()

    assert detect(letter, Hints()).document_type == "mbox"
    assert detect(letter.partition(b"\n")[2], Hints()).document_type == "eml"
    assert detect(b"From 12:00 on, 3 ships will leave.\nNext line", Hints()).document_type == "txt"


def test_a_mailbox_without_a_message_is_damaged() -> None:
    with pytest.raises(Rejected) as caught:
        _read("Nothing here")

    assert caught.value.code == "damaged"
