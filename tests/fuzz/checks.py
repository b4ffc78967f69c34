"""What schemathesis doesn't know by itself: how NDJSON is sent, and what a 503 must say."""

from typing import Any

import msgspec
import schemathesis
from schemathesis import Case, CheckContext, Response


@schemathesis.serializer("application/x-ndjson")
def lines(ctx: Any, value: Any) -> bytes:
    """Return a body of NDJSON."""
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


@schemathesis.check
def honest_failure(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Fail on a 503 that doesn't say which part is away, or when to come again. Other server errors are undeclared."""
    if response.status_code != 503:
        return
    assert "retry-after" in response.headers, "503 without Retry-After"
    said = response.json()
    sentence = said["error"]["message"] if isinstance(said.get("error"), dict) else said.get("detail", "")
    assert sentence, f"503 without the part that is away: {response.text[:300]}"
