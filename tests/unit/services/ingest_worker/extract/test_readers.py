"""A change of one format's reader is no change of another's."""

import unicodedata
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import msgspec
import pytest

from services.ingest_worker.extract import FORMATS, READERS, Format
from services.ingest_worker.extract.readers import COMMON, Readers

LIBRARIES = sorted({library for form in FORMATS for library in form.libraries})


def long_form(**versions: str) -> str:
    """Return the fingerprint that earlier releases wrote for every format."""
    named = {name: versions.get(name) or _version(name) for name in LIBRARIES}
    libraries = [f"{name}={number}" for name, number in named.items()]
    return ";".join([COMMON, f"unicode={unicodedata.unidata_version}", *libraries, "csv+doc+txt"])


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


def after(change: Callable[[Format], Format], document_type: str) -> Readers:
    return Readers([change(form) if form.document_type == document_type else form for form in FORMATS])


def test_a_reader_that_has_not_changed_gives_the_same_text_and_one_that_has_may_not() -> None:
    newer = after(lambda form: msgspec.structs.replace(form, revision=form.revision + 1), "html")

    changed = {
        form.document_type for form in FORMATS if newer.today(READERS.name(form.document_type), None, "") is None
    }

    assert changed == {"html"} | {form.document_type for form in FORMATS if form.nests}
    assert READERS.today(READERS.name("html"), None, "") == READERS.name("html")


def test_every_library_of_a_format_counts() -> None:
    for form in FORMATS:
        fewer = after(lambda form: msgspec.structs.replace(form, libraries=()), form.document_type)
        assert (fewer.name(form.document_type) == READERS.name(form.document_type)) == (not form.libraries)


@pytest.mark.parametrize(
    ("document_type", "path", "alike"),
    [
        ("pdf", "", True),
        (None, "notes/a.MD", True),
        ("rtf", "", False),  # read better since
        (None, "a.ipynb", False),
        ("zip", "", False),  # it may hold any of them
        (None, "without a suffix", False),
    ],
)
def test_the_long_form_of_earlier_releases_counts_for_formats_that_are_read_as_they_were(
    document_type: str | None, path: str, *, alike: bool
) -> None:
    assert (READERS.today(long_form(), document_type, path) is not None) == alike


def test_the_long_form_names_the_versions_of_libraries() -> None:
    assert READERS.today(long_form(pypdf="0.1"), "pdf", "") is None
    assert READERS.today(long_form(pypdf="0.1"), "txt", "") is not None
    assert READERS.today(f"3{long_form()[1:]}", "txt", "") is None


def test_an_unknown_type_is_read_by_all_of_them() -> None:
    assert READERS.today(READERS.name("unheard of"), None, "") == READERS.name("unheard of")
    assert READERS.today("", None, "a.md") is None
