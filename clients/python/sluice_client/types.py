"""What the API takes and gives. Fields that a newer server adds are ignored."""

from typing import Any

import msgspec


class _Reply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of replies."""


class NewDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A document to put. `source` and `path` name it; exactly one of text, chunks and url is its body."""

    source: str
    path: str
    text: str | None = None
    chunks: list[Any] | None = None  # already split
    url: str | None = None  # where the server fetches it
    title: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    chunk_size: int | None = None  # characters
    chunk_overlap: int | None = None
    keep: list[str] | None = None  # title, description, tags, metadata: keep the old value if this one has none
    on_conflict: str | None = None  # replace, error or new
    hash: str | None = None
    callback_url: str | None = None  # called once the document has ended


class Replaced(_Reply, frozen=True):
    """The version that an update replaced."""

    version: int
    updated_at: str


class SkippedChunk(_Reply, frozen=True):
    """A ready-made chunk that was left out."""

    index: int
    error: str
    id: str | None = None


class Outcome(_Reply, frozen=True):
    """How a submission ended: created, updated, unchanged, deleted or superseded; or `accepted` so far."""

    status: str
    document_id: str | None = None
    submission: str | None = None  # of one that is `accepted`
    chunk_count: int | None = None
    replaced: Replaced | None = None
    dropped: tuple[str, ...] = ()  # fields that the version before had
    source: str | None = None
    path: str | None = None
    file: str | None = None
    skipped: tuple[SkippedChunk, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None  # of an item that failed
    code: str | None = None
    index: int | None = None  # of an item of a batch

    @property
    def ended(self) -> bool:
        """Return whether nothing more will happen to the submission."""
        return self.status != "accepted"


class StageTime(_Reply, frozen=True):
    """When a document passed a stage."""

    stage: str
    at: str
    seconds: float | None = None  # since the stage before


class Callback(_Reply, frozen=True):
    """A call of `callback_url`: waiting, sending, delivered or failed."""

    submission: str  # also the `webhook-id` of its requests
    url: str  # without its query
    state: str
    tries: int = 0
    error: str | None = None
    next_at: str | None = None
    ended_at: str | None = None


class Document(_Reply, frozen=True):
    """A document. Lists leave out `progress`, `stages` and all fields after them."""

    document_id: str
    source: str
    path: str
    status: str  # of the newest submission
    state: str  # of what searches see: ready, deleted, accepted or failed
    version: int
    state_version: int
    chunk_count: int = 0
    title: str | None = None
    tags: tuple[str, ...] = ()
    url: str | None = None
    created_at: str = ""
    updated_at: str = ""
    etag: str | None = None
    error: str | None = None
    code: str | None = None
    progress: int | None = None  # percent
    stages: tuple[StageTime, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    description: str | None = None
    metadata: dict[str, Any] = {}
    hash: str | None = None
    sha256: str | None = None
    bytes: int | None = None
    filename: str | None = None
    media_type: str | None = None
    document_type: str | None = None
    language: str | None = None
    page_count: int | None = None


class Chunk(_Reply, frozen=True):
    """A passage of a document."""

    text: str
    metadata: dict[str, Any]


class Hit(_Reply, frozen=True):
    """A passage that a search found."""

    text: str
    score: float  # 0..1, comparable between searches
    metadata: dict[str, Any]

    @property
    def document_id(self) -> str:
        """Return the id of the passage's document."""
        return str(self.metadata["documentId"])

    @property
    def title(self) -> str:
        """Return the document's title, or its path."""
        return str(self.metadata.get("title") or self.metadata["path"])


class Citation(_Reply, frozen=True):
    """A passage that an answer cites; the answer has its number in brackets."""

    number: int
    document_id: str
    title: str
    chunk_id: str
    excerpt: str
    score: float
    page_number: int | None = None


class Answer(_Reply, frozen=True):
    """An answer from the documents."""

    text: str = msgspec.field(name="response")
    conversation_id: str
    grounded: bool = msgspec.field(name="ragUsed")  # whether passages were relevant enough to answer from
    citations: tuple[Citation, ...] = ()
    warnings: tuple[str, ...] = ()
