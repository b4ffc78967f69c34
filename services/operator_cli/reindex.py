"""`sluice reindex`: build another generation of the index, switch to it, switch back, and drop retired generations."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from services.operator_cli.errors import CommandError, Misuse
from services.operator_cli.options import Json, Manner, Yes, client_of, given, with_options
from services.operator_cli.terminal import console, print_found, shown

reindex = typer.Typer(
    name="reindex",
    help="Build the index again with another model or chunk size, while the old one answers.",
    no_args_is_help=True,
)

_COUNTS = ("documents", "chunks", "unread", "failed", "embedded", "copied")
_COLUMNS = ("id", "state", "model", "chunks of", *_COUNTS, "left")


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """What the new generation is like. What isn't given comes from the settings."""

    embedder: Annotated[str | None, typer.Option(help="Model, as in SLUICE_EMBEDDER.")] = None
    chunk_size: Annotated[int | None, typer.Option(help="Largest size of a chunk.")] = None
    chunk_overlap: Annotated[int | None, typer.Option(help="Overlap of neighbouring chunks.")] = None
    chunk_unit: Annotated[str | None, typer.Option(help="characters or tokens.")] = None
    as_of: Annotated[
        str | None,
        typer.Option(help="Show the documents as of this moment, an offset or a time, to searches with asOf."),
    ] = None
    limit_rate: Annotated[float | None, typer.Option(help="At most this many documents per second.")] = None


@reindex.command("start", epilog="Example: sluice reindex start --chunk-size 400 --dry-run")
@with_options
def start(context: typer.Context, *, options: BuildOptions, manner: Manner) -> None:
    """Build a generation beside the one that answers. Options that aren't given come from the settings."""
    client, dry_run, as_json = client_of(context), manner.dry_run, manner.as_json
    body = given(options)
    asks = not (manner.yes or dry_run or as_json) and sys.stdin.isatty()
    plan = client.send("/ops/generations/start", {**body, "dryRun": dry_run or asks})
    shown(plan, _plan_lines(plan), as_json=as_json)
    if as_json:
        return
    if asks:
        typer.confirm("Build it?", abort=True)
        plan = client.send("/ops/generations/start", body)
    if not dry_run:
        console().print(f"Generation {plan['id']} is being built: sluice reindex status", markup=False, soft_wrap=True)


@reindex.command("status", epilog="Example: sluice reindex status")
def status(context: typer.Context, *, as_json: Json = False) -> None:
    """List the generations and their progress. In a pipe, print tab-separated lines."""
    found = client_of(context).get("ops", "generations")
    print_found(found, [_row(each) for each in found["items"]], _COLUMNS, as_json=as_json)
    if "switching" in found and not as_json:
        console(stderr=True).print(found["switching"], markup=False)


@reindex.command("compare", epilog="Example: sluice reindex compare --questions questions.jsonl --max-drop 0.02")
def compare(
    context: typer.Context,
    generation: Annotated[str | None, typer.Argument(help="Its id. Default: the one that was built.")] = None,
    *,
    questions: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="JSONL, as for eval. Default: titles and headings are asked."),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, max=500, help="How many titles and headings to ask.")] = 50,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=100, help="Passages of each search.")] = 10,
    max_drop: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit with 1 if nDCG is lower by more than this.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask the serving generation and another one the same questions; compare their results, sizes and costs."""
    from services.operator_cli.evaluate import questions as read

    body: dict[str, Any] = {"sample": sample, "topK": top_k, **({} if generation is None else {"id": generation})}
    if questions is not None:
        body["questions"] = [{"question": each.question, "documents": each.documents} for each in read(questions)]
    found = client_of(context).send("/ops/generations/compare", body)
    columns = ("", found["serving"]["id"], found["other"]["id"])
    print_found(found, _compared_rows(found), columns, as_json=as_json)
    if not as_json:
        for line in _compared_lines(found):
            console().print(line, markup=False, soft_wrap=True)
    if max_drop is None:
        return
    drop = found.get("drop")
    if drop is None:
        raise Misuse("--max-drop needs questions that name the documents that answer them")
    if drop > max_drop:
        raise CommandError(f"nDCG is lower by {drop:.3f}, which is more than {max_drop:g}")


@reindex.command("switch", epilog="Example: sluice reindex switch")
@with_options
def switch(
    context: typer.Context,
    generation: Annotated[str | None, typer.Argument(help="Its id. Default: the one that was built.")] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Accept that documents are missing in it.")] = False,
    manner: Manner,
) -> None:
    """Let another generation answer, once it is complete and every API is ready for it."""
    chosen = {} if generation is None else {"id": generation}
    body = {"force": force, "dryRun": manner.dry_run, **chosen}
    _do(context, "switch", "Let the other generation answer?", body, manner)


@reindex.command("rollback", epilog="Example: sluice reindex rollback")
@with_options
def rollback(context: typer.Context, *, manner: Manner) -> None:
    """Let the previous generation answer again."""
    _do(context, "rollback", "Let the previous generation answer again?", {"dryRun": manner.dry_run}, manner)


@reindex.command("cancel", epilog="Example: sluice reindex cancel")
def cancel(context: typer.Context, *, yes: Yes = False, as_json: Json = False) -> None:
    """Cancel the switch in progress, or else drop the generation that is being built."""
    _do(context, "cancel", "Cancel it?", {}, Manner(yes=yes, as_json=as_json))


@reindex.command("gc", epilog="Example: sluice reindex gc")
def collect(context: typer.Context, *, yes: Yes = False, as_json: Json = False) -> None:
    """Drop the retired and past generations for good. Afterwards, a rollback is impossible."""
    _do(context, "gc", "Drop all retired and past generations?", {}, Manner(yes=yes, as_json=as_json))


def _do(context: typer.Context, what: str, question: str, body: dict[str, Any], manner: Manner) -> None:
    if not manner.dry_run:
        manner.confirm(question, otherwise="add --yes to do it without being asked")
    done = client_of(context).send(f"/ops/generations/{what}", body)
    shown(done, [done["sentence"]], as_json=manner.as_json)


def _row(each: dict[str, Any]) -> dict[str, Any]:
    left = each.get("secondsLeft")
    return {
        **each,
        "state": f"as of {each['asOf']}" if each["state"] == "past" else each["state"],
        "chunks of": f"{each['chunkSize']} {each['chunkUnit']}",
        "documents": f"{each['documents']} of {each['ofDocuments']}",
        "left": None if left is None else f"{_duration(left)} at {each['rate']:g}/s",
    }


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    free = plan["freeBytes"]
    chunks = f"about {plan['chunks']} chunks of {plan['chunkSize']} {plan['chunkUnit']}"
    texts = f"about {plan['embed']} texts" if plan["embed"] else "no text"
    room = f"{plan['diskBytes'] / 1e6:.0f} MB"
    return [
        f"{plan['documents']} documents in {chunks}, model {plan['model']} at {plan['embedder']}",
        f"{texts} to embed, about {_duration(plan['seconds'])}",
        f"{room} of disk" if free is None else f"{room} of disk, of {free / 1e9:.1f} GB free",
        *plan["notes"],
    ]


def _compared_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    def row(name: str, shown: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
        return {"": name, **{found[side]["id"]: shown(found[side]) for side in ("serving", "other")}}

    def figure(field: str, form: Callable[[Any], str] = str) -> Callable[[dict[str, Any]], str]:
        return lambda side: "" if side.get(field) is None else form(side[field])

    return [
        row("model", figure("model")),
        row("chunks of", lambda side: f"{side['chunkSize']} {side['chunkUnit']}"),
        row("documents", figure("documents")),
        row("chunks", figure("chunks")),
        row(f"nDCG@{found['topK']}", figure("ndcg", lambda value: f"{value:.3f}")),
        row("ms a search", figure("searchMs")),
        row("texts embedded", figure("embedded")),
        row("vectors copied", figure("copied")),
        row("built in", figure("buildSeconds", _duration)),
        row("disk", figure("diskBytes", lambda value: f"{value / 1e6:.1f} MB")),
    ]


def _compared_lines(found: dict[str, Any]) -> Iterator[str]:
    drawn = ", drawn from titles and headings" if found["drawn"] else ""
    yield f"{found['questions']} questions{drawn}; {found['judged']} with known answers"
    yield f"the same documents among the first {found['topK']}: {found['overlap']:.0%}"
    yield f"moved by {found['moved']:.1f} places on average"
    yield from found["notes"]
    for each in found["changed"]:
        old, new = each.get("first") or "nothing", each.get("firstOther") or "nothing"
        best = f"first is {new}" if old == new else f"first is {new} instead of {old}"
        yield f"  {each['question']}: {each['overlap']:.0%} the same documents, {best}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
