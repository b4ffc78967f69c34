"""Records each change, each admin call and each refusal in the audit trail.

A reply that confirms a change is sent only after the log has its entry (docs/adr/0028-keys-audit-browsers.md).
"""

from contextvars import ContextVar
from typing import Any, Final

import msgspec
import structlog
from litestar import Request
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from services.query_api.http.auth import Caller
from services.query_api.http.problems import Problem, request_id, send_problem, unavailable
from services.query_api.http.route_decorator import only_reads, role_of
from shared.contracts import AuditEntry, AuditResult
from shared.errors import Unavailable
from shared.log.audit_trail import AuditTrail
from shared.times import now_ms

log = structlog.get_logger(__name__)

_REFUSALS: Final = frozenset({401, 403, 429})
ADMINS: Final = frozenset({"admin", "operator"})
_current: ContextVar["_Visit | None"] = ContextVar("audited", default=None)


def note_change(document_id: str, result: AuditResult = "accepted") -> None:
    """Note that the current request has changed a document. Outside a request, do nothing."""
    if (visit := _current.get()) is not None:
        visit.changes = True
        visit.trail.change(visit.entry, document_id, result)


def note_concerned(action: str, tenant: str, key: str = "") -> None:
    """Note what the current request has done to a tenant, or to one of its keys: its own entry has the caller's."""
    if (visit := _current.get()) is not None:
        visit.trail.add(msgspec.structs.replace(visit.entry("done", None, ()), tenant=tenant, key=key, action=action))


def note_caller(caller: Caller) -> None:
    """Set the caller of a route that needs no key, such as a sign-in."""
    if (visit := _current.get()) is not None:
        visit.caller = caller


async def note_begin(_: Request[Any, Any, Any]) -> None:
    """Write the entry `begun` before an admin changes anything.

    Raises:
        Unavailable: the log is away; nothing was changed.
    """
    if (visit := _current.get()) is not None and visit.by_admin and visit.writes:
        visit.trail.add(visit.entry("begun", None, ()))
        await visit.trail.written()


class Audit(ASGIMiddleware):
    """The outermost middleware, so that it sees refused requests, too."""

    def __init__(self, trail: AuditTrail) -> None:
        self._trail = trail

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Serve the request; the reply is 503 if the change was made, but the audit trail doesn't have it."""
        visit = _Visit(self._trail, scope)
        token = _current.set(visit)
        replied = refused = False

        async def audited(message: Message) -> None:
            nonlocal replied, refused
            if message["type"] == "http.response.start" and not replied:
                replied = True
                problem = await visit.settle(int(message["status"]))
                if problem is not None:
                    refused = True
                    await send_problem(problem, scope, receive, send)
            if not refused:
                await send(message)

        try:
            await next_app(scope, receive, audited)
        except Problem as problem:  # of another middleware
            if not replied:
                await visit.settle(problem.status)
            raise
        finally:
            _current.reset(token)


class _Visit:
    """One request."""

    def __init__(self, trail: AuditTrail, scope: Scope) -> None:
        self.trail = trail
        self.changes = False  # whether any document was changed
        self.caller: Caller | None = None
        self._scope = scope
        handler = scope["route_handler"]
        self._action, self._role = getattr(handler.fn, "__name__", ""), role_of(handler)
        self._signs = bool(handler.opt.get("audited"))
        self.by_admin = self._role in ADMINS
        self.writes = not only_reads(scope)

    def entry(self, result: AuditResult, status: int | None, documents: tuple[str, ...]) -> AuditEntry:
        """Return an entry about this request."""
        caller = self.caller or self._scope.get("user")
        return AuditEntry(
            time=now_ms(),
            action=self._action,
            result=result,
            tenant="" if caller is None else caller.tenant,
            key="" if caller is None else caller.key,
            role=self._role or "",
            request=request_id(self._scope),
            status=status,
            documents=documents,
        )

    async def settle(self, status: int) -> Problem | None:
        """Enter how the request ended. If the reply confirms a change, wait until the log has its entry.

        Return the 503 to send instead if the log doesn't take it, else None.
        """
        result: AuditResult = "done" if status < 400 else "refused" if status in _REFUSALS else "failed"
        whole = self.writes and (self.by_admin or self._signs) and result == "done"
        if whole:
            self.trail.add(self.entry(result, status, ()))
        elif (
            result == "refused"
            or self.by_admin
            or self._signs
            or (self._role == "ingest" and self.writes and not (result == "done" and self.changes))
        ):  # it has no entry of its own
            self.trail.count(self.entry(result, status, ()))
        # A reply of 500 and above confirms nothing: with the log frozen it would wait for the log a second time.
        if whole or (self.changes and status < 500):
            try:
                await self.trail.written()
            except Unavailable as error:
                log.warning("change_not_audited", action=self._action, reason=error.sentence)
                return unavailable(
                    f"the change may have been made, but the audit trail doesn't have it: {error.sentence}; sending "
                    "the request again is safe",
                    code="OUTCOME_UNKNOWN",
                )
        return None
