"""Problems: the JSON bodies of refused and failed requests (RFC 9457).

A body has `type, title, status, detail, instance`. Clients of earlier systems also find `success: false`, the sentence
as `error` and as `message`, `code` and `details`. Routes of OpenAI's API answer with OpenAI's error object instead.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from http import HTTPStatus
from secrets import token_hex
from typing import Any, Final

import msgspec
import structlog
from litestar import MediaType, Request, Response
from litestar.datastructures import Headers
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap, Receive, Scope, Send
from msgspec import UNSET

from shared.errors import PipelineError, Unavailable
from shared.runtime.probes import RETRY_AFTER_S
from shared.settings import ConfigurationError
from shared.state.rebuild_gate import CODE as REBUILDING
from shared.times import parse_iso

_EXPECTED: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "datetime": "a time such as 2026-05-01T10:00:00Z",
    "uuid": "a UUID",
    "bytes": "base64 text",
    "null": "null",
}
_GOT: Final = {**_EXPECTED, "int": "a number", "bool": "a boolean"}
_COUNTED: Final = {"str": "character", "array": "item", "object": "field", "bytes": "byte"}
_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_INVALID: Final = {
    "Invalid UUID": "must be a UUID",
    "Invalid RFC3339 encoded datetime": "must be a time such as 2026-05-01T10:00:00Z",
    "Invalid RFC3339 encoded date": "must be a date such as 2026-05-01",
    "Invalid base64 encoded string": "must be base64 text",
    "Integer value out of range": "is too large",
    "Number out of range": "is too large",
}

_TYPE: Final = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?")
_LENGTH: Final = re.compile(r"Expected `(str|array|object|bytes)` of length (>=|<=) (\d+)")
_BOUND: Final = re.compile(r"Expected `(?:int|float)` (>=|<=|>|<) (-?[\d.e+-]+)")
_CHOICE: Final = re.compile(r"Invalid (?:enum )?value (.+)", re.DOTALL)
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\.\.\.)\]")  # of a path such as `chunks[0].tags[...]`
_LONGEST_SHOWN: Final = 60  # characters of a value
_type_info: Final = functools.cache(msgspec.inspect.type_info)  # it takes ten times as long as the rest of a refusal


def in_words(message: str, sent: Any = UNSET, choices: Sequence[Any] = ()) -> str:
    """Return the rule that the value breaks and the value, to follow the field's name: `must be text, not 7`.

    `message` is msgspec's, without the path at its end. An unknown message is returned with a lower-case first letter.
    `choices` are the only possible values, if there are such.
    """
    shown = "" if sent is UNSET or isinstance(sent, dict | list | None) else f", not {_shown(sent)}"
    if found := _TYPE.fullmatch(message):
        # null is left out of the possible kinds: a caller who sent a wrong value doesn't want to send none.
        kinds = [_EXPECTED.get(kind, kind) for kind in found[1].split(" | ") if kind != "null"] or ["null"]
        wanted = _any_of([_shown(each) for each in choices] or kinds)
        return f"must be {wanted}{shown or (f', not {_GOT.get(found[2], found[2])}' if found[2] else '')}"
    if found := _LENGTH.fullmatch(message):
        unit = _COUNTED[found[1]] + ("" if found[3] == "1" else "s")
        has = f", not {len(sent)}" if isinstance(sent, str | list | dict) and found[1] != "bytes" else ""
        return f"must have {_BOUNDS[found[2]]} {found[3]} {unit}{has}"
    if found := _BOUND.fullmatch(message):
        return f"must be {_BOUNDS[found[1]]} {found[2].removesuffix('.0')}{shown}"
    if found := _CHOICE.fullmatch(message):
        return f"must be {_any_of([_shown(each) for each in choices] or ['another value'])}, not {found[1]}"
    said = _INVALID.get(message)
    return said + shown if said else message[:1].lower() + message[1:]


def _shown(value: Any) -> str:
    """Return a text in quotes, and else the value as in JSON; the beginning if it is long."""
    if isinstance(value, str):
        text = repr(value[: _LONGEST_SHOWN + 1])  # a stranger chooses how long it is
    else:
        text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _any_of(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


_PROBLEM_JSON = "application/problem+json"
PROBLEM_TYPES = (_PROBLEM_JSON, "application/json")  # see `media_type`
_CODES = {
    400: "INVALID",
    401: "UNAUTHENTICATED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "TOO_SLOW",
    409: "CONFLICT",
    413: "TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
    422: "UNPROCESSABLE",
    429: "TOO_MANY_REQUESTS",
    503: "UNAVAILABLE",
}

API: Final = "/api"  # every route is also served below it, see `app.py`
_OPENAI_PATH = re.compile(r"/v1(?:/|\Z)")  # clients of these routes read only OpenAI's error object
_DIFY_CODES = {401: 1002, 403: 1002, 404: 2001}  # Dify's own numbers; of the others it shows the message
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

_TEXT: dict[str, Any] = {"type": "string"}


def _object(description: str = "", **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object that has all of the properties."""
    about = {"description": description} if description else {}
    return {"type": "object", **about, "properties": properties, "required": [*properties]}


ERRORS: dict[str, dict[str, Any]] = {  # the JSON schemas of the errors' bodies, by their name in /openapi.json
    "Problem": _object(
        "Why the request was refused or failed (RFC 9457). Ollama's clients read `error`.",
        type={"type": "string", "description": "`urn:sluice:problem:` and the code."},
        title=_TEXT,
        status={"type": "integer"},
        detail={"type": "string", "description": "A sentence for people."},
        instance={"type": "string", "description": "The request's path."},
        success={"const": False},
        error={"type": ["string", "boolean"], "description": "The sentence; `true` with `Prefer: errors=flag`."},
        message={"type": "string", "description": "The sentence."},
        code={"type": "string", "description": "For programs."},
        details={"type": "object", "description": "Such as the `field` that is wrong."},
    ),
    "DifyError": {
        "description": "A problem that also has the fields of Dify's contract.",
        "allOf": [
            {"$ref": "#/components/schemas/Problem"},
            _object(error_code={"type": "integer"}, error_msg=_TEXT),
        ],
    },
    "OpenAIError": _object(
        "The error object of OpenAI's API.",
        error=_object(message=_TEXT, type=_TEXT, param={"type": ["string", "null"]}, code=_TEXT),
    ),
}

WARNINGS: Final = "warnings"  # key in a scope's state, and in a reply, which needn't have any
ERRORS["Problem"]["properties"][WARNINGS] = {"type": "array", "items": _TEXT, "description": "Such as unknown fields."}
_LONGEST_NAME: Final = 60  # characters of one that is compared with the known ones
_REQUEST_ID = "request_id"  # key in a scope's state
_TOKEN = re.compile(r"[A-Za-z0-9._:-]{1,128}")
MOST_NAMED = 20  # mistakes of one request that its reply names
_LONGEST = 1000  # bytes of a sentence in a reply

log = structlog.get_logger(__name__)
AnyRequest = Request[Any, Any, Any]


class Problem(Exception):  # noqa: N818 - the RFC's word for it
    """The reason why a request is refused or failed: `sentence` for people, `code` for programs."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = brief(sentence, _LONGEST)
        self.code = code or _CODES.get(status, "ERROR")
        self.details = {
            name: brief(each, _LONGEST) if isinstance(each, str) else each for name, each in (details or {}).items()
        }
        self.headers = dict(headers or {})


def brief(text: str, most: int) -> str:
    """Return the text, cut if its JSON has more than `most` bytes: what a caller sent may be of any length."""
    if len(text) * 6 <= most or (len(msgspec.json.encode(text[:most])) <= most + 2 and len(text) <= most):
        return text
    kept = text[: most - 3]
    return (kept if len(msgspec.json.encode(kept)) <= most - 1 else text[: most // 6 - 1]) + "…"


def invalid(field: str, what: str) -> Problem:
    """Return the 400 that names the field."""
    return Problem(400, f"{field}: {what}", details={"field": field})


def too_large(sentence: str, limit: int) -> Problem:
    """Return the 413 with its limit."""
    return Problem(413, sentence, details={"limit": limit})


def time_of(text: str | None, field: str) -> int | None:
    """Return an ISO 8601 time as ms since 1970. Raises a 400 if it is none."""
    try:
        return None if text is None else parse_iso(text)
    except ValueError:
        raise invalid(field, f"{text!r} is not a time such as 2026-11-20T18:00:00Z") from None


def not_found() -> Problem:
    """Return the 404 of a document. It is the same for unknown ids and for documents of other tenants."""
    return Problem(404, "there is no such document")


def unavailable(sentence: str, code: str = "UNAVAILABLE", **details: Any) -> Problem:
    """Return the 503, with the `Retry-After` header."""
    return Problem(503, sentence, code=code, details=details, headers={"Retry-After": str(RETRY_AFTER_S)})


def of_pipeline(error: PipelineError, rejected: int = 422) -> Problem:
    """Return the problem for an error of the pipeline: 503 for Unavailable, else 413 or `rejected`."""
    if isinstance(error, Unavailable):
        return unavailable(error.sentence, code=error.code.upper() if error.code == REBUILDING else "UNAVAILABLE")
    status = 413 if error.code == "record_too_large" else rejected
    return Problem(status, error.sentence, code=error.code.upper())


def broken_off(error: Exception) -> Problem:
    """Return the problem to report when an answer breaks off after its first byte: the status is already sent."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, PipelineError):
        return of_pipeline(error)
    log.error("answer_stream_failed", exc_info=error)
    return Problem(500, "the answer broke off", code="BUG")


def body(problem: Problem, instance: str) -> dict[str, Any]:
    """Return the problem's JSON object."""
    return {
        "type": "urn:sluice:problem:" + problem.code.lower().replace("_", "-"),
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.sentence,
        "instance": instance,
        "success": False,
        "error": problem.sentence,
        "message": problem.sentence,
        "code": problem.code,
        "details": problem.details,
    }


def openai_error(problem: Problem) -> dict[str, Any]:
    """Return the problem as the error object of OpenAI's API."""
    return {
        "error": {
            "message": problem.sentence,
            "type": _OPENAI_TYPES.get(
                problem.status, "server_error" if problem.status >= 500 else "invalid_request_error"
            ),
            "param": problem.details.get("field"),
            "code": problem.code.lower(),
        }
    }


def is_openai(path: str) -> bool:
    """Return whether the route at `path` is one of OpenAI's API."""
    return _OPENAI_PATH.match(path) is not None


def preferences(request: AnyRequest) -> list[tuple[str, str]]:
    """Return names and values of the request's `Prefer` headers in lower case, '' where there is none (RFC 7240)."""
    given = ",".join(request.headers.getall("prefer", [])).lower().split(",")
    pairs = (each.partition(";")[0].partition("=") for each in given)
    return [(name.strip(), value.strip().strip('"')) for name, _, value in pairs]


def media_type(accept: str) -> str:
    """Return the content type of a problem for this `Accept` header.

    A client that accepts application/json but not problem+json (n8n) parses only bodies of exactly that type.
    """
    listed = accept.lower()
    return MediaType.JSON if "application/json" in listed and _PROBLEM_JSON not in listed else _PROBLEM_JSON


def path_of(scope: Scope) -> str:
    """Return the path as the client sent it, with its escapes; the scope's `path` lacks `API`."""
    return scope["raw_path"].decode("ascii", "replace")


def answer(request: AnyRequest, problem: Problem) -> Response[bytes]:
    """Return the response for the problem."""
    path = request.scope["path"]
    if problem.code == "BUG":  # the log has the rest, under this id
        problem.details["requestId"] = request_id(request.scope)
    if is_openai(path):
        content, kind = msgspec.json.encode(openai_error(problem)), media_type("application/json")
        if problem.code == "NO_MODEL":  # OpenAI's clients retry a 503 with a backoff; this one is permanent
            problem.headers["X-Should-Retry"] = "false"
    else:
        told = body(problem, path_of(request.scope))
        if sentences := request.scope["state"].get(WARNINGS):  # a misspelt field is often why another one is missing
            told[WARNINGS] = sentences
        if ("errors", "flag") in preferences(request):  # NextStep's error body has a flag where ours has the sentence
            told |= {"error": True}
        if path.rstrip("/") == "/retrieval":
            told |= {"error_code": _DIFY_CODES.get(problem.status, problem.status), "error_msg": problem.sentence}
        content = msgspec.json.encode(told)
        kind = media_type(request.headers.get("accept", ""))
    return Response(content, status_code=problem.status, media_type=kind, headers=problem.headers)


def request_id(scope: Scope) -> str:
    """Return the id that the client sent in X-Request-Id if it is a plain token, else a new one."""
    if _REQUEST_ID not in scope["state"]:
        given = Headers.from_scope(scope).get("x-request-id", "")
        scope["state"][_REQUEST_ID] = given if _TOKEN.fullmatch(given) else token_hex(16)
    id_: str = scope["state"][_REQUEST_ID]
    return id_


async def send_problem(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the response for the problem, in a middleware, before the route is reached."""
    request: AnyRequest = Request(scope)
    await answer(request, problem).to_asgi_response(None, request)(scope, receive, send)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question that suggests the nearest known name, to follow a sentence; '' if none is near."""
    near = nearest(name, known, 0.6)
    return f"; did you mean {near}?" if near else ""


def nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """Return the known name that the name resembles most, if any does by `cutoff`, 0 to 1."""
    folded = {each.casefold(): each for each in sorted(known)}
    near = get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff) if len(name) <= _LONGEST_NAME else []
    return folded[near[0]] if near else None


def of_contract(error: msgspec.ValidationError, sent: Any, kind: Any, within: str = "") -> Problem:
    """Return the 400 that says in plain words which field of a body is wrong and what it must be, after `within`.

    `sent` is the body, and `kind` the type that it isn't.
    """
    what, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    steps = [name or number for name, number in _STEP.findall(path)]
    info = _type_info(kind)
    problem = _unfit(path, what, _at(sent, steps), _choices(info, steps))
    if what.startswith("Object contains unknown field") and isinstance(info, msgspec.inspect.StructType) and not path:
        name, known = problem.details["field"], [each.encode_name for each in info.fields]
        problem = invalid(name, "there is no such field" + did_you_mean(name, known))
    return Problem(problem.status, f"{within}: {problem.sentence}", code=problem.code) if within else problem


def _at(sent: Any, steps: Sequence[str]) -> Any:
    """Return the value at the path; UNSET where msgspec doesn't name the whole path."""
    for step in steps:
        try:
            sent = sent[int(step) if isinstance(sent, list) else step]
        except (LookupError, TypeError, ValueError):
            return UNSET
    return sent


def _choices(kind: msgspec.inspect.Type, steps: Sequence[str]) -> list[Any]:
    """Return the values that the field at the path takes if it takes only some."""
    match kind:
        case msgspec.inspect.Metadata(type=within):
            return _choices(within, steps)
        case msgspec.inspect.UnionType(types=types):
            return [each for one in types for each in _choices(one, steps)]
        case msgspec.inspect.LiteralType(values=values) if not steps:
            return list(values)
        case msgspec.inspect.StructType(fields=fields) if steps:
            return [each for one in fields if one.encode_name == steps[0] for each in _choices(one.type, steps[1:])]
        case msgspec.inspect.ListType(item_type=within) | msgspec.inspect.DictType(value_type=within) if steps:
            return _choices(within, steps[1:])
    return []


def _unfit(field: str, what: str, sent: Any, choices: Sequence[Any] = ()) -> Problem:
    parent = "" if field in ("", "data") else f"{field}."
    if what.startswith("Object missing required field"):
        return invalid(parent + what.split("`")[1], "is required")
    if what.startswith("Object contains unknown field"):
        return invalid(parent + what.split("`")[1], "there is no such field")
    if what == "'data'":
        return Problem(400, "the body is missing", details={"field": "body"})
    if not parent:
        return Problem(400, f"the body {in_words(what)}", details={"field": "body"})
    return invalid(field, in_words(what, sent, choices))


def _on_pipeline_error(request: AnyRequest, error: PipelineError) -> Response[bytes]:
    problem = of_pipeline(error, 409 if request.scope["route_handler"].opt.get("conflicts") else 422)
    log.warning("request_refused", status=problem.status, code=problem.code, reason=problem.sentence)
    return answer(request, problem)


def _on_wrong_setting(request: AnyRequest, error: ConfigurationError) -> Response[bytes]:
    if not request.scope["route_handler"].opt.get("conflicts"):  # its sentence may have paths of the server
        return _on_bug(request, error)
    return answer(request, Problem(409, str(error), code="SETTINGS"))


def on_http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Return the response for an error of the framework's."""
    if isinstance(error, ValidationException):  # its own message names only the route
        found = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
        field, what = str(found.get("key", "")), str(found.get("message", error.detail))
        return answer(request, _unfit(field, what, request.query_params.get(field, UNSET)))
    if error.detail == "client disconnected prematurely":
        return answer(request, Problem(400, "the body ended early"))  # the client disconnected; not a bug
    if error.status_code >= 500:
        return _on_bug(request, error)
    if error.status_code == 404:
        problem = Problem(404, f"there is no route {path_of(request.scope)}")
    elif error.status_code == 405:
        methods = sorted((error.headers or {}).get("allow", "").split(", "))  # the framework's order is by chance
        problem = Problem(405, f"this route does not support {request.method}", headers={"Allow": ", ".join(methods)})
    else:
        problem = Problem(error.status_code, error.detail, headers=error.headers)
    return answer(request, problem)


def _on_bug(request: AnyRequest, error: Exception) -> Response[bytes]:
    log.error("request_failed", path=request.scope.get("path_template"), exc_info=error)
    return answer(request, Problem(500, "the server failed unexpectedly; its log has the details", code="BUG"))


HANDLERS: ExceptionHandlersMap = {
    Problem: answer,
    PipelineError: _on_pipeline_error,
    ConfigurationError: _on_wrong_setting,
    HTTPException: on_http_exception,
    Exception: _on_bug,
}
