"""Routes that build, switch and drop generations. docs/reindex.md."""

from typing import Final

import msgspec
from litestar.params import JSONBody

from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest, wait_of
from services.query_api.http.route_decorator import get, post
from services.query_api.ops.generation_comparer import CompareRequest, Comparison, compare
from services.query_api.ops.generation_plan import BuildRequest, Plan
from services.query_api.ops.generation_service import GenerationList, GenerationService, Outcome
from shared.errors import Rejected
from shared.runtime.resources import Resources
from shared.state.as_of import moment_of

SWITCH_WAIT_S: Final = 60.0


class RollbackRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """With `dryRun`, only say which generation would serve."""

    dry_run: bool = False


class SwitchRequest(RollbackRequest, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The generation that is to serve, by default the one that was built. `force` skips the comparison."""

    id: str | None = None
    force: bool = False


@get(
    "/ops/generations",
    role="operator",
    line="list the generations of the index; /start, /compare, /switch, /rollback, /cancel, /gc",
)
async def ops_generations(request: ApiRequest) -> GenerationList:
    """List the generations: first the serving one, then those being built, ready, retired or past."""
    return await request.part(GenerationService).status()


@post("/ops/generations/start", role="operator", json_only=True, refuses=(409,), conflicts=True)
async def ops_generations_start(data: JSONBody[BuildRequest], request: ApiRequest) -> Plan:
    """Build a generation beside the one that serves. With `dryRun`, only return the plan."""
    if data.as_of is not None:
        try:
            moment_of(data.as_of)
        except Rejected as error:
            raise invalid("asOf", error.sentence) from None
    return await request.part(GenerationService).start(data)


@post("/ops/generations/compare", role="operator", json_only=True, refuses=(409,), conflicts=True)
async def ops_generations_compare(data: JSONBody[CompareRequest], request: ApiRequest) -> Comparison:
    """Ask the serving generation and another one the same questions, about the caller's documents.

    Without `questions`, titles and headings of `sample` chunks are asked for.
    """
    base, generations = request.part(Resources), request.part(GenerationService)
    return await compare(base, generations, data, request.user.tenant)


@post("/ops/generations/switch", role="operator", json_only=True, refuses=(409,), conflicts=True)
async def ops_generations_switch(data: JSONBody[SwitchRequest], request: ApiRequest) -> Outcome:
    """Make another generation serve. `Prefer: wait=<s>` says how long to wait; the switch goes on afterwards."""
    wait_s, _ = wait_of(request, otherwise=SWITCH_WAIT_S)
    return await request.part(GenerationService).switch(data.id, force=data.force, dry_run=data.dry_run, wait_s=wait_s)


@post("/ops/generations/rollback", role="operator", json_only=True, refuses=(409,), conflicts=True)
async def ops_generations_rollback(request: ApiRequest, data: JSONBody[RollbackRequest | None] = None) -> Outcome:
    """Make the previously serving generation serve again."""
    wait_s, _ = wait_of(request, otherwise=SWITCH_WAIT_S)
    return await request.part(GenerationService).rollback(dry_run=data is not None and data.dry_run, wait_s=wait_s)


@post("/ops/generations/cancel", role="operator", json_only=True, refuses=(409,), conflicts=True)
async def ops_generations_cancel(request: ApiRequest) -> Outcome:
    """Cancel the switch in progress, or else drop the generation that is being built."""
    return await request.part(GenerationService).cancel()


@post("/ops/generations/gc", role="operator", json_only=True, refuses=(409,), conflicts=True)
async def ops_generations_gc(request: ApiRequest) -> Outcome:
    """Drop the retired and past generations: their points, heads and chunk topics."""
    return await request.part(GenerationService).collect()
