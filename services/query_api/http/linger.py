"""Lets the sender of a refused body read the reply, and stops reading for a caller who has left."""

import asyncio
import math
from contextlib import suppress
from typing import Any, Final, cast

from litestar.datastructures import Headers, MutableScopeHeaders
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

from services.query_api.http.audit import ADMINS
from services.query_api.http.browsers import has_body
from services.query_api.http.problems import Problem, send_problem
from services.query_api.http.route_decorator import only_reads, role_of
from shared.runtime.connections import ON_CLOSE
from shared.times import PATIENCE

LINGER_S: Final = 2.0
PATIENCE_S: Final = 5.0
WRITING_S: Final = 20.0  # as long as a record may take to the log
CALLER_LEFT: Final = 499  # as nginx has it


class Linger(ASGIMiddleware):
    """Middleware that answers problems, and then keeps reading for a while if the body is still arriving.

    Otherwise the sender of a refused body would see a broken connection instead of the reason. If the caller of a route
    that only reads closes the connection before the reply, its handler is cancelled. A write goes on to its end.

    A part that hangs is waited for `PATIENCE_S` seconds where a route only reads, and for `WRITING_S` where documents
    are sent or deleted. What admins and operators change waits as long as the part's adapter does: to create or empty
    a large collection takes its time, and would fail at each try.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Serve the request, or answer with the problem that refuses it."""
        exchange = _Exchange(cast("HTTPScope", scope), receive, send)  # there are no sockets here
        task, left = asyncio.current_task(), False

        def leave() -> None:
            nonlocal left
            left = task is not None and task.cancel()

        patience_s = math.inf if role_of(scope["route_handler"]) in ADMINS else WRITING_S
        if only_reads(scope):
            cast("dict[str, Any]", scope).get(ON_CLOSE, []).append(leave)
            patience_s = PATIENCE_S
        outer = PATIENCE.set(patience_s)
        try:
            try:
                await next_app(scope, exchange.receive, exchange.send)
            except Problem as problem:  # before the route was reached
                await send_problem(problem, scope, receive, exchange.send)
        except asyncio.CancelledError:
            if task is None or not left:
                raise
            task.uncancel()
            # Nobody reads it, but the audit trail has the call.
            await send({"type": "http.response.start", "status": CALLER_LEFT, "headers": []})
        finally:
            PATIENCE.reset(outer)


class _Exchange:
    """One request and its reply."""

    def __init__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._arriving = has_body(Headers.from_scope(scope))

    async def receive(self) -> HTTPReceiveMessage:
        """Return the next piece of the body."""
        message = cast("HTTPReceiveMessage", await self._receive())
        self._arriving = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send the reply. If the body is still arriving, keep reading for `LINGER_S` before the connection closes."""
        if self._arriving and message["type"] == "http.response.start":
            MutableScopeHeaders.from_message(message)["Connection"] = "close"
        if not self._arriving or message["type"] != "http.response.body" or message.get("more_body", False):
            await self._send(message)
            return
        message["more_body"] = True
        await self._send(message)
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while self._arriving:
                    await self.receive()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
