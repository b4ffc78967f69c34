"""Plain text in any usual encoding; source code, reStructuredText, AsciiDoc, Org and the like are text as well."""

from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.format import Extraction, Format, Hints
from shared.errors import Rejected

_MARKUP_FOR_MACHINES = b"%!PS"  # characters, but nothing to retrieve


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text as it stands.

    Raises:
        Rejected: code `unsupported`, when it is no text.
    """
    if data.startswith(_MARKUP_FOR_MACHINES):
        raise Rejected(f"{hints.name} is neither plain text nor in a format that can be read", "unsupported")
    return Extraction(text=cleaned(decoded(data, hints)), document_type="txt")


FORMAT = Format(
    document_type="txt",
    media_types=frozenset({"text/plain"}),
    suffixes=frozenset({".txt", ".text", ".log", ".rst", ".adoc", ".asciidoc", ".org", ".tex", ".py"}),
    sniff=lambda _: False,  # what nothing else claims
    read=read,
    light=True,
    libraries=("chardet",),
)
