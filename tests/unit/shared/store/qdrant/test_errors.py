"""What the client's errors become. The texts are a real server's (1.19.0)."""

import json

import httpx
import pytest
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from shared.errors import Rejected, Unavailable
from shared.store.qdrant.errors import ours, too_large

URL = "http://q:6333"
UNINDEXED = (
    'Index required but not found for "metadata.subjectId" of one of the following types: [keyword]. '
    "Help: Create an index for this key or use a different filter."
)
NO_ORDER = "No range index for `order_by` key: `rev`. Please create one to use `order_by`."
NO_FACET = "No appropriate index for faceting: `tenant`. Please create one to facet on this field."
BATCH = 'Limit exceeded 64 > 10 for "upsert limit". Help: Reduce the "upsert limit" parameter to or below 10.'


def rest(status: int, text: str) -> UnexpectedResponse:
    content = json.dumps({"status": {"error": text}, "time": 0.1}).encode()
    return UnexpectedResponse(status, "Reason", content, httpx.Headers())


PAGE = UnexpectedResponse(502, "Bad Gateway", b"<html>bad gateway</html>", httpx.Headers())
NOTHING = UnexpectedResponse(503, "Service Unavailable", b"", httpx.Headers())


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (rest(500, "Service internal error: x"), "unavailable", "can't answer: Service internal error: x$"),
        (rest(503, "Shard temporarily unavailable: x"), "unavailable", "can't answer: Shard"),
        (rest(507, "Insufficient storage: x"), "unavailable", "can't answer: Insufficient storage"),
        (rest(408, "Timeout: x"), "unavailable", "can't answer: Timeout: x"),
        (PAGE, "unavailable", "can't answer: <html>bad"),
        (NOTHING, "unavailable", "can't answer: 503 Service Unavailable"),
        (ResponseHandlingException(httpx.ReadTimeout("")), "unavailable", "can't answer: ReadTimeout$"),
        (ResponseHandlingException(httpx.ConnectError("refused")), "unavailable", "ConnectError refused"),
        (rest(401, "Invalid API key"), "store_access", "refuses access: Invalid"),
        (rest(403, "Storage locked: x"), "store_access", "refuses access: Storage locked"),
        (rest(404, "Not found: Collection `a` doesn't exist!"), "no_collection", "collection: Collection `a`"),
        (rest(429, "Rate limiting exceeded: Write"), "store_busy", "accepts no more requests for now: Write"),
        (ResourceExhaustedResponse("Rate limiting exceeded: Write", 3), "store_busy", "for now: Write"),
        (rest(400, f"Bad request: {UNINDEXED}"), "store_limit", "set to refuse this: Index required"),
        (rest(400, f"Wrong input: {NO_ORDER}"), "unavailable", f"can't answer: {NO_ORDER[:30]}"),
        (rest(400, f"Wrong input: {NO_FACET}"), "unavailable", f"can't answer: {NO_FACET[:30]}"),
        (rest(400, "Bad request: Max points count limit of 9 reached!"), "store_limit", "this: Max points"),
    ],
)
def test_what_the_server_can_not_do_now_is_unavailable(error: Exception, code: str, message: str) -> None:
    found = ours(error, URL)

    assert isinstance(found, Unavailable)
    assert found.code == code
    with pytest.raises(Unavailable, match=f"^the store at {URL} .*{message}"):
        raise found


@pytest.mark.parametrize(
    "error",
    [
        rest(400, "Wrong input: Vector dimension error: expected dim: 8, got 9"),
        rest(422, "Validation error in JSON body: because"),
        rest(413, "Payload too large"),
    ],
)
def test_a_request_it_will_never_take_is_a_bug(error: Exception) -> None:
    found = ours(error, URL)

    assert type(found) is ValueError
    assert str(found).startswith(f"the store at {URL} refused the request: ")


def test_what_a_caller_chose_is_rejected_without_telling_where_the_store_is() -> None:
    found = ours(rest(400, UNINDEXED), URL, limited=Rejected)

    assert isinstance(found, Rejected)
    assert '"metadata.subjectId"' in found.sentence
    assert URL not in found.sentence


def test_a_long_answer_is_cut() -> None:
    assert len(str(ours(rest(500, "x" * 10_000), URL))) < 600


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (rest(413, "Payload too large"), True),
        (rest(400, BATCH), True),
        (rest(400, UNINDEXED), False),
        (rest(429, BATCH), False),
        (ResponseHandlingException(httpx.ReadTimeout("")), False),
    ],
)
def test_smaller_requests_help_where_size_was_the_reason(error: Exception, expected: bool) -> None:
    assert too_large(error) is expected
