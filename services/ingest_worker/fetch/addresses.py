"""Tells which addresses belong to the public web: all that IANA's registries of special addresses don't list.

https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, as of 2026-08-22. Blocks
within another one of the table are left out. Some of them are reachable from everywhere (AS112, ORCHIDv2), but no page
is there.
"""

import ipaddress
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SPECIAL: Final[dict[Network, str]] = {
    ipaddress.ip_network(block): name
    for block, name in {
        "0.0.0.0/8": "this network",
        "10.0.0.0/8": "private use",
        "100.64.0.0/10": "shared by a provider's customers",
        "127.0.0.0/8": "loopback",
        "169.254.0.0/16": "link local, with the metadata of clouds",
        "172.16.0.0/12": "private use",
        "192.0.0.0/24": "IETF protocols",
        "192.0.2.0/24": "documentation",
        "192.31.196.0/24": "AS112",
        "192.52.193.0/24": "multicast tunnels (AMT)",
        "192.88.99.0/24": "6to4 relays",
        "192.168.0.0/16": "private use",
        "192.175.48.0/24": "AS112",
        "198.18.0.0/15": "benchmarks",
        "198.51.100.0/24": "documentation",
        "203.0.113.0/24": "documentation",
        "240.0.0.0/4": "reserved",
        "2001::/23": "IETF protocols",
        "2001:db8::/32": "documentation",
        "2002::/16": "6to4",
        "2620:4f:8000::/48": "AS112",
        "3fff::/20": "documentation",
        # Not in those registries: multicast, and services of a cloud provider behind a public address.
        "224.0.0.0/4": "multicast",
        "168.63.129.16/32": "Azure's wire server",
    }.items()
}
_UNICAST_6: Final = ipaddress.ip_network("2000::/3")
_CARRIES_IPV4: Final = ipaddress.ip_network("64:ff9b::/96")  # NAT64, as an IPv6-only host reaches the IPv4 web
# Blocks that carry IPv4 addresses: these are allowed by their IPv4 networks.
NEVER_ALLOWED: Final = tuple(
    ipaddress.ip_network(block) for block in ("::/96", "::ffff:0:0/96", "64:ff9b::/32", "2001::/32", "2002::/16")
)


def destination(text: str) -> Address:
    """Return the address that packets are delivered to: for an IPv6 address that carries an IPv4 one, the latter.

    Raises:
        ValueError: the text is no address.
    """
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _CARRIES_IPV4:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def special(address: Address) -> str | None:
    """Return the purpose of an address that doesn't belong to the public web; None for a public address.

    In IPv6, only global unicast is public, because new prefixes for tunnels and translation are added elsewhere.
    """
    if address.version == 6 and address not in _UNICAST_6:
        return "not global unicast"
    return next((name for block, name in _SPECIAL.items() if address in block), None)
