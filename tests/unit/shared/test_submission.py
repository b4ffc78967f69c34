import msgspec
import pytest

from shared.contracts import DocumentSubmitted, encode
from shared.errors import Rejected
from shared.submission import deletion, description_hash, document_id_of, needs_headers, submission_for, submission_of
from tests.builders import a_record, an_entry

NAMED = [("source", b"wiki"), ("path", b"a.md")]
BODY = {"source": "s", "path": "p", "text": "Tea"}
EVENT = {"specversion": "1.0", "source": "wiki", "subject": "a.md"}


def test_our_own_record_comes_back() -> None:
    document = DocumentSubmitted(source="s", path="p", text="Herons.")

    assert submission_of(a_record(encode(document))) == document
    assert not needs_headers(a_record(encode(document)))


def test_a_body_that_is_no_json_is_the_document_and_headers_name_it() -> None:
    document = submission_of(a_record(b"# Tea", headers=[("content-type", b"text/markdown"), *NAMED]))

    assert (document.source, document.path, document.content, document.media_type) == (
        "wiki",
        "a.md",
        b"# Tea",
        "text/markdown",
    )


@pytest.mark.parametrize("more", [{"data": {"text": "Tea"}}, {"data_base64": "VGVh", "datacontenttype": "text/plain"}])
def test_a_cloud_event_is_named_by_its_source_and_subject(more: dict[str, object]) -> None:
    document = submission_of(a_record(msgspec.json.encode(EVENT | more)))

    assert (document.source, document.path) == ("wiki", "a.md")
    assert (document.text or (document.content or b"").decode()) == "Tea"


def test_a_record_without_a_value_deletes_the_document_that_its_headers_name() -> None:
    document = submission_of(a_record(None, headers=NAMED))

    assert (document.deleted, document.source, document.path) == (True, "wiki", "a.md")
    with pytest.raises(Rejected, match="must name the document to delete") as refused:
        submission_of(a_record(None))
    assert refused.value.code == "tombstone"


def test_a_record_is_about_the_document_that_it_names_and_about_none_if_it_is_no_submission() -> None:
    document = DocumentSubmitted(source="s", path="p", text="Herons.")

    assert document_id_of(a_record(encode(document))) == document.document_id
    assert document_id_of(a_record(b"{")) is None
    assert document_id_of(a_record(None)) is None


def test_a_body_that_headers_do_not_name_is_rejected() -> None:
    headers = [("ce_specversion", b"1.0"), ("content-type", b"text/plain")]

    with pytest.raises(Rejected, match="its headers must name it"):
        submission_of(a_record(b"Tea", headers=headers))


def test_the_description_is_all_but_the_body() -> None:
    document = DocumentSubmitted(source="s", path="p", text="a")

    assert description_hash(document) == description_hash(msgspec.structs.replace(document, text="b"))
    assert description_hash(document) != description_hash(msgspec.structs.replace(document, title="T"))
    assert description_hash(document) != description_hash(msgspec.structs.replace(document, chunk_size=500))


def test_a_known_document_is_deleted_by_its_names() -> None:
    assert deletion(an_entry("d")) == DocumentSubmitted(tenant="default", source="s", path="p", deleted=True)


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        pytest.param(None, [("tenant", b"theirs")], id="header"),
        pytest.param(BODY | {"tenant": "theirs"}, [], id="JSON"),
        pytest.param(EVENT | {"data": {"text": "Tea", "tenant": "theirs"}}, [], id="CloudEvent"),
        pytest.param(EVENT | {"data": {"text": "Tea", "tenant": "ours"}, "tenant": "theirs"}, [], id="two"),
        pytest.param(EVENT | {"data_base64": "VGVh", "tenant": 7}, [], id="number"),
    ],
)
def test_a_record_of_a_tenant_s_topic_that_names_another_is_refused(
    value: dict[str, object] | None, headers: list[tuple[str, bytes | None]]
) -> None:
    with pytest.raises(Rejected, match="belongs to 'ours'") as refused:
        submission_for(a_record(msgspec.json.encode(value) if value else None, [*NAMED, *headers]), "ours")
    assert refused.value.code == "foreign"


def test_a_record_of_a_tenant_s_topic_is_that_tenant_s() -> None:
    for named in ({}, {"tenant": "ours"}, {"data": [1], "document": "no object"}):
        assert submission_for(a_record(msgspec.json.encode(BODY | named)), "ours").tenant == "ours"
