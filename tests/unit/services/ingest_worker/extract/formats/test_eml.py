import base64
from email.message import EmailMessage

import pytest

from services.ingest_worker.extract import Extraction, Hints, detect, extract
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_pdf


def a_mail(subject: str = "The tide") -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "Ann <ann@example.org>", "bob@example.org"
    mail["Date"] = "Mon, 06 May 2024 10:00:00 +0200"
    mail.set_content("It rose.")
    return mail


def _read(mail: EmailMessage) -> Extraction:
    return extract(mail.as_bytes(), Hints(filename="m.eml"))


def test_heads_and_message_are_the_text_and_the_subject_is_the_title() -> None:
    read = _read(a_mail("Größe"))

    assert read.text == (
        "Subject: Größe\nFrom: Ann <ann@example.org>\nTo: bob@example.org\nDate: Mon, 06 May 2024 10:00:00 +0200\n\n"
        "It rose."
    )
    assert (read.title, read.created, read.document_type) == ("Größe", "2024-05-06T10:00:00+02:00", "eml")
    assert detect(a_mail().as_bytes(), Hints()).document_type == "eml"


def test_plain_text_is_taken_before_html_and_html_is_read_where_there_is_no_other() -> None:
    both, only = a_mail(), a_mail()
    both.add_alternative("<p>It <b>rose</b>.</p>", subtype="html")
    only.set_content("<h1>Low</h1><script>x()</script><p>It fell.</p>", subtype="html")

    assert _read(both).text.endswith("\n\nIt rose.")
    assert _read(only).text.endswith("\n\n# Low\n\nIt fell.")


def test_marks_of_outlook_for_pictures_and_addresses_are_no_text() -> None:
    mail = a_mail()
    mail.set_content("Ask ann@x.org<mailto:ann@x.org> or Bo<mailto:bo@x.org> [cid:image001.png@01D] at nine.")

    assert _read(mail).text.endswith("Ask ann@x.org or Bo<mailto:bo@x.org>  at nine.")


@pytest.mark.parametrize(
    ("plain", "html", "said"),
    [
        (" \n\n", "<p>De kraan is klaar.</p>", "De kraan is klaar."),
        (
            "Votre logiciel n'affiche pas le HTML : https://example.org/lettre",
            "<p>Le phare rouvre.</p>",
            "Le phare rouvre.",
        ),
        ("此邮件为网页格式,请用浏览器查看。", "<p>渡轮九点出发。</p>", "渡轮九点出发。"),
        ("渡轮九点出发。\n\n再见", "<div>渡轮九点<b>出发</b>。</div>", "渡轮九点出发。\n\n再见"),
        ("The mill\ngrinds rye.", "<p>The mill grinds <i>rye</i>.</p>", "The mill\ngrinds rye."),
        ("Only here.", "<p> </p>", "Only here."),
        # The HTML form says more, or each form says something of its own.
        (
            "The fares rise on Monday. Ann",
            "<p>The fares rise on Monday.</p><table><tr><td>Day<td>Duty<tr><td>Mo<td>Nadia</table>Ann",
            "The fares rise on Monday. Ann\n\n| Day | Duty |\n| --- | --- |\n| Mo | Nadia |",
        ),
        (
            "Two ropes, as ordered.",
            "<p>Two ropes, as ordered.</p><p>Total: 31.50</p>",
            "Two ropes, as ordered.\n\nTotal: 31.50",
        ),
        (
            "Le conseil a parlé du quai.",
            "<p>Le conseil a parlé du quai.</p><p>Les yachts paieront davantage.</p>",
            "Le conseil a parlé du quai.\n\nLes yachts paieront davantage.",
        ),
        ("Moved to 15:40, room 7.", "<p>See the invitation.</p>", "See the invitation.\n\nMoved to 15:40, room 7."),
    ],
)
def test_of_two_forms_of_a_message_the_one_that_says_something_is_read(plain: str, html: str, said: str) -> None:
    mail = a_mail()
    mail.set_content(plain)
    mail.add_alternative(html, subtype="html")

    assert _read(mail).text.partition("+0200\n\n")[2].strip() == said


@pytest.mark.parametrize(
    ("plain", "html"),
    [
        (
            "See you at 14:30.\n\n[cid:image001.png@01DA9F]\nTel. 12 34<tel:+1234>\nwww.example.org<http://www.example.org/>",
            """<p>See you at 14:30.<p><img src="cid:image001.png@01DA9F" alt="Logo 7">Tel. 12 34<br>
<a href="https://t.example.org/c?u=881">www.example.org</a>""",
        ),
        ("Steps:\n\n- Open\n- Close", "Steps:<ol><li>Open<li>Close</ol>"),
        (
            "On 6 May 2024 at 10:00, Ann wrote:\n> How many crates do we\n> need for 12 May?",
            "On 6 May 2024 at 10:00, Ann wrote:<blockquote>How many crates do we need for 12&nbsp;May?</blockquote>",
        ),
        (
            "NEWS\n====\n1. Ferry\nIt starts on 3 May (https://t.example.org/a?1)\n* Unsubscribe https://t.example.org/8",
            """<style>p{margin:9px}</style><div style="display:none">20% off</div><h1>News</h1><h2>Ferry</h2><p>It
starts on <a href="https://t.example.org/a?7">3 May</a></p><a href="https://t.example.org/u/82">Unsubscribe</a>""",
        ),
        ("Fine, *7 crates*.", "<p>Fine, <b>7</b> crates.</p><hr>"),
    ],
)
def test_a_message_that_both_forms_tell_is_read_once(plain: str, html: str) -> None:
    mail = a_mail()
    mail.set_content(plain)
    mail.add_alternative(html, subtype="html")

    assert _read(mail).text.partition("+0200\n\n")[2].strip() == plain.replace("[cid:image001.png@01DA9F]\n", "\n")


_PLAIN = "Content-Type: text/plain; charset=utf-8\n\n{}\n"
_FILE = "Content-Type: text/csv\nContent-Disposition: {}; filename=quais.csv\n\nquai;grue\nnord;9\n"
_HTML = "Content-Type: text/html; charset=utf-8\n\n<p>{}</p>\n"
_PICTURE = "Content-Type: image/png\nContent-ID: <a>\nContent-Disposition: inline; filename=a.png\n\nx\n"


def _parts(kind: str, *parts: str) -> str:
    name = f"b{len(kind)}{len(parts)}{len(''.join(parts))}"
    inner = "".join(f"--{name}\n{part}" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="{name}"\n\n{inner}--{name}--\n'


@pytest.mark.parametrize(
    ("tree", "texts"),
    [
        (  # a file within the text
            _PLAIN.format("Voici.\nbegin 644 quais.txt\n3<75A:3H@;F]R9#L@9W)U93H@.0\n`\nend\nFin."),
            ["Voici.\n\nFin.", "quais.txt", "quai: nord; grue: 9"],
        ),
        (  # S/MIME, clear-signed
            _parts(
                "signed; protocol=x",
                _parts("mixed", _PLAIN.format("Voici."), _FILE.format("attachment")),
                "Content-Type: application/pkcs7-signature; name=smime.p7s\n\nMIIB\n",
            ),
            ["Voici.", "quai: nord; grue: 9"],
        ),
        (  # the footer of a list
            _parts(
                "mixed",
                _parts("mixed", _PLAIN.format("Voici."), _FILE.format("attachment")),
                _PLAIN.format("Se désabonner"),
            ),
            ["Voici.", "Se désabonner", "quai: nord; grue: 9"],
        ),
        (  # Apple Mail: the file lies between two halves of the richer form
            _parts(
                "alternative",
                _PLAIN.format("Avant. Après."),
                _parts("mixed", _HTML.format("Avant."), _FILE.format("inline"), _HTML.format("Après.")),
            ),
            ["Avant. Après.", "quai: nord; grue: 9"],
        ),
        (  # a page with its pictures, beside a file
            _parts(
                "mixed",
                _parts("alternative", _PLAIN.format(""), _parts("related", _HTML.format("Le phare."), _PICTURE)),
                _FILE.format("attachment"),
            ),
            ["Le phare.", "quai: nord; grue: 9"],
        ),
        (  # an invitation
            _parts(
                "alternative",
                _PLAIN.format("Réunion"),
                "Content-Type: text/x-amp-html\n\n<p>Réunion</p>\n",
                _HTML.format("Réunion"),
                "Content-Type: text/calendar; method=REQUEST\n\nBEGIN:VEVENT\nLOCATION:Quai\n  nord\nEND:VEVENT\n",
            ),
            ["Réunion", "Location: Quai nord"],
        ),
        (  # a delivery report, with the headers of the mail that it is about
            _parts(
                "report; report-type=delivery-status",
                _PLAIN.format("Non remis."),
                "Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; e@a.org\n",
                "Content-Type: text/rfc822-headers\n\nFrom: a@example.org\nSubject: Devis\n",
            ),
            ["Non remis.", "Final-Recipient: rfc822; e@a.org", "Subject: Devis"],
        ),
    ],
    ids=["uuencode", "signed", "list", "apple", "pictures", "calendar", "report"],
)
def test_every_part_of_the_tree_is_read_once_in_order(tree: str, texts: list[str]) -> None:
    read = extract(f"From: a@example.org\nMIME-Version: 1.0\n{tree}".encode(), Hints(filename="m.eml"))

    found = [read.text.index(text) for text in texts]
    assert found == sorted(found)
    assert [read.text.count(text) for text in texts] == [1] * len(texts)
    assert read.notes == ()


def test_an_encrypted_message_is_noted() -> None:
    tree = _parts("encrypted", "Content-Type: application/pgp-encrypted\n\nVersion: 1\n", _PLAIN.format("hQEMA"))

    read = extract(f"From: a@example.org\nSubject: s\n{tree}".encode(), Hints(filename="m.eml"))

    assert "hQEMA" not in read.text
    assert [each.code for each in read.notes] == ["password"]


def test_a_charset_is_what_was_meant_or_what_it_looks_like() -> None:
    french = "L'été dernier, nous avons passé nos vacances à la mer, où la forêt était pleine de cèpes."
    silent = b"From: a@b\nTo: c@d\n\n" + french.encode("cp1252")
    narrow = b"From: a@b\nTo: c@d\nContent-Type: text/plain; charset=gb2312\n\n" + "朱镕基".encode("gb18030")

    assert extract(silent, Hints(filename="m.eml")).text.endswith(f"\n\n{french}")
    assert extract(narrow, Hints(filename="m.eml")).text.endswith("\n\n朱镕基")


def test_tables_are_tables_lines_are_lines_and_layout_is_neither() -> None:
    mail = a_mail()
    rows = "<tr><th>Port</th><th>Tide</th></tr><tr hidden><td>x</td><td>y</td></tr><tr><td>Hull</td><td>4 m</td></tr>"
    frame = f"<table><tr><td><p>Dear Ann,<br>dear\nBob</p><table>{rows}</table></td><td>aside</td></tr></table>"
    mail.set_content(frame, subtype="html")

    text = _read(mail).text

    assert "\n\nDear Ann,\ndear Bob\n\n| Port | Tide |\n| --- | --- |\n| Hull | 4 m |\n\n" in text
    assert text.endswith("aside")


def test_attachments_are_sections_and_what_cannot_be_read_is_said() -> None:
    mail, inner = a_mail(), a_mail("Inner")
    mail.add_attachment(a_pdf("High tide."), maintype="application", subtype="pdf", filename="tide.pdf")
    mail.add_attachment(b"\0\1\2" * 99, maintype="application", subtype="octet-stream", filename="a.bin")
    mail.add_attachment(inner)

    read = _read(mail)

    assert "\n\n# tide.pdf\n\nHigh tide." in read.text
    assert read.text.count("It rose.") == 2
    assert [(each.code, each.place) for each in read.notes] == [("unsupported", "a.bin")]


def test_mails_in_mails_end_somewhere() -> None:
    mail = a_mail()
    for _ in range(6):
        outer = a_mail()
        outer.add_attachment(mail)
        mail = outer

    read = _read(mail)

    assert read.text.count("It rose.") == 3
    assert [each.message for each in read.notes if "is nested more than 3 files deep" in each.message]


@pytest.mark.parametrize(
    "mail",
    [
        b"MIME-Version: 1.0\nContent-Type: text/plain; charset=nonsense\n\nstill here",
        b"From: a\nTo: b\nContent-Transfer-Encoding: base64\n\n!!!still here",
        b"From: =?utf-8?b?broken\nDate: never\nSubject: s\n\nstill here",
        b"From: a\nContent-Type: multipart/mixed\n\nstill here",
        b"From: a\nTo: b\nContent-Type: text/plain; charset*\n\nstill here",
        b"From: a\nTo: b\nContent-Type: text/plain; =?\n\nstill here",
        b"From: a\nTo: b\nContent-Disposition: inline; name*1*=\n\nstill here",
    ],
)
def test_a_broken_mail_is_no_bug_of_ours(mail: bytes) -> None:
    try:
        assert extract(mail, Hints(filename="m.eml")).text
    except Rejected as error:
        assert error.code == "empty"  # noqa: PT017 - either is honest


def test_a_mail_that_was_saved_as_a_wide_text_is_read() -> None:
    wide = extract(a_mail().as_string().encode("utf-16"), Hints(filename="m.eml"))

    assert wide == _read(a_mail())


def test_a_mail_of_too_many_parts_is_read_up_to_a_limit_with_a_note() -> None:
    head = 'From: a@example.org\nTo: b@example.org\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n'
    part = "--b\nContent-Type: text/plain\n\nA lantern.\n"

    read = extract(f"{head}{part * 20_000}--b--\n".encode(), Hints(filename="a.eml"))

    assert "A lantern." in read.text
    assert [each.message for each in read.notes if "1000 of 20000" in each.message]


def test_words_in_capitals_between_begin_and_end_are_no_file() -> None:
    shown = "begin 644 x\nTHIS IS A LINE IN CAPITALS\nAND ANOTHER\nend"

    assert extract(_PLAIN.format(shown).encode(), Hints(filename="m.eml")).text.endswith(shown)


def test_links_of_a_saved_page_are_those_of_its_address_and_of_a_mail_none() -> None:
    page = "Content-Type: text/html\n{}\n<p>See <a href='b.html'>the quay</a>.</p>"

    saved, sent = (
        extract(f"From: a@example.org\nMIME-Version: 1.0\n{page.format(place)}".encode(), Hints(filename="a.mht")).text
        for place in ("Content-Location: https://example.org/d/a.html\n", "")
    )

    assert saved.endswith("See [the quay](https://example.org/d/b.html).")
    assert sent.endswith("See the quay.")


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("format=flowed; delsp=yes", "On Don \nnerstag it  \n rose.\n", "On Donnerstag it rose."),
        ("format=flowed; delsp=yes", "It  \nrose.\n", "It rose."),
        ("format=flowed; delsp=yes", "> He fell \n> low\nSo \n\nit is\n", "> He fell \n> low\nSo \n\nit is"),
        ("format=flowed; delsp=yes", "It rose.\n-- \nAnn\n", "It rose.\n-- \nAnn"),
        ("format=flowed; delsp=yes", "Low \n> He fell\n", "Low \n> He fell"),
        ("format=flowed", "It \nrose.\n", "It \nrose."),
        ("charset=utf-8", "It \nrose.\n", "It \nrose."),
    ],
)
def test_a_word_is_whole_where_the_mail_says_how_its_lines_are_joined(kind: str, body: str, shown: str) -> None:
    mail = f"From: Ann\nSubject: The tide\nContent-Type: text/plain; {kind}\n\n{body}"

    assert extract(mail.encode(), Hints(filename="m.eml")).text.rpartition("From: Ann\n\n")[2] == shown


def test_a_mail_within_a_mail_is_read_however_it_is_encoded() -> None:
    inner = "From: Bob\nSubject: Crane\nContent-Type: text/plain; charset=utf-8\n\nIt lifts nine tons: größer.\n"
    for encoding, said in (
        ("base64", base64.encodebytes(inner.encode()).decode()),
        ("base64", inner),  # it isn't
        ("8bit", inner),
    ):
        head = f"Content-Type: message/rfc822\nContent-Transfer-Encoding: {encoding}\n\n{said}"
        mail = f"From: Ann\nSubject: All\nContent-Type: multipart/mixed; boundary=b\n\n--b\n{head}\n--b--\n"

        assert "It lifts nine tons: größer." in extract(mail.encode(), Hints(filename="m.eml")).text


@pytest.mark.parametrize(
    "said",
    [
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQEN\n-----END PGP PUBLIC KEY BLOCK-----",
        "-----BEGIN PGP MESSAGE-----\nis what such a mail begins with.",
        "> -----BEGIN PGP MESSAGE-----\n> hQEM\n> -----END PGP MESSAGE-----",
        "It says -----BEGIN PGP SIGNATURE----- and -----END PGP SIGNATURE-----.",
        "-----BEGIN PGP SIGNATURE-----\n- or what it is\n-----END PGP SIGNATURE-----",
    ],
)
def test_what_only_names_a_sealed_message_stays(said: str) -> None:
    read = extract(_PLAIN.format(said).encode(), Hints(filename="m.eml"))

    assert read.text.endswith(said)
    assert not read.notes


@pytest.mark.parametrize(
    ("written", "subject"),
    [
        ("=?utf-8?Q?Gr=C3=B6?= =?iso-8859-1?Q?=DFe?=", "Größe"),  # of several encodings
        ("=?utf-8?Q?a_b?= and =?utf-8?Q?c?=", "a b and c"),
        ("=?utf-8?B?not base64?=", "not base64"),
        ("=?x-unknown?Q?Tide?=", "Tide"),
        ("=?utf-8*en?Q?Tide?=", "Tide"),
        ("1 =? 2 ?= 3", "1 =? 2 ?= 3"),
    ],
)
def test_a_subject_is_what_its_words_say(written: str, subject: str) -> None:
    assert (
        extract(f"Subject: {written}\nFrom: a@example.org\n\nIt rose.\n".encode(), Hints(filename="m.eml")).title
        == subject
    )


@pytest.mark.parametrize("charset", ["utf-8", "latin-1"])
def test_a_header_without_an_encoding_is_what_its_bytes_look_like(charset: str) -> None:
    mail = 'Subject: Größe\nFrom: "Löwe, Eva" <eva@example.org>\n\nIt rose.\n'.encode(charset)

    assert extract(mail, Hints(filename="m.eml")).text.startswith('Subject: Größe\nFrom: "Löwe, Eva" <eva@example.org>')


def test_letters_of_a_header_in_no_encoding_have_that_of_the_text() -> None:
    head = 'Subject: Žádost\nFrom: Jiří <j@k.cz>\nContent-Type: text/plain;\n charset="windows-1250"\n\n'
    mail = f"{head}Dobrý den.".encode("cp1250")

    read = extract(mail, Hints(filename="m.eml"))

    assert read.title == "Žádost"
    assert "From: Jiří <j@k.cz>" in read.text


def test_letters_of_a_header_in_no_encoding_are_not_ascii() -> None:
    types = (f"Content-Type: text/plain; charset={charset}\n\nHi\n" for charset in ("us-ascii", "windows-1251"))
    mail = "--x\n".join(["Subject: Привет мир\nContent-Type: multipart/mixed; boundary=x\n\n", *types])

    assert extract(f"{mail}--x--\n".encode("cp1251"), Hints(filename="m.eml")).title == "Привет мир"
