"""`sluice audit`: what is asked, page by page, and what is printed."""

import json

from tests.unit.services.operator_cli.conftest import Sluice, Wire

ENTRY = {"time": "2026-11-20T18:00:00.000Z", "action": "rag_ingest", "result": "accepted", "tenant": "t", "key": "k1"}
IDS = ["11ca04b3-12ec-5b35-8f4b-4ab297c91387", "22ca04b3-12ec-5b35-8f4b-4ab297c91387"]


def test_all_pages_are_asked_for_and_printed_as_lines(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/ops/audit", {"items": [ENTRY | {"documentIds": IDS}], "cursor": "7", "more": True})
    wire.answers(
        "GET", "/ops/audit", {"items": [{**ENTRY, "door": "command", "count": 3}], "cursor": "9", "more": False}
    )

    ran = sluice("audit", "--since", "2026-11-20T18:00Z", "--tenant", "t", "--key", "k1", "--action", "rag_ingest")

    wanted = {"tenant": ["t"], "key": ["k1"], "action": ["rag_ingest"], "limit": ["1000"]}
    assert [seen.query for seen in wire.seen] == [wanted | {"since": ["2026-11-20T18:00Z"]}, wanted | {"cursor": ["7"]}]
    first, second = (line.split("\t") for line in ran.out.splitlines())
    assert first == [ENTRY["time"], "http", "t", "k1", "rag_ingest", "accepted", "", "1", f"{IDS[0]} and 1 more", ""]
    assert (second[1], second[7], second[8]) == ("command", "3", "")
    assert ran.code == 0


def test_json_is_an_entry_a_line_and_the_last_day_is_the_default(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/ops/audit", {"items": [ENTRY, ENTRY], "cursor": "7", "more": False})

    ran = sluice("audit", "--json")
    everything = sluice("audit", "--since", "beginning", "--json")

    assert [json.loads(line) for line in ran.out.splitlines()] == [ENTRY, ENTRY]
    assert len(everything.out.splitlines()) == 2
    assert [*wire.seen[0].query] == ["since", "limit"]
    assert [*wire.seen[1].query] == ["limit"]


def test_a_key_without_the_role_is_told(sluice: Sluice, wire: Wire) -> None:
    wire.refuses("GET", "/ops/audit", 403, "this API key lacks the role admin", "FORBIDDEN")

    ran = sluice("audit")

    assert (ran.code, ran.err) == (1, "sluice: this API key lacks the role admin\n")
