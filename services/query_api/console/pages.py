"""The console's routes: one page for all views, its files, and the browser's session."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from litestar import MediaType, Response, delete, get, post
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath, JSONBody
from litestar.response import Redirect
from minijinja import Environment

from services.query_api.console.oidc import HANDSHAKE_S, RETURN, Handshake, Oidc
from services.query_api.http.audit import note_caller
from services.query_api.http.auth import ANYBODY, SESSION_COOKIE, Caller, Keyring, slowed
from services.query_api.http.browsers import sending_site
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import AnyRequest, Problem
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import BodyLimit
from shared.settings import LOOPBACK, ROLES
from shared.state.sessions import SESSION_S
from shared.version import VERSION

_PACKAGE: Final = files(__package__)
_DOCS: Final = Path(__file__).parents[3] / "docs"  # in a wheel and an image, too
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".md": "text/markdown"}


class Asset(NamedTuple):
    """A file in the form in which it is sent."""

    body: bytes
    media_type: str


def load_assets() -> dict[str, Asset]:
    """Return the static files by name, and the pages of the documentation, with ~ for a folder's slash."""
    found = {file.name: file for file in _PACKAGE.joinpath("static").iterdir() if file.is_file()}
    docs = [*_DOCS.glob("*.md"), *_DOCS.glob("clients/*.md")]
    pages = {"~".join(page.relative_to(_DOCS).parts): page for page in docs}
    sent = sorted({**pages, **found}.items())
    return {name: Asset(file.read_bytes(), _TYPES[name[name.rfind(".") :]]) for name, file in sent}


def fingerprint(assets: dict[str, Asset]) -> str:
    """Return 12 hex digits that change with any of the files, so that browsers may cache the files for ever."""
    digest = hashlib.sha256()
    for name, asset in sorted(assets.items()):
        digest.update(f"{name} {len(asset.body)}\n".encode())
        digest.update(asset.body)
    return digest.hexdigest()[:12]


def templates() -> Environment:
    """Return the templates; all values in HTML pages are escaped."""
    sources = {
        file.name: file.read_text("utf-8") for file in _PACKAGE.joinpath("templates").iterdir() if file.is_file()
    }
    environment = Environment(
        templates=sources, auto_escape_callback=lambda name: "html" if name.endswith(".html") else None
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    return environment


class View(NamedTuple):
    """A view's entry in the navigation."""

    path: str
    name: str
    role: str  # the role that may see it
    icon: str  # SVG path in a box of 24 by 24


VIEWS: Final = (
    View("/", "Ask", "query", "M4 5h16v11H9l-5 4z"),
    View("/search", "Search", "query", "M10.5 4a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13M15.5 15.5L21 21"),
    View("/documents", "Documents", "", "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6"),
    View("/overview", "Overview", "query", "M4 20V11M10 20V4M16 20v-7M22 20H2"),
    View("/generations", "Generations", "query", "M12 3l9 5-9 5-9-5zM3 13l9 5 9-5"),
    View("/dead-letters", "Dead letters", "admin", "M3 6h18v12H3zM3 7l9 7 9-7"),
)
ASSETS: Final = "/console/assets"
# No content from other sites, no inline scripts. With trusted types, no string of a document can become markup.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_GUARDED: Final = {  # added to the headers that `BrowserGuard` sends with every reply
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FRESH: Final = {"Cache-Control": "no-store"}
_MONTHS_S: Final = 365 * 24 * 3600
_HANDSHAKE: Final = "sluice_oidc"  # a cookie: what the browser keeps while it is at the provider


class Session(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The signed-in user's roles. `keys` says whether signing in is needed at all."""

    keys: bool
    signed_in: bool
    tenant: str | None
    key: str  # its id, as the audit trail names it
    roles: list[str]
    provider: bool | msgspec.UnsetType = msgspec.UNSET  # whether an OpenID provider signs in, too


class Key(msgspec.Struct, frozen=True):
    """The API key that a person signs in with."""

    key: str


class Console:
    """Renders the page, and knows who is signed in."""

    def __init__(self, keyring: Keyring, index: Mapping[str, str], oidc: Oidc | None) -> None:
        self.keyring = keyring
        self._oidc = oidc
        self._index = index
        self.assets = load_assets()
        self.stamp = fingerprint(self.assets)
        self._templates = templates()

    @property
    def provider(self) -> Oidc:
        """Return the OpenID provider. Raises a 404 if there is none."""
        if self._oidc is None:
            raise Problem(404, "no OpenID provider signs in here")
        return self._oidc

    async def page(self, request: AnyRequest) -> Response[str]:
        """Return the page. Its script shows the view that the URL names."""
        view = next((each.name for each in VIEWS if each.path == request.scope["path"]), "Documents")
        return self._page(await self.session(request), view)

    def missing(self) -> Response[str]:
        """Return the page of an unknown address, with a 404. Its script finds out who is signed in."""
        keys = self.keyring.needed
        return self._page(_session(None if keys else ANYBODY, keys=keys), "Not found", status_code=404)

    def _page(self, session: Session, view: str, status_code: int = 200) -> Response[str]:
        html = self._templates.render_template(
            "page.html",
            assets=f"{ASSETS}/{self.stamp}",
            modules=sorted(name for name in self.assets if name.endswith(".js")),
            session=msgspec.json.encode(session).decode(),
            view=view,
            version=VERSION,
            views=[each._asdict() for each in VIEWS],  # the template reads them by name
        )
        headers = {**_GUARDED, **_FRESH, "Vary": "Accept, Cookie"}
        return Response(html, media_type=MediaType.HTML, headers=headers, status_code=status_code)

    def index(self, *, as_text: bool) -> Response[Any]:
        """Return the index of routes."""
        if as_text:
            text = self._templates.render_template("index.txt", version=VERSION, routes=self._index)
            return Response(text, media_type=MediaType.TEXT, headers={"Vary": "Accept"})
        described = {"name": "Sluice", "version": VERSION, "routes": dict(self._index)}
        return Response(described, headers={"Vary": "Accept"})

    async def session(self, request: AnyRequest) -> Session:
        """Return the session: the roles that the browser has."""
        if not self.keyring.needed:
            return _session(ANYBODY, keys=False)
        found = _session(await self.signed_in(request), keys=True)
        return found if self._oidc is None else msgspec.structs.replace(found, provider=True)

    async def signed_in(self, request: AnyRequest) -> Caller | None:
        """Return who is signed in; None: nobody."""
        cookie = request.cookies.get(SESSION_COOKIE)
        return None if cookie is None else await self.keyring.signed_in(cookie)


def _session(caller: Caller | None, *, keys: bool) -> Session:
    roles: list[str] = [] if caller is None else [role for role in ROLES if caller.may(role)]
    tenant, key = (caller.tenant, caller.key) if caller else (None, "")
    return Session(keys=keys, signed_in=caller is not None, tenant=tenant, key=key, roles=roles)


def _cookie(
    request: AnyRequest,
    value: str,
    max_age_s: int,
    *,
    key: str = SESSION_COOKIE,
    path: str = "/",
    samesite: Literal["strict", "lax"] = "strict",
) -> Cookie:
    """Return a cookie; it is `Secure` except on loopback addresses, where there is no TLS."""
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:  # such as "[", which no browser sends
        host = None
    return Cookie(
        key=key,
        value=value,
        max_age=max_age_s,
        path=path,
        httponly=True,
        samesite=samesite,
        secure=host not in LOOPBACK,
    )


def _handshake(request: AnyRequest, value: str, max_age_s: int = HANDSHAKE_S) -> Cookie:
    return _cookie(request, value, max_age_s, key=_HANDSHAKE, path=RETURN, samesite="lax")


async def _from_own_page(connection: ASGIConnection, _: BaseRouteHandler) -> None:  # type: ignore[type-arg]  # the framework's own signature
    """Raise a 403 if anything but a page of this server sent the request, before its body is read."""
    if sending_site(connection.headers) != "own":
        raise Problem(403, "sign in on this server's own page")


@get("/", include_in_schema=False, opt={"open": True, "page": True}, status_code=200)
async def index_page(request: ApiRequest) -> Response[Any]:
    """Return the console to a browser, and the index of routes to other clients, as JSON or text."""
    console = request.part(Console)
    if shows_pages(request):
        return await console.page(request)
    wanted = request.accept.best_match(["application/json", "text/plain"])
    return console.index(as_text=wanted == "text/plain")


def shows_pages(request: AnyRequest) -> bool:
    """Return whether a browser asks, which shows its user what it gets."""
    wanted = request.accept.best_match(["application/json", "text/html", "text/plain"])
    return "text/html" in request.headers.get("accept", "") and wanted == "text/html"


@get(
    [*(each.path for each in VIEWS[1:]), "/documents/{document_id:str}", "/settings", "/help", "/help/{page:str}"],
    include_in_schema=False,
    opt={"open": True, "page": True},
    status_code=200,
)
async def console_page(request: ApiRequest) -> Response[str]:
    """Show one view of the console."""
    return await request.part(Console).page(request)


@get(ASSETS + "/{stamp:str}/{name:str}", include_in_schema=False, opt={"open": True})
async def console_asset(stamp: FromPath[str], name: FromPath[str], request: ApiRequest) -> Response[bytes]:
    """Return a script, style sheet or image of the console."""
    console = request.part(Console)
    asset = console.assets.get(name)
    if asset is None or stamp != console.stamp:
        raise Problem(404, "the console has no such file")
    headers = {**_GUARDED, "Cache-Control": f"public, max-age={_MONTHS_S}, immutable"}
    return Response(asset.body, media_type=asset.media_type, headers=headers)


@get("/console/session", include_in_schema=False, opt={"open": True})
async def console_session(request: ApiRequest) -> Response[Session]:
    """Return the browser's session."""
    return Response(await request.part(Console).session(request), headers=_FRESH)


@post(
    "/console/session",
    include_in_schema=False,
    guards=[_from_own_page],
    opt={"open": True, "audited": True, "takes": BodyLimit(4096, 100)},
    status_code=200,
)
async def console_sign_in(data: JSONBody[Key], request: ApiRequest) -> Response[Session]:
    """Sign a browser in."""
    console = request.part(Console)
    if not console.keyring.needed:
        raise Problem(409, "this server has no API keys, so nobody needs to sign in")
    value, caller = await slowed(console.keyring.sign_in(data.key.strip()))
    note_caller(caller)
    return Response(_session(caller, keys=True), cookies=[_cookie(request, value, SESSION_S)], headers=_FRESH)


@delete("/console/session", include_in_schema=False, opt={"open": True, "audited": True}, status_code=204)
async def console_sign_out(request: ApiRequest) -> Response[None]:
    """Sign a browser out: its cookie is worth nothing any more."""
    console = request.part(Console)
    if (caller := await console.signed_in(request)) is not None:
        note_caller(caller)
        await console.keyring.sign_out(request.cookies[SESSION_COOKIE])
    return Response(None, status_code=204, cookies=[_cookie(request, "", 0)])


@get("/console/oidc", include_in_schema=False, opt={"open": True})
async def console_oidc(request: ApiRequest) -> Redirect:
    """Send a browser to the OpenID provider."""
    console = request.part(Console)
    address, kept = await console.provider.begin()
    return Redirect(
        address, status_code=303, cookies=[_handshake(request, request.part(Signer).sign(kept))], headers=_FRESH
    )


# Strict cookies aren't sent with what another site leads to: the page that follows asks for its session by script.
@get(RETURN, include_in_schema=False, opt={"open": True, "audited": True, "page": True})
async def console_oidc_sign_in(request: ApiRequest) -> Redirect:
    """Sign a browser in that comes from the OpenID provider."""
    console = request.part(Console)
    kept: Handshake | None = None
    with suppress(Problem):  # what this server didn't sign never makes it call the provider
        kept = request.part(Signer).opened(request.cookies.get(_HANDSHAKE, ""), Handshake, field=_HANDSHAKE)
    who = await console.provider.end(kept, {name: request.query_params[name] for name in request.query_params})
    caller = Caller(who.tenant, who.roles, key=who.user)
    note_caller(caller)
    session = _cookie(request, await console.keyring.admit(caller, who.seconds), who.seconds)
    return Redirect("/", status_code=303, cookies=[session, _handshake(request, "", 0)], headers=_FRESH)
