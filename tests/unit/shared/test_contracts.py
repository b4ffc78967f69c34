"""Messages: while two releases run side by side, each reads what the other wrote."""

import msgspec
import pytest

from shared.contracts import BlobRef, DocumentSubmitted, LogPosition, Message, TextReading, decode, encode

MESSAGES = (
    BlobRef(sha256="0" * 64, size=1),
    DocumentSubmitted(source="s", path="p", text="x"),
    LogPosition(partition=0, offset=1, time=2),
    TextReading(extracted={"document_type": "md"}),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_fields_that_this_release_doesnt_know_are_ignored(message: Message) -> None:
    newer = msgspec.json.encode(msgspec.json.decode(encode(message)) | {"addedLater": [1]})

    assert decode(newer, type(message)) == message


def test_names_have_one_spelling_unless_they_are_too_long_to_be_kept() -> None:
    apart = "e\u0301"
    value = msgspec.json.encode({"source": apart, "path": apart, "title": apart, "filename": apart, "tags": [apart]})

    read = decode(value, DocumentSubmitted)

    assert (read.source, read.path, read.title, read.filename, read.tags) == ("é", "é", "é", "é", ("é",))
    assert read == msgspec.structs.replace(read, path=apart)
    assert DocumentSubmitted(source="s", path=apart * 1001).path == apart * 1001
