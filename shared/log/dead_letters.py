"""Records no stage can take, kept whole, with the reason and the place they came from.

The topic is compacted, and a letter's key names its place and stage, so a letter written again after a crash is one
letter; a null under the key says that it is settled. What a redriven record fails with gets a key of its own: settling
the old letter can't take the new one away, whichever of the two is written first (docs/adr/0012-dead-letters.md).
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec
from faststream.kafka import KafkaBroker

from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.contracts import DEFAULT_TENANT, DeadLetter, DocumentVersion, LogPosition, encode
from shared.errors import Rejected
from shared.ids import document_id
from shared.log import Record
from shared.log.failure import Failure
from shared.log.headers import position_of, redrives_of
from shared.log.publish import publish
from shared.topics import DEAD_LETTERS


class RecordOwner(NamedTuple):
    """Whose record it is, where that is known."""

    tenant: str
    document_id: str
    source: str | None = None
    path: str | None = None
    version: int | None = None
    place: LogPosition | None = None  # of the submission that the record was made of


def owner_of(document: DocumentVersion) -> RecordOwner:
    """Return whose a record of a later stage is."""
    return RecordOwner(
        document.tenant, document.document_id, document.source, document.path, document.version, document.place
    )


class HasLogPosition(Protocol):
    """What names a letter's entry."""

    @property
    def stage(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def place(self) -> LogPosition: ...


def entry_of(letter: HasLogPosition) -> str:
    """Return stage/topic/partition/offset/time: the same for every failure of one record in one stage."""
    place = letter.place
    return f"{letter.stage}/{letter.topic}/{place.partition}/{place.offset}/{place.time}"


def key_of(letter: DeadLetter) -> bytes:
    """Return the entry and how often the record was redriven: the same for every repeat of the same failure."""
    return f"{entry_of(letter)}/{letter.redrives}".encode()


def dead_letter(record: Record, failure: Failure, owner: RecordOwner | None = None) -> DeadLetter:
    """Return the letter with the record's own bytes inside."""
    return DeadLetter(
        stage=failure.stage,
        code=failure.code,
        sentence=_storable(failure.sentence),
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        time=record.timestamp,
        place=(owner.place if owner is not None else None) or position_of(record),
        key=record.key,
        value=record.value,
        headers=tuple((name, value or b"") for name, value in record.headers),
        document_id=None if owner is None else owner.document_id,
        tenant=None if owner is None else owner.tenant,
        source=None if owner is None else owner.source,
        path=None if owner is None else owner.path,
        version=None if owner is None else owner.version,
        redrives=redrives_of(record),
        attempts=failure.attempts,
        first_seen=failure.first_seen,
        last_seen=failure.last_seen,
        traceback_digest=failure.traceback_digest,
    )


def body_owner(letter: DeadLetter) -> tuple[str, str]:
    """Return the tenant and document id under which the letter's blob is kept: its document's, or one of its own."""
    if letter.tenant is not None and letter.document_id is not None:
        return letter.tenant, letter.document_id
    return DEFAULT_TENANT, document_id(DEFAULT_TENANT, DEAD_LETTERS, key_of(letter).decode())


class DeadLetters:
    """Publishes dead letters; what `consume` takes as `on_dead`. `owner` tells whose a record is, or None."""

    def __init__(
        self, broker: KafkaBroker, blobs: Blobs, owner: Callable[[Record], RecordOwner | None] = lambda _: None
    ) -> None:
        self._broker = broker
        self._blobs = blobs
        self._owner = owner

    async def __call__(self, record: Record, failure: Failure) -> None:
        """Return once the letter is on the log, and its body, where that is large, in the blob store.

        Raises:
            Unavailable: the log or the blob store is away.
        """
        letter = dead_letter(record, failure, self._owner(record))
        encoded = encode(letter)
        if len(encoded) > CLAIM_CHECK_BYTES and record.value is not None:
            letter = await self._claim_checked(letter, record.value)
            encoded = encode(letter)
        if len(encoded) > CLAIM_CHECK_BYTES:
            encoded = encode(_trimmed(letter))
        await publish(self._broker, DEAD_LETTERS, encoded, key=key_of(letter))

    async def _claim_checked(self, letter: DeadLetter, value: bytes) -> DeadLetter:
        try:
            ref = await self._blobs.put(*body_owner(letter), value)
        except Rejected:
            # A foreign record's tenant that can't name a folder must not block the partition behind it.
            letter = msgspec.structs.replace(letter, tenant=None, document_id=None)
            ref = await self._blobs.put(*body_owner(letter), value)
        return msgspec.structs.replace(letter, value=None, blob=ref)


def _storable(sentence: str) -> str:
    """Return the text as UTF-8 can hold it: an error's may quote half a character."""
    return sentence.encode(errors="replace").decode()


def _trimmed(letter: DeadLetter) -> DeadLetter:
    # A foreign key, headers or an error's text this large must not block the partition behind the record.
    return msgspec.structs.replace(
        letter,
        key=None if letter.key is None else letter.key[:1024],
        headers=(),
        source=None if letter.source is None else letter.source[:1024],
        path=None if letter.path is None else letter.path[:1024],
        sentence=f"{letter.sentence[:10_000]} (its headers were too large to keep, and its key may be cut)",
    )
