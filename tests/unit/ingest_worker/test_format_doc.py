import importlib.util

import pytest

from services.ingest_worker.extract import Hints, extract
from shared.errors import Rejected

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


@pytest.mark.parametrize(
    ("stream", "filename"),
    [("WordDocument", "a.doc"), ("PowerPoint Document", "a.ppt"), ("__properties_version1.0", "a.msg")],
)
def test_without_the_extra_it_says_how_to_get_it(stream: str, filename: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(Rejected, match=rf"^{filename} is not read without the office extra: make extras$") as caught:
        extract(_OLE + stream.encode("utf-16-le"), Hints(filename=filename))

    assert caught.value.code == "unsupported"


@pytest.mark.parametrize("filename", ["a.doc", "a.ppt", "a.msg"])
def test_a_broken_file_is_damaged(filename: str) -> None:
    with pytest.raises(Rejected, match=rf"^{filename} is damaged: ") as caught:
        extract(_OLE, Hints(filename=filename))

    assert caught.value.code == "damaged"
