import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from tests.loop_holds import least_cpu_s


def _read(text: str) -> Extraction:
    return extract(text.encode(), Hints(filename="guide.md"))


def test_front_matter_speaks_for_the_document_and_stays_out_of_its_text() -> None:
    read = _read(
        "---\ntitle: 'Brewing: a guide'\ntags: [tea, 2024, tea]\ndescription: >\n  How to\n  brew.\n"
        "lang: en\ndate: 2024-02-30\n---\n\n# Brewing\n\nBoil water.\n"
    )

    assert read.text == "# Brewing\n\nBoil water."
    assert (read.title, read.description, read.language) == ("Brewing: a guide", "How to brew.", "en")
    assert read.tags == ("tea", "2024")
    assert read.document_type == "md"


def test_toml_front_matter_and_tags_in_one_line() -> None:
    read = _read('+++\ntitle = "Tea"\ntags = "green, black"\n+++\nBoil water.')

    assert (read.title, read.tags, read.text) == ("Tea", ("green", "black"), "Boil water.")


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA rule, not front matter.\n\n---\n\nMore.",
        "---\ntitle: [broken\n---\nBody.",
        "---\n" + "[" * 5000 + "\n---\nBody.",
        "---\ntitle: never closed",
        "+++\nnot = toml = at all\n+++\nBody.",
    ],
)
def test_what_only_looks_like_front_matter_is_text(text: str) -> None:
    assert _read(text).text == text


@pytest.mark.feature(85)
@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Intro.\n\n## Second level ##\n\n# First", "Second level"),
        ("Steeping\n========\n\nText.", "Steeping"),
        ("```\n# a comment\n```\n\n# Real", "Real"),
        ("# Anchored {#here}\n", "Anchored"),
        ("#\n\n# Named", "Named"),
        ("No heading, #hashtag.", "guide"),
        ("# " + "x" * 5000, "x" * 120),
    ],
)
def test_the_first_heading_is_the_title(text: str, title: str) -> None:
    assert _read(text).title == title


@pytest.mark.parametrize(
    "line",
    [
        "export controls apply to all goods.",
        "import duties, too, come from 'the coast'.",
        "export default rates are low (below 1%).",
        "import *and* export",
        "export class goods to the north",
        'import "steel" from the coast',
    ],
)
def test_prose_in_mdx_that_begins_like_code_is_text(line: str) -> None:
    assert extract(f"{line}\nThey are listed below.".encode(), Hints(filename="a.mdx")).text.startswith(line)


@pytest.mark.parametrize(
    "code",
    [
        "import Tabs from '@theme/Tabs';",
        "import 'quay.css'",
        "import {\n  Quay,\n} from './quay'",
        "import Quay, { Ship } from './quay'",
        "import * as quay from './quay'",
        "import type { Quay } from './quay'",
        "export const quay = {\n  deep: 4,\n}",
        "export const { quay } = ship",
        "export * from './quay'",
        "export { quay }",
        "export default function Quay() {}",
        "export default ({ children }) => <div>{children}</div>",
        "export default Quay",
        "export async function quay() {}",
        "export function* quay() {}",
        "export class Quay extends Ship {}",
    ],
)
def test_imports_and_exports_of_mdx_are_no_text(code: str) -> None:
    assert extract(f"{code}\n\nBoats.".encode(), Hints(filename="a.mdx")).text == "Boats."


def _aliases(levels: int) -> str:
    rows = "".join(f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]\n" for level in range(1, levels))
    return f"---\na0: &a0 [x]\n{rows}tags: *a{levels - 1}\n---\nBody."


@pytest.mark.parametrize(
    "text",
    [
        *(_aliases(levels) for levels in range(20, 61, 10)),
        "---\na: &a [*a]\n---\nBody.",
        "---\ntags:\n" + "- a\n" * 7_000 + "---\nBody.",
        "+++\n" + "a." * 15_000 + "b = 1\n+++\nBody.",
    ],
)
def test_front_matter_that_could_take_long_stays_text_with_a_note(text: str) -> None:
    assert least_cpu_s(lambda: _read(text), 0.5) <= 0.5

    read = _read(text)

    assert (read.text, read.tags, read.title) == (text, (), "guide")
    assert [each.code for each in read.notes] == ["front_matter"]


def test_a_tag_is_a_word() -> None:
    assert _read("---\ntags: [a, [b, c], {d: e}, 2]\n---\nBody.").tags == ("a", "2")
    assert _read("---\ntags: {a: b}\n---\nBody.").tags == ()


def test_tables_in_html_become_tables_with_their_headers_and_addresses() -> None:
    read = _read(
        """# Ports

<div><table>
<tr><th>Port</th><th>Depth</th></tr>
<tr><td rowspan="2">Skua</td><td>4.2 m</td></tr>
<tr><td><a href="https://x.org/a">5 m</a></td></tr>
</table></div>

It falls at nine.
"""
    )

    rows = "| Port | Depth |\n| --- | --- |\n| Skua | 4.2 m |\n| Skua | [5 m](https://x.org/a) |"
    assert [each.strip() for each in read.text.split("\n\n") if each.strip()] == ["# Ports", rows, "It falls at nine."]


@pytest.mark.parametrize(
    "text",
    [
        "```html\n<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>\n```",
        "<table><tr><td>\n\n**a**\n- b\n\n</td></tr></table>",
        "The tag `<table>` begins one.",
        "<table><tr><td>`Map<String, Integer>`</td><td>b</td></tr></table>",
        "````md\n```\n<table><tr><td>a</td><td>b</td></tr></table>\n```\n````",
        "~~~\n```\n~~~ x\n<table><tr><td>a</td><td>b</td></tr></table>\n~~~",
        "<table><tr><td>a</td><td>b</td></tr>",
    ],
)
def test_tables_in_code_without_an_end_or_that_only_arrange_stay_as_they_are(text: str) -> None:
    assert _read(text).text == text


def test_the_words_of_a_table_in_html_stay_apart_with_its_caption_and_addresses() -> None:
    cells = "<td>one<br>two</td><td><p>x</p><p>y</p><script>z</script></td><td><https://x.org/a> <b>b</b>c</td>"
    text = _read(f"<table><caption>Ports</caption><tr>{cells}</tr></table>").text

    assert text == "Ports\n\n| one two | x y | https://x.org/a bc |\n| --- | --- | --- |"


def test_an_import_within_a_longer_fence_of_mdx_stays() -> None:
    text = "````md\n```\nimport a from 'b'\n```\nimport c from 'd'\n````"
    assert extract(text.encode(), Hints(filename="a.mdx")).text == text


@pytest.mark.parametrize("suffix", [".Rmd", ".qmd", ".MD"])
def test_markdown_of_r_and_in_capitals_is_markdown(suffix: str) -> None:
    read = extract(b"---\ntitle: Tides\n---\nIt ebbs.", Hints(filename=f"a{suffix}"))

    assert (read.title, read.text) == ("Tides", "It ebbs.")
    assert extract(b"It ebbs.", Hints(filename=f"Ebb{suffix}")).title == "Ebb"


def test_comments_are_left_out_but_for_those_in_code() -> None:
    code = (
        "```html\n<!-- kept -->\n```\n\n    <!-- kept -->\n\n`<!-- kept -->` ``<!-- kept`` ``-->`` <!-- without an end"
    )

    assert (
        _read(f"# Tides\n\n<!-- a\nremark -->It <!-- never -->rose.\n\n{code}").text == f"# Tides\n\nIt rose.\n\n{code}"
    )


def test_the_head_of_a_readme_in_html_is_its_title_and_no_tag_stays() -> None:
    read = _read(
        """<h1 align="center">
  <img src="logo.svg" alt=""><br>
  Sail &amp; row
</h1>
<p align="center"><a href="https://ci.org"><img src="b.svg"></a> <a href="https://x.org">Docs</a></p>

<details><summary>Keys</summary>

Hold <kbd>Ctrl</kbd>+<kbd>C</kbd>: 10<sup>5</sup> of H<sub>2</sub>O.<br>Done.

| Key | Does |
|---|---|
| C | stops<br>all |

</details>"""
    )

    assert read.title == "Sail & row"
    assert "# Sail & row" in read.text.split("\n")
    assert "[Docs](https://x.org)" in read.text
    assert "Hold Ctrl+C: 10^5 of H2O. Done." in read.text
    assert "| C | stops all |" in read.text
    assert "Keys" in read.text
    assert not {"<", "ci.org"} & {part for part in ("<", "ci.org") if part in read.text}


@pytest.mark.parametrize(
    "ordinary",
    [
        "Set `<b>` or ``<i>``, then:\n\n    <p>as it is</p>\n    &amp;\n\nDone.",
        "```html\n<h1>Kept</h1>\n```\n\nA list of List<String>, if 3 < 4 and b > a, at <https://x.org> and <Name>.",
        "Write &lt;b&gt; for bold; R&D; AT&T; ?a=1&copy=2",
        "If $a<b$ and $c>d$, or i<p and q>2.",
        "1. Step\n\n       <p>as code</p>\n\n2. Step",
    ],
)
def test_code_and_signs_that_are_no_tags_of_html_stay(ordinary: str) -> None:
    assert _read(ordinary).text == ordinary


@pytest.mark.parametrize("attribute", ["icon={<Icon name='x' />}", "style={{a: 1}}", "onClick={() => go(1 > 0)}"])
def test_components_of_mdx_show_their_labels_and_what_is_in_them(attribute: str) -> None:
    page = f'<Card title="Speed" {attribute}>Fast as a tern.</Card>'

    assert extract(page.encode(), Hints(filename="a.mdx")).text == "Speed\nFast as a tern."


def test_a_comment_of_mdx_is_no_text() -> None:
    assert extract(b"# Tides\n\n{/* a\nremark */}It rose.", Hints(filename="a.mdx")).text == "# Tides\n\nIt rose."


def test_remarks_of_obsidian_are_left_out_and_other_signs_of_percent_stay() -> None:
    kept = "Of 100%% and 50%%, x %% 2 is y %% 3.\n\n%%PREFIX%%/bin\n\n%% Load\nx\n%% Plot\n\n```\n%% code %%\n```"

    assert _read(f"Oak.\n\n%% ask Bo %%\n\n%%\nhidden\nlines\n%%\n\n{kept}").text == f"Oak.\n\n\n\n\n\n{kept}"
