"""Forwards records of a tenant's own topic to documents.submitted. docs/adr/0004-kafka.md

The topic decides the tenant. A record gets its log position on documents.submitted, and a header names its origin, so
that a record that is forwarded twice has its effect once (correctness.md, section 1).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Final

import msgspec
import structlog

from shared import tracing
from shared.blobs import Blobs
from shared.claim_check import submission_value
from shared.contracts import DocumentSubmitted
from shared.errors import Rejected
from shared.log import Publish, Record
from shared.log.dead_letters import RecordOwner
from shared.log.headers import FORWARDED_HEADER, forwarded_header
from shared.state.ledger import Ledger
from shared.submission import deletion, document_key, submission_for
from shared.topics import SUBMITTED

log = structlog.get_logger(__name__)

STAGE: Final = "forward"


@dataclass(frozen=True)
class Forwarder:
    """Handles records of one tenant's topic. Idempotent together with the stage that reads documents.submitted."""

    tenant: str
    _: KW_ONLY
    ledger: Ledger
    blobs: Blobs
    publish: Publish
    moves: int = 0

    async def __call__(self, record: Record) -> None:
        """Put the record on documents.submitted.

        Raises:
            Rejected: it can't be read, names another tenant, or erases. Unavailable: a part is away; call again.
        """
        submitted = await self._submitted(record)
        tracing.about(self.tenant, submitted.document_id)
        value = await submission_value(submitted, self.blobs)
        # The record's own headers are dropped: with them, a producer could claim an earlier position.
        headers = {FORWARDED_HEADER: forwarded_header(record, self.moves)}
        await self.publish(SUBMITTED, value, key=submitted.document_id.encode(), headers=headers)
        log.info("record_forwarded", document_id=submitted.document_id, topic=record.topic, offset=record.offset)

    def owner(self, record: Record) -> RecordOwner | None:
        """Return the owner of a dead-lettered record: always this tenant, else nobody could see the letter."""
        try:
            submitted = submission_for(record, self.tenant)
        except Rejected:
            submitted = DocumentSubmitted(
                tenant=self.tenant, source=record.topic, path=f"{record.partition}/{record.offset}"
            )
        return RecordOwner(self.tenant, submitted.document_id, submitted.source, submitted.path)

    async def _submitted(self, record: Record) -> DocumentSubmitted:
        if record.value is None and (name := document_key(record)) is not None:
            entry = await self.ledger.get(name)
            if entry is None or entry.tenant != self.tenant:
                raise Rejected(f"the record deletes {name}, but there is no such document", "no_document")
            return deletion(entry)
        submitted = submission_for(record, self.tenant)
        if submitted.erases is not None:
            raise Rejected("erasing needs an API key with the role admin; a record can only delete", "erases")
        return msgspec.structs.replace(submitted, tenant=self.tenant)
