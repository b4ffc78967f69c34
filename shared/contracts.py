"""Every message on the log.

Names are camel case on the wire. Unknown fields are ignored, and every field added later has a default,
so old and new workers read each other's messages. A change of meaning needs a new topic.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec

from shared import ids
from shared.errors import Rejected
from shared.text.links import without_targets

# `superseded` only ends an earlier submission; a document's newest submission never has it.
Status = Literal["accepted", "created", "updated", "unchanged", "deleted", "failed", "superseded"]
VersionOutcome = Literal["created", "updated", "deleted"]  # a version's status after success
# Markup of an extracted text. `plain`: none. `markdown`: Markdown. `sections`: pages and sheets with Markdown headings,
# served as plain text.
TextFormat = Literal["plain", "sections", "markdown"]
TERMINAL: frozenset[Status] = frozenset({"created", "updated", "unchanged", "deleted", "failed", "superseded"})

# Fields are validated when a record is decoded, so that later code needs no checks.
DocumentId = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
MAX_NATURAL = 2**53 - 1  # stores compare numbers as float64
Natural = Annotated[int, msgspec.Meta(ge=0, le=MAX_NATURAL)]

DEFAULT_TENANT = "default"
ERASED = "erased"  # the raw hash of a version whose document was erased; never equal to an xxh3 hash


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all messages: frozen, camel case, defaults left out on the wire."""


class LogPosition(Message, frozen=True):
    """Where a record first entered the log. `shared.state.ledger.older` orders positions."""

    partition: Natural
    offset: Natural
    time: Natural  # the log's own append time, ms since 1970


class Forwarded(Message, frozen=True):
    """The newest record of one partition of a tenant's own topic that a document's submissions were made from."""

    topic: str
    place: LogPosition


class BlobRef(Message, frozen=True):
    """A body in the blob store, named tenant/documentId/sha256."""

    sha256: str  # 64 hex digits
    size: Natural  # bytes


class Validators(Message, frozen=True):
    """The validators with which a web server tells whether a page has changed (RFC 9110, section 8.8)."""

    url: str  # the page's URL after redirects; validators are only valid for this URL
    etag: str | None = None
    last_modified: str | None = None


class Crawl(Message, frozen=True):
    """Which other pages of the same host a fetched page adds as documents. The worker's settings limit it further."""

    depth: Natural = 0  # how many links deep to follow
    sitemap: bool = False  # whether to add the pages of the site's sitemap
    host: str | None = None  # of a discovered page: host:port at which its crawl began
    since: Natural = 0  # of a discovered page: log time at which its crawl began, ms since 1970
    pages: Natural | None = None  # most documents that the crawl may add; None: the worker's setting

    @property
    def goes_on(self) -> bool:
        """Return whether the page's links or sitemap are needed, so that its body is fetched even if unchanged."""
        return self.sitemap or self.depth > 0


Kept = Literal["title", "description", "tags", "metadata"]
OnConflict = Literal["error", "new"]
CONFLICT = "conflict"  # code of a submission refused because the document exists with other content
CHANGED = "changed"  # code of a patch refused because `if_version` isn't the accepted version
GONE = "gone"  # code of a patch to a deleted document
REFUSED = frozenset({CONFLICT, CHANGED, GONE})  # the document stays as it is, without a dead letter


class Given(Message, frozen=True):
    """The caller's fields of a document other than its body."""

    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    hash: str | None = None  # shown only; it decides nothing


# Why a part could not be read (`failed`: by a bug of its reader), or what it was.
UnreadCode = Literal["damaged", "empty", "failed", "password", "timeout", "too_large", "unsupported"]
LeftOutCode = Literal["chunk", "font", "formula", "front_matter", "hidden", "macro", "object", "picture", "structure"]
NoteCode = UnreadCode | LeftOutCode
MOST_NOTES = 20  # kept of a document


class Note(Message, frozen=True):
    """What of a document could not be read, or was left out of its text."""

    code: NoteCode
    place: str  # for example "page 3" or a part's name; empty: the document
    message: str  # a sentence


class TextReading(Message, frozen=True):
    """What a metadata change needs of a version besides its text: other extracted fields and submitted ones."""

    extracted: dict[str, Any]  # extracted fields, as the ingest stage encodes them
    notes: tuple[Note, ...] = ()  # the first MOST_NOTES
    note_count: Natural = 0  # of all
    chunks: BlobRef | None = None  # prepared chunks, as JSON
    filename: str | None = None
    media_type: str | None = None
    url: str | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None


class DocumentSubmitted(Message, frozen=True):
    """documents.submitted: an accepted submission. Key: the document's id.

    Exactly one of text, chunks, content, blob and url gives the body; with `deleted` none does.
    An erasure has only `erases`, `deleted` and its tenant; source and path are empty.
    """

    source: str
    path: str
    tenant: str = DEFAULT_TENANT
    text: str | None = None
    chunks: tuple[Any, ...] | None = None  # from foreign producers; ours put prepared chunks into `content`
    content: bytes | None = None  # a small body, base64 in JSON
    blob: BlobRef | None = None  # a large body
    url: str | None = None  # where the worker fetches the body, if the record has none
    crawl: Crawl | None = None  # with `url` only; a discovered page always has it
    media_type: str | None = None  # as the sender declared it
    filename: str | None = None
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    chunk_size: Natural | None = None  # characters; None: the generation's
    chunk_overlap: Natural | None = None
    keep: tuple[Kept, ...] = ()  # fields that keep the accepted version's value if this one doesn't set them
    on_conflict: OnConflict | None = None  # if the document exists with other content; None: replace it
    patch: bool = False  # changes only fields other than the body, and comes without a body
    if_version: Natural | None = None  # with `patch` only: required accepted version; None: any
    hash: str | None = None  # the sender's hash, only a hint: the worker computes its own
    deleted: bool = False
    callback_url: str | None = None  # called when this submission has ended; not a part of the version
    erases: DocumentId | None = None  # id of the document to erase; its names may be personal data
    submitted_at: Natural = 0  # ms since 1970 by the producer's clock; only for display

    def __post_init__(self) -> None:
        """Compose the names, so that each has one spelling."""
        for field in ("source", "path", "title", "filename"):
            name = getattr(self, field)
            if name and name != (in_nfc := ids.composed(name)):
                msgspec.structs.force_setattr(self, field, in_nfc)
        if not all(map(str.isascii, self.tags)):
            msgspec.structs.force_setattr(self, "tags", tuple(map(ids.composed, self.tags)))

    @property
    def document_id(self) -> str:
        """Return the document's id."""
        return self.erases or ids.document_id(self.tenant, self.source, self.path)

    @property
    def body(self) -> bytes | None:
        """Return the body as it was sent; None if the record hasn't it."""
        return self.content if self.text is None else self.text.encode("utf-8", "surrogatepass")

    @property
    def given(self) -> Given:
        """Return the fields other than the body."""
        return Given(
            title=self.title, description=self.description, tags=self.tags, metadata=self.metadata, hash=self.hash
        )

    @property
    def fetched(self) -> bool:
        """Return whether the worker must fetch the body."""
        return (
            self.url is not None
            and not self.deleted
            and not self.patch
            and not (self.text is not None or self.content is not None or self.blob is not None)
        )

    @property
    def leads_on(self) -> bool:
        """Return whether a crawl goes on from this page."""
        return self.crawl is not None and self.crawl.goes_on

    @property
    def found(self) -> bool:
        """Return whether a crawl discovered the page; False if a caller submitted it."""
        return self.crawl is not None and self.crawl.host is not None


def erasure(tenant: str, document_id: str) -> DocumentSubmitted:
    """Return the submission that erases a document; it also replaces older submissions on the log."""
    return DocumentSubmitted(tenant=tenant, source="", path="", deleted=True, erases=document_id)


class SubmittedBody(Message, frozen=True):
    """The body of a version as it was sent."""

    sha256: str  # 64 hex digits
    size: int  # bytes
    place: LogPosition  # of the record that has it, or refers to it


class VersionContent(Message, frozen=True, kw_only=True):
    """What a version is compared by, and what a metadata change or a request for the original needs of it later."""

    raw_hash: str = ""  # xxh3_128 of the body's bytes; for a fetched body prefixed with its media type
    metadata_hash: str = ""  # xxh3_128 of title, tags and all other fields but the body
    extractor: str = ""  # fingerprint of its format's reader; empty where the body isn't read, or there is none
    validators: Validators | None = None  # only of a fetched body
    given: Given | None = None  # submitted, or kept from the version before; None: a deletion, as in the next two
    reading: TextReading | None = None
    body: SubmittedBody | None = None


class DocumentVersion(VersionContent, frozen=True):
    """One version of a document, with what the later stages need; only documents.extracted has `given` and so on."""

    document_id: DocumentId
    version: Natural
    place: LogPosition
    tenant: str
    source: str
    path: str
    outcome: VersionOutcome  # decided by the ingest stage
    title: str | None = None
    description: str | None = None
    url: str | None = None
    filename: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}  # set by the caller
    file: dict[str, Any] = {}  # what the file says about itself: texts and lists of texts
    chunk_size: Natural | None = None  # characters, as submitted with the document; None: the generation's
    chunk_overlap: Natural | None = None
    document_type: str = "txt"  # md, html, pdf, txt …
    text_format: TextFormat = "plain"
    source_type: str = "text"  # pdf, txt, md, url, text
    language: str | None = None
    text_sha256: str | None = None  # hash of the extracted text's blob (UTF-8, NFC); None for a deletion
    text_size: Natural = 0  # bytes
    created_at: Natural = 0  # ms since 1970 of the first version
    updated_at: Natural = 0  # ms since 1970 of this version
    extracted_at: Natural = 0  # log time of the record of documents.extracted, ms since 1970; set by the chunk stage
    chunked_at: Natural = 0  # log time of the record with the chunks, ms since 1970; set by the embed stage

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        """Return the blobs that this version refers to."""
        text = None if self.text_sha256 is None else BlobRef(sha256=self.text_sha256, size=self.text_size)
        chunks = None if self.reading is None else self.reading.chunks
        return tuple(ref for ref in (text, chunks) if ref is not None)

    @property
    def deleted(self) -> bool:
        """Return whether this version deletes the document."""
        return self.outcome == "deleted"


def truth_key(document_id: str, version: int) -> bytes:
    """Return the key of a version on documents.extracted; its partition depends on the document id alone.

    If the key were the document id alone, an older version that is written late would be the last record of
    its key: compaction would keep it and drop the newer version.
    """
    return f"{document_id}/{version}".encode()


def document_of(key: bytes | None) -> bytes | None:
    """Return the document id that the key of a version contains."""
    return None if key is None else key.partition(b"/")[0]


ChunkType = Literal["paragraph", "section", "table", "code", "list", "semantic"]


class PreparedChunk(Message, frozen=True, gc=False):
    """A chunk prepared by the caller; no chunker changes it. Texts are NFC and never blank."""

    text: str  # text to show
    embedding: str | None = None  # text to embed, if it differs from `text`
    section: str | None = None
    page: int | None = None  # 1-based
    type: ChunkType = "semantic"
    tags: tuple[str, ...] = ()  # in addition to the document's
    metadata: dict[str, Any] = {}  # of this chunk

    @property
    def embedded(self) -> str:
        """Return the text that its vector is of."""
        return embedded_of(self.text) if self.embedding is None else self.embedding


def embedded_of(text: str, header: str | None = None) -> str:
    """Return the text that is embedded of a passage: below its table's header, without the targets of links."""
    return without_targets(with_header(text, header))


def prefixed(prefix: str, embedded: str) -> str:
    """Return a passage's text as the model reads it: below the prefix that says where it is from, if it has one."""
    return f"{prefix}\n{embedded}" if prefix else embedded


def with_header(text: str, header: str | None) -> str:
    """Return a passage below the header of the table that it continues, if there is one."""
    return f"{header}\n{text}" if header else text


class DocumentExtracted(Message, frozen=True):
    """documents.extracted: the truth. Key: documentId/version, partitioned by documentId alone."""

    document: DocumentVersion
    text: str | None = None  # inline up to the claim-check size; else only in the blob
    pages: tuple[int, ...] = ()  # offset in `text` at which each page starts, in characters
    parts: tuple[tuple[int, int], ...] = ()  # offset and depth of each sheet, message, file within: chunks end there
    chunks: tuple[PreparedChunk, ...] = ()  # prepared by the caller; `text` joins them with blank lines
    chunks_blob: BlobRef | None = None  # the JSON of `chunks`, above the claim-check size

    @property
    def prepared(self) -> bool:
        """Return whether the caller prepared the chunks."""
        return bool(self.chunks) or self.chunks_blob is not None


class Chunk(Message, frozen=True, gc=False):  # full collections would look at 100,000 under way, and free none
    """One passage. `text` is NFC and equals extracted_text[start:end]."""

    order: Natural  # 0-based, in reading order
    text: str
    hash: str  # ids.text_hash(hashed)
    start: int  # characters
    end: int
    tokens: int  # number of tokens of `hashed`
    section: str | None = None  # path of headings, " > " between
    page: int | None = None  # 1-based, where the chunk starts
    page_starts: tuple[tuple[int, int], ...] = ()  # offset in `text` and number of each further page in it
    type: ChunkType = "paragraph"
    semantic_score: float | None = None  # 0..1: lexical diversity, density and completeness
    context_before: str | None = None  # the text before it, if an overlap is set; neither embedded nor hashed
    table_header: str | None = None  # of the table, or row, that it continues: shown above it, embedded and hashed
    prefix: str = ""  # title and section, above the text where it is embedded; neither hashed nor counted
    embedding: str | None = None  # of a prepared chunk: text to embed, if it differs from `text`
    tags: tuple[str, ...] = ()  # of a prepared chunk: in addition to the document's
    metadata: dict[str, Any] = {}  # of a prepared chunk

    @property
    def page_end(self) -> int | None:
        """Return the page where the chunk ends."""
        return self.page_starts[-1][1] if self.page_starts else self.page

    @property
    def hashed(self) -> str:
        """Return the text that its hash is of, and that its vector is of below the prefix."""
        return embedded_of(self.text, self.table_header) if self.embedding is None else self.embedding

    @property
    def embedded(self) -> str:
        """Return the text that its vector is of."""
        return prefixed(self.prefix, self.hashed)

    @property
    def embedded_hash(self) -> str:
        """Return the hash by which a point with the same vector is found."""
        return ids.text_hash(self.embedded) if self.prefix else self.hash


class DocumentChunked(Message, frozen=True):
    """chunks.<generation>: all chunks of one version, so that they apply together or not at all. Key: documentId."""

    document: DocumentVersion
    chunks: tuple[Chunk, ...] = ()
    blob: BlobRef | None = None  # the JSON of `chunks`, above the claim-check size


class StatusNotice(Message, frozen=True):
    """documents.status: wakes waiting callers; the status itself is in the ledger. Key: documentId."""

    document_id: DocumentId
    tenant: str
    version: Natural
    place: LogPosition
    status: Status
    note_codes: tuple[NoteCode, ...] = ()  # of what could not be read; their sentences may be personal data
    note_count: Natural = 0


class LetterHead(Message, frozen=True):
    """What a dead letter says of its record and of the failure, without the record itself."""

    stage: str
    code: str
    sentence: str
    topic: str
    partition: int
    offset: int
    time: int
    place: LogPosition  # where the submission entered the log first; if unknown, the record's own
    document_id: str | None = None
    tenant: str | None = None
    source: str | None = None
    path: str | None = None
    version: int | None = None  # of the document; None in the first stage
    redrives: int = 0  # number of redrives before this failure
    attempts: int = 1
    first_seen: int = 0
    last_seen: int = 0
    traceback_digest: str | None = None
    generation: str | None = None  # whose stage it was; None in the first stage


class DeadLetter(LetterHead, frozen=True):
    """dead.letters: a record that no stage can process. Key: `shared.log.dead_letters.key_of`; null settles it."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    blob: BlobRef | None = None  # `value`, above the claim-check size


# `begun`: an admin's change starts. `accepted`: the log has the documents' submissions; how they ended is their status.
# `unknown`: the log didn't say in time whether it has them. `refused`: 401, 403 or 429. `failed`: another error.
AuditResult = Literal["begun", "accepted", "unknown", "done", "refused", "failed"]


class AuditEntry(Message, frozen=True):
    """Who did what. It has ids only: never names, paths, queries or text."""

    time: Natural  # ms since 1970 by the clock of the process that wrote it
    action: str  # the route's operation id, or the command
    result: AuditResult
    tenant: str = ""  # of the key; of a command, whom it concerns; empty if nobody can tell
    key: str = ""  # id of the API key; empty without keys, and for a command
    role: str = ""  # that the route needs
    request: str = ""  # X-Request-Id
    status: Natural | None = None  # of HTTP; None before the reply
    documents: tuple[DocumentId, ...] = ()  # that were changed
    count: Natural = 1  # how many calls of this kind the entry stands for
    door: Literal["http", "command"] = "http"


class AuditRecord(Message, frozen=True):
    """audit.trail: entries that were written together. Key: the same for all."""

    entries: tuple[AuditEntry, ...]


class AnswerSource(Message, frozen=True):
    """A passage that an answer was given."""

    document_id: Annotated[str, msgspec.Meta(max_length=36)]
    chunk_id: Annotated[str, msgspec.Meta(max_length=36)]


class Feedback(Message, frozen=True):
    """answers.feedback: what somebody thought of an answer. Key: tenant and request; null: it was erased.

    It has no text of a document.
    """

    time: Natural  # ms since 1970
    tenant: str
    request: str  # X-Request-Id of the answer
    thumb: Literal["up", "down"]
    model: str = ""
    sources: tuple[AnswerSource, ...] = ()
    reason: str = ""
    question: str = ""  # only of tenants in SLUICE_FEEDBACK_QUESTIONS


M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=msgspec.Struct)


def like(kind: type[S], of: object, **more: Any) -> S:
    """Return a struct of this kind with the fields that `of` has by the same names; `more` are the others, and win."""
    same = {name: getattr(of, name) for name in kind.__struct_fields__ if name not in more and hasattr(of, name)}
    return kind(**same, **more)


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
