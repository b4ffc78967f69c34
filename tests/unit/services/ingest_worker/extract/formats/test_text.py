import pytest

from services.ingest_worker.extract import Hints, extract
from shared.errors import Rejected

_FRENCH = "Où l'été s'achève, le déjeuner coûte 3 €."
_RUSSIAN = "Съешь ещё этих мягких французских булок, да выпей чаю. " * 3


def _text(data: bytes, media_type: str | None = None) -> str:
    return extract(data, Hints(filename="a.txt", media_type=media_type)).text


@pytest.mark.feature(85)
@pytest.mark.parametrize(
    "data",
    [
        _FRENCH.encode(),
        _FRENCH.encode("utf-8-sig"),
        _FRENCH.encode("utf-16"),
        b"\xfe\xff" + _FRENCH.encode("utf-16-be"),
        _FRENCH.encode("utf-32"),
        _FRENCH.encode("utf-16-le"),
        _FRENCH.encode("utf-16-be"),
    ],
)
def test_unicode_is_known_by_its_mark_or_its_pattern(data: bytes) -> None:
    assert _text(data) == _FRENCH


def test_a_declared_charset_is_used_where_the_bytes_are_not_utf8() -> None:
    assert _text(_FRENCH.encode("cp1252"), "text/plain; charset=ISO-8859-1") == _FRENCH
    assert _text(_FRENCH.encode(), "text/plain; charset=windows-1252") == _FRENCH
    assert _text("日本語".encode("iso2022_jp"), 'text/plain; charset="iso-2022-jp"') == "日本語"


@pytest.mark.parametrize("charset", ["nonsense", "zlib", "punycode", "unicode_escape", "\0", "a" * 9999])
def test_a_charset_that_is_none_is_ignored(charset: str) -> None:
    assert _text(b"caf\xc3\xa9", f"text/plain; charset={charset}") == "café"
    assert "caf" in _text(b"caf\xe9 au lait, s'il vous pla\xeet", f"text/plain; charset={charset}")


@pytest.mark.parametrize(
    ("text", "encodings"),
    [
        (_RUSSIAN, ["cp1251", "koi8-r", "utf-16-le", "utf-16-be"]),
        ("L'été dernier, nous avons passé nos vacances à la mer, où la forêt était pleine de cèpes.", ["cp1252"]),
        (
            "Zażółć gęślą jaźń. Wisła jest najdłuższą rzeką w Polsce, a Łódź leży w środku kraju.",
            ["cp1250", "iso8859-2"],
        ),
        ("北京是中华人民共和国的首都，是全国的政治中心、文化中心。人口超过两千万。", ["gb18030"]),
        ("東京は日本の首都であり、世界でも有数の大都市です。カタカナも使います。", ["cp932", "euc_jp", "iso2022_jp"]),
    ],
)
def test_without_any_word_the_encoding_is_guessed(text: str, encodings: list[str]) -> None:
    assert {encoding: _text(text.encode(encoding)) for encoding in encodings} == dict.fromkeys(encodings, text.strip())


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Où est la bibliothèque ?", "cp1252"),
        ("Le café coûte 3 €, déjà payé.", "cp1252"),
        ("Il caffè è più buono così.", "cp1252"),
        ("Ça va très bien, merci à tous.", "cp1252"),
        ("Größe\tFarbe\nXL\trot\nM\tblau\n", "cp1252"),
        # Words of other alphabets beside Latin ones stay what they are.
        ("Ivan Иванов said да", "cp1251"),
        ("ООО «Ромашка» ИНН 7701234567, USB-кабель и Wi-Fi", "cp1251"),
        ("Встреча в среду, не забудьте SQL.", "koi8-r"),
        ("Καλημέρα, τι κάνετε; email: a@b.gr", "cp1253"),
        ("Україна і Київ, PDF-файл", "cp1251"),
    ],
)
def test_a_word_is_guessed_to_be_of_one_alphabet(text: str, encoding: str) -> None:
    assert _text(text.encode(encoding)) == text.strip()


def test_broken_utf8_stays_utf8() -> None:
    assert _text(_RUSSIAN.encode() + b"\xff" + _RUSSIAN.encode()).count("Съешь") == 6


@pytest.mark.feature(96, 99)
def test_lines_end_in_line_feeds_and_text_is_nfc_without_control_characters() -> None:
    assert _text(b"a\r\nb\rc\x0cd") == "a\nb\nc\nd"
    assert _text("e\u0301te\u0301 soft\u00adware \ufeffx \u202egnp.exe\u202c".encode()) == "été software x gnp.exe"
    assert _text(b"\x1b[31mred\x1b[0m \x1b]0;owned\x07 bell\x07 nul\x00") == "red  bell nul"


@pytest.mark.feature(98)
@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04" + bytes(range(256)) * 20,
        b"\x7fELF" + bytes(range(256)) * 20,
        bytes([7, 3, 1, 65]) * 500,
        b"".join(number.to_bytes(2, "little") for number in range(0, 60_000, 7)),
        b"%!PS-Adobe-3.0\n",
    ],
)
def test_binary_as_text_is_unsupported(data: bytes) -> None:
    with pytest.raises(Rejected, match=r"^a\.txt is neither (plain )?text nor in a supported format$") as caught:
        _text(data)

    assert caught.value.code == "unsupported"


@pytest.mark.feature(98)
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1", "a HEIF image"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0", "a video or audio file"),
        (b"\x1f\x8b\x08\0abc", "an archive other than ZIP"),
        (b"SQLite format 3\0", "a database"),
    ],
)
def test_what_is_known_but_not_read_is_called_by_its_kind(data: bytes, kind: str) -> None:
    with pytest.raises(Rejected, match=rf"^a\.txt is {kind}, which is not supported$") as caught:
        _text(data)

    assert caught.value.code == "unsupported"


@pytest.mark.parametrize(
    ("filename", "text"),
    [
        ("a.rst", ".. _label:\n\n=====\nTides\n=====\n\nPart\n----\nText."),
        ("a.rst", "Tides\n~~~~~\nText."),
        ("a.adoc", "// by Ann\n= Tides\n\n== Part"),
        ("a.org", "#+title: Tides\n* Part"),
        ("a.tex", r"\documentclass{article}\title{Tides}"),
    ],
)
def test_markup_that_names_its_title_has_one(filename: str, text: str) -> None:
    assert extract(text.encode(), Hints(filename=filename)).title == "Tides"
    assert extract(text.encode(), Hints(filename="notes.txt")).title == "notes"


@pytest.mark.parametrize(
    "entries",
    [
        [
            "2024-05-03 10:00:00 INFO started",
            "2024-05-03 10:00:01 ERROR stuck\nTraceback:\n  File a",
            "2024-05-03 b",
            "2024-05-03 c",
        ],
        [
            "May  3 10:00:00 host sshd[1]: a",
            "May  3 10:00:01 host sshd[1]: b",
            "May  3 10:00:02 c",
            "May 13 10:00:00 d",
        ],
        [f'10.0.0.{number} - - [03/May/2024:10:00:00 +0200] "GET / HTTP/1.1" 200' for number in range(4)],
        ["INFO a", "WARN b", "ERROR c", "DEBUG d"],
        [f"2024-05-03 10:00:0{second} ERROR a\nDry: {second}\n\tat a\n\tat b\n\tat c" for second in range(5)],
        ["I0503 10:00:00.1 1 a.go:1] a", "E0503 10:00:01.2 1 a.go:2] b", "W0503 10:00:02.3 c", "I0503 10:00:03.4 d"],
        [f'ts=2024-05-03T10:00:0{second}Z level=info msg="a"' for second in range(4)],
        ["2024-05-03 10:00:00 sshd[812]: a", "2024-05-03 10:00:01 sshd[812]: b"],
        ["<34>1 2024-05-03 a", "<34>1 2024-05-03 b", "<165>1 2024-05-03 c", "<34>1 2024-05-03 d"],
    ],
)
def test_the_entries_of_a_log_are_apart(entries: list[str]) -> None:
    assert _text("\n".join(entries).encode()) == "\n\n".join(entries)


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-03 arrived\n" * 3 + "The end.",
        "2024-05-03 meeting at the quay\nWe spoke about the crane.",
        "INFO is for news\nand for\nWARN and ERROR\nthere are lamps.",
        "The boat left at\n10:00:00 and came back at\n12:00:00.",
        "2024-05-03 a\n\n2024-05-04 b\n2024-05-05 c",
    ],
)
def test_a_text_with_a_few_dates_is_no_log(text: str) -> None:
    assert _text(text.encode()) == text


def test_a_file_named_as_a_log_is_one_with_any_number_of_entries() -> None:
    text = "start\n2024-05-03 10:00:00 a\nTrace\n b\n\n2024-05-03 10:00:01 c\n2024-05-03 10:00:02 d"

    read = extract(text.encode(), Hints(filename="a.log")).text

    assert read.split("\n\n") == ["start", "2024-05-03 10:00:00 a\nTrace\n b", *text.split("\n")[-2:]]


def test_a_log_of_objects_has_their_fields() -> None:
    assert _text(b'{"ts": "10:00", "msg": "started"}\n{"ts": "10:01", "msg": "stuck"}\n') == (
        "ts: 10:00; msg: started\n\nts: 10:01; msg: stuck"
    )
    assert _text(b"{a}\n{b}") == "{a}\n{b}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.ml", "let f = {|\n  quoted text\n  here\n|}\nlet g = 1"),
        ("a.fs", "let a =\n    {| Name = 1\n       Size = 2\n    |}"),
        ("a.hs", "[r|\n{|x\ny\n|}\n|]"),
        ("a.tex", "\\begin{tabular}\n{|l|l|}\n a & b \\\\\n|}\n\\end{tabular}"),
        ("notes.txt", "Signs:\n{| begins\nwhat is between\n|} ends\nAfter."),
    ],
)
def test_a_text_with_the_signs_of_a_wikis_tables_stays_as_it_is(name: str, text: str) -> None:
    assert extract(text.encode(), Hints(filename=name)).text == text


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("de.properties", r"open=Tor \u00f6ffnen", "open=Tor öffnen"),
        ("de.properties", r"open=C:\\users", r"open=C:\\users"),
        ("de.properties", "open=Tor öffnen", "open=Tor öffnen"),
        ("de.py", r'"Tor \u00f6ffnen"', r'"Tor \u00f6ffnen"'),
        ("de.txt", r"Tor \u00f6ffnen", r"Tor \u00f6ffnen"),
    ],
)
def test_properties_say_their_characters_by_number(name: str, text: str, shown: str) -> None:
    assert extract(text.encode(), Hints(filename=name)).text == shown


def test_a_stray_byte_of_another_encoding_garbles_no_other_letters() -> None:
    text = extract(
        "Die Mole ist größer.\nDie Flut über dem Café.\n".encode() + b"caf\xe9\n", Hints(filename="a.txt")
    ).text

    assert text.startswith("Die Mole ist größer.\nDie Flut über dem Café.\ncaf")


def test_a_text_of_an_old_mac_is_known_by_the_ends_of_its_lines() -> None:
    text = "Règlement du port\rLa taxe est de cinq francs par nuit. L’entrée est fermée — même l’été.\r"

    assert _text(text.encode("mac_roman")) == text.replace("\r", "\n").strip()
    assert _text(text.encode("cp1252")) == text.replace("\r", "\n").strip()
    assert _text("Größe: 5\rHöhe: 7\r".encode("cp1252")) == "Größe: 5\nHöhe: 7"
    assert _text("港の規則\r第一条　船は夜九時までに入港する。\r".encode("cp932")).startswith("港の規則\n第一条")


@pytest.mark.parametrize(
    "entries",
    [
        ["\u200e[04.03.24, 10:00:01] Crew: encrypted", "[04.03.24, 10:02:11] Gro: key\nand a spare",
         "\u200e[04.03.24, 10:02:40] Bo: \u200e<attached>", "[04.03.24, 10:03:05] Bo: gone"],
        ["3/4/24, 10:02 - Gro: key\nin it", "3/4/24, 10:03 - Bo: ok", "3/14/24, 9:03 PM - Bo: so", "4/4/24, 9:04 - a"],
        ["12.10.24, 09:15 - Gro: key", "12.10.24, 09:17 - Bo: ok"],
        ["[2024/10/12 9:15:03] Yuki: 鍵は受付です", "[2024/10/12 9:16:44] Ken: 了解\n続きです"],
        ["2024. 10. 12. 오전 9:15, 유리 : 열쇠", "2024. 10. 12. 오후 9:17, 민수 : 네\n고마워요"],
    ],
)  # fmt: skip
def test_the_messages_of_a_chat_are_apart(entries: list[str]) -> None:
    assert _text("\n".join(entries).encode()) == "\n\n".join(entries)
