"""Wiring: builds the HTTP API from parts that a process has started. Nothing here starts or stops them."""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, cast

import structlog
from litestar import Litestar, Response, Router
from litestar.config.cors import CORSConfig
from litestar.datastructures import Headers, State
from litestar.exceptions import NotFoundException
from litestar.middleware import ASGIMiddleware
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from services.query_api import answer, clients, documents, ingest, ops, search
from services.query_api.answer.answering import Answering
from services.query_api.clients import ollama
from services.query_api.clients.mcp import mcp
from services.query_api.clients.models import Models
from services.query_api.console import pages as console
from services.query_api.console.oidc import Oidc, provider_id
from services.query_api.documents import changes, detail, document_routes, stats
from services.query_api.http import monitoring
from services.query_api.http.admission import Admission, AdmissionLimits, AnswerRate
from services.query_api.http.audit import Audit, note_begin
from services.query_api.http.auth import Authenticate, Keyring
from services.query_api.http.browsers import BrowserGuard, add_safe_headers
from services.query_api.http.linger import Linger
from services.query_api.http.monitoring import Metrics
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.openapi import MORE_LINES, described_instead
from services.query_api.http.problems import API, HANDLERS, AnyRequest, on_http_exception, request_id
from services.query_api.http.reply_warnings import ReplyWarnings
from services.query_api.http.request import PARTS, ApiRequest
from services.query_api.http.route_decorator import ROUTE_ROLES, allow_methods, handlers_in, index_of, routes_in
from services.query_api.http.stopping import Stopping
from services.query_api.ingest import unchanged_check, upload
from services.query_api.ingest.submissions import StatusWaiters, Submissions
from services.query_api.ops.eraser import Eraser
from services.query_api.ops.feedback import Thumbs
from services.query_api.ops.file_rewrite import FileRewrites
from services.query_api.ops.generation_service import GenerationService
from services.query_api.ops.redrive import DeadLetterService
from services.query_api.search.past import PastIndexes
from services.query_api.search.query_expansion import QueryExpander
from services.query_api.search.retrieval import Retriever
from shared import tracing
from shared.answers.model_pool import ChatModels
from shared.log import Publish
from shared.log.audit_trail import AuditTrail
from shared.log.metrics import LogFigures
from shared.reranker import Reranker
from shared.runtime.key_file import key_file_of
from shared.runtime.probes import OPEN, Probed, Troubles, livez
from shared.runtime.resources import Resources
from shared.runtime.settings_report import settings_report
from shared.settings import read_given
from shared.state.callbacks import Callbacks
from shared.state.generations import scale_of
from shared.state.index import Index
from shared.state.sessions import Sessions
from shared.version import VERSION

# MCP's library is an extra and slow to import, so its only route is made below.
ROUTES: Final = routes_in(
    (ingest, documents, search, answer, ops, clients), excluding=(f"{clients.__name__}.mcp_server",)
)
_OLLAMA: Final = [route for route in ROUTES if route.fn.__module__ == ollama.__name__]
_OLLAMA_PATHS: Final = frozenset(path for route in _OLLAMA for path in route.paths)

_EXPOSED: Final = ("Location", "Link", "Retry-After", "X-Request-Id")  # headers that other sites' pages may read
SHARED: Final = "shared"  # in the application's state
_BEGAN: Final = "began"  # in a request's state

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class ApiParts(Resources):
    """The process's resources, and what the API has besides. The caller starts them before and stops them after."""

    publish: Publish
    notices: StatusWaiters
    callbacks: Callbacks
    sessions: Sessions
    oidc: Oidc | None = None
    models: ChatModels
    readiness: Troubles
    stopping: Stopping = field(default_factory=Stopping)
    rewrites: FileRewrites
    secret: bytes  # signs cursors; the same in every API of the installation
    file_reader: upload.ReadFile
    generations: GenerationService
    letters: DeadLetterService
    reranker: Reranker | None = None
    metrics: Metrics
    trail: AuditTrail
    past: PastIndexes

    def close(self) -> None:
        """End waiting at once and answers soon, because the server is about to stop."""
        self.notices.close()
        self.stopping.end()


class SharedParts(NamedTuple):
    """The parts that the application has once, whatever generation answers."""

    keyring: Keyring
    limits: AdmissionLimits
    rate: AnswerRate
    signer: Signer
    pages: console.Console


def retriever_of(parts: ApiParts) -> Retriever:
    """Return what searches the generation of `parts.index`."""
    return Retriever(
        parts.index,
        parts.embedder,
        parts.bm25,
        parts.metrics,
        scale=lambda: scale_of(parts.watch.registry, parts.index.generation.id),
        reranker=parts.reranker,
    )


def parts_of(parts: ApiParts, shared: SharedParts) -> dict[type, object]:
    """Return what `ApiRequest.part` gives while the generation of `parts.index` answers, by type."""
    settings, signer = parts.settings, shared.signer
    retriever = retriever_of(parts)
    checker = unchanged_check.UnchangedChecker(parts.log, parts.ledger, parts.index)
    submissions = Submissions(
        unchanged=checker.unchanged,
        sent=checker.sent,
        count=shared.limits.documents.spend,
        base=parts,
        publish=parts.publish,
        notices=parts.notices,
        metrics=parts.metrics,
        signer=signer,
    )
    library = document_routes.DocumentViews(parts.ledger, parts.index, parts.blobs, signer)
    provided = (
        shared.pages,
        retriever,
        parts.past,
        QueryExpander(parts.models, shared.rate),
        submissions,
        settings,
        library,
        stats.Census(parts),
        parts.callbacks,
        detail.ProgressTracker(library, parts.index, parts.notices),
        checker,
        Eraser(parts, parts.publish, submissions, parts.callbacks, partial(parts.generations.siblings, parts.index)),
        parts.rewrites,
        parts.generations,
        parts.letters,
        LogFigures(parts.log, parts.letters.open, parts.generations.groups),
        shared.keyring,
        changes.ChangeFeed(parts.log, parts.notices, signer),
        Thumbs(parts.log, parts.publish, parts.ledger, settings.feedback_questions),
        settings_report(settings, read_given()),
        Answering(retriever, parts.models, shared.rate, settings, parts.stopping),
        Models(parts.models, parts.embedder),
        signer,
        Probed(parts.stopping.of(parts.readiness), parts.registry),
    )
    return {type(each): each for each in provided} | {
        Resources: parts,
        Index: parts.index,
        upload.ReadFile: parts.file_reader,
    }


def make_api(parts: ApiParts) -> Litestar:
    """Return the API. Every route is also served under /api."""
    settings = parts.settings
    keyring = Keyring(settings.keys, key_file_of(settings), parts.sessions, provider_id(settings))
    limits = AdmissionLimits(settings, parts.stopping, several=lambda: keyring.several_tenants)
    routes = [
        *(route for route in ROUTES if route not in _OLLAMA),
        livez,
        monitoring.readyz,
        monitoring.metrics,
        mcp,
        console.index_page,
    ]
    pages = console.Console(keyring, {**index_of(routes), **MORE_LINES}, parts.oidc)
    shared = SharedParts(keyring, limits, AnswerRate(settings.chat_rate), Signer(parts.secret), pages)
    views = [each for each in handlers_in(console.__name__) if each is not console.index_page]  # nowhere else
    return _Api(
        route_handlers=[
            Router("/", route_handlers=[*routes, *views]),
            Router(API, route_handlers=_OLLAMA),
        ],
        state=State({PARTS: parts_of(parts, shared), SHARED: shared}, deep_copy=False),
        middleware=[
            _Bound(),
            Audit(parts.trail),
            Linger(),
            BrowserGuard(hosts=settings.own_names, origins=settings.origins, keyless=lambda: not keyring.needed),
            Authenticate(keyring),
            Admission(limits),
            ReplyWarnings(),
        ],
        before_request=note_begin,
        exception_handlers={**HANDLERS, NotFoundException: _missing},
        before_send=[
            allow_methods,
            partial(add_safe_headers, bool(settings.origins)),
            partial(_observe, parts.metrics),
        ],
        request_class=ApiRequest,
        request_max_body_size=None,  # `Admission` knows each route's limit
        cors_config=CORSConfig(allow_origins=list(settings.origins), expose_headers=[*_EXPOSED])
        if settings.origins
        else None,  # only this server's own pages may call the API
        # Only the JSON: the framework's pages load scripts from elsewhere.
        openapi_config=OpenAPIConfig(
            title="Sluice",
            version=VERSION,
            description="Ingests documents into an index, searches it, and answers questions from it.",
            use_handler_docstrings=True,
            components=Components(
                security_schemes={
                    "bearer": SecurityScheme(type="http", scheme="bearer"),
                    "key": SecurityScheme(type="apiKey", name="X-API-Key", security_scheme_in="header"),
                }
            ),
            security=[{"bearer": []}, {"key": []}, {}],
            openapi_router=Router(
                "/openapi.json",
                route_handlers=[],
                include_in_schema=False,
                opt={"lane": "ask", ROUTE_ROLES: ()},
                before_request=described_instead,
            ),
            render_plugins=[JsonRenderPlugin(path=["/", "/openapi.json"])],
        ),
        logging_config=None,
    )


class _Api(Litestar):
    """The application. It answers HEAD as GET; the server that runs it leaves the body out.

    Each route is also there under /api, but Ollama's, which are nowhere else; /api/chat is AgentX's and Ollama's.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # type: ignore[override]
        """Answer a request. Its `raw_path` stays as it was sent."""
        path = scope.get("path", "").removeprefix(API)
        if path[:1] in ("", "/") and path.rstrip("/") not in _OLLAMA_PATHS:
            scope["path"] = path or "/"
        if scope.get("method") == "HEAD":
            scope = cast("Scope", {**scope, "method": "GET"})
        await super().__call__(scope, receive, send)


async def _observe(metrics: Metrics, message: Message, scope: Scope) -> None:
    """Count each response, log refused ones, and add the request's id to it; no text, key or query is logged."""
    if message["type"] != "http.response.start":
        return
    method = cast("HTTPScope", scope)["method"]  # there are no sockets here
    route = scope.get("path_template", "unmatched")
    if _BEGAN in scope["state"]:  # no middleware sees an address without a route
        metrics.reply_seconds.labels(route).observe(time.perf_counter() - scope["state"][_BEGAN])
    message["headers"] = [*message["headers"], (b"x-request-id", request_id(scope).encode())]
    status = int(message["status"])
    metrics.requests.labels(method, route, str(status)).inc()
    tracing.note("http.response.status_code", status)
    if status >= 400:  # of the others the counter tells: a line costs 80 µs, and 20 where it isn't written
        log.info("request", method=method, route=route, status=status)


class _Bound(ASGIMiddleware):
    """Binds the request's id to everything that is logged while the request is served."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        scope["state"][_BEGAN] = time.perf_counter()
        structlog.contextvars.bind_contextvars(request_id=request_id(scope))  # each request has a task of its own
        traced: AbstractContextManager[None] = nullcontext()
        if OPEN not in scope["route_handler"].opt:  # probes, and what anybody may ask
            name = f"{cast('HTTPScope', scope)['method']} {scope['path_template']}"
            traced = tracing.step(name, Headers.from_scope(scope).get(tracing.HEADER, ""))
        with traced:
            await next_app(scope, receive, send)


def _missing(request: AnyRequest, error: NotFoundException) -> Response[Any]:
    """Answer at an unknown address: a person gets a page, a program the problem."""
    reads = request.method == "GET" and console.shows_pages(request)
    return cast("ApiRequest", request).part(console.Console).missing() if reads else on_http_exception(request, error)
