"""Dead letters: records that no stage can process, stored whole with their reason and origin.

The topic is compacted. A letter's key consists of its stage and log position, so writing it again after a crash makes
no second letter; a null value under the key settles it. If a redriven record fails again, the new letter has another
key: settling the old letter never removes the new one, in whatever order they are written
(docs/adr/0005-retries-dead-letters-replay.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from faststream.kafka import KafkaBroker

from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.contracts import (
    DEFAULT_TENANT,
    DeadLetter,
    DocumentChunked,
    DocumentExtracted,
    LogPosition,
    Message,
    decode,
    encode,
)
from shared.errors import Rejected
from shared.ids import document_id
from shared.log import Record
from shared.log.failure import Failure
from shared.log.headers import position_of, redrives_of
from shared.log.publish import publish
from shared.topics import DEAD_LETTERS, EXTRACTED


class RecordOwner(NamedTuple):
    """The document that a record belongs to."""

    tenant: str
    document_id: str
    source: str | None = None
    path: str | None = None
    version: int | None = None
    place: LogPosition | None = None  # of the submission from which the record was made


def owner_of(record: Record, kind: type[DocumentExtracted] | type[DocumentChunked]) -> RecordOwner | None:
    """Return the owner of a record of a later stage, None if the record can't be decoded."""
    try:
        document = decode(record.value, kind).document
    except Rejected:
        return None
    return RecordOwner(
        document.tenant, document.document_id, document.source, document.path, document.version, document.place
    )


class LetterFields(Message, frozen=True):
    """The fields of a letter that its summary needs; the others aren't decoded."""

    stage: str
    code: str
    topic: str
    place: LogPosition
    last_seen: int = 0
    redrives: int = 0
    tenant: str | None = None
    source: str | None = None
    document_id: str | None = None
    generation: str | None = None


def entry_of(letter: DeadLetter | LetterFields) -> str:
    """Return stage/topic/partition/offset/time; equal for all failures of one record in one stage.

    Several generations read documents.extracted, so there the generation is part of it.
    """
    place = letter.place
    entry = f"{letter.stage}/{letter.topic}/{place.partition}/{place.offset}/{place.time}"
    return f"{entry}/{letter.generation}" if letter.topic == EXTRACTED and letter.generation else entry


def key_of(letter: DeadLetter) -> bytes:
    """Return the entry and the number of redrives; equal for all repetitions of one failure."""
    return f"{entry_of(letter)}/{letter.redrives}".encode()


def dead_letter(
    record: Record, failure: Failure, owner: RecordOwner | None = None, generation: str | None = None
) -> DeadLetter:
    """Return the dead letter that contains the record's bytes; `generation` is the stage's, if it has one."""
    theirs = {} if owner is None else owner._asdict()
    ours = msgspec.structs.asdict(failure)
    return DeadLetter(
        **ours | {"sentence": failure.sentence.encode(errors="replace").decode()},  # it may quote half a character
        **theirs | {"place": theirs.get("place") or position_of(record)},
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        time=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple((name, value or b"") for name, value in record.headers),
        redrives=redrives_of(record),
        generation=generation,
    )


def body_owner(letter: DeadLetter) -> tuple[str, str]:
    """Return the tenant and document id under which the letter's blob is stored: the document's, or derived ones."""
    if letter.tenant is not None and letter.document_id is not None:
        return letter.tenant, letter.document_id
    return DEFAULT_TENANT, document_id(DEFAULT_TENANT, DEAD_LETTERS, key_of(letter).decode())


@dataclass(frozen=True)
class DeadLetters:
    """Publishes dead letters; pass it to `consume` as `on_dead`. `owner` returns a record's document, or None."""

    broker: KafkaBroker
    blobs: Blobs
    owner: Callable[[Record], RecordOwner | None] = lambda _: None
    generation: str | None = None

    async def __call__(self, record: Record, failure: Failure) -> None:
        """Return once the letter is on the log; a large body goes to the blob store.

        Raises:
            Unavailable: the log or the blob store is away.
        """
        letter = dead_letter(record, failure, self.owner(record), self.generation)
        encoded = encode(letter)
        if len(encoded) > CLAIM_CHECK_BYTES and record.value is not None:
            letter = await self._claim_checked(letter, record.value)
            encoded = encode(letter)
        if len(encoded) > CLAIM_CHECK_BYTES:
            encoded = encode(_trimmed(letter))
        await publish(self.broker, DEAD_LETTERS, encoded, key=key_of(letter))

    async def _claim_checked(self, letter: DeadLetter, value: bytes) -> DeadLetter:
        try:
            ref = await self.blobs.put(*body_owner(letter), value)
        except Rejected:
            # A foreign record's tenant may be no valid folder name; that must not block its partition.
            letter = msgspec.structs.replace(letter, tenant=None, document_id=None)
            ref = await self.blobs.put(*body_owner(letter), value)
        return msgspec.structs.replace(letter, value=None, blob=ref)


def _trimmed(letter: DeadLetter) -> DeadLetter:
    # A foreign record's huge key, headers or error must not block its partition.
    return msgspec.structs.replace(
        letter,
        key=None if letter.key is None else letter.key[:1024],
        headers=(),
        source=None if letter.source is None else letter.source[:1024],
        path=None if letter.path is None else letter.path[:1024],
        sentence=f"{letter.sentence[:10_000]} (its headers were too large to keep, and its key may be truncated)",
    )
