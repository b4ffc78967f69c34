"""One spelling for each address."""

import pytest

from shared.errors import Rejected, masked
from shared.inputs.urls import authority, canonical, origin


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("https://example.org:443/a#part", "https://example.org/a"),
        ("HTTP://example.org:80/a/../b/./c", "http://example.org/b/c"),
        ("http://example.org:8080?q=1", "http://example.org:8080/?q=1"),
        ("http://example.org./", "http://example.org/"),
        ("http://bücher.example/ä b?ü=1", "http://xn--bcher-kva.example/%C3%A4%20b?%C3%BC=1"),
        (" http://example.org/a%20b%2Fc ", "http://example.org/a%20b%2Fc"),
        ("http://[::1]:80/", "http://[::1]/"),
    ],
)
def test_an_address_has_one_spelling(written: str, read: str) -> None:
    assert canonical(written) == read
    assert canonical(read) == read


def test_a_link_is_read_where_it_stands() -> None:
    assert canonical("../x?y#z", "https://example.org/a/b/c") == "https://example.org/a/x?y"
    assert canonical("//other.example", "https://example.org/a") == "https://other.example/"


@pytest.mark.parametrize(
    "written",
    ["", "example.org", "ftp://example.org/", "http://", "http:///a", "http://me@example.org/", "http://a\\b/", "http://%61/",
     "http://a b/", "http://[", "http://a:0/", "http://a:65536/", "http://./", f"http://a/{'x' * 2000}", "http://a/\x00"],
)  # fmt: skip
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(Rejected) as refused:
        canonical(written)

    assert refused.value.code == "url"
    assert masked(repr(written[:200])[1:-1].strip()) in refused.value.sentence


def test_hosts_are_told_apart_by_their_ports_unless_these_are_usual() -> None:
    assert authority("https://example.org/a") == authority("http://example.org/") == "example.org"
    assert origin("https://example.org:8443/a?b") == "https://example.org:8443"
