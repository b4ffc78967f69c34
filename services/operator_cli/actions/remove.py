"""`sluice documents rm` by filter, and `sluice erase`: count, ask for confirmation, then proceed page by page."""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from services.operator_cli.client import Forbidden, Misuse

if TYPE_CHECKING:
    from services.operator_cli.client import Client

IDS: Final = 100  # ids per request
PROOFS: Final = 1000  # proofs per request
LOOK_EVERY_S = 30.0  # between two questions whether the files were rewritten
Requests = Callable[[int | None], Iterable[dict[str, Any]]]  # takes the count that was confirmed
_NOT_DONE: Final = frozenset({"failed", "unknown", "accepted"})


def metadata_of(given: Sequence[str]) -> dict[str, Any]:
    """Return `name=value` pairs and JSON objects merged into one object; values are typed as in `metadata_filters`.

    Raises:
        Misuse: an item is neither.
    """
    metadata: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if each.lstrip().startswith("{"):
            try:
                metadata |= json.loads(each)
            except ValueError as error:
                raise Misuse(f"--metadata {each} is not valid JSON: {error}") from None
        elif name and equals:
            metadata[name] = _typed(value)
        else:
            raise Misuse(f"--metadata {each} must be name=value or a JSON object")
    return metadata


def metadata_filters(given: Sequence[str]) -> dict[str, Any]:
    """Return `name=value` pairs as filters; a repeated name matches any of its values.

    An unquoted integer, true or false is not taken as text: year=2020, but code="007".

    Raises:
        Misuse: an item isn't a pair.
    """
    filters: dict[str, list[Any]] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise Misuse(f"--filter {pair} must have the form name=value")
        filters.setdefault(name, []).append(_typed(value))
    return dict(filters)


def _typed(value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    return int(value) if value.removeprefix("-").isascii() and value.removeprefix("-").isdigit() else value


def remove(client: "Client", chosen: dict[str, Any], *, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete the matching documents and return the exit code: 1 if one was not deleted."""
    from services.operator_cli.terminal import console, print_json, progress  # slow to import

    matched = client.count_doomed(chosen)
    if dry_run or not matched:
        if as_json:
            print_json({"dryRun": dry_run, "matched": matched, "counts": {}, "failed": []})
        else:
            console().print(f"{_documents(matched)} would be removed" if dry_run else "no document matches")
        return 0
    confirm("removed", "Remove", matched, yes=yes, as_json=as_json)
    counts, failed = Counter[str](), list[dict[str, Any]]()
    with progress(matched, "removing") as step:
        for item in client.remove_doomed(chosen, matched):
            counts[item["status"]] += 1
            step(item["documentId"])
            if item["status"] in _NOT_DONE:
                failed.append(item)
    if as_json:
        print_json({"dryRun": False, "matched": matched, "counts": dict(sorted(counts.items())), "failed": failed})
    else:
        _complain(failed, "status")
        console().print(f"{counts['deleted']} of {matched} removed")
    return 1 if failed else 0


def erase(
    client: "Client", ids: Sequence[str], source: str | None, *, yes: bool, dry_run: bool, wait: bool, as_json: bool
) -> int:
    """Erase documents and return the exit code: 1 if one was not erased, or text of one was found afterwards."""
    if bool(ids) == bool(source):
        raise Misuse("give either document ids or a --source")
    run = ErasureOptions(yes=yes, dry_run=dry_run, wait=wait, as_json=as_json)
    return _erase(client, lambda confirm: _pages(ids, source, confirm), run)


def erase_tenant(client: "Client", tenant: str, *, yes: bool, dry_run: bool, wait: bool, as_json: bool) -> int:
    """Erase everything of a tenant and return the exit code: as `erase`, and 1 if documents came meanwhile."""
    from services.operator_cli.terminal import console  # slow to import

    before = client.tenant(tenant)
    run = ErasureOptions(yes=yes, dry_run=dry_run, wait=wait, as_json=as_json)
    code = _erase(client, lambda confirm: [{"tenant": tenant} | ({} if confirm is None else {"confirm": confirm})], run)
    if dry_run:
        return code
    if before["letters"] and not before["documents"] + before["deleted"]:
        confirm("erased for good", "Erase for good", before["letters"], yes=yes, as_json=as_json, what="dead letter")
        [*client.erase([{"tenant": tenant, "confirm": 0}], dry_run=False)]
    after = {each["tenant"]: each for each in client.tenants()["items"]}.get(tenant)
    left = 0 if after is None else after["documents"] + after["deleted"]
    if left:
        sentence = f"{_documents(left)} of {tenant} came meanwhile: revoke its keys, then run the command again"
        console(stderr=True).print(sentence, markup=False)
    if after is not None and after["keys"]:
        sentence = f"{tenant} still has {after['keys']} keys: sluice keys ls lists them, sluice keys revoke ends them"
        console(stderr=True).print(sentence, markup=False)
    return 1 if left else code


class ErasureOptions(NamedTuple):
    """How an erasure is run."""

    yes: bool
    dry_run: bool
    wait: bool
    as_json: bool


def _erase(client: "Client", requests: Requests, options: ErasureOptions) -> int:
    from services.operator_cli.terminal import console, print_json, progress  # slow to import

    yes, dry_run, wait, as_json = options
    pages = [*client.erase(requests(None), dry_run=True)]
    looked = [item for page in pages for item in page["items"]]
    unknown = [each for each in looked if each["outcome"] == "unknown"]
    matched = len(looked) - len(unknown)
    if dry_run or not looked:
        if as_json:
            print_json({"dryRun": dry_run, "matched": matched, "unknown": unknown})
        else:
            _complain(unknown, "outcome")
            console().print(f"{_documents(matched)} would be erased" if dry_run else "no document matches")
        return 1 if unknown else 0
    if matched:
        confirm("erased for good", "Erase for good", matched, yes=yes, as_json=as_json)
    words = [word for each in looked for word in each.get("canaries", ())]
    proofs = [page["proof"] for page in pages if page["proof"]][:PROOFS]
    # If the server refuses this, nothing was erased yet.
    before = _searched(client, proofs) if wait else None
    items, receipt = list[dict[str, Any]](), None
    with progress(len(looked), "erasing") as step:
        for page in client.erase(requests(matched), dry_run=False):
            receipt = page.get("receipt") or receipt
            for item in page["items"]:
                items.append(item)
                step(item["documentId"])
    proof = None if before is None else client.forget(proofs, dry_run=False)
    waited = _rewritten(client, receipt) if wait and before is None and receipt is not None else None
    failed = [each for each in items if each["outcome"] != "erased"]
    if as_json:
        after = waited if proof is None else proof
        print_json({"dryRun": False, "items": items, "words": len(words), "before": before, "after": after})
    else:
        _complain(failed, "outcome")
        console().print(f"{len(items) - len(failed)} of {len(items)} erased")
        for line in _proof(before, proof, len(words)) if waited is None else _parts(waited):
            console().print(line, markup=False)
    return 1 if failed or (proof is not None and proof["found"]) else 0


def _searched(client: "Client", proofs: Sequence[str]) -> dict[str, Any] | None:
    """Return where the words are now; None if the key may not search and rewrite the files of all tenants."""
    try:
        return client.forget(proofs, dry_run=True)
    except Forbidden:
        return None


def _rewritten(client: "Client", receipt: str) -> dict[str, Any]:
    """Return `{done, parts[]}` when our files were rewritten since the erasure."""
    from services.operator_cli.terminal import console  # slow to import

    found = client.erasure_forgotten(receipt)
    if not found["done"]:
        sentence = "erased; waiting until the hourly upkeep has rewritten the data files (Ctrl-C ends the waiting only)"
        console(stderr=True).print(sentence, markup=False)
    while not found["done"]:
        time.sleep(LOOK_EVERY_S)  # polling, because the server has no event for it
        found = client.erasure_forgotten(receipt)
    return found


def _pages(ids: Sequence[str], source: str | None, confirm: int | None = None) -> Iterator[dict[str, Any]]:
    if source is not None:
        yield {"source": source, **({} if confirm is None else {"confirm": confirm})}
    distinct = list(dict.fromkeys(ids))
    for start in range(0, len(distinct), IDS):
        yield {"documentIds": distinct[start : start + IDS]}


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


def _complain(items: Sequence[dict[str, Any]], what: str) -> None:
    from services.operator_cli.terminal import console  # slow to import

    for each in items:
        outcome = each.get("error") or each[what]
        console(stderr=True).print(f"{each['documentId']}: {outcome}", markup=False)


def _parts(rewritten: dict[str, Any]) -> Iterator[str]:
    yield from (f"{part['name']}: {part['sentence']}" for part in rewritten["parts"])


def confirm(done: str, question: str, count: int, *, yes: bool, as_json: bool, what: str = "document") -> None:
    """Ask the user to confirm. Raises Misuse if nobody can be asked, and Abort if the user declines."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise Misuse(f"add --yes to confirm that {count} will be {done}")
    typer.confirm(f"{question} {_documents(count, what)}?", abort=True)


def _documents(count: int, what: str = "document") -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
