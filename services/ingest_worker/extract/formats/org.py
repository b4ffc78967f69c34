"""Reads Org as Markdown."""

from functools import partial

from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.formats.text import read_as
from services.ingest_worker.extract.headings import of_org

FORMAT = Format(
    document_type="org",
    text_format="markdown",
    media_types=frozenset({"text/org", "text/x-org"}),
    suffixes=frozenset({".org"}),
    sniff=lambda _: False,
    read=partial(read_as, "org", of_org),
    light=True,
    libraries=("chardet",),
)
