"""Records no stage can take, kept whole, with the reason and the place they came from."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from faststream.kafka import KafkaBroker

from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.contracts import DEFAULT_TENANT, DeadLetter, encode
from shared.ids import document_id
from shared.log import Record
from shared.log.failure import Failure
from shared.log.publish import publish
from shared.places import place_of
from shared.topics import DEAD_LETTERS


class Owner(NamedTuple):
    """Whose record it is, where that is known."""

    tenant: str
    document_id: str


def key_of(letter: DeadLetter) -> bytes:
    """Return stage/topic/partition/offset: the same for every repeat of the same failure."""
    return f"{letter.stage}/{letter.topic}/{letter.place.partition}/{letter.place.offset}".encode()


def dead_letter(record: Record, failure: Failure, owner: Owner | None = None) -> DeadLetter:
    """Return the letter with the record's own bytes inside."""
    return DeadLetter(
        stage=failure.stage,
        code=failure.code,
        sentence=failure.sentence,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        time=record.timestamp,
        place=place_of(record),
        key=record.key,
        value=record.value,
        headers=tuple((name, value or b"") for name, value in record.headers),
        document_id=None if owner is None else owner.document_id,
        tenant=None if owner is None else owner.tenant,
        attempts=failure.attempts,
        first_seen=failure.first_seen,
        last_seen=failure.last_seen,
        traceback_digest=failure.traceback_digest,
    )


class DeadLetters:
    """Publishes dead letters; what `consume` takes as `on_dead`. `owner` tells whose a record is, or None."""

    def __init__(
        self, broker: KafkaBroker, blobs: Blobs, owner: Callable[[Record], Owner | None] = lambda _: None
    ) -> None:
        self._broker = broker
        self._blobs = blobs
        self._owner = owner

    async def __call__(self, record: Record, failure: Failure) -> None:
        """Return once the letter is on the log, and its body, where that is large, in the blob store.

        Raises:
            Unavailable: the log or the blob store is away.
        """
        owner = self._owner(record)
        letter = dead_letter(record, failure, owner)
        key = key_of(letter)
        encoded = encode(letter)
        if len(encoded) > CLAIM_CHECK_BYTES and record.value is not None:
            tenant, document = owner or Owner(DEFAULT_TENANT, document_id(DEFAULT_TENANT, DEAD_LETTERS, key.decode()))
            ref = await self._blobs.put(tenant, document, record.value)
            letter = msgspec.structs.replace(letter, value=None, blob=ref)
            encoded = encode(letter)
        if len(encoded) > CLAIM_CHECK_BYTES:
            encoded = encode(_trimmed(letter))
        await publish(self._broker, DEAD_LETTERS, encoded, key=key)


def _trimmed(letter: DeadLetter) -> DeadLetter:
    # A foreign key, headers or an error's text this large must not block the partition behind the record.
    return msgspec.structs.replace(
        letter,
        key=None if letter.key is None else letter.key[:1024],
        headers=(),
        sentence=f"{letter.sentence[:10_000]} (its headers were too large to keep, and its key may be cut)",
    )
