"""Messages: fields that have another name in JSON than in the code."""

from shared.contracts import TextReading, decode, encode


def test_extracted_fields_keep_the_name_that_records_have() -> None:
    value = encode(TextReading(extracted={"document_type": "md"}))

    assert value == b'{"said":{"document_type":"md"}}'
    assert decode(value, TextReading).extracted == {"document_type": "md"}
