from services.ingest_worker.extract.safe_xml import parsed, reference, tag, words


def test_broken_xml_gives_what_can_be_read_and_none_if_nothing_can() -> None:
    root = parsed(b"<a xmlns='urn:x'><b>Two  words</b>")

    assert root is not None
    assert (tag(root), words(root)) == ("a", "Two words")
    assert parsed(b"") is None


def test_entities_are_not_resolved() -> None:
    root = parsed(b"<!DOCTYPE a [<!ENTITY e 'secret'>]><a>before &e; after</a>")

    assert root is not None
    assert "secret" not in words(root)


def test_a_reference_is_found_in_either_namespace() -> None:
    for namespace in (
        "http://schemas.openxmlformats.org/officeDocument/2006",
        "http://purl.oclc.org/ooxml/officeDocument",
    ):
        root = parsed(f"<a xmlns:r='{namespace}/relationships' r:id='rId7'/>".encode())
        assert root is not None
        assert reference(root) == "rId7"
        assert reference(root, "embed") == ""
