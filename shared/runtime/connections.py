"""Limits on connections and request headers, enforced before the application sees a request.

The HTTP parser keeps whatever a client sends until the headers are complete, so a client that never completes them
could fill the memory, or hold connections until the process may open no more.
"""

import asyncio
import fcntl
import json
import resource
import sys
import termios
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache, partial
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

import structlog
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from shared.fair_queue import Rotation

log = structlog.get_logger(__name__)

HEADER_BYTES: Final = 64 * 1024
HEADER_FIELDS: Final = 100
HEADERS_S: Final = 10.0
BACKLOG: Final = 256  # file descriptors reserved for connections being accepted or refused
# Length of the queue in which the system keeps connections until we accept them; it may allow fewer. If the queue is
# full, the system drops a client's first packet, and the client tries again only after a second.
WAITING: Final = 4096
AT_ONCE: Final = 16  # connections that the event loop accepts before it runs other tasks again
OTHER_FILES: Final = 256  # descriptors that the process needs besides: log, store, parsers, servers
AGAIN_S: Final = 2
UNREAD_BYTES: Final = 256 << 20  # of replies that are in memory because their clients don't read them
UNREAD_S: Final = 60.0  # without one byte read, as nginx's `send_timeout`
_PIECE: Final = 16 * 1024  # bytes that the parser gets before the limits are checked again
_TOO_LARGE: Final = f"the headers are larger than {HEADER_BYTES} bytes"
_QUEUED: Final = 16  # requests that a client may send before it has the reply to the first one
ON_CLOSE: Final = "sluice.on_close"  # in a request's scope: what to call if its connection closes before its reply
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"cookie"})


class _Refusal(Exception):  # noqa: N818 - it becomes a reply
    """Why a connection is closed: a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence

    def reply(self) -> bytes:
        """Return the whole response, a problem as the API's own."""
        title = HTTPStatus(self.status).phrase
        problem = {"type": "about:blank", "title": title, "status": self.status, "detail": self.sentence}
        body = json.dumps(problem)
        fields = ["content-type: application/problem+json", f"content-length: {len(body)}", "connection: close"]
        if self.status == HTTPStatus.SERVICE_UNAVAILABLE:
            fields.append(f"retry-after: {AGAIN_S}")
        return "\r\n".join([f"HTTP/1.1 {self.status} {title}", *fields, "", body]).encode()


class Connections:
    """The open connections of one listener, and their limits.

    When there are too many, the oldest one without a running request is closed, so that half-open connections don't
    keep others out. If every connection has a request, the new one is refused with 503. When too much of their replies
    is unread, the one that has waited for its client for longest is closed. So is one whose client reads nothing for
    `unread_s`: its answer would keep the model's place.
    """

    def __init__(
        self,
        most: int,
        *,
        per_address: int | None = None,
        proxies: Iterable[IPv4Network | IPv6Network] = (),
        headers_s: float = HEADERS_S,
        unread_bytes: int = UNREAD_BYTES,
        unread_s: float = UNREAD_S,
    ) -> None:
        """Take the limits; `per_address` doesn't hold for loopback addresses and `proxies`."""
        self.headers_s = headers_s
        self.unread_s = unread_s
        self.starts = Rotation()  # of requests
        self._most = most
        self._per_address = most if per_address is None else per_address
        self.proxies = tuple(proxies)
        self._idle: dict[LimitedProtocol, None] = {}  # in the order in which they fell idle
        self._busy: set[LimitedProtocol] = set()
        self._of_address: Counter[str] = Counter()
        self._unread_bytes = unread_bytes
        self._unread: dict[LimitedProtocol, int] = {}  # bytes, in the order in which they began to wait

    def admit(self, connection: "LimitedProtocol") -> bool:
        """Count the connection as open and idle, and return whether it may stay open."""
        self._idle[connection] = None
        self._of_address[connection.address] += 1
        if self._of_address[connection.address] > self._per_address and not self._exempt(connection.address):
            return self._make_room(connection, connection.address)
        return len(self._idle) + len(self._busy) <= self._most or self._make_room(connection, None)

    def busy(self, connection: "LimitedProtocol") -> None:
        """Note that the connection's request has begun: its headers are complete."""
        if connection in self._idle:
            del self._idle[connection]
            self._busy.add(connection)

    def idle(self, connection: "LimitedProtocol") -> None:
        """Note that the connection waits for a request."""
        if connection in self._busy:
            self._busy.remove(connection)
            self._idle[connection] = None

    def gone(self, connection: "LimitedProtocol") -> None:
        """Note that the connection is closed; may be called twice."""
        if connection in self._idle or connection in self._busy:
            self._idle.pop(connection, None)
            self._busy.discard(connection)
            self._of_address[connection.address] -= 1
            if not self._of_address[connection.address]:
                del self._of_address[connection.address]

    def unread(self, connection: "LimitedProtocol", size: int) -> None:
        """Note how many bytes of its reply the connection's client has yet to read."""
        self._unread.pop(connection, None)
        if size:
            self._unread[connection] = size
        while len(self._unread) > 1 and sum(self._unread.values()) > self._unread_bytes:
            oldest = next(iter(self._unread))
            del self._unread[oldest]
            oldest.give_up()

    def _make_room(self, newest: "LimitedProtocol", address: str | None) -> bool:
        oldest = next((each for each in self._idle if address in (None, each.address)), newest)
        if oldest is newest:
            return False
        oldest.close_idle()
        return True

    def _exempt(self, address: str) -> bool:
        host = ip_of(address)
        if host is None:
            return True  # not an IP socket, so somebody on this machine
        return host.is_loopback or any(host in network for network in self.proxies)


@lru_cache
def ip_of(address: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in a text; None if it is none."""
    try:
        return ip_address(address)
    except ValueError:
        return None


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on connections, and on the size, number and time of headers."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.address = ""
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None
        self._unparsed = 0  # bytes since the parser last began a message or passed on a part of a body
        self._header_bytes = self._header_fields = 0
        self._parts: list[bytes] = []  # of a body, in the piece that is being parsed
        self._in_headers = False
        self._running: RequestResponseCycle | None = None
        self._refusal: _Refusal | None = None
        self._reading: asyncio.TimerHandle | None = None  # looks whether the client reads
        self._next: Callable[[], None] | None = None  # starts the request that waits until the reply before it is read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Take the connection, or refuse it."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self._limits.admit(self):
            self._await_headers()
        else:
            log.warning("connection_refused", address=self.address)
            self._refuse(_Refusal(503, f"there are too many connections; try again in {AGAIN_S} s"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._stop_looking()
        self._limits.gone(self)
        self._limits.unread(self, 0)
        super().connection_lost(exc)
        if self._running is not None:  # uvicorn tells only the newest of several requests
            for leave in self._running.scope.get(ON_CLOSE, ()):  # type: ignore[attr-defined]  # ours
                leave()
            self._running.disconnected = True
            self._running.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Parse a piece at a time, and stop as soon as a limit is exceeded."""
        for start in range(0, len(data), _PIECE):
            if self.transport.is_closing():
                return
            piece = data[start : start + _PIECE]
            self._unparsed += len(piece)
            super().data_received(piece)
            self._pass_on()
            if self._unparsed > HEADER_BYTES + _PIECE and not self.transport.is_closing():
                self._refuse(_Refusal(431, _TOO_LARGE))
        # uvicorn's own timer ends with the first byte. Most headers come as one piece, and need none.
        if (self._in_headers or self._running is None) and not self.transport.is_closing():
            self._await_headers()

    def on_message_begin(self) -> None:
        """Begin to count headers."""
        super().on_message_begin()
        self._unparsed = self._header_bytes = self._header_fields = 0
        self._in_headers = True

    def on_url(self, url: bytes) -> None:
        """Count the address as a part of the headers."""
        super().on_url(url)
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a field, be it a header or a trailer."""
        self._header_bytes += len(name) + len(value)
        self._header_fields += 1
        if self._header_bytes > HEADER_BYTES:
            self._stop(431, _TOO_LARGE)
        if self._header_fields > HEADER_FIELDS:
            self._stop(431, f"there are more than {HEADER_FIELDS} headers")
        if name.lower() == b"host" and not _names_a_host(value):
            self._stop(400, "Host is not a name with a port")  # RFC 9112 section 3.2
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request on."""
        self._in_headers = False
        self._stop_waiting()
        if len(self.pipeline) >= _QUEUED:
            self._stop(503, f"more than {_QUEUED} requests of this connection wait for their replies")
        self._limits.busy(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of a body until the piece is parsed: uvicorn copies all that is unread for each that it gets."""
        self._unparsed = 0
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """Pass on the rest of a body."""
        self._pass_on()
        super().on_message_complete()

    def _pass_on(self) -> None:
        if self._parts:
            body = b"".join(self._parts)
            self._parts.clear()
            super().on_body(body)

    def on_response_complete(self) -> None:
        """Wait for the connection's next request."""
        self._running = None
        super().on_response_complete()
        if self._running is None:
            self._limits.idle(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        # Who is calling isn't known yet. Requests with the same credentials certainly have the same caller.
        cycle.scope[ON_CLOSE] = list[Callable[[], None]]()  # type: ignore[typeddict-unknown-key]
        credentials = tuple(value for name, value in cycle.scope["headers"] if name in _CREDENTIALS)
        probes = cycle.scope["path"] == "/livez"  # it waits for no crowd, not even of its own address
        caller, start = (self.address, credentials, probes), partial(super()._start_asgi_task, cycle, app)
        if self.flow.write_paused:
            self._next = partial(self._limits.starts.add, caller, start)
        else:
            self._limits.starts.add(caller, start)

    def pause_writing(self) -> None:
        """Note that the client doesn't read as fast as we reply."""
        super().pause_writing()
        self._look_again(self._left_unread())
        self._limits.unread(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Note that the client has read the reply."""
        super().resume_writing()
        self._stop_looking()
        self._limits.unread(self, 0)
        if self._next is not None:
            self._next()
            self._next = None

    def give_up(self) -> None:
        """Close the connection, whose client doesn't read."""
        log.warning("reply_not_read", address=self.address)
        self.transport.abort()

    def _look_again(self, size: int) -> None:
        self._reading = self.loop.call_later(self._limits.unread_s, self._look, size)

    def _look(self, before: int) -> None:
        size = self._left_unread()
        if size < before:
            self._look_again(size)
        else:
            self.give_up()

    def _left_unread(self) -> int:
        """Return the bytes that the client's machine hasn't taken: ours, and up to 4 MB that the kernel holds.

        The kernel takes more of ours only when it has sent a third of its own: at 20 kB/s, after more than a minute.
        """
        held = bytearray(4)
        with suppress(OSError):  # where a socket doesn't tell
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + int.from_bytes(held, sys.byteorder)

    def _stop_looking(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def close_idle(self) -> None:
        """Close the connection, which has no running request, to make room for another one."""
        self._stop_waiting()
        self._limits.gone(self)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Reply to what the parser, or a limit, has refused."""
        refusal, self._refusal = self._refusal or _Refusal(400, msg), None
        self._refuse(refusal)

    def _await_headers(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.headers_s, self._late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self._in_headers:
            self._refuse(_Refusal(408, f"the headers were not complete within {self._limits.headers_s:g} s"))
        else:
            self.transport.close()  # nothing was sent: a browser that connected in advance

    def _stop(self, status: int, sentence: str) -> NoReturn:
        """Stop the parser; `send_400_response` is called next."""
        self._refusal = _Refusal(status, sentence)
        raise self._refusal

    def _refuse(self, refusal: _Refusal) -> None:
        self._stop_waiting()
        if self._running is None or not self._running.response_started:
            self.transport.write(refusal.reply())
        self.transport.close()


def _names_a_host(value: bytes) -> bool:
    """Return whether a URL can hold it. Libraries make URLs of it, and would raise at whatever asks for the port."""
    try:
        urlsplit(b"//" + value).port  # noqa: B018 - checks it
    except ValueError:
        return False
    return True


def connections_within_file_limit(wanted: int) -> int:
    """Return how many connections the process may have: `wanted`, or fewer if its limit of open files is too low.

    Raises the soft limit as far as needed and allowed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + BACKLOG + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    most = max(soft - BACKLOG - OTHER_FILES, 1)
    log.warning("fewer_connections", wanted=wanted, most=most, open_files=soft)
    return most
