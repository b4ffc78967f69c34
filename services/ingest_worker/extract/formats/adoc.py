"""Reads AsciiDoc as Markdown."""

from functools import partial

from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.formats.text import read_as
from services.ingest_worker.extract.headings import of_adoc

FORMAT = Format(
    document_type="adoc",
    text_format="markdown",
    media_types=frozenset({"text/asciidoc", "text/x-asciidoc"}),
    suffixes=frozenset({".adoc", ".asciidoc"}),
    sniff=lambda _: False,
    read=partial(read_as, "adoc", of_adoc),
    light=True,
    libraries=("chardet",),
)
