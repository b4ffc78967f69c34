from collections.abc import Callable

import pytest

from services.ingest_worker.extract.lightweight_markup import of_adoc, of_org, of_rst, of_tex, of_wiki
from services.ingest_worker.text_blocks import blocks
from tests.loop_holds import least_cpu_s


def _shape(text: str) -> list[str]:
    return [block.title if block.kind == "heading" else block.kind for block in blocks(text, structured=True)]


def test_levels_of_restructuredtext_are_those_of_the_signs_as_they_come() -> None:
    text = of_rst("*****\nTides\n*****\n\nEbb\n^^^\nText.\n\nHigh water\n==========\n\nFlow\n^^^^\n\n----\n\nEnd.")

    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "# Tides",
        "## Ebb",
        "### High water",
        "## Flow",
    ]


def test_code_in_restructuredtext_has_no_headings() -> None:
    text = of_rst(
        "Run this::\n\n   # make\n   make all\n\nor\n\n.. code-block:: sh\n   :linenos:\n\n   # test\n\nDone."
    )

    assert _shape(text) == ["paragraph", "code", "paragraph", "code", "paragraph"]
    assert "```\n# make\nmake all\n```" in text
    assert "```sh\n# test\n```" in text
    assert ":linenos:" not in text


@pytest.mark.parametrize(
    "source",
    [
        (
            ".. list-table::\n   :header-rows: 1\n\n   * - Kai\n     - Tiefe\n   * - 1\n     - 4 m\n"
            "       mehr\n   * - 2\n     - 5\n"
        ),
        '.. csv-table::\n   :header: "Kai", "Tiefe"\n\n   1, "4 m mehr"\n   2, 5\n',
        (
            "+-----+-------+\n| Kai | Tiefe |\n+=====+=======+\n"
            "| 1   | 4 m   |\n|     | mehr  |\n+-----+-------+\n| 2   | 5     |\n+-----+-------+\n"
        ),
        "===  =====\nKai  Tiefe\n===  =====\n1    4 m\n     mehr\n2    5\n===  =====\n",
    ],
)
def test_the_tables_of_restructuredtext_are_tables(source: str) -> None:
    text = of_rst(f"Vorher.\n\n{source}\nNachher.")

    assert "| Kai | Tiefe |\n| --- | --- |\n| 1 | 4 m mehr |\n| 2 | 5 |" in text
    assert _shape(text) == ["paragraph", "table", "paragraph"]


def test_a_cell_of_restructuredtext_that_covers_columns_is_in_each_of_them() -> None:
    table = "+-----+-----+\n| Sea | Low |\n+=====+=====+\n| not seen  |\n+-----+-----+\n| 1   | 2   |\n+-----+-----+"

    assert "| Sea | Low |\n| --- | --- |\n| not seen | not seen |\n| 1 | 2 |" in of_rst(table)


def test_a_header_of_several_rows_in_restructuredtext_becomes_one() -> None:
    lines = (
        *("+------+-------------+", "| Port | Tide        |", "|      +------+------+", "|      | High | Low  |"),
        *("+======+======+======+", "| Hull | 4    | 1    |", "|      +------+------+", "|      | 5    | 2    |"),
        "+------+------+------+",
    )

    rows = ["| Port | Tide High | Tide Low |", "| --- | --- | --- |", "| Hull | 4 | 1 |", "| Hull | 5 | 2 |"]
    assert of_rst("\n".join(lines)).strip().split("\n") == rows


def test_a_cell_of_restructuredtext_that_is_long_is_in_its_first_row_only() -> None:
    text = of_rst("+--+--+\n" + "|ab|c |\n|  +--+\n" * 50 + "+--+--+\n")

    assert text.count("ab") == 50


@pytest.mark.parametrize("cell", [".9999+|a", ".2+|a", "999.9999+|a"])
@pytest.mark.parametrize("columns", ["", "[cols=1]\n", "[cols=3*]\n", '[cols="99*,99*"]\n'])
def test_a_table_of_asciidoc_has_no_more_rows_than_cells(columns: str, cell: str) -> None:
    text = of_adoc(f"{columns}|===\n" + f"{cell}\n" * 50 + "|last\n|===\n")

    assert len(text.split("\n")) < 60
    assert "last" in text


def test_a_table_of_asciidoc_may_have_commas_between_its_cells() -> None:
    source = '[%header,format=csv]\n|===\nSail,Area\n"Jib, old",12\n|===\n'

    assert "| Sail | Area |\n| --- | --- |\n| Jib, old | 12 |" in of_adoc(source)


def test_cells_of_asciidoc_that_cover_rows_are_in_each_of_them() -> None:
    text = of_adoc("[cols=2*]\n|===\n|Deck |Cabin\n.2+|Lower .3+|Inside\n|Upper\n|===\n")

    assert [line for line in text.split("\n") if line][-2:] == ["| Lower | Inside |", "| Lower | Upper |"]


def test_asciidoc_has_headings_listings_and_tables() -> None:
    text = of_adoc(
        "= Boats\n\n== Hull ==\n[source,c]\n----\n# no heading\n----\n\n[NOTE]\n====\nMind it.\n====\n\n"
        "Rigging\n~~~~~~~\n// a remark\n|===\n|Sail |Area\n\n|Jib\n|12\n|Main |30\n|===\n"
    )

    assert _shape(text) == ["Boats", "Hull", "code", "paragraph", "paragraph", "Rigging", "table"]
    assert "| Jib | 12 |\n| Main | 30 |" in text
    assert "remark" not in text


def test_org_has_headings_code_and_tables() -> None:
    text = of_org(
        "#+title: Boats\n#+options: toc:nil\n* Hull :wood:\nOak.\n** TODO Keel\n"
        "#+BEGIN_SRC c\n# no heading\n#+END_SRC\n"
        "# a remark\n\n| a | b |\n|---+---|\n| 1 | 2 |\n"
    )

    assert _shape(text) == ["paragraph", "Hull", "paragraph", "TODO Keel", "code", "table"]
    assert "remark" not in text
    assert "toc" not in text


def test_what_no_page_shows_is_left_out() -> None:
    remarks = ".. a remark\n   of two lines\n\n   and more\n\nOak.\n\n..\n\n   Quoted.\n\n"

    assert (
        " ".join(of_rst(f"{remarks}.. note:: Mind it.\n.. _here:\n.. [1] See.").split())
        == "Oak. Quoted. Note: Mind it. .. [1] See."
    )
    assert of_wiki("Oak <!-- a\nremark -->hull, `<!-- code -->`.") == "Oak hull, `<!-- code -->`."


def test_what_is_cut_off_is_kept() -> None:
    assert "x = 1" in of_org("#+begin_src\nx = 1")
    assert "x = 1" in of_adoc("----\nx = 1")
    assert "| a |" in of_adoc("|===\n|a")
    assert of_rst("=") == "="


_FLEET = "| Ship | Draught |\n| --- | --- |\n| Skua | 4.2 |\n| Alk | 3.1 |"


@pytest.mark.parametrize(
    "table",
    [
        '{| class="wikitable"\n! Ship !! Draught\n|-\n| Skua || 4.2\n|-\n| Alk || 3.1\n|}',
        "{|\n|-\n! Ship\n! Draught\n|-\n| Skua\n| 4.2\n|-\n| Alk\n| 3.1\n|}",
        "{|\n! scope=col | Ship !! style=\"a: 9\" | '''Draught'''\n|-\n| [[Skua]] || 4.2\n|-\n|[[A (1)|Alk]]||3.1\n|}",
        ":{|\n! Ship !! Draught\n|- valign=top\n| Skua ||\n4.2\n|-\n|Alk||3.1\n|}",
    ],
)
def test_tables_of_wikis_are_tables(table: str) -> None:
    assert of_wiki(f"== Fleet ==\n{table}\nAfter.") == f"== Fleet ==\n\n{_FLEET}\n\nAfter."


def test_merged_cells_and_captions_of_wikis_are_kept() -> None:
    text = "{|\n|+ Fleet\n! Ship !! Deck !! Price\n|-\n|rowspan=2| Skua || low || 5\n|-\n| high || 6\n|}"

    assert of_wiki(text).split("\n")[1:] == [
        "Fleet",
        "",
        "| Ship | Deck | Price |",
        "| --- | --- | --- |",
        "| Skua | low | 5 |",
        "| Skua | high | 6 |",
        "",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "\\begin{tabular}\n  {|l|c|}\n a & b\n\\end{tabular}",
        "each do\n  {|x|\n    puts x\n  }\nend",
        "{|\n| never closed",
        "|}\n| a | b |",
        "A {| within a line |} stays.",
    ],
)
def test_other_text_with_such_signs_stays_as_it_is(text: str) -> None:
    assert of_wiki(text) == text


def test_nothing_of_a_wikis_table_is_lost() -> None:
    text = "{|\nabove\n! A !! B\n|- valign=top\nbetween\n| 1 || 2\n|} after\nend"

    assert of_wiki(text) == "\nabove\n\nbetween\n\n| A | B |\n| --- | --- |\n| 1 | 2 |\n\nafter\nend"


def test_items_of_ordered_lists_have_their_numbers() -> None:
    rst = of_rst("#. Open.\n\n   #. Wait.\n   #. Look.\n#. Shut.\n   Gently.\n\nThen\n\n3. Rest.\n#. Go.\n\n* #5\n")
    adoc = of_adoc(
        ". Open\n.. Wait\n.. Look\n. Shut\n+\nGently.\n\n----\n. x\n----\n\n[start=4]\n. Rest\n* slowly\n\n. Go\n\n"
        ".Title\nText.\n. Anew\n"
    )
    wiki = of_wiki("# Open\n## Wait\n## Look\n#* slowly\n# Shut\n\n# Anew\n# Go\n")

    assert rst.startswith(
        "1. Open.\n\n   1. Wait.\n   2. Look.\n2. Shut.\n   Gently.\n\nThen\n\n3. Rest.\n4. Go.\n\n* #5"
    )
    assert adoc.startswith("1. Open\n  a. Wait\n  b. Look\n2. Shut\n\nGently.\n\n\n```\n. x\n```\n")
    assert adoc.endswith("\n4. Rest\n* slowly\n\n5. Go\n\nTitle\n\nText.\n1. Anew\n")
    assert wiki == "1. Open\n  1. Wait\n  2. Look\n  - slowly\n2. Shut\n\n1. Anew\n2. Go\n"


@pytest.mark.parametrize(
    "text",
    [
        "# Tides\n\nText.\n\n## Ebb\n\nText.",  # Markdown
        "#REDIRECT Tides",
        "#summary Of tides\n#labels sea\n\nText.",
        "<pre>\n# make\n# make all\n</pre>",
        "* a #1\n* b #2\n",
        " # make\n # make all\n",
    ],
)
def test_other_lines_with_that_sign_are_no_items_of_a_wiki(text: str) -> None:
    assert of_wiki(text) == text


def test_a_sign_before_a_minus_is_no_border_of_a_grid_and_wide_letters_move_none() -> None:
    rule = "+------+-------+\n"
    grid = f"{rule}| Part | Limit |\n+======+=======+\n| Bolt | +-5 mm|\n{rule}| 日本 | x   |\n{rule}"
    assert of_rst(grid).strip() == "| Part | Limit |\n| --- | --- |\n| Bolt | +-5 mm |\n| 日本 | x |"


def test_a_directive_with_a_blank_before_its_colons_is_no_comment() -> None:
    assert "Keep the key dry." in of_rst(".. note ::\n\n   Keep the key dry.\n")


def test_a_grid_of_too_many_columns_is_read_once() -> None:
    grid = "+--+\n" * 4_000 + "|" + "+--" * 70 + "+"

    assert least_cpu_s(lambda: of_rst(grid), 0.5) < 0.5  # it took 30 s


def test_signs_of_a_rule_in_a_cell_are_text_and_text_beside_a_rule_stays() -> None:
    rule = "+------+-----+\n"
    grid = f"{rule}| A    | B   |\n+======+=====+\n|a +-+b| z   |\n{rule}"
    grid += f"| b1   | x   |\n| b2   +-----+\n| b3   | c   |\n{rule}"
    rows = ["| A | B |", "| --- | --- |", "| a +-+b | z |", "| b1 b2 b3 | x |", "| b1 b2 b3 | c |"]
    assert of_rst(grid).strip().split("\n") == rows


def test_two_points_within_a_paragraph_are_no_comment() -> None:
    text = "The text goes on\n.. and more words here\nlast line."
    assert of_rst(text) == text
    assert of_rst("One.\n\n.. a remark\n.. another\n\nTwo.").split() == ["One.", "Two."]


def test_many_names_of_tables_without_rows_are_read_in_linear_time() -> None:
    text = "\n".join(" " * at + ".. list-table::" for at in range(600))

    assert least_cpu_s(lambda: of_rst(text), 0.5) < 0.5  # it took 4.5 s


def test_comments_in_code_of_a_wiki_stay_and_indented_ones_go() -> None:
    assert of_wiki("<nowiki><!-- x --></nowiki> a\n    <!-- b -->c") == "<nowiki><!-- x --></nowiki> a\n    c"


def test_a_drawn_table_within_a_directive_is_a_table() -> None:
    rule = "   ====  ====\n"

    text = of_rst(f".. table:: Trees\n   :widths: auto\n\n{rule}   Tree  High\n{rule}   Oak   20\n{rule}")

    assert "Trees\n\n| Tree | High |\n| --- | --- |\n| Oak | 20 |" in text


def test_attributes_of_asciidoc_stand_for_their_values_but_in_listings() -> None:
    text = of_adoc(":ver: 4.2\n\n== Setup {ver} of {other}\n\n----\necho {ver}\n----\n\n{ver}")

    assert text.split("\n")[1] == "## Setup 4.2 of {other}"
    assert "echo {ver}" in text
    assert text.endswith("4.2")


def test_comments_of_org_are_left_out_whole() -> None:
    text = of_org(
        "* Plan\n#+BEGIN_COMMENT\nnobody\n#+END_COMMENT\n* TODO COMMENT Draft\nsecret\n** More\nhidden\n* End\nText."
    )

    assert text.split("\n") == ["# Plan", "# End", "Text."]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"M\"uller", "Müller"),
        (r"M\"{u}ller and \v{S}kvoreck\'y", "Müller and Škvorecký"),
        (r"Dvo{\v r}{\'a}k, $\v x$", r"Dvo{ř}{á}k, $\v x$"),
        (r"fran\c{c}ais, fran\c cais", "français, français"),
        (r"na\"{\i}ve, K\o benhavn, Stra\ss{}e, {\AA}s", "naïve, København, Straße, {Å}s"),
        (r"\vec{x} \omega \left \log \"x \'{f} a\\\"{ }", r"\vec{x} \omega \left \log ẍ \'{f} a\\\"{ }"),
    ],
)
def test_letters_of_tex_are_what_their_commands_make(source: str, text: str) -> None:
    assert of_tex(source) == text


def test_what_is_code_in_tex_has_no_accents() -> None:
    code = '\\begin{lstlisting}\nprintf("say \\"open\\"");\n\\end{lstlisting}'
    text = f"{code}\n\\url{{http://x.example/\\~nick}}\none\\\\\"aber\n\\O rsted, \\L{{}}\\'od\\'z"

    assert of_tex(text) == text.replace("\\O rsted, \\L{}\\'od\\'z", "Ørsted, Łódź")


def test_a_heading_of_org_that_ends_in_comment_is_none() -> None:
    text = of_org("* PUBLIC COMMENT\nMrs. Lee spoke.\n* TODO COMMENT\nHidden.\n* End\nShown.")

    assert "Mrs. Lee spoke." in text
    assert "Hidden." not in text


def test_a_wikis_empty_element_hides_no_comment() -> None:
    assert of_wiki("HH<nowiki/>s crew. <!-- hidden -->After.") == "HH<nowiki/>s crew. After."


def test_what_asciidoc_sets_is_no_text() -> None:
    text = of_adoc(
        "= Boats\n:author: Ann Lee\n:icons: font\n:!toc:\n\nifdef::env[]\nOak.\nendif::[]\n[[keel]]\n[#mast]\n== Mast\n"
        "\nSee\n:note: it.\n\n:note: this\n----\n:kept: yes\n[#kept]\n----\n[1] [.role]#a# [NOTE]"
    )

    assert "\n".join(filter(None, text.split("\n"))) == (
        "# Boats\nAnn Lee\nOak.\n## Mast\nSee\n:note: it.\n```\n:kept: yes\n[#kept]\n```\n[1] [.role]#a# [NOTE]"
    )


def test_drawers_and_clocks_of_org_are_no_text() -> None:
    text = of_org(
        "* Plan\n:PROPERTIES:\n:ID: a1\n:END:\n  :LOGBOOK:\n  CLOCK: [2024-03-05 Tue 10:00]\n"
        "  :END:\nCLOCK: [2024-03-05]\n"
        "Text.\n:NOTES:\nSeen.\n:END:\n* Cut\n:PROPERTIES:\nkept\n* End"
    )

    assert text == "# Plan\nText.\n:NOTES:\nSeen.\n:END:\n# Cut\n:PROPERTIES:\nkept\n# End"


def test_substitutions_of_restructuredtext_stand_for_their_texts() -> None:
    text = of_rst(
        ".. |ship| replace:: the old\n   Skua\n.. |logo| image:: a.png\n\nOn |ship|, |other|.\n\n"
        "+--------+---+\n| |ship| | 1 |\n+--------+---+\n| b      | 2 |\n+--------+---+\n"
    )

    assert "On the old Skua, |other|." in text
    assert "replace::" not in text
    assert ".. |logo| image:: a.png" in text
    assert "| b | 2 |" in text


def test_a_wikis_bold_letters_and_links_are_words() -> None:
    text = of_wiki(
        "'''Hull''' is [[Port (sea)|a port]] by [[sea]].\n# [[One]]\n# two\n[[File:a.jpg|thumb|left|The ''pier'']]\n"
        "[https://a.example/x Its page]\n  [[code]]\n<pre>\n[[x]]\n</pre>\n"
        "`[[y]]`, <nowiki>[[z]]</nowiki>, it's a[0][1]"
    )

    assert text == (
        "Hull is a port by sea.\n1. One\n2. two\nThe pier\n[Its page](https://a.example/x)\n  [[code]]\n"
        "<pre>\n[[x]]\n</pre>\n`[[y]]`, <nowiki>[[z]]</nowiki>, it's a[0][1]"
    )


def test_comments_of_tex_are_left_out_but_percentages_and_code_stay() -> None:
    tex = (
        "5\\% of it.% why\n% a remark\n\n  % more\nEnd \\\\% gone\n"
        "\\begin{verbatim}\n% code\n\\end{verbatim}\n\\url{a%20b}"
    )

    assert of_tex(tex) == "5\\% of it.\n\nEnd \\\\\n\\begin{verbatim}\n% code\n\\end{verbatim}\n\\url{a%20b}"
    assert of_tex("url = {a%20b}", comments=False) == "url = {a%20b}"


def test_a_warning_of_asciidoc_is_said_as_within_a_line() -> None:
    text = of_adoc("[WARNING]\n====\nIt is hot.\n====\n[quote]\nOld.\n\nSee [NOTE].\n----\n[TIP]\n----")

    assert [line for line in text.split("\n") if line] == [
        "WARNING:",
        "It is hot.",
        "Old.",
        "See [NOTE].",
        "```",
        "[TIP]",
        "```",
    ]


def test_links_of_asciidoc_are_links() -> None:
    text = of_adoc(
        "See https://a.example/x[the page^], link:https://b.example[b] and <<keel,The keel>> (xref:a.adoc#k[it]), a[0], https://c.example.\n----\nhttps://d.example[d]\n----"
    )

    assert text.startswith(
        "See [the page](https://a.example/x), [b](https://b.example) and The keel (it), a[0], https://c.example."
    )
    assert "https://d.example[d]" in text


def test_links_of_restructuredtext_and_org_are_links() -> None:
    rst = of_rst(
        ".. _tools:\n\nGet `parts <https://a.example/p>`_, :ref:`tools`, :doc:`Use <use>`, ``:a:`b` ``, `x`_, "
        "12:30:`c`.\n\nSo::\n\n   `parts <https://a.example>`_\n   .. _tools:\n"
    )
    org = of_org("See [[https://a.example/p][parts]], [[*Hull][the hull]], a[[1]].\n#+begin_src\n[[a][b]]\n#+end_src")

    assert "`parts <https://a.example>`_\n.. _tools:" in rst
    assert rst.strip().split("\n")[0] == "Get [parts](https://a.example/p), tools, Use, ``:a:`b` ``, `x`_, 12:30:`c`."
    assert org.startswith("See [parts](https://a.example/p), the hull, a[[1]].")
    assert "[[a][b]]" in org


def test_directives_of_restructuredtext_show_their_texts_alone() -> None:
    text = of_rst(
        ".. contents:: All\n   :depth: 2\n\n.. warning::\n   :class: x\n\n   Never run dry\n   for long.\n\n"
        ".. note:: Short.\n\n.. note::\n\n   * item\n\n.. versionadded:: 2.0\n   The mode.\n\n"
        ".. image:: a.png\n   :alt: Pump\n\n.. figure:: b.png\n   :width: 9\n\n   The cut.\n\n"
        ".. toctree::\n   :maxdepth: 2\n\n   intro\n\n.. py:function:: start(rate=40)\n\n   :param rate: litres\n"
    )

    assert [line.strip() for line in text.split("\n") if line.strip()] == [
        "Warning: Never run dry",
        "for long.",
        "Note: Short.",
        "Note:",
        "* item",
        "New in 2.0",
        "The mode.",
        "The cut.",
        "intro",
        "start(rate=40)",
        ":param rate: litres",
    ]
    assert of_rst(".. include:: a.rst") == ".. include:: a.rst"  # else a file of nothing else is empty
    plain = "It goes on\n.. note:: within.\n\n   std::string a::b"
    assert of_rst(plain) == plain


def test_titles_of_blocks_and_macros_of_asciidoc_are_words() -> None:
    text = of_adoc(
        ".Bolts\n|===\n|a\n|===\n\n[NOTE]\n.High water\n====\nShut it.\n====\n\n"
        "Press kbd:[Ctrl+G] or menu:File[Lock].footnote:[Of 1971.]\n"
        "See https://a.example[it,window=_blank].\n\nOf\n.NET and\n\n.env\n\n----\n.code\nkbd:[x]\n----"
    )

    assert [line for line in text.split("\n") if line] == [
        "Bolts",
        "| a |",
        "| --- |",
        "NOTE:",
        "High water",
        "Shut it.",
        "Press Ctrl+G or File > Lock. (Of 1971.)",
        "See [it](https://a.example).",
        "Of",
        ".NET and",
        ".env",
        "```",
        ".code",
        "kbd:[x]",
        "```",
    ]


@pytest.mark.parametrize(
    ("read", "line"),
    [(of_rst, "```a\n"), (of_org, ":LOGBOOK:\n"), (of_wiki, "<nowiki>"), (of_tex, "\\begin{a}")],
)
def test_what_never_ends_takes_linear_time(read: Callable[[str], str], line: str) -> None:
    assert least_cpu_s(lambda: read(line * 8000), 1) < 1


@pytest.mark.parametrize(
    "code",
    [
        "\\begin{verbatim}\n\\end{itemize}\n5 % of it\n\\end{verbatim}",
        "\\begin{lstlisting}\nx \\end{\ny = 100 % 7\n\\end{lstlisting}",
        "\\begin{alltt}\n5 % of it\n\\end{alltt}",
        "\\begin{mycode}\n\\begin{verbatim}\n\\end{verbatim}\n5 % of it\n\\end{mycode}",
    ],
)
def test_percent_signs_in_code_of_tex_begin_no_comment(code: str) -> None:
    text = f"\\begin{{document}}\n{code}\nEnd. % gone"

    assert of_tex(text) == f"\\begin{{document}}\n{code}\nEnd. "


@pytest.mark.parametrize(
    "text",
    [
        "So <math>f''(x)</math>\n<math>\ny'' = 3\n</math>\n<nowiki>\n[[a|b]]\n</nowiki>",
        "[[Image:x.jpg|thumb|200px]] [[File:x.jpg|link=|alt=Foo]] [[File:x.svg|frame]]",
    ],
)
def test_formulas_and_pictures_without_words_of_a_wiki_stay_as_they_are(text: str) -> None:
    assert of_wiki(text) == text
    assert of_wiki("{|\n| <math>y''</math>\n|}").strip() == "| <math>y''</math> |\n| --- |"


@pytest.mark.parametrize(
    "above",
    [
        "// a licence\n\n= Boats\n",
        "Oak.\n\n== Hull\n",
        "ifdef::x[]\n",
        "Oak.\n\n// why\n",
        "Oak.\n\ninclude::x.adoc[]\n",
    ],
)
def test_attributes_of_asciidoc_need_no_blank_line_above(above: str) -> None:
    text = of_adoc(f"{above}:sort: red \\\n  oak\n\nOf {{sort}}.")

    assert "Of red oak." in text
    assert ":sort:" not in text
    assert of_adoc("Oak.\nifdef::x[:sort: oak]") == "Oak."


def test_asciidoc_shows_no_signs_that_only_arrange_its_blocks() -> None:
    text = of_adoc(
        '[quote, "Roe", The Watch]\n____\nA pier waits.\n____\n\n* One\n+\n--\nTwo +\nthree.\n--\n\n[verse]\nFog\n'
        "\n'''\n"
        "[%header,format=csv]\n|===\na,b\n1,2\n|===\n"
        "\nimage::a.png[]\ninclude::parts/b.adoc[]\n\n-v:: loud\nFlow::\n  in\n\n"
        "[1] of [two]\n\nSee <<Tides>>, link:a.html[more].\n\nstd::map[x]\n\n----\n[verse]\n+\ninclude::c[]\n----\n"
    )

    assert [line for line in text.split("\n") if line] == [
        *(
            "Roe, The Watch:",
            "A pier waits.",
            "* One",
            "Two",
            "three.",
            "Fog",
            "| a | b |",
            "| --- | --- |",
            "| 1 | 2 |",
        ),
        *("parts/b.adoc", "-v: loud", "Flow:", "  in", "[1] of [two]", "See Tides, [more](a.html).", "std::map[x]"),
        *("```", "[verse]", "+", "include::c[]", "```"),
    ]


def test_signs_in_asciidoc_that_look_like_links_are_none() -> None:
    text = '1<<x,y>>2, cout<<a,"hi">>b, 1 <<4,b>> 2, a<<b>>c'

    assert of_adoc(text) == text


def test_no_value_of_a_substitution_of_restructuredtext_is_lost() -> None:
    text = of_rst(
        ".. |rel| replace:: 4.2\n\n+-------+---+\n| |rel| | 1 |\n+-------+---+\n\n"
        "====  =====\nlast  |rel|\n====  =====\n\n"
        "| Of |rel|\n| it.\n\nSo::\n\n   .. |rel| replace:: 9\n\n.. parsed-literal::\n\n   a==|rel|\n"
    )

    assert "| 4.2 | 1 |" in text
    assert "| last | 4.2 |" in text
    assert "| Of 4.2\n| it." in text
    assert "```\n.. |rel| replace:: 9\n```" in text
    assert "```\na==4.2\n```" in text


def test_only_a_role_of_restructuredtext_that_refers_has_a_target() -> None:
    text = of_rst(":code:`List <int>` :math:`i <n>` :py:class:`it <x.It>` :pep:`8` :rfc:`2822`")

    assert text == ":code:`List <int>` :math:`i <n>` it PEP 8 RFC 2822"


def test_code_of_org_stays_as_it_is() -> None:
    text = "=[[ -f a ]]= ~[[x][y]]~ x[[1]] a[[i]]\n: [[x][y]]\nThe\nclock: [was] late."
    block = "#+begin_src org\n:LOGBOOK:\nCLOCK: [2024-03-05]\n:END:\n#+end_src"

    assert of_org(text) == text
    assert ":LOGBOOK:\nCLOCK: [2024-03-05]\n:END:" in of_org(block)


@pytest.mark.parametrize("named", ["% as \\begin{verbatim}", "\\verb|\\begin{verbatim}|"])
def test_an_environment_of_tex_that_is_only_named_is_not_open(named: str) -> None:
    assert of_tex(f"{named}\n\\'Ile % gone").endswith("Íle ")


def test_a_line_below_a_directive_is_read_as_before_it() -> None:
    assert of_rst(".. note:: Mind it.\n.. not for readers\n\nText.").split() == ["Note:", "Mind", "it.", "Text."]
