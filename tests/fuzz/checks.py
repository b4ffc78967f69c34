"""What each reply must be. Schemathesis loads this module by the variable SCHEMATHESIS_HOOKS."""

from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, Response


@schemathesis.check
def honest_failure(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Fail on a server error that isn't a 503 or 501 with a reason; a 503 needs `Retry-After`."""
    status = response.status_code
    if status < 500:
        return
    assert status in (501, 503), f"{status}: {response.text[:500]}"
    assert response.text, f"{status} without a reason"
    if status == 503:
        assert "retry-after" in response.headers, "503 without Retry-After"
