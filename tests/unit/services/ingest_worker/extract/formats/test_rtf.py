from services.ingest_worker.extract import Hints, extract


def test_the_text_comes_without_its_marks() -> None:
    source = rb"{\rtf1\ansi\ansicpg1252{\info{\title The tide}}{\fonttbl{\f0 Arial;}}"
    source += rb"\f0 It \b rose\b0 .\par Caf\'e9 \u8364?5.\par}"

    read = extract(source, Hints(filename="a.txt"))

    assert read.text == "It rose.\n\nCafé €5."
    assert (read.title, read.document_type) == ("The tide", "rtf")


def test_what_it_says_of_itself_is_read_in_its_own_characters() -> None:
    info = rb"{\info{\title Caf\'e9 \u1055?}{\subject Of tides}{\creatim\yr2024\mo5\dy1\hr10}{\revtim\yr2024\mo6\dy12}}"

    read = extract(rb"{\rtf1\ansi\ansicpg1252" + info + rb" Text.\par}", Hints(filename="a.rtf"))

    assert (read.title, read.description) == ("Café П", "Of tides")
    assert (read.created, read.modified) == ("2024-05-01", "2024-06-12")


def test_what_is_broken_gives_what_can_be_read() -> None:
    assert extract(b"{\\rtf1 still {\\b here", Hints()).text == "still here"
    deep = extract(b"{\\rtf1 deep" + b"{" * 50_000, Hints())
    assert (deep.text, *[each.code for each in deep.notes]) == ("deep", "too_large")


def _text(source: bytes) -> str:
    return extract(b"{\\rtf1\\ansi " + source + b"}", Hints(filename="a.rtf")).text


def test_each_font_has_its_characters_also_those_of_two_bytes() -> None:
    fonts = rb"{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1\fnil\fcharset204{\*\panose 0202}Arial CYR;}"
    fonts += rb"{\f2\fnil\fcharset128 Mincho;}{\f3\ftech\fcharset2 Symbol;}{\f4\fnil Plain;}}"

    assert _text(fonts + rb"\f0 \'e9 \f1 \'cc\'e8\'f0 \f2 \'83A\'93\'fa \f3 a\f0 .") == "é Мир ア日 α."
    assert _text(rb"\ansicpg1251\'cc {\fonttbl{\f0\fnil\fcharset1 Any;}}\f0 \'e8") == "М и"
    assert _text(rb"\ansicpg936 \'d6\'d0") == "中"


def test_a_character_by_its_number_takes_the_place_of_what_stands_for_it() -> None:
    assert _text(rb"a\u8364?b \uc2\u26085\'93\'fa! {\uc0\u937 }c\uc1 \u-10187?\u-9138?") == "a€b 日! Ωc\U0001d44e"


def test_tables_lists_headings_notes_and_boxes_stand_where_they_are_seen() -> None:
    row = rb"\trowd\cellx10\cellx20\pard\intbl %b\cell %b\cell\row"
    source = [
        rb"{\stylesheet{\s0 Normal;}{\s2{\*\x y}\sbasedon0 heading 2;}}",
        rb"\pard\s2 Of tides\par\pard{\*\pn\pnlvlbody{\pntxtb \'b7}}{\pntext\f0 \'b7\tab}One{\footnote\pard Seen.\par}",
        rb" rose.\par{\listtext 2.\tab}Two\par",
        row % (b"Port", b"High") + row % (b"Bath", rb"12\par noon"),
        rb"\pard{\shp{\*\shpinst{\sp{\sn a}{\sv 1}}{\shptxt\pard Boxed\par}}{\shprslt twice}}After\par",
        rb"\outlinelevel0 Next\par",
    ]

    assert _text(b"".join(source)) == (
        "## Of tides\n\n- One rose.\n\nSeen.\n\n2. Two\n\n| Port | High |\n| --- | --- |\n| Bath | 12 noon |"
        "\n\nAfter\n\nBoxed\n\n# Next"
    )


def test_a_merged_cell_counts_for_all_that_it_covers() -> None:
    def row(columns: bytes, *cells: bytes) -> bytes:
        return rb"\trowd" + columns + rb"\pard\intbl " + b"".join(cell + rb"\cell " for cell in cells) + rb"\row"

    first, second = rb"\clvmgf\cellx900\cellx1800\cellx2700", rb"\clvmrg\cellx905\cellx1800\cellx2700"
    source = (
        row(rb"\cellx900\cellx1800\cellx2700", b"Pont", b"Cabine", b"Prix")
        + row(first, b"Haut", b"Int\\'e9rieure", b"70")
        + row(second, b"", b"Ext\\'e9rieure", b"95")
        + row(rb"\cellx900\clmgf\cellx1800\clmrg\cellx2700", b"Bas", b"ferm\\'e9", b"")
        + row(rb"\cellx900\cellx2700", b"Cale", b"vide")
    )

    assert _text(source).split("\n")[2:] == [
        "| Haut | Intérieure | 70 |",
        "| Haut | Extérieure | 95 |",
        "| Bas | fermé | fermé |",
        "| Cale | vide | vide |",
    ]


def test_what_no_reader_sees_is_left_out() -> None:
    hidden = rb"a{\v secret}\v0 {\deleted gone}b {\*\unknown x}{\pict\pngblip 89504e47}"
    held = rb"{\object{\*\objdata 0a}{\result c}}"
    field = rb"{\field{\*\fldinst HYPERLINK {\\secret}}{\fldrslt  link}}\bin3 }{} d{\upr{old}{\*\ud new}}"

    assert _text(hidden + held + field) == "ab c link dnew"


def test_what_stands_above_and_below_pages_comes_once_without_their_numbers() -> None:
    heads = rb"{\headerf\pard Harbour Office\par}{\headerr\pard Harbour Office\tab Tides \chpgn\par}"
    page = rb"{\field{\*\fldinst PAGE}{\fldrslt 7}}"

    text = _text(heads + rb"{\footer Page " + page + rb" of 9\par No. 12\par}It rose.\par")

    assert text == "Harbour Office\n\nHarbour Office Tides\n\nIt rose.\n\nNo. 12"


def test_struck_text_stands_between_tildes() -> None:
    assert _text(rb"a {\strike b\'e9}{\striked1 c}\strike d\strike0  e\strike f\plain g") == "a ~~bécd~~ e~~f~~g"


def test_an_equation_with_odd_signs_is_read() -> None:
    source = r"{\rtf1 It is {\*\moMath{\m{\mr a\u1?\u-10179?\u1b?}}}.\par}"

    assert "It is a" in extract(source.encode(), Hints(filename="a.rtf")).text


def test_a_deleted_end_of_a_paragraph_joins_it_to_the_next() -> None:
    assert _text(rb"The buyer {\deleted gladly \par}pays.\par The end.\par") == "The buyer pays.\n\nThe end."


def test_a_raised_number_stays_apart_from_what_is_before_it() -> None:
    assert (
        _text(rb"1{\super st} 10{\super 5} m\super 2\nosupersub 1 CO{\sub 2} x\super\plain 3") == "1st 10^5 m^21 CO2 x3"
    )


def test_a_link_shows_its_address_and_an_equation_its_form() -> None:
    link = rb'{\field{\*\fldinst{HYPERLINK "https://a.test/f"}}{\fldrslt{\ul the form}}}'
    raised = rb"{\*\moMath{\mr E=m}{\msSup{\me{\mr c}}{\msup{\mr 2}}}{\mf{\mnum{\mr a}}{\mden{\mr b}}}}"

    assert _text(b"See " + link + b", " + raised + rb".\par") == "See the form (https://a.test/f), E=mc^2a/b."
