"""Requests that schemathesis makes up from `/openapi.json`, and its judgement of each reply."""

import math
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
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

# What is judged is in ADR 0066.
_NOT_JUDGED = ("not_a_server_error", "negative_data_rejection", "positive_data_acceptance", "ignored_auth")
AnyOperation = APIOperation[Any, Any, Any, Any]
_BASE = "http://127.0.0.1"
_OF_A_TURN = 25  # cases of an operation and mode before the next operation has its turn
_SHOWN = 3  # failures of one kind


@dataclass
class Fuzzed:
    """What came of it."""

    cases: int = 0
    operations: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=dict)  # by operation and kind; the first few of each
    failed: int = 0  # faults; a reply may have several
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
        lines.append("statuses: " + ", ".join(f"{count} x {status}" for status, count in sorted(self.statuses.items())))
        lines += [f"\n{kind}\n  " + "\n  ".join(shown) for kind, shown in sorted(self.failures.items())]
        return "\n".join(lines)


def fuzz(target: Target, *, cases: int, seconds: float, seed: int, at_limits: int) -> Fuzzed:
    """Return the outcome of so many made-up requests, spread over all operations; it ends after so many seconds.

    At most `at_limits` of each operation are sent first, whose values are at limits of what is allowed.
    """
    found = Fuzzed()
    schema = schemathesis.openapi.from_dict({**target.spec, "servers": [{"url": _BASE}]})
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    found.operations = len(operations)
    began = time.monotonic()

    def over() -> bool:
        found.seconds = time.monotonic() - began
        return found.seconds > seconds

    for operation in operations if at_limits else ():
        for case in _at_limits(operation, at_limits, seed):
            if over():
                return found
            _judge(found, target, case)
    for turn in count(seed):
        missing, before = cases - found.cases, found.cases
        each = min(_OF_A_TURN, math.ceil(missing / (2 * len(operations))))
        for operation in operations if missing > 0 else ():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if over():
                    return found
                _made_up(found, target, operation, mode, examples=each, seed=turn)
        if found.cases == before:
            break
    over()
    return found


def _at_limits(operation: AnyOperation, most: int, seed: int) -> list[Case[Any]]:
    found = list(
        operation.schema.iter_coverage_cases(
            operation,
            generation_modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE],
            generation_config=operation.schema.config.generation,
        )
    )
    return found if len(found) <= most else random.Random(seed).sample(found, most)


def _made_up(
    found: Fuzzed,
    target: Target,
    operation: AnyOperation,
    mode: GenerationMode,
    *,
    examples: int,
    seed: int,
) -> None:
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
        _judge(found, target, case)

    with suppress(Unsatisfiable):  # nothing can be wrong with a request without parameters
        run()


@cache
def _not_judged() -> list[Any]:
    load_all_checks()
    return [check for check in schemathesis.checks.CHECKS.get_all() if check.__name__ in _NOT_JUDGED]


def _judge(found: Fuzzed, target: Target, case: Case[Any]) -> None:
    try:
        request = _request(case)
    except (ValueError, httpx.InvalidURL, requests.RequestException):  # what no client can send
        return
    found.cases += 1
    try:
        reply = target.send(request)
    except (httpx.HTTPError, TimeoutError) as error:
        found.fault(f"{case.operation.label}: no reply", request, repr(error))
        return
    found.statuses[reply.status_code] += 1
    try:
        case.validate_response(reply, excluded_checks=_not_judged())
    except (Failure, FailureGroup) as error:
        for failure in error.exceptions if isinstance(error, FailureGroup) else [error]:
            kind = getattr(failure, "title", type(failure).__name__)
            told = f"{reply.status_code} {reply.text[:200]} | {failure}"
            found.fault(f"{case.operation.label}: {kind}", request, told)


def _request(case: Case[Any]) -> httpx.Request:
    """Return the request as it goes over the wire.

    Raises:
        ValueError: it is none that can be sent.
    """
    sent = case.as_transport_kwargs(base_url=_BASE, headers={"Prefer": "wait=0"})
    fields = ("method", "url", "headers", "files", "data", "params", "cookies", "json")
    prepared = requests.Request(**{name: sent[name] for name in fields if name in sent}).prepare()
    body: Any = prepared.body or b""
    headers: Any = [*prepared.headers.items()]
    return httpx.Request(prepared.method or "", prepared.url or "", headers=headers, content=body)
