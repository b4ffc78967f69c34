import pytest

from shared.blobs import blob_name, document_name
from shared.errors import Rejected

DOCUMENT = "0f8fad5b-d9cb-569f-a165-70867728950e"


def test_a_valid_name_is_returned() -> None:
    assert document_name("acme.eu_1-x", DOCUMENT) == f"acme.eu_1-x/{DOCUMENT}"
    assert blob_name("0a" * 32) == "0a" * 32


@pytest.mark.parametrize("tenant", ["", ".", "..", "a/b", "a\n", "é", "a" * 65])
def test_a_tenant_that_could_lead_elsewhere_is_rejected(tenant: str) -> None:
    with pytest.raises(Rejected, match="tenant"):
        document_name(tenant, DOCUMENT)


@pytest.mark.parametrize("name", ["", "..", DOCUMENT.upper(), f"{DOCUMENT}\n", f"../{DOCUMENT}"])
def test_a_document_id_must_be_a_uuid_in_lower_case(name: str) -> None:
    with pytest.raises(Rejected, match="UUID in lower case"):
        document_name("acme", name)


@pytest.mark.parametrize("name", ["", "0A" * 32, "0a" * 31, "0a" * 32 + "\n"])
def test_a_blobs_name_must_be_a_sha256(name: str) -> None:
    with pytest.raises(Rejected, match="64 hex digits"):
        blob_name(name)
