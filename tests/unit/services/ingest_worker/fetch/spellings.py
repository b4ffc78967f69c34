"""Ways to write addresses that nobody may fetch from, and a resolver that answers as a hostile one would."""

import socket
from collections.abc import Iterable
from typing import Any

PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:2800:220:1:248:1893:25c8:1946"

# What internal names, and names in anybody's zone, may resolve to.
NAMES: dict[str, tuple[str, ...]] = {
    "localhost": ("127.0.0.1", "::1"),
    "localhost.localdomain": ("127.0.0.1",),
    "ip6-localhost": ("::1",),
    "qdrant": ("172.18.0.3",),
    "kafka": ("172.18.0.4",),
    "ollama": ("172.18.0.5",),
    "host.docker.internal": ("192.168.65.2",),
    "kubernetes.default.svc.cluster.local": ("10.96.0.1",),
    "metadata.google.internal": ("169.254.169.254",),
    "metadata": ("169.254.169.254",),
    "instance-data": ("169.254.169.254",),
    "127.0.0.1.nip.io": ("127.0.0.1",),
    "localtest.me": ("127.0.0.1",),
    "mixed.example": (PUBLIC, "10.0.0.5"),
    "mixed6.example": (PUBLIC_6, "::1"),
    "mixed-families.example": (PUBLIC, "fd00:ec2::254"),
    "mapped.example": ("::ffff:127.0.0.1",),
    "nat64.example": ("64:ff9b::7f00:1",),
    "sixtofour.example": ("2002:7f00:1::",),
    "teredo.example": ("2001:0:7f00:1::80ff:fffe",),
    "zone.example": ("fe80::1%lo",),
    "any.example": ("0.0.0.0",),
    "any6.example": ("::",),
    "broadcast.example": ("255.255.255.255",),
    "xn--bcher-kva.example": ("192.168.1.1",),
    "public.example": (PUBLIC,),
    "public6.example": (PUBLIC_6,),
}

_V4 = [
    "127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255",
    "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "169.254.169.254", "169.254.170.2",
    "169.254.0.1",
    "100.64.0.1", "100.100.100.200", "100.127.255.255", "192.0.0.1", "192.0.0.8", "192.0.0.170", "192.0.0.192",
    "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "168.63.129.16", "192.175.48.1", "192.175.48.254", "192.31.196.1", "192.52.193.1", "192.0.0.9", "192.0.0.10",
]  # fmt: skip
_V6 = [
    "::1", "::", "::2", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1", "::ffff:0:a9fe:a9fe", "::127.0.0.1", "::7f00:1", "64:ff9b::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::7f00:1", "64:ff9b:1:ffff::a9fe:a9fe", "2002:7f00:1::",
    "2002:a9fe:a9fe::1", "2002:a00:1::", "2002:c0a8:101::", "2001:0:7f00:1::80ff:fffe",
    "2001:0:4136:e378::80ff:fffe",
    "2001:db8::1", "2001:10::1", "2001:2::1", "100::1", "100:0:0:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00::1",
    "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::a9fe:a9fe", "febf::1", "fec0::1", "ff02::1", "ff05::1:3",
    "ff0e::1",
    "4000::1", "8000::1",
    "2001:20::1", "2001:2f:ffff::1", "2001:30::1", "2001:3::1", "2001:4:112::1", "2001:1::1", "2620:4f:8000::1",
    "::ffff:168.63.129.16", "64:ff9b::a83f:8110",
]  # fmt: skip
_HOSTS = [
    # One number, and numbers in other bases; inet_aton reads what ipaddress doesn't.
    "2130706433", "017700000001", "0x7f000001", "0x7F000001", "0x7f.0.0.1", "0x7f.0x0.0x0.0x1", "0177.0.0.1",
    "0177.0.0.01",
    "00177.0.0.1", "127.1", "127.0.1", "0x7f.1", "0177.1", "127.0x1", "0", "0x0", "00", "0.0", "2852039166",
    "0xa9fea9fe",
    "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376", "025177524776", "169.254.43518", "169.16689662", "167772161",
    "0x0a000001",
    "012.0.0.1", "10.1", "3232235777", "0xc0.0xa8.0x1.0x1", "192.168.257", "4294967295",
    # Dots, case and what surrounds them.
    "127.0.0.1.", "127.0.0.1..", "127.0.0.1.%2e", "localhost.", "LOCALHOST", "LocalHost", "localhost%00",
    "localhost%2e",
    "127.0.0.1%00", "127%2E0%2E0%2E1", "%31%32%37.0.0.1", "127.0.0.1%20", "%6c%6f%63%61%6c%68%6f%73%74",
    "127.0.0.1%0d%0a",
    # Characters that become others.
    "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "①②⑦.⓪.⓪.①", "１２７.0.0.1", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "ｌｏｃａｌｈｏｓｔ",
    "loc\u00adalhost",
    "localhos\u212b", "١٢٧.٠.٠.١", "l\u200bocalhost", "ʟocalhost",
    # Zones, and brackets.
    "[::1%25lo]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[::ffff:127.0.0.1%25lo]", "[::1]", "[::1].",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[::FFFF:127.0.0.1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::ffff:0x7f.1]", "[v1.127.0.0.1]",
    # Who stands before the host, and who only seems to.
    "public.example@127.0.0.1", "public.example:80@127.0.0.1", "public.example%40127.0.0.1",
    "127.0.0.1\\@public.example",
    "public.example\\@127.0.0.1", "public.example\\.127.0.0.1", "127.0.0.1#@public.example",
    "127.0.0.1?@public.example", "127.0.0.1;@public.example", "public.example&@127.0.0.1", "@127.0.0.1",
    ":@127.0.0.1",
    "public.example @127.0.0.1", "127.0.0.1 public.example", "127.0.0.1\tpublic.example", "127.0.0.1\r\nHost: a",
]  # fmt: skip
_WHOLE = [
    "file:///etc/passwd", "FILE:///etc/passwd", "file://localhost/etc/passwd", "file:/etc/passwd",
    "gopher://127.0.0.1:6379/_x",
    "dict://127.0.0.1:11211/stat", "ftp://127.0.0.1/", "ftps://127.0.0.1/", "sftp://127.0.0.1/",
    "tftp://127.0.0.1/",
    "ldap://127.0.0.1/", "data:text/html,hello", "javascript:alert(1)", "jar:http://127.0.0.1!/",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/", "ws://127.0.0.1/", "wss://127.0.0.1/", "blob:http://127.0.0.1/",
    "about:blank",
    "view-source:http://127.0.0.1/", "netdoc:///etc/passwd", "phar://a", "smb://127.0.0.1/", "mailto:a@127.0.0.1",
    "\x00http://127.0.0.1/", "ht\ntp://127.0.0.1/", "http:127.0.0.1/", "http:/127.0.0.1/", "http:///127.0.0.1/",
    "http:\\\\127.0.0.1/", "//127.0.0.1/", "///127.0.0.1/", "127.0.0.1/", "127.0.0.1:80", "http://", "http:///",
    "http://:80/",
    "http://127.0.0.1:0/", "http://127.0.0.1:65536/", "http://127.0.0.1:-1/", "http://127.0.0.1:80:80/",
    "http://127.0.0.1:8０/",
    "", " ", "http://public.example:22/", "http://public.example:25/", "http://public.example:6333/",
    "http://public.example:0x50/",
]  # fmt: skip

SPELLINGS = [
    *(f"http://{host}/" for host in [*_V4, *(f"[{each}]" for each in _V6), *_HOSTS]),
    *(f"https://{name}:8443/latest/meta-data/" for name in NAMES if not name.startswith("public")),
    *_WHOLE,
]


def resolved(host: Any, port: int, *_: Any) -> Iterable[tuple[int, int, int, str, tuple[Any, ...]]]:
    """Answer as getaddrinfo does: numbers of any base by itself, names by the table, and nothing else."""
    name = host.decode() if isinstance(host, bytes) else host
    answers = NAMES.get(name.lower().rstrip("."))
    if answers is None:
        return socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    return [row(answer, port) for answer in answers]


def row(address: str, port: int) -> tuple[int, int, int, str, tuple[Any, ...]]:
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
