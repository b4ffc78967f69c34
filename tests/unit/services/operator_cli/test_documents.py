"""`sluice documents rm` by filter and `sluice erase` against a server on the wire: counted, confirmed, then done."""

import json
from typing import Any

import pytest

from services.operator_cli import documents
from services.operator_cli.documents import metadata_filters
from services.operator_cli.errors import Misuse
from tests.unit.services.operator_cli.conftest import Ran, Sluice, Wire

DOCUMENTS, ERASE, FORGET, TENANTS = "/rag/documents", "/ops/erase", "/ops/forget", "/ops/tenants"
FORGOTTEN = "/ops/erase/forgotten"
NOTES = [{"code": "hidden", "place": "Geese", "message": "the hidden sheet was left out"}]
NOTED = {"documentId": "d1", "source": "s", "path": "a.xlsx", "status": "created", "notes": NOTES, "noteCount": 1}
PARTS = [{"name": "log", "forgotten": True, "sentence": "the log's file was rewritten"}]


def page(*items: dict[str, Any], matched: int, cursor: str | None = None, proof: str | None = None) -> dict[str, Any]:
    return {"matched": matched, "items": list(items), "nextCursor": cursor, "message": "m", "proof": proof}


def removed(name: str, status: str = "deleted", **more: str) -> dict[str, Any]:
    return {"documentId": name, "status": status, **more}


def erased(name: str, outcome: str = "erased", **more: Any) -> dict[str, Any]:
    return {"documentId": name, "outcome": outcome, **more}


def searched(*found: dict[str, Any], parts: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"parts": parts or [], "files": 30, "found": list(found)}


def bodies(wire: Wire) -> list[Any]:
    return [json.loads(each.body) for each in wire.seen]


def test_what_fits_is_counted_and_removed_by_that_count_page_by_page(sluice: Sluice, wire: Wire) -> None:
    wire.answers("DELETE", DOCUMENTS, page(matched=3))
    wire.answers("DELETE", DOCUMENTS, page(removed("d1"), removed("d2"), matched=3, cursor="d2"))
    wire.answers("DELETE", DOCUMENTS, page(removed("d3"), matched=3))

    ran = sluice("documents", "rm", "--source", "s", "--tags", "old", "--filter", "year=2020", "--yes")

    assert (ran.code, ran.out) == (0, "3 of 3 removed\n")
    chosen = {"filters": {"source": "s", "tags": ["old"], "year": [2020]}}
    assert bodies(wire) == [chosen, {**chosen, "confirm": 3}, {**chosen, "confirm": 3, "cursor": "d2"}]


def test_what_was_not_removed_is_named_and_fails_the_command(sluice: Sluice, wire: Wire) -> None:
    wire.answers("DELETE", DOCUMENTS, page(matched=3))
    items = removed("d1"), removed("d2", "failed", error="it won't go"), removed("d3", "accepted")
    wire.answers("DELETE", DOCUMENTS, page(*items, matched=3))

    ran, as_json = (sluice("documents", "rm", "--all", "--yes", *more) for more in ((), ("--json",)))

    assert (ran.code, ran.out, ran.err) == (1, "1 of 3 removed\n", "d2: it won't go\nd3: accepted\n")
    assert as_json.code == 1


def test_all_are_removed_only_when_that_is_confirmed(sluice: Sluice, wire: Wire) -> None:
    wire.answers("DELETE", DOCUMENTS, page(matched=1000))

    unconfirmed, dry = sluice("documents", "rm", "--all"), sluice("documents", "rm", "--all", "--dry-run")

    assert (unconfirmed.code, unconfirmed.err) == (2, "sluice: add --yes to confirm that 1000 will be removed\n")
    assert (dry.code, dry.out) == (0, "1000 documents would be removed\n")
    assert bodies(wire) == [{"all": True}, {"all": True}]


def test_where_nothing_fits_there_is_nothing_to_confirm(sluice: Sluice, wire: Wire) -> None:
    wire.answers("DELETE", DOCUMENTS, page(matched=0))
    wire.answers("POST", ERASE, page(matched=0))

    assert sluice("documents", "rm", "--source", "s").out == "no document matches\n"
    assert sluice("erase", "--source", "s").out == "no document matches\n"


def test_a_count_that_changed_meanwhile_stops_it(sluice: Sluice, wire: Wire) -> None:
    wire.answers("DELETE", DOCUMENTS, page(matched=2))
    wire.refuses("DELETE", DOCUMENTS, 409, "confirm=2, but 3 documents match now; nothing was done", "COUNT_CHANGED")

    ran = sluice("documents", "rm", "--source", "s", "--yes")

    assert (ran.code, ran.err) == (1, "sluice: confirm=2, but 3 documents match now; nothing was done\n")


@pytest.mark.parametrize(
    ("given", "filters"),
    [
        (["year=2020", "year=-1"], {"year": [2020, -1]}),
        (['code="007"', "draft=true"], {"code": ["007"], "draft": [True]}),
        (["formula=a=b", "size=1.5", "note="], {"formula": ["a=b"], "size": ["1.5"], "note": [""]}),
    ],
)
def test_a_filter_is_a_name_and_a_value_of_its_kind(given: list[str], filters: dict[str, Any]) -> None:
    assert metadata_filters(given) == filters


@pytest.mark.parametrize("pair", ["year", "=2020"])
def test_what_is_no_filter_is_refused(pair: str) -> None:
    with pytest.raises(Misuse, match=f"--filter {pair} must have the form name=value"):
        metadata_filters([pair])


@pytest.mark.parametrize(
    "arguments",
    [
        ("documents", "rm"),
        ("documents", "rm", "d1", "--source", "s"),
        ("documents", "rm", "--all", "--filter", "year=2020"),
        ("documents", "rm", "--filter", "year"),
        ("erase",),
        ("erase", "d1", "--source", "s"),
    ],
)
def test_what_is_meant_has_to_be_said_in_one_way(sluice: Sluice, wire: Wire, arguments: tuple[str, ...]) -> None:
    assert (sluice(*arguments).code, wire.seen) == (2, [])


def test_erasing_is_confirmed_and_tells_of_files_that_forget_later(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", ERASE, page(erased("d1", "standing"), matched=1))
    wire.answers("POST", ERASE, page(erased("d1", "standing"), matched=1))
    wire.answers("POST", ERASE, page(erased("d1", "standing"), matched=1))
    wire.answers("POST", ERASE, page(erased("d1"), matched=1))

    unconfirmed, dry, ran = (sluice("erase", "d1", *more) for more in ((), ("--dry-run",), ("--yes",)))

    assert (unconfirmed.code, unconfirmed.err) == (2, "sluice: add --yes to confirm that 1 will be erased for good\n")
    assert (dry.code, dry.out) == (0, "1 document would be erased\n")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "1 of 1 erased"
    assert "--wait" in ran.out.splitlines()[1]
    assert [body["dryRun"] for body in bodies(wire)] == [True, True, True, False]


def test_many_ids_go_in_requests_of_a_hundred_and_each_once(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", ERASE, page(erased("d0"), matched=1))

    sluice("erase", "--yes", *(f"d{number}" for number in range(150)), "d0")

    assert [len(body["documentIds"]) for body in bodies(wire)] == [100, 50, 100, 50]


def test_an_unknown_document_is_named_and_the_others_are_erased(sluice: Sluice, wire: Wire) -> None:
    unknown = erased("d2", "unknown", error="there is no such document")
    wire.answers("POST", ERASE, page(erased("d1", "standing"), unknown, matched=1))
    wire.answers("POST", ERASE, page(erased("d1"), unknown, matched=1))

    ran = sluice("erase", "d1", "d2", "--yes")

    assert (ran.code, ran.err) == (1, "d2: there is no such document\n")
    assert ran.out.startswith("1 of 2 erased\n")


def part(name: str, files: int, canaries: int) -> dict[str, Any]:
    return {"part": name, "files": files, "canaries": canaries}


def test_an_admin_of_a_tenant_waits_for_the_upkeep(sluice: Sluice, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LOOK_EVERY_S", 0.01)
    wire.answers("POST", ERASE, page(erased("d1", "standing"), matched=1, proof="proof"))
    wire.refuses("POST", FORGET, 403, "this API key lacks the role operator", "FORBIDDEN")
    wire.answers("POST", ERASE, {**page(erased("d1"), matched=1), "receipt": "a receipt"})
    later = [{"name": "log", "forgotten": False, "sentence": "will be rewritten"}]
    for _ in range(2):
        wire.answers("GET", FORGOTTEN, {"done": False, "parts": later})
    wire.answers("GET", FORGOTTEN, {"done": True, "parts": PARTS})

    ran = sluice("erase", "d1", "--wait", "--yes")

    assert (ran.code, ran.out) == (0, "1 of 1 erased\nlog: the log's file was rewritten\n")
    assert "waiting until the hourly upkeep has rewritten the data files" in ran.err
    asked = [each for each in wire.seen if each.path.startswith(FORGOTTEN)]
    assert len(asked) == 3


def test_if_the_files_cannot_be_searched_now_nothing_is_erased(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", ERASE, page(erased("d1", "standing"), matched=1, proof="proof"))
    wire.refuses("POST", FORGET, 500, "the files can't be searched", "INTERNAL")

    ran = sluice("erase", "d1", "--wait", "--yes")

    assert (ran.code, "the files can't be searched" in ran.err) == (1, True)
    assert all(body["dryRun"] for body in bodies(wire))


def waited(sluice: Sluice, wire: Wire, *found: dict[str, Any]) -> Ran:
    """Return how `erase --wait` of a source of two pages ended, where words were found again."""
    for outcome in ("standing", "erased"):
        dry = outcome == "standing"
        words = [{"canaries": ["words of one"]}, {"canaries": ["words of two"]}] if dry else [{}, {}]
        proofs = ["proof of one", "proof of two"] if dry else [None, None]
        wire.answers("POST", ERASE, page(erased("d1", outcome, **words[0]), matched=2, cursor="d1", proof=proofs[0]))
        wire.answers("POST", ERASE, page(erased("d2", outcome, **words[1]), matched=2, proof=proofs[1]))
    wire.answers("POST", FORGET, searched(part("log.db", 1, 2), part("store", 1, 1)))
    wire.answers("POST", FORGET, searched(*found, parts=PARTS))
    return sluice("erase", "--source", "s", "--wait", "--yes")


def test_waiting_proves_it_by_words_that_were_there_before(sluice: Sluice, wire: Wire) -> None:
    ran = waited(sluice, wire)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "2 of 2 erased",
        "log: the log's file was rewritten",
        "2 phrases were in 2 files before, and are in 0 of 30 now",
    ]
    proofs = ["proof of one", "proof of two"]
    assert bodies(wire) == [
        {"source": "s", "dryRun": True},
        {"source": "s", "dryRun": True, "cursor": "d1"},
        {"proofs": proofs, "dryRun": True},
        {"source": "s", "confirm": 2, "dryRun": False},
        {"source": "s", "confirm": 2, "dryRun": False, "cursor": "d1"},
        {"proofs": proofs, "dryRun": False},
    ]


def test_a_word_that_is_found_again_fails_it_and_says_where(sluice: Sluice, wire: Wire) -> None:
    ran = waited(sluice, wire, part("store", 1, 1))

    assert ran.code == 1
    assert ran.out.splitlines()[-2:] == [
        "2 phrases were in 2 files before, and are in 1 of 30 now",
        "still there: store (1)",
    ]


def a_tenant(**fields: int) -> dict[str, Any]:
    counts = {"documents": 0, "deleted": 0, "erased": 0, "letters": 0, "keys": 0}
    return {"tenant": "acme", **counts, **fields}


def test_a_tenant_is_confirmed_erased_and_looked_at_again(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/ops/tenants/acme", a_tenant(documents=1, keys=2))
    wire.answers("POST", f"{TENANTS}/erase", page(erased("d1", "standing"), matched=1))
    wire.answers("POST", f"{TENANTS}/erase", page(erased("d1"), matched=1))
    wire.answers("GET", TENANTS, {"items": [a_tenant(erased=1, keys=2)]})

    ran = sluice("tenants", "rm", "acme", "--yes")

    assert [json.loads(each.body) for each in wire.seen if each.body] == [
        {"tenant": "acme", "dryRun": True},
        {"tenant": "acme", "confirm": 1, "dryRun": False},
    ]
    assert (ran.code, ran.out.splitlines()[0]) == (0, "1 of 1 erased")
    assert ran.err == "acme still has 2 keys: sluice keys ls lists them, sluice keys revoke ends them\n"


def test_a_tenant_that_goes_on_sending_is_not_gone(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/ops/tenants/acme", a_tenant(documents=1))
    wire.answers("POST", f"{TENANTS}/erase", page(erased("d1", "standing"), matched=1))
    wire.answers("POST", f"{TENANTS}/erase", page(erased("d1"), matched=1))
    wire.answers("GET", TENANTS, {"items": [a_tenant(documents=1)]})

    ran = sluice("tenants", "rm", "acme", "--yes")

    assert ran.code == 1
    assert ran.err == "1 document of acme came meanwhile: revoke its keys, then run the command again\n"


def test_a_tenant_is_not_erased_unasked_or_in_a_dry_run(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/ops/tenants/acme", a_tenant(documents=1))
    wire.answers("POST", f"{TENANTS}/erase", page(erased("d1", "standing"), matched=1))

    dry, unconfirmed = sluice("tenants", "rm", "acme", "--dry-run"), sluice("tenants", "rm", "acme")

    assert (dry.code, dry.out) == (0, "1 document would be erased\n")
    assert (unconfirmed.code, unconfirmed.err) == (2, "sluice: add --yes to confirm that 1 will be erased for good\n")
    assert all(json.loads(each.body)["dryRun"] for each in wire.seen if each.body)


def test_letters_without_documents_are_settled_too(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/ops/tenants/acme", a_tenant(letters=3))
    wire.answers("POST", f"{TENANTS}/erase", page(matched=0))
    wire.answers("GET", TENANTS, {"items": []})

    ran = sluice("tenants", "rm", "acme", "--yes")

    assert json.loads(wire.seen[-2].body) == {"tenant": "acme", "confirm": 0, "dryRun": False}
    assert ran.code == 0


def test_tenants_are_listed_and_shown(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", TENANTS, {"items": [a_tenant(documents=7)]})
    wire.answers("GET", "/ops/tenants/acme", {**a_tenant(documents=7), "chunks": 40, "blobs": 1, "blobBytes": 9})

    assert sluice("tenants", "ls", "--no-header").out == "acme\t7\t0\t0\t0\t0\n"
    assert json.loads(sluice("tenants", "ls", "--json").out)["items"] == [a_tenant(documents=7)]
    assert "chunks\t40\n" in sluice("tenants", "show", "acme").out
    assert json.loads(sluice("tenants", "show", "acme", "--json").out)["blobBytes"] == 9


def test_the_stages_of_a_waiting_document_are_shown(sluice: Sluice, wire: Wire) -> None:
    stages = [{"stage": "received", "at": "2026-11-20T18:00:00.000Z"}, {"stage": "extracted"}]
    wire.answers("GET", "/rag/documents/d1", NOTED | {"stages": stages})

    lines = sluice("documents", "show", "d1").out.splitlines()

    assert {"received\t2026-11-20T18:00:00.000Z", "extracted\tpassed"} <= {*lines}


def test_notes_are_counted_in_lists_and_shown_with_the_document(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/documents", {"items": [NOTED], "nextCursor": None})
    wire.answers("GET", "/rag/documents/d1", NOTED)

    listed, shown = sluice("documents", "ls"), sluice("documents", "show", "d1")

    assert listed.out.split("\t")[-1] == "1\n"
    assert "note\tGeese: the hidden sheet was left out\n" in shown.out
