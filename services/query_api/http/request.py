"""Reads request bodies, JSON or forms, and checks fields that several routes share.

Long work for one request, such as parsing, must not hold up the others: `beside`.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import parse_qsl

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.types import Empty

from services.query_api.http.auth import Caller
from services.query_api.http.json_scanner import CLOSING, JsonScanner, pieces
from services.query_api.http.problems import Problem, invalid, of_contract, preferences, too_large
from services.query_api.http.reply_warnings import FILTERING, OURS, fields_of, lenient, texts_of, unknown_fields, warn
from services.query_api.http.route_decorator import SMALL, BodyLimit
from shared.contracts import DocumentSubmitted
from shared.ids import composed
from shared.inputs.limits import LONGEST_TAG, MOST_TAGS, InvalidField, check_described
from shared.inputs.metadata import checked_metadata

P = ParamSpec("P")
T = TypeVar("T")
# One thread: the event loop would wait for the interpreter's lock once for each of several.
_THREAD: Final = ThreadPoolExecutor(1, "long-work")


async def beside(large: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`. If its input is large, it runs in a thread beside the event loop."""
    if not large:
        return work(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, lambda: work(*args, **kwargs))


FORM = "application/x-www-form-urlencoded"
MOST_FORM_FIELDS = 1000
MOST_FORM_BYTES = 1_000_000  # decoding their escapes costs more than JSON
MOST_VALUES = 20_000  # of JSON that a field holds as text
MOST_DEPTH = 64  # levels of lists and objects
LARGE = 64 << 10  # bytes; a larger body is decoded beside the event loop
HEAVY = 8 << 10  # bytes of a body that is checked there: its chunks take a while
_LONGEST_TAGS = 8 * MOST_TAGS * LONGEST_TAG  # characters of a text of them, with escapes and blanks
DEFAULT_WAIT_S = 30.0
PARTS: Final = "parts"  # in the state of the application, and of a request: by type
MOST_WAIT_S = 300.0
S = TypeVar("S", bound=msgspec.Struct)


class ApiRequest(Request[Caller, None, State]):
    """A request whose `json` also takes form-encoded bodies, and refuses with a `Problem`."""

    def part(self, kind: type[T]) -> T:
        """Return the API's part of this type, of the generation that answers this request: `parts_of` in `app.py`."""
        state = self.scope["state"]
        if PARTS not in state:
            state[PARTS] = self.app.state[PARTS]
        part: T = state[PARTS][kind]
        return part

    async def body(self) -> bytes:
        """Return the body. The framework's own leaves it in the scope, which lives on with an idle connection."""
        if self._body is Empty:
            self._body = b"".join([piece async for piece in self.stream()])
        return self._body

    async def json(self) -> Any:
        """Return the decoded body.

        Raises:
            Problem: 400, the body can't be read; 415, it has another type.
        """
        kind = content_type(self)
        if kind not in ("", FORM, "application/json") and not kind.endswith("+json"):
            raise Problem(415, f"the body is {kind}; send application/json or {FORM}", details={"contentType": kind})
        data = await self.body()
        doubts: dict[str, str] = {}
        try:
            return await beside(len(data) > LARGE, self._understood, kind, data, doubts)
        finally:  # a refused body's, too: what it lacks may be there under another name
            for name, sentence in doubts.items():
                warn(self, sentence, name)

    def _understood(self, kind: str, data: bytes, doubts: dict[str, str]) -> Any:
        """Return the body as the handler's type; add to `doubts` each field that is unknown or taken otherwise."""
        data = data.removeprefix(b"\xef\xbb\xbf")
        declared = getattr(self.route_handler, "parsed_data_field", None)
        # `curl -d '{…}'` declares JSON as a form.
        if kind == FORM and not data.lstrip().startswith(b"{"):
            value = form_object(data, texts_of(declared.annotation) if declared is not None else frozenset())
        else:
            takes: BodyLimit = self.route_handler.opt.get("takes", SMALL)
            value = parse_json(data, values=takes.values)
            value = value if self.method == "PATCH" else given(value)  # its null removes the field (RFC 7396)
        if declared is None:
            return value
        if isinstance(value, dict):
            path = self.scope["path"]
            known = fields_of(declared.annotation)
            if known and path.startswith(OURS):
                doubts |= unknown_fields(value, known)
            elif "ragFilters" in known:
                doubts |= unknown_fields(FILTERING & value.keys(), known)
            # What deletes must say what it means.
            if self.method != "DELETE" and not path.startswith("/ops/"):
                value, more = lenient(value, declared.annotation)
                doubts |= more
        try:  # here: the framework does it in the loop, and keeps a refused body until the next full collection
            return msgspec.convert(value, declared.annotation, strict=False, str_keys=True)
        except msgspec.ValidationError as error:
            raise of_contract(error, value, declared.annotation) from None


def given(value: Any) -> Any:
    """Return a body without its null fields. Many clients send null for a field that isn't given."""
    if not isinstance(value, dict):
        return value
    return {name: field for name, field in value.items() if field is not None}


def body_of(value: Any, kind: type[S], within: str = "", *, strict: bool = False) -> S:
    """Return the decoded values as the body's type. Raises a 400 that names the wrong field, after `within`."""
    value = given(value)
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise of_contract(error, value, kind, within) from None


def content_type(request: Request[Any, Any, Any]) -> str:
    """Return the body's media type in lower case; '' if there is none.

    Raises:
        Problem: 400, several were sent.
    """
    if len(request.headers.getall("content-type", [])) > 1:
        raise invalid("Content-Type", "was sent more than once")
    return request.content_type[0]


def parse_json(data: bytes | str, what: str = "the body", *, values: int = MOST_VALUES) -> Any:
    """Return the JSON value.

    Raises:
        Problem: 400, it says what is wrong with `what`; 413, there are more than so many values.
    """
    try:
        _check_shape(data.encode() if isinstance(data, str) else data, what, values)
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Problem(400, f"{what} is not valid JSON: {error}") from None


def _check_shape(data: bytes, what: str, values: int) -> None:
    """Check what decoding costs before anything is decoded: a megabyte may be 300,000 objects.

    Raises:
        Problem: 400, it is nested too deeply; 413, there are too many values.
    """
    opening = data.count(b"[") + data.count(b"{")
    if opening <= MOST_DEPTH and opening + data.count(b",") < values:
        return  # even if none of them is within a string
    scanner, found = JsonScanner(), 1
    for piece in pieces(data):
        _, kinds, depths = scanner.feed(piece)
        if depths.size and depths.max() > MOST_DEPTH:
            raise Problem(400, f"{what} is nested too deeply: more than {MOST_DEPTH} levels")
        found += int((kinds != CLOSING).sum())
        if found > values:
            raise too_large(f"{what} has more than {values} values, the most that this route reads", values)


def form_object(data: bytes, texts: frozenset[str]) -> dict[str, Any]:
    """Return a form's fields: repeated ones and `name[]` as lists, JSON parsed except in `texts`."""
    if len(data) > MOST_FORM_BYTES:
        raise too_large(f"a form has at most {MOST_FORM_BYTES} bytes; send JSON", MOST_FORM_BYTES)
    try:
        pairs = parse_qsl(
            data.decode(), keep_blank_values=True, max_num_fields=MOST_FORM_FIELDS, encoding="utf-8", errors="strict"
        )
    except ValueError as error:  # too many fields, or not UTF-8
        raise Problem(400, f"the form can't be read: {error}") from None
    fields: dict[str, list[Any]] = {}
    for name, value in pairs:
        fields.setdefault(name.removesuffix("[]"), []).append(
            parse_json(value, name) if value.lstrip()[:1] in ("{", "[") and name not in texts else value
        )
    listed = {name.removesuffix("[]") for name, _ in pairs if name.endswith("[]")}
    return {name: values if len(values) > 1 or name in listed else values[0] for name, values in fields.items()}


def tags_of(value: list[str] | str | None, field: str = "tags") -> tuple[str, ...]:
    """Return the trimmed, distinct tags in order, from a list or from a text such as `a,b`."""
    refused = f"at most {MOST_TAGS} tags of at most {LONGEST_TAG} characters each are allowed"
    if isinstance(value, str):
        if len(value) > _LONGEST_TAGS:
            raise invalid(field, refused)
        text = value.strip()
        parsed = parse_json(text, field) if text.startswith("[") else text.split(",")
        if not all(isinstance(tag, str) for tag in parsed):
            raise invalid(field, "must be strings")
        value = parsed
    tags = tuple(dict.fromkeys(composed(tag.strip()) for tag in value or () if tag.strip()))
    if len(tags) > MOST_TAGS or any(len(tag) > LONGEST_TAG for tag in tags):
        raise invalid(field, refused)
    return tags


def metadata_of(value: Mapping[str, Any] | str | None, field: str = "metadata") -> dict[str, Any]:
    """Return the caller's metadata after checking that it can be stored; a string is parsed as JSON."""
    if isinstance(value, str):
        value = parse_json(value, field) if value.strip() else {}
    if not isinstance(value, Mapping | None):
        raise invalid(field, "must be an object")
    try:
        return checked_metadata(value or {}, field)
    except InvalidField as error:
        raise invalid(error.field, error.what) from None


def not_blank(value: str, field: str) -> str:
    """Return the text. Raises a 400 if it is blank."""
    if not value.strip():
        raise invalid(field, "must not be empty")
    return value


def name_of(value: str, field: str, longest: int) -> str:
    """Return the value in NFC, trimmed, if it is a valid name: not blank, at most `longest` characters."""
    value = not_blank(composed(value).strip(), field)
    if len(value) > longest:
        raise invalid(field, f"has {len(value)} characters, but at most {longest} are allowed")
    return value


def described(document: DocumentSubmitted, within: str = "") -> DocumentSubmitted:
    """Return the submission, or raise the 400 for a field that is too long, by its name after `within`."""
    try:
        check_described(document)
    except InvalidField as error:
        raise invalid(f"{within}{error.field}", error.what) from None
    return document


def wait_of(request: Request[Any, Any, Any], *, otherwise: float = DEFAULT_WAIT_S) -> tuple[float, dict[str, str]]:
    """Return the seconds to wait for the end, and the headers that report the applied preference (RFC 7240).

    `Prefer: wait=<s>` is capped at 300; `respond-async` means 0. Without a preference, the wait is `otherwise`. Invalid
    values are ignored, as the RFC requires.
    """
    for preference in preferences(request):
        match preference:
            case "wait", seconds if seconds.isascii() and seconds.isdigit():
                wait = min(float(seconds[:6]), MOST_WAIT_S)
                return wait, {"Preference-Applied": f"wait={wait:.0f}"}
            case "respond-async", "":
                return 0.0, {"Preference-Applied": "respond-async"}
    return otherwise, {}
