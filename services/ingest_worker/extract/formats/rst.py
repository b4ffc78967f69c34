"""Reads reStructuredText as Markdown."""

from functools import partial

from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.formats.text import read_as
from services.ingest_worker.extract.headings import of_rst

FORMAT = Format(
    document_type="rst",
    text_format="markdown",
    media_types=frozenset({"text/x-rst", "text/prs.fallenstein.rst"}),
    suffixes=frozenset({".rst"}),
    sniff=lambda _: False,
    read=partial(read_as, "rst", of_rst),
    light=True,
    libraries=("chardet",),
)
