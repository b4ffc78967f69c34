"""Every message on the log, in one place.

Camel case on the wire, unknown fields ignored, every later field with a default: an old worker
reads a new message and a new worker an old one. A changed meaning gets a new topic.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec

from shared import ids
from shared.errors import Rejected

# `superseded` is the end of an earlier submission only: a document's newest one never has it.
Status = Literal["accepted", "created", "updated", "unchanged", "deleted", "failed", "superseded"]
VersionOutcome = Literal["created", "updated", "deleted"]  # how a version ends when all goes well
# How an extracted text is written. `plain`: a '#' or a '*' is only a character. `markdown`: Markdown. `sections`: pages
# and sheets whose headings are marked as in Markdown, and which are served as plain text.
TextFormat = Literal["plain", "sections", "markdown"]
TERMINAL: frozenset[Status] = frozenset({"created", "updated", "unchanged", "deleted", "failed", "superseded"})

# What a record claims is checked where it is read, so that no later part stumbles over it.
DocumentId = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]  # stores compare numbers as float64

DEFAULT_TENANT = "default"
ERASED = "erased"  # the raw hash of a version that says that the document was erased; no xxh3 hash looks like it


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all messages: frozen, camel case, defaults left out on the wire."""


class LogPosition(Message, frozen=True):
    """Where a record first entered the log. Ordering of places is `services.ingest_worker.accept.older`."""

    partition: Natural
    offset: Natural
    time: Natural  # the log's own append time, ms since 1970


class BlobRef(Message, frozen=True):
    """A body in the blob store, named tenant/documentId/sha256."""

    sha256: str  # 64 hex digits
    size: Natural  # bytes


class Validators(Message, frozen=True):
    """By what a web server tells whether a page has changed since (RFC 9110, 8.8)."""

    url: str  # where the page was in the end; another page's validators mean nothing
    etag: str | None = None
    last_modified: str | None = None


class Crawl(Message, frozen=True):
    """What else a fetched page brings: documents of their own, of the same host. The worker has bounds of its own."""

    depth: Natural = 0  # links are followed so often
    sitemap: bool = False  # the pages that the site lists
    host: str | None = None  # of a page that was found: where its crawl began, as host:port
    since: Natural = 0  # of a page that was found: when its crawl began, in the log's ms since 1970
    pages: Natural | None = None  # how many documents it may bring; None: as many as the worker's setting says

    @property
    def goes_on(self) -> bool:
        """Return whether the page brings others, so that its body is needed whatever is known of it."""
        return self.sitemap or self.depth > 0


Kept = Literal["title", "description", "tags", "metadata"]
OnConflict = Literal["error", "new"]
CONFLICT = "conflict"  # the code of a submission that was not to replace a document, and was refused
CHANGED = "changed"  # of a change that was meant for another version
GONE = "gone"  # of a change to what was deleted
UNPATCHABLE = "unpatchable"  # of a change to a version of an earlier release
REFUSED = frozenset({CONFLICT, CHANGED, GONE, UNPATCHABLE})  # the document is as before, and there is no dead letter


class Given(Message, frozen=True):
    """What the caller said of a document besides its body."""

    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class DocumentSubmitted(Message, frozen=True):
    """documents.submitted: what a door took in. Key: the document's id.

    Exactly one of text, chunks, content, blob, url says where the body is; none of them with `deleted`.
    One with `erases` has nothing else but its tenant and `deleted`: source and path are empty.
    """

    source: str
    path: str
    tenant: str = DEFAULT_TENANT
    text: str | None = None
    chunks: tuple[Any, ...] | None = None  # ready-made, of a foreign producer; doors make them the content
    content: bytes | None = None  # a small body, base64 in JSON
    blob: BlobRef | None = None  # a large body
    url: str | None = None  # where the worker gets the body, if there is none here
    crawl: Crawl | None = None  # with `url` only; of a page that was found, even where it brings no others
    media_type: str | None = None  # as the sender declared it
    filename: str | None = None
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    chunk_size: Natural | None = None  # characters; None: as the generation has it
    chunk_overlap: Natural | None = None
    keep: tuple[Kept, ...] = ()  # what the accepted version has of these stays, where this says nothing of them
    on_conflict: OnConflict | None = None  # where the document is there with other content; None: it is replaced
    patch: bool = False  # changes what is said of the document, and has no body: the accepted version's stays
    if_version: Natural | None = None  # with `patch` only: the accepted version that it is meant for; None: any
    hash: str | None = None  # the sender's, a hint only: we hash again
    deleted: bool = False
    erases: DocumentId | None = None  # the id of a document to be erased: names may be what has to be forgotten
    submitted_at: Natural = 0  # ms since 1970 by the door's clock; shown, never decided on

    @property
    def document_id(self) -> str:
        """Return the id of the document that it is about."""
        return self.erases or ids.document_id(self.tenant, self.source, self.path)

    @property
    def given(self) -> Given:
        """Return what it says of the document besides the body."""
        return Given(title=self.title, description=self.description, tags=self.tags, metadata=self.metadata)

    @property
    def fetched(self) -> bool:
        """Return whether the body has yet to be fetched."""
        return (
            self.url is not None
            and not self.deleted
            and not self.patch
            and not (self.text is not None or self.content is not None or self.blob is not None)
        )

    @property
    def leads_on(self) -> bool:
        """Return whether its page brings others."""
        return self.crawl is not None and self.crawl.goes_on

    @property
    def found(self) -> bool:
        """Return whether a crawl has come upon its page, and nobody named it."""
        return self.crawl is not None and self.crawl.host is not None


def erasure(tenant: str, document_id: str) -> DocumentSubmitted:
    """Return the submission that erases a document; it also stands in the place of older ones."""
    return DocumentSubmitted(tenant=tenant, source="", path="", deleted=True, erases=document_id)


class DocumentVersion(Message, frozen=True):
    """One version of a document as every later stage needs it."""

    document_id: DocumentId
    version: Natural
    place: LogPosition
    tenant: str
    source: str
    path: str
    outcome: VersionOutcome  # the first stage decides it
    raw_hash: str = ""  # xxh3_128 of the body's bytes; of a fetched one, behind its media type
    metadata_hash: str = ""  # xxh3_128 of title, tags and the rest that is not the body
    extractor: str = ""  # fingerprint of the code that read the body
    validators: Validators | None = None  # of a fetched body
    title: str | None = None
    description: str | None = None
    url: str | None = None
    filename: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}  # the caller's own
    chunk_size: Natural | None = None  # characters, as asked for with the document; None: as the generation has it
    chunk_overlap: Natural | None = None
    document_type: str = "txt"  # md, html, pdf, txt …
    text_format: TextFormat | None = None  # None: an older record; `text_format_of` says what it meant
    source_type: str = "text"  # pdf, txt, md, url, text
    language: str | None = None
    text_sha256: str | None = None  # the blob of the extracted text, UTF-8, NFC; none for a deletion
    text_size: Natural = 0  # bytes
    created_at: Natural = 0  # ms since 1970 of the first version
    updated_at: Natural = 0  # ms since 1970 of this one

    @property
    def deleted(self) -> bool:
        """Return whether this version says that the document is gone."""
        return self.outcome == "deleted"


def truth_key(document_id: str, version: int) -> bytes:
    """Return the key of a version on documents.extracted; its partition comes from the document id alone.

    Keyed by the document alone, a late older version would be the last record of its key, and compaction
    would keep it and drop the newer one.
    """
    return f"{document_id}/{version}".encode()


ChunkType = Literal["paragraph", "section", "table", "code", "list", "semantic"]


class PreparedChunk(Message, frozen=True):
    """A chunk that the caller has made: no chunker changes it. Texts are NFC and never blank."""

    text: str  # what is shown
    embedding: str | None = None  # what is embedded, where that is another text
    section: str | None = None
    page: int | None = None  # 1-based
    type: ChunkType = "semantic"
    tags: tuple[str, ...] = ()  # besides the document's
    metadata: dict[str, Any] = {}  # its own

    @property
    def embedded(self) -> str:
        """Return the text that its vector is of."""
        return self.text if self.embedding is None else self.embedding


# What records and heads mean that were written before they said `text_format`. No new format belongs here.
_ONCE_MARKDOWN = frozenset(
    {"doc", "docx", "eml", "epub", "html", "md", "msg", "odp", "odt", "ppt", "pptx", "xml", "zip"}
)
_ONCE_SECTIONS = frozenset({"ods", "pdf", "xls", "xlsx"})


def text_format_of(stated: TextFormat | None, document_type: str) -> TextFormat:
    """Return how a text is written: as stated, or as its type meant before anything was stated."""
    if stated is not None:
        return stated
    if document_type in _ONCE_MARKDOWN:
        return "markdown"
    return "sections" if document_type in _ONCE_SECTIONS else "plain"


class DocumentExtracted(Message, frozen=True):
    """documents.extracted: the truth. Key: documentId/version, partitioned by documentId alone."""

    document: DocumentVersion
    text: str | None = None  # inline below the claim-check size, else only the blob has it
    pages: tuple[int, ...] = ()  # offset in `text` at which each page starts, in characters
    chunks: tuple[PreparedChunk, ...] = ()  # where the caller has made them; `text` is theirs, a blank line between
    chunks_blob: BlobRef | None = None  # the JSON of `chunks`, above the claim-check size
    note: str | None = None  # e.g. "2 of 9 pages could not be read"

    @property
    def ready_made(self) -> bool:
        """Return whether the caller has made the chunks."""
        return bool(self.chunks) or self.chunks_blob is not None


class Chunk(Message, frozen=True):
    """One passage. `text` is NFC and equals extracted_text[start:end]."""

    order: Natural  # 0-based, in reading order
    text: str
    hash: str  # ids.text_hash(embedded)
    start: int  # characters
    end: int
    tokens: int  # of what is embedded
    section: str | None = None  # path of headings, " > " between
    page: int | None = None  # 1-based, where the chunk starts
    type: ChunkType = "paragraph"
    semantic_score: float | None = None  # 0..1, how much it says by itself
    context_before: str | None = None  # what stands before it, where an overlap is set; not embedded, not hashed
    embedding: str | None = None  # of a ready-made one: what is embedded, where that is another text
    tags: tuple[str, ...] = ()  # of a ready-made one: besides the document's
    metadata: dict[str, Any] = {}  # of a ready-made one: its own

    @property
    def embedded(self) -> str:
        """Return the text that its vector is of."""
        return self.text if self.embedding is None else self.embedding


class DocumentChunked(Message, frozen=True):
    """chunks.<generation>: one version, whole, so that it applies whole or not at all. Key: documentId."""

    document: DocumentVersion
    chunks: tuple[Chunk, ...] = ()
    blob: BlobRef | None = None  # the JSON of `chunks`, above the claim-check size


class StatusNotice(Message, frozen=True):
    """documents.status: wakes whoever waits. The state itself is the ledger point. Key: documentId."""

    document_id: DocumentId
    tenant: str
    version: Natural
    place: LogPosition
    status: Status


class DeadLetter(Message, frozen=True):
    """dead.letters: a record no stage can take, whole. Key: `shared.log.dead_letters.key_of`; null: it is settled."""

    stage: str
    code: str
    sentence: str
    topic: str
    partition: int
    offset: int
    time: int
    place: LogPosition  # where the submission first entered the log; the record's own place where that can't be told
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    blob: BlobRef | None = None  # `value`, above the claim-check size
    document_id: str | None = None
    tenant: str | None = None
    source: str | None = None
    path: str | None = None
    version: int | None = None  # of the document, from the second stage on
    redrives: int = 0  # how often it was sent again before this failure
    attempts: int = 1
    first_seen: int = 0
    last_seen: int = 0
    traceback_digest: str | None = None


M = TypeVar("M", bound=Message)
_encoder = msgspec.json.Encoder()
_decoders: dict[type[Message], msgspec.json.Decoder[Any]] = {}


def encode(message: Message) -> bytes:
    """Return the message as JSON."""
    return _encoder.encode(message)


def decode(value: bytes | None, kind: type[M]) -> M:
    """Return the message.

    Raises:
        Rejected: the body is missing, is not JSON, or breaks the contract; the sentence names the field.
    """
    if value is None:
        raise Rejected(f"a {kind.__name__} record has no value", "undecodable")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    try:
        message: M = decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(f"not a {kind.__name__}: {error}", "undecodable") from error
    return message
