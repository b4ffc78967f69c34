"""Reads Word, PowerPoint and Outlook files of the versions 97 to 2003 with kreuzberg (the `office` extra)."""

import importlib.util
import re
from functools import partial
from html import unescape
from itertools import groupby

from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.document_properties import declared
from services.ingest_worker.extract.format_types import Extraction, Format, Hints, as_part, laid_out
from services.ingest_worker.extract.html_markdown import declared_charset, page_text
from services.ingest_worker.extract.mail_alternatives import merge_forms
from services.ingest_worker.extract.ole import OLE, is_ole, stream
from services.ingest_worker.extract.rows import table
from services.ingest_worker.extract.table_header import is_figure
from shared.contracts import Note
from shared.errors import Rejected
from shared.version import how_to_add

_MESSAGE = "__properties_version1.0"  # a message may have another file's streams, too
_HTML = ("0102", "001F", "001E")  # types of the property that holds a message's HTML form: bytes, wide text, text
_HEADS = re.compile(
    r"\A((?:\*\*(?:Subject|From|To|Cc|Bcc|Date)\*\*: [^\n]*+\n*+)*+)"
)  # which kreuzberg writes above a message
_RICH = "__substg1.0_10090102"  # RTF, compressed, which isn't read
_COLUMNS = 64
_SMALL = 64  # bytes: streams below 4,096 begin at multiples
_OLD_WORD = re.compile(rb"\xdc\xa5[\x63-\x6c]\0|[\xdb\x9b]\xa5[\x21-\x2f]\0")  # first block of Word 2, 6 and 95
_SLIDE = re.compile(r"^-{5}\n", re.MULTILINE)  # kreuzberg writes it before each slide
_PICTURE = re.compile(r"!\[([^\[\]]*)\]\([^()\s]*\)")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~$&'\":;,=?@^/%])")
_BODY_TEXT = re.compile(r"^#{6} ?", re.MULTILINE)  # kreuzberg renders Word's outline level 10, "body text", like this
_ENTITY = re.compile(r"&(?:#\d{1,6}|amp|lt|gt|quot|nbsp);")  # for example, a tab is &#9;
_TAB = "&#9;"
_HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
_WITHIN_ROW = re.compile(r"(\t[^\n\t]*)\n\t")  # the end of a line at the end of a cell
_LOCKED = re.compile(r"(?i)encrypt|password|protected")


def _holds(stream: str, data: bytes) -> bool:
    return is_ole(data, stream) and (stream == _MESSAGE or not is_ole(data, _MESSAGE))


def _read(document_type: str, media_type: str, data: bytes, hints: Hints) -> Extraction:
    """Return the text as Markdown.

    Raises:
        Rejected: code `unsupported` without the extra, `password` or `damaged`.
    """
    if document_type == "doc" and any(found.start() % _SMALL == 0 for found in _OLD_WORD.finditer(data)):
        raise Rejected(
            f"{hints.name} was written by Word 95 or before, which is too old to be read; save it as .docx",
            "unsupported",
        )
    if importlib.util.find_spec("kreuzberg") is None:
        raise Rejected(
            f"{hints.name} can't be read without the office extra; install it with: {how_to_add('office')}",
            "unsupported",
        )
    import kreuzberg  # native code that only parser processes load

    # No cache: it would store users' texts in its own folder. No OCR: Sluice has an extra of its own for that.
    config = partial(kreuzberg.ExtractionConfig, use_cache=False, disable_ocr=True)  # type: ignore[call-arg]  # its stubs lag
    try:
        result = kreuzberg.extract_bytes_sync(data, media_type, config(output_format="markdown"))
        content = result.content
        if document_type == "doc" and 2 * _TAB in content:  # tables, for which it joins all paragraphs
            lines = kreuzberg.extract_bytes_sync(data, media_type, config(output_format="plain")).content
            content = lines_with_tables(lines, content)
    except kreuzberg.KreuzbergError as error:
        if _LOCKED.search(str(error)):
            raise Rejected(f"{hints.name} is locked by a password", "password") from None
        raise Rejected(f"{hints.name} is damaged: not a readable {document_type.upper()} file", "damaged") from error
    about = result.metadata
    says = {
        "title": _string(about.get("title")) or _string(about.get("subject")),
        "created": _string(about.get("created_at")),
        "modified": _string(about.get("modified_at")),
        "author": about.get("authors") or about.get("created_by"),
        "modifiedBy": about.get("modified_by"),
        "keywords": about.get("keywords"),
    }
    slides = [_text(slide) for slide in _SLIDE.split(result.content)[1:]] if document_type == "ppt" else []
    read = {child["path"]: _text(child["result"].content) for child in result.children or ()}
    attached = [as_part(name, words) for name, words in read.items() if words]
    names = about.get("attachments")
    unread = [name for name in names if not read.get(name)] if isinstance(names, list) else []
    body = _text(content)
    if document_type == "msg":
        heads, message = _HEADS.split(body, 1)[1:]
        message = merge_forms(message, _page(data, hints))
        unread += ["the message in RTF"] if not message and stream(data, _RICH) else []
        body = "\n\n".join(filter(None, [heads.strip(), message]))
    text, pages = laid_out(slides or ["\n\n".join([body, *attached])])
    return Extraction(
        text=text,
        pages=pages if slides else (),
        notes=tuple(Note(code="unsupported", place=name, message=f"{name} could not be read") for name in unread),
        **declared(says, text),
    )


def lines_with_tables(lines: str, markdown: str) -> str:
    """Return the lines as paragraphs and tables, a tab behind each cell and row, with the headings of `markdown`."""
    headings = {found[1].strip(): found[0] for found in _HEADING.finditer(markdown)}
    # Kreuzberg strips the end of a table that ends the text; of two rows it may be a text with tabs.
    end = "" if lines.endswith("\t") else "\t\t"
    lines += end if len(_tabular(lines.rpartition("\n")[2] + end)[0]) > 2 else ""
    blocks: list[str] = []
    for tabbed, run in groupby(_WITHIN_ROW.sub(r"\1\t", lines).split("\n"), key=lambda line: "\t" in line):
        each = [*run]
        rows = _tabular("\n".join(each))[0] if tabbed and len(each) > 1 else []
        beside = any("\n" in cell for row in rows for cell in row[1:])  # cells may have several paragraphs
        if beside and all(map(all, rows)) and not any(_tabular(line)[0] for line in each):
            each = ["\n".join(each)]
        for line in each:
            rows, behind = _tabular(line)
            blocks += [table(rows, headed=False), behind] if rows else [headings.get(line.strip(), line)]
    return "\n\n".join(blocks)


def _tabular(line: str) -> tuple[list[list[str]], str]:
    """Return the rows of a table, a tab behind each of its cells and rows, and what follows; [] for tabs in a text.

    The rows are as short as they may be, unless only longer ones have a header above columns of figures.
    """
    found: list[tuple[list[list[str]], str]] = []
    cells = line.split("\t")
    for width in range(2, min(_COLUMNS, (len(cells) + 1) // 2)):
        if not any(map(str.strip, cells[width :: width + 1])):
            rows = [cells[at : at + width] for at in range(0, len(cells), width + 1)]
            if len(rows) > 2 and len(rows[-1]) == 1:
                found.append((rows[:-1], cells[-1]))
    headed = (each for each in found if _has_figures_below(each[0]))
    return next(headed, found[0] if found else ([], ""))


def _has_figures_below(rows: list[list[str]]) -> bool:
    """Return whether words alone stand above columns each of which has figures alone, or none."""
    kinds = [{is_figure(cell) for cell in column if cell} for column in zip(*rows[1:], strict=True)]
    return len(rows) > 2 and {True} in kinds and {True, False} not in kinds and not any(map(is_figure, rows[0]))


def _text(markdown: str) -> str:
    """Return the Markdown without links to embedded pictures and without escapes, like the other formats' Markdown."""
    text = _PICTURE.sub(lambda picture: picture[1] if picture[1] != "image" else "", markdown)
    text = _ENTITY.sub(lambda entity: unescape(entity[0]), _ESCAPED.sub(r"\1", text))
    return cleaned(_BODY_TEXT.sub("", text))


def _page(data: bytes, hints: Hints) -> str:
    """Return the text of a message's HTML form, which kreuzberg doesn't read; '' if it has none."""
    source = next(filter(None, (stream(data, f"__substg1.0_1013{kind}") for kind in _HTML)), b"")
    return page_text(decoded(source, hints, declared=declared_charset(source))) if source else ""


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


FORMATS = tuple(
    Format(
        document_type=kind,
        media_types=frozenset({media_type}),
        begins=OLE,
        suffixes=frozenset(suffixes),
        sniff=partial(_holds, name),
        read=partial(_read, kind, media_type),
        libraries=("kreuzberg", "lxml"),
        revision=revision,
        extra="office",
    )
    for kind, media_type, suffixes, name, revision in (
        ("doc", "application/msword", (".doc", ".dot"), "WordDocument", 4),
        ("msg", "application/vnd.ms-outlook", (".msg",), _MESSAGE, 4),
        ("ppt", "application/vnd.ms-powerpoint", (".ppt", ".pps"), "PowerPoint Document", 1),
    )
)
