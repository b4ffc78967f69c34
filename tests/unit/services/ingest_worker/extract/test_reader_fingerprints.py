"""A change of one format's reader is no change of another's."""

from collections.abc import Callable

import msgspec

from services.ingest_worker.extract import FORMATS, READERS, Format
from services.ingest_worker.extract.reader_fingerprints import Readers


def after(change: Callable[[Format], Format], document_type: str) -> Readers:
    return Readers([change(form) if form.document_type == document_type else form for form in FORMATS])


def test_a_reader_that_has_not_changed_gives_the_same_text_and_one_that_has_may_not() -> None:
    newer = after(lambda form: msgspec.structs.replace(form, revision=form.revision + 1), "html")

    changed = {form.document_type for form in FORMATS if not newer.has(READERS.name(form.document_type))}

    assert changed == {"html"} | {form.document_type for form in FORMATS if form.nests}
    assert READERS.has(READERS.name("html"))


def test_every_library_of_a_format_counts() -> None:
    for form in FORMATS:
        fewer = after(lambda form: msgspec.structs.replace(form, libraries=()), form.document_type)
        assert (fewer.name(form.document_type) == READERS.name(form.document_type)) == (not form.libraries)


def test_an_unknown_type_is_read_by_all_of_them() -> None:
    assert READERS.has(READERS.name("unheard of"))
    assert not READERS.has("")
