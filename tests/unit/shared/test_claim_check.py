import pytest

from shared.blobs import CLAIM_CHECK_BYTES
from shared.claim_check import prepared_chunks_of, submission_value, text_of
from shared.contracts import DocumentExtracted, DocumentSubmitted, decode
from shared.errors import Rejected
from tests.builders import a_version
from tests.fakes.blobs import MemoryBlobs


async def test_a_small_body_travels_on_the_log() -> None:
    value = await submission_value(DocumentSubmitted(source="s", path="p", text="Herons."), MemoryBlobs())

    assert decode(value, DocumentSubmitted).text == "Herons."


async def test_a_large_text_is_stored_as_a_blob_and_keeps_its_type() -> None:
    text, blobs = "é" * CLAIM_CHECK_BYTES, MemoryBlobs()

    document = decode(
        await submission_value(DocumentSubmitted(source="s", path="p", text=text), blobs), DocumentSubmitted
    )

    assert (document.text, document.media_type) == (None, "text/markdown")
    assert document.blob is not None
    assert (await blobs.get(document.tenant, document.document_id, document.blob)).decode() == text


async def test_a_body_that_json_swells_beyond_the_limit_is_stored_as_a_blob() -> None:
    content = b"\0" * (CLAIM_CHECK_BYTES - 10)  # base64 adds a third

    value = await submission_value(DocumentSubmitted(source="s", path="p", content=content), MemoryBlobs())

    assert decode(value, DocumentSubmitted).blob is not None


async def test_a_version_without_its_text_is_rejected() -> None:
    event = DocumentExtracted(document=a_version(text_sha256=None))

    with pytest.raises(Rejected, match="has no text blob"):
        await text_of(event, MemoryBlobs())
    assert await prepared_chunks_of(event, MemoryBlobs()) == ()
