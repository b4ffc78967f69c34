"""Requests that schemathesis makes up from `/openapi.json`, and its judgement of each reply."""

import itertools
import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

import tests.fuzz.checks  # noqa: F401 - registers its checks
from tests.fuzz.target import Target

# What is judged is in ADR 0026.
_NOT_JUDGED = ("not_a_server_error", "negative_data_rejection", "positive_data_acceptance", "ignored_auth")
AnyOperation = APIOperation[Any, Any, Any, Any]
_BASE = "http://127.0.0.1"
_OF_A_TURN = 50  # cases of an operation before the next operation has its turn
_MADE_UP = 20  # cases of an operation, valid ones and as many invalid ones; the others are combined of these
_AT_ONCE = 8  # requests on their way
_DEAR = 3.0  # times its share of the seconds; an operation that takes longer is skipped in favour of the others
HELD_S = 0.25  # five times the bar of 50 ms: a busy machine's figures are noisy
_TRIES = 3
_SHOWN = 3  # failures of one kind
_BATCH = "POST /rag/ingest/batch"
_GOOD = [{"source": "good", "path": path, "text": "A good item."} for path in ("first.md", "last.md")]


@dataclass
class Fuzzed:
    """What came of it."""

    cases: int = 0
    operations: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=dict)  # by operation and kind; the first few of each
    failed: int = 0  # faults; a reply may have several
    batches: int = 0  # sent with good items around the made-up ones
    lost: int = 0  # of these, whose good items weren't accepted
    seconds: float = 0.0

    def fault(self, kind: str, request: httpx.Request, told: str) -> None:
        """Note what is wrong with the reply to the request."""
        self.failed += 1
        shown = self.failures.setdefault(kind, [])
        if len(shown) < _SHOWN:
            shown.append(f"{request.method} {request.url} {request.content[:300]!r} -> {told}")

    def report(self) -> str:
        """Return what was seen, for people."""
        lines = [f"{self.cases} cases of {self.operations} operations in {self.seconds:.0f} s, {self.failed} faults"]
        lines.append(f"{self.batches} batches beside good items, {self.lost} lost")
        lines.append("statuses: " + ", ".join(f"{count} x {status}" for status, count in sorted(self.statuses.items())))
        lines += [f"\n{kind}\n  " + "\n  ".join(shown) for kind, shown in sorted(self.failures.items())]
        return "\n".join(lines)


def fuzz(target: Target, *, cases: int, seconds: float, seed: int, at_limits: int) -> Fuzzed:
    """Return the outcome of so many different requests, spread over all operations.

    It ends after so many seconds, but not before each operation had its first turn: on a slow machine the first few
    would be all. At most `at_limits` of each operation are sent first, whose values are at limits of what is allowed.
    """
    found = Fuzzed()
    schema = schemathesis.openapi.from_dict({**target.spec, "servers": [{"url": _BASE}]})
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    found.operations = len(operations)
    began = time.monotonic()
    sources = [_CaseSource(operation, seed, at_limits) for operation in operations]
    turn = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while sources:
            turn += 1
            for source in [*sources]:
                missing = cases - found.cases
                if missing <= 0 or (turn > 1 and found.seconds > seconds):
                    return found
                before = time.monotonic()
                made = source.next(min(_OF_A_TURN, max(1, math.ceil(missing / len(sources)))))
                sent = [(case, request) for case in made if (request := _request(case)) is not None]
                fresh = [(case, request) for case, request in sent if source.is_new(request)]
                made_requests = [request for _, request in fresh]
                for (case, request), reply in zip(fresh, pool.map(target.send_or_fail, made_requests), strict=True):
                    _judge(found, case, request, reply)
                    if source.label == _BATCH and (batch := _beside_good(case)) is not None:
                        _judge_batch(found, batch, target.send_or_fail(batch))
                if fresh and (held := _held(target, made_requests, pool))[0] > HELD_S:
                    took = f"{held[0]:.3f} s, this or one before it: {held[1]}"
                    found.fault(f"{source.label}: held the loop", fresh[-1][1], took)
                source.seconds += time.monotonic() - before
                found.seconds = time.monotonic() - began
                if not fresh or source.seconds > _DEAR * seconds / len(operations):
                    sources.remove(source)  # it has no other requests, or has had its time
    return found


class _CaseSource:
    """The cases of one operation: those at limits, generated ones, then combinations of their parts.

    Making up a case takes ten times as long as sending it, so most cases combine parts: a path, a query, headers and a
    body of different cases, and single fields of them.
    """

    def __init__(self, operation: AnyOperation, seed: int, at_limits: int) -> None:
        self._operation = operation
        self._random = random.Random(seed)
        self._cases = self._made(seed, at_limits)
        self._pool: list[Case[Any]] = []
        self._seen: set[int] = set()
        self.seconds = 0.0
        self.label = operation.label

    def next(self, count: int) -> list[Case[Any]]:
        """Return so many more cases; the same may come twice."""
        made = list(itertools.islice(self._cases, count))
        # A case of a method that the operation doesn't declare is judged as such; combined, it would lose that.
        self._pool += [case for case in made if case.method.upper() == self._operation.method.upper()]
        return made or [self._combined() for _ in range(count if self._pool else 0)]

    def is_new(self, request: httpx.Request) -> bool:
        """Return whether the request was not sent before, and note it."""
        headers = sorted((name, value) for name, value in request.headers.items() if name != "content-length")
        # A boundary differs each time.
        known = hash((request.method, str(request.url), str(headers), _unbounded(request)))
        new = known not in self._seen
        self._seen.add(known)
        return new

    def _made(self, seed: int, at_limits: int) -> Iterator[Case[Any]]:
        if at_limits:
            yield from _at_limits(self._operation, at_limits, seed)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            yield from _made_up(self._operation, mode, examples=_MADE_UP, seed=seed)

    def _combined(self) -> Case[Any]:
        one, two = (self._random.choice(self._pool) for _ in range(2))
        body = self._random.choice((one, two))
        same_type = one.media_type == two.media_type
        return self._operation.Case(
            method=one.method,
            path_parameters=self._mixed(one.path_parameters, two.path_parameters),
            headers=self._mixed(one.headers, two.headers),
            cookies=self._mixed(one.cookies, two.cookies),
            query=self._mixed(one.query, two.query),
            body=self._mixed(one.body, two.body) if same_type else body.body,
            media_type=body.media_type,
        )

    def _mixed(self, one: Any, two: Any) -> Any:
        """Return one of the two; of two objects, a mix: each field from one or the other."""
        if not (isinstance(one, Mapping) and isinstance(two, Mapping)):
            return self._random.choice((one, two))
        mixed = {}
        for name in dict.fromkeys((*one, *two)):
            source = self._random.choice((one, two))
            if name in source:
                mixed[name] = source[name]
        return mixed


def _unbounded(request: httpx.Request) -> bytes:
    _, _, boundary = request.headers.get("content-type", "").partition("boundary=")
    return request.content.replace(boundary.encode("latin-1", "replace"), b"") if boundary else request.content


def _held(target: Target, sent: Sequence[httpx.Request], pool: ThreadPoolExecutor) -> tuple[float, str]:
    """Return the shortest of up to three holds by the requests: a slow turn of the machine's isn't there again."""
    holds = [target.held()]
    while holds[-1][0] > HELD_S and len(holds) < _TRIES:
        list(pool.map(target.send_or_fail, sent))
        holds.append(target.held())
    return min(holds)


def _at_limits(operation: AnyOperation, most: int, seed: int) -> list[Case[Any]]:
    found = list(
        operation.schema.iter_coverage_cases(
            operation,
            generation_modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE],
            generation_config=operation.schema.config.generation,
        )
    )
    return found if len(found) <= most else random.Random(seed).sample(found, most)


def _made_up(operation: AnyOperation, mode: GenerationMode, *, examples: int, seed: int) -> list[Case[Any]]:
    made: list[Case[Any]] = []

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Case[Any]) -> None:
        made.append(case)

    with suppress(Unsatisfiable):  # nothing can be wrong with a request without parameters
        run()
    return made


@cache
def _not_judged() -> list[Any]:
    load_all_checks()
    return [check for check in schemathesis.checks.CHECKS.get_all() if check.__name__ in _NOT_JUDGED]


def _judge(found: Fuzzed, case: Case[Any], request: httpx.Request, reply: httpx.Response | Exception) -> None:
    found.cases += 1
    if isinstance(reply, Exception):
        found.fault(f"{case.operation.label}: no reply", request, repr(reply))
        return
    found.statuses[reply.status_code] += 1
    try:
        case.validate_response(reply, excluded_checks=_not_judged())
    except (Failure, FailureGroup) as error:
        for failure in error.exceptions if isinstance(error, FailureGroup) else [error]:
            kind = getattr(failure, "title", type(failure).__name__)
            told = f"{reply.status_code} {reply.text[:200]} | {failure}"
            found.fault(f"{case.operation.label}: {kind}", request, told)


def _beside_good(case: Case[Any]) -> httpx.Request | None:
    """Return a batch of the case's items between good ones; None where the case has no items."""
    first, last = _GOOD
    try:
        if isinstance(case.body, list):
            kind, content = "application/json", json.dumps([first, *case.body, last])
        elif isinstance(case.body, str):
            kind, content = "application/x-ndjson", f"{json.dumps(first)}\n{case.body}\n{json.dumps(last)}"
        else:
            return None
        headers = {"Content-Type": kind, "Prefer": "wait=0"}
        return httpx.Request("POST", f"{_BASE}{_BATCH.split()[1]}", headers=headers, content=content.encode())
    except (TypeError, ValueError):  # no client can send it
        return None


def _judge_batch(found: Fuzzed, request: httpx.Request, reply: httpx.Response | Exception) -> None:
    found.batches += 1
    ends = [] if isinstance(reply, Exception) else reply.json().get("items") or []
    if not ends or "failed" in (ends[0]["status"], ends[-1]["status"]):
        found.lost += 1
        found.fault(f"{_BATCH}: a bad item cost a good one", request, repr(reply))


def _request(case: Case[Any]) -> httpx.Request | None:
    """Return the request as sent on the wire; None if no client can send it."""
    try:
        sent = case.as_transport_kwargs(base_url=_BASE, headers={"Prefer": "wait=0"})
        fields = ("method", "url", "headers", "files", "data", "params", "cookies", "json")
        prepared = requests.Request(**{name: sent[name] for name in fields if name in sent}).prepare()
        body: Any = prepared.body or b""
        headers: Any = [*prepared.headers.items()]
        return httpx.Request(prepared.method or "", prepared.url or "", headers=headers, content=body)
    except (ValueError, httpx.InvalidURL, requests.RequestException):
        return None
