import ipaddress

import pytest

from services.ingest_worker.fetch.addresses import destination, special


@pytest.mark.parametrize(
    ("address", "end"),
    [
        ("8.8.8.8", "8.8.8.8"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("64:ff9b::7f00:1", "127.0.0.1"),
        ("2606:2800:220:1::1", "2606:2800:220:1::1"),
    ],
)
def test_an_address_within_another_one_is_where_packets_end(address: str, end: str) -> None:
    assert destination(address) == ipaddress.ip_address(end)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="example"):
        destination("example.org")


@pytest.mark.parametrize("public", ["8.8.8.8", "168.63.129.15", "192.175.47.255", "2606:2800:220:1::1", "2a00::1"])
def test_public_addresses_are_not_special(public: str) -> None:
    assert special(destination(public)) is None


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("168.63.129.16", "Azure's wire server"),
        ("192.175.48.1", "AS112"),
        ("2001:20::1", "IETF protocols"),
        ("169.254.169.254", "link local, with the metadata of clouds"),
        ("fd00:ec2::254", "not global unicast"),
        ("5f00::1", "not global unicast"),
    ],
)
def test_special_addresses_say_what_they_are_for(address: str, name: str) -> None:
    assert special(destination(address)) == name
