import base64

import pytest

from services.ingest_worker.extract import Hints, detect, extract
from services.ingest_worker.extract.flat_office import contained
from tests.unit.services.ingest_worker.files import a_docx_of, an_xlsx, parts_of

_PACKAGE = "http://schemas.microsoft.com/office/2006/xmlPackage"
_ABOUT_FLAT = [
    b"<?xml version='1.0'?><a><![CDATA[<p:package xmlns:p='%s'/>]]></a>" % _PACKAGE.encode(),
    b"<html><script><p:package xmlns:p='%s'></p:package></script></html>" % _PACKAGE.encode(),
]


def _flat(data: bytes) -> bytes:
    parts = []
    for name, content in parts_of(data).items():
        xml = content.decode().partition("?>")[2] if content.startswith(b"<?xml") else content.decode()
        inner = f"<p:xmlData>{xml}</p:xmlData>" if "rels" in name else ""
        inner = inner or f"<p:binaryData>{base64.b64encode(content).decode()}</p:binaryData>"
        parts.append(f'<p:part p:name="/{name}" p:contentType="application/xml">{inner}</p:part>')
    return f'<?xml version="1.0"?><p:package xmlns:p="{_PACKAGE}">{"".join(parts)}</p:package>'.encode()


@pytest.mark.parametrize(
    "data", [a_docx_of("The tide falls.", "At nine."), an_xlsx(Harbour=[["Port", "Depth"], ["Skua", 4.2], ["Tern", 5]])]
)
def test_a_flat_package_is_read_like_its_container(data: bytes) -> None:
    hints = Hints(filename="a.xml")
    assert extract(_flat(data), hints) == extract(data, hints)
    assert extract(_flat(data), hints, form=detect(_flat(data), hints)) == extract(data, hints)  # that isn't its form


@pytest.mark.parametrize(
    "data", [b"<?xml version='1.0'?><package/>", b"office/2006/xmlPackage", b"", b"<p:package office/", *_ABOUT_FLAT]
)
def test_other_files_stay_as_they_are(data: bytes) -> None:
    assert contained(data) is data


def test_a_part_that_is_no_base64_is_left_out_and_entities_do_no_harm() -> None:
    part = '<p:part p:name="/a"><p:binaryData>\u00e4</p:binaryData></p:part>'
    assert parts_of(contained(f'<p:package xmlns:p="{_PACKAGE}">{part}</p:package>'.encode())).keys() == {
        "[Content_Types].xml"
    }
    entity = _flat(a_docx_of("The tide falls.")).replace(b"<p:part ", b"&x;<p:part ", 1)
    assert extract(entity, Hints()).text == "The tide falls."
