"""`sluice documents` and `sluice erase`: list, show, remove and erase documents.

What is removed or erased is counted first; after the confirmation, it goes page by page.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.operator_cli.errors import Forbidden, Misuse, RequestRefused
from services.operator_cli.options import Json, Manner, Source, Tags, client_of, slices, with_options
from services.operator_cli.terminal import console, note_line, print_found, print_json, progress, shown

if TYPE_CHECKING:
    from services.operator_cli.client import Client

LISTED: Final = 100
IDS: Final = 100  # ids per request
PROOFS: Final = 1000  # proofs per request
LOOK_EVERY_S = 30.0  # between two questions whether the files were rewritten
_COLUMNS: Final = ("documentId", "status", "chunkCount", "source", "path", "state", "noteCount")  # new ones at the end
_NOT_DONE: Final = frozenset({"failed", "unknown", "accepted"})

documents = typer.Typer(name="documents", help="List, show and remove documents.", no_args_is_help=True)


@documents.command("ls", epilog="Example: sluice documents ls --status failed")
def documents_ls(
    context: typer.Context,
    *,
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="Only documents with this status, such as failed.")] = None,
    tags: Tags = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to list.")] = LISTED,
    as_json: Json = False,
) -> None:
    """List documents, most recently changed first. In a pipe, print tab-separated lines."""
    page = client_of(context).listed("/rag/documents", limit, source=source, status=status, tags=tags or None)
    print_found(page, page["items"], _COLUMNS, right=("chunkCount", "noteCount"), as_json=as_json)
    if page["nextCursor"] and not as_json:
        console(stderr=True).print(f"there are more than {limit}: raise --limit")


@documents.command("show", epilog="Example: sluice documents show handbook/prices.md --text")
def documents_show(
    context: typer.Context,
    named: Annotated[str, typer.Argument(metavar="DOCUMENT", help="A document's id, path or address.")],
    text: Annotated[bool, typer.Option("--text", help="Print the extracted text instead.")] = False,
    as_json: Json = False,
) -> None:
    """Show a document's state, or its extracted text."""
    client = client_of(context)
    document = client.found(named)
    if text:
        read = client.content("rag", "documents", document["documentId"], "text").decode()
        if as_json:
            print_json({"documentId": document["documentId"], "text": read})
        else:
            print(read)
        return
    own = {name: value for name, value in document.items() if name not in ("stages", "notes")}
    rows = [{"field": name, "value": value} for name, value in own.items() if value not in (None, [], {}, "")]
    rows += [{"field": each["stage"], "value": _passed(each)} for each in document.get("stages", ())]
    rows += [{"field": "note", "value": note_line(each)} for each in document.get("notes", ())]
    print_found(document, rows, ("field", "value"), as_json=as_json)


def _passed(stage: Mapping[str, Any]) -> str:
    seconds = stage.get("seconds")
    return str(stage.get("at", "passed")) + ("" if seconds is None else f"  (after {seconds:g} s)")


@dataclass(frozen=True, kw_only=True)
class DocumentFilters:
    """Which documents are meant."""

    source: Annotated[str | None, typer.Option("--source", "-s", help="All documents of this source.")] = None
    tags: Tags = None
    metadata: Annotated[
        list[str] | None, typer.Option("--filter", help="Only documents with this metadata, as name=value; repeatable.")
    ] = None

    def given(self) -> dict[str, Any]:
        """Return the filters of a search. Raises Misuse as `metadata_filters`."""
        named = {"source": self.source, "tags": self.tags or None}
        given = {name: value for name, value in named.items() if value is not None}
        return given | metadata_filters(self.metadata or ())


@documents.command("rm", epilog="Example: sluice documents rm --source handbook --dry-run")
@with_options
def documents_rm(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[DOCUMENT]...", help="Ids, paths or addresses.")] = None,
    *,
    filters: DocumentFilters,
    everything: Annotated[bool, typer.Option("--all", help="All documents.")] = False,
    manner: Manner,
) -> None:
    """Delete documents by id, by filters, or all of them."""
    wanted = filters.given()
    if [bool(ids), bool(wanted), everything].count(True) != 1:
        raise Misuse("give either document ids, or filters (--source, --tags, --filter), or --all")
    client = client_of(context)
    if ids:
        raise typer.Exit(_remove(client, ids, manner))
    raise typer.Exit(_remove_chosen(client, {"all": True} if everything else {"filters": wanted}, manner))


def _remove(client: "Client", ids: Sequence[str], manner: Manner) -> int:
    """Delete the documents and return the exit code: 1 if one was not deleted."""
    as_json, dry_run = manner.as_json, manner.dry_run
    chosen = [client.found(each) for each in dict.fromkeys(ids)]
    if dry_run or not as_json:
        found = {"dryRun": True, "items": chosen}
        print_found(found, chosen, ("documentId", "source", "path"), as_json=as_json)
    if dry_run:
        if not as_json:
            console(stderr=True).print(f"would remove {len(chosen)}")
        return 0
    otherwise = f"add --yes to delete {len(chosen)} documents without being asked"
    manner.confirm(f"Remove {len(chosen)}?", otherwise=otherwise)
    removed = [_removed(client, each) for each in chosen]
    failed = [each for each in removed if each["status"] == "failed"]
    line = f"{len(removed) - len(failed)} of {len(removed)} removed"
    return _end({"items": removed}, failed, [line], as_json=as_json)


def _removed(client: "Client", document: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return client.delete(document["documentId"])
    except RequestRefused as error:
        return {"status": "failed", "documentId": document["documentId"], "error": str(error)}


Wait = Annotated[
    bool,
    typer.Option("--wait", help="Rewrite the data files now and search them for leftovers. Needs the role operator."),
]


@with_options
def erase(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Document ids.")] = None,
    *,
    source: Annotated[str | None, typer.Option("--source", "-s", help="All documents of this source.")] = None,
    wait: Wait = False,
    manner: Manner,
) -> None:
    """Erase documents for good: text, names, vectors, dead letters. Needs the role admin."""
    if bool(ids) == bool(source):
        raise Misuse("give either document ids or a --source")
    requests = [{"source": source}] if source else [{"documentIds": some} for some in slices(ids or (), IDS)]
    raise typer.Exit(_erase(client_of(context), "/ops/erase", requests, manner, wait=wait))


def metadata_of(given: Sequence[str]) -> dict[str, Any]:
    """Return `name=value` pairs and JSON objects merged into one object; values are typed as in `metadata_filters`.

    Raises:
        Misuse: an item is neither.
    """
    metadata: dict[str, Any] = {}
    for each in given:
        if each.lstrip().startswith("{"):
            try:
                metadata |= json.loads(each)
            except ValueError as error:
                raise Misuse(f"--metadata {each} is not valid JSON: {error}") from None
        else:
            name, value = _pair(each, f"--metadata {each} must be name=value or a JSON object")
            metadata[name] = value
    return metadata


def metadata_filters(given: Sequence[str]) -> dict[str, Any]:
    """Return `name=value` pairs as filters; a repeated name matches any of its values.

    An unquoted integer, true or false is not taken as text: year=2020, but code="007".

    Raises:
        Misuse: an item isn't a pair.
    """
    filters: dict[str, list[Any]] = {}
    for pair in given:
        name, value = _pair(pair, f"--filter {pair} must have the form name=value")
        filters.setdefault(name, []).append(value)
    return dict(filters)


def _pair(text: str, otherwise: str) -> tuple[str, Any]:
    """Return name and typed value of `name=value`. Raises Misuse with the sentence `otherwise`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise Misuse(otherwise)
    if value in ("true", "false"):
        return name, value == "true"
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return name, value[1:-1]
    return name, int(value) if value.removeprefix("-").isascii() and value.removeprefix("-").isdigit() else value


def _remove_chosen(client: "Client", chosen: dict[str, Any], manner: Manner) -> int:
    """Delete the matching documents and return the exit code: 1 if one was not deleted."""
    as_json, matched = manner.as_json, int(client.send("/rag/documents", chosen, "DELETE")["matched"])
    if manner.dry_run or not matched:
        line = f"{_documents(matched)} would be removed" if manner.dry_run else "no document matches"
        return _end(
            {"dryRun": manner.dry_run, "matched": matched, "counts": {}, "failed": []}, [], [line], as_json=as_json
        )
    confirm_count("removed", "Remove", matched, manner)
    counts, failed = Counter[str](), list[dict[str, Any]]()
    with progress() as watch:
        watch.begin("removing", matched)
        pages = client.pages("DELETE", "/rag/documents", {**chosen, "confirm": matched})
        for item in chain.from_iterable(page["items"] for page in pages):
            counts[item["status"]] += 1
            watch.step(name=item["documentId"])
            if item["status"] in _NOT_DONE:
                failed.append(item)
    found = {"dryRun": False, "matched": matched, "counts": dict(sorted(counts.items())), "failed": failed}
    return _end(found, failed, [f"{counts['deleted']} of {matched} removed"], as_json=as_json)


def erase_tenant(client: "Client", tenant: str, manner: Manner, *, wait: bool) -> int:
    """Erase everything of a tenant and return the exit code: as `erase`, and 1 if documents came meanwhile."""
    before = client.get("ops", "tenants", tenant)
    path, chosen = "/ops/tenants/erase", {"tenant": tenant}
    code = _erase(client, path, [chosen], manner, wait=wait)
    if manner.dry_run:
        return code
    if before["letters"] and not before["documents"] + before["deleted"]:
        confirm_count("erased for good", "Erase for good", before["letters"], manner, what="dead letter")
        [*client.pages("POST", path, {**chosen, "confirm": 0, "dryRun": False})]
    after = {each["tenant"]: each for each in client.get("ops", "tenants")["items"]}.get(tenant)
    left = 0 if after is None else after["documents"] + after["deleted"]
    if left:
        sentence = f"{_documents(left)} of {tenant} came meanwhile: revoke its keys, then run the command again"
        console(stderr=True).print(sentence, markup=False)
    if after is not None and after["keys"]:
        sentence = f"{tenant} still has {after['keys']} keys: sluice keys ls lists them, sluice keys revoke ends them"
        console(stderr=True).print(sentence, markup=False)
    return 1 if left else code


def _erase(client: "Client", path: str, requests: Sequence[Mapping[str, Any]], manner: Manner, *, wait: bool) -> int:
    dry_run, as_json = manner.dry_run, manner.as_json
    pages = [page for each in requests for page in client.pages("POST", path, {**each, "dryRun": True})]
    looked = [item for page in pages for item in page["items"]]
    unknown = [each for each in looked if each["outcome"] == "unknown"]
    matched = len(looked) - len(unknown)
    if dry_run or not looked:
        line = f"{_documents(matched)} would be erased" if dry_run else "no document matches"
        return _end({"dryRun": dry_run, "matched": matched, "unknown": unknown}, unknown, [line], as_json=as_json)
    if matched:
        confirm_count("erased for good", "Erase for good", matched, manner)
    words = [word for each in looked for word in each.get("canaries", ())]
    proofs = [page["proof"] for page in pages if page["proof"]][:PROOFS]
    # If the server refuses this, nothing was erased yet.
    before = _searched(client, proofs) if wait else None
    items, receipt = list[dict[str, Any]](), None
    with progress() as watch:
        watch.begin("erasing", len(looked))
        count = {"confirm": matched}  # ids confirm themselves; whatever else was chosen may match more by now
        confirmed = [{"dryRun": False, **each, **({} if "documentIds" in each else count)} for each in requests]
        for page in chain.from_iterable(client.pages("POST", path, each) for each in confirmed):
            receipt = page.get("receipt") or receipt
            for item in page["items"]:
                items.append(item)
                watch.step(name=item["documentId"])
    proof = None if before is None else client.forget(proofs, dry_run=False)
    waited = _rewritten(client, receipt) if wait and before is None and receipt is not None else None
    failed = [each for each in items if each["outcome"] != "erased"]
    after = waited if proof is None else proof
    found = {"dryRun": False, "items": items, "words": len(words), "before": before, "after": after}
    told = _proof(before, proof, len(words)) if waited is None else _parts(waited)
    lines = [f"{len(items) - len(failed)} of {len(items)} erased", *told]
    return _end(found, failed, lines, as_json=as_json) or (1 if proof is not None and proof["found"] else 0)


def _searched(client: "Client", proofs: Sequence[str]) -> dict[str, Any] | None:
    """Return where the words are now; None if the key may not search and rewrite the files of all tenants."""
    try:
        return client.forget(proofs, dry_run=True)
    except Forbidden:
        return None


def _rewritten(client: "Client", receipt: str) -> dict[str, Any]:
    """Return `{done, parts[]}` when our files were rewritten since the erasure."""
    found = client.get("ops", "erase", "forgotten", receipt=receipt)
    if not found["done"]:
        sentence = "erased; waiting until the hourly upkeep has rewritten the data files (Ctrl-C ends the waiting only)"
        console(stderr=True).print(sentence, markup=False)
    while not found["done"]:
        time.sleep(LOOK_EVERY_S)  # polling, because the server has no event for it
        found = client.get("ops", "erase", "forgotten", receipt=receipt)
    return found


def _proof(before: dict[str, Any] | None, after: dict[str, Any] | None, words: int) -> Iterator[str]:
    if before is None or after is None:
        yield "the data files keep the text for a while (docs/erasure.md says how long); --wait rewrites them now"
        return
    yield from _parts(after)
    if not words:
        yield "all phrases of these documents also occur in others, so there was nothing to search for"
        return
    then, now = (sum(each["files"] for each in told["found"]) for told in (before, after))
    yield f"{words} phrases were in {then} files before, and are in {now} of {after['files']} now"
    for each in after["found"]:
        yield f"still there: {each['part']} ({each['canaries']})"


def _end(found: Any, failed: Sequence[dict[str, Any]], lines: Iterable[str], *, as_json: bool) -> int:
    """Print what was done, and why it failed for these documents; return the exit code."""
    for each in () if as_json else failed:
        reason = each.get("error") or each.get("status") or each["outcome"]
        console(stderr=True).print(f"{each['documentId']}: {reason}", markup=False)
    shown(found, lines, as_json=as_json)
    return 1 if failed else 0


def _parts(rewritten: dict[str, Any]) -> Iterator[str]:
    yield from (f"{part['name']}: {part['sentence']}" for part in rewritten["parts"])


def confirm_count(done: str, question: str, count: int, manner: Manner, *, what: str = "document") -> None:
    """Ask the user to confirm. Raises Misuse if nobody can be asked, and Abort if the user declines."""
    otherwise = f"add --yes to confirm that {count} will be {done}"
    manner.confirm(f"{question} {_documents(count, what)}?", otherwise=otherwise)


def _documents(count: int, what: str = "document") -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
