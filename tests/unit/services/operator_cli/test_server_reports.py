import json
from typing import Any, Final

import pytest

from tests.unit.services.operator_cli.conftest import Sluice, Wire

HANDBOOK: Final = {"source": "handbook", "documents": 3, "chunks": 17, "bytes": 52_000}
STATS: Final[dict[str, Any]] = {
    "documents": {"total": 3, "created": 2, "updated": 1, "failed": 0},
    "chunks": 17,
    "sources": [{"source": "handbook", "documents": 3}],
    "tenants": [{"tenant": "a", "documents": 3, "chunks": 17, "bytes": 52_000, "sources": [HANDBOOK]}],
}
USAGE: Final = {"embedded": 12, "copied": 5, "calls": 2, "tokens": 2400, "cost": 0.000048}


@pytest.mark.feature(130)
@pytest.mark.feature(244)
def test_sizes_by_source_and_the_model_s_work_are_shown(sluice: Sluice, wire: Wire) -> None:
    stats = {**STATS, "pipeline": {"stages": [], "disk": None, "usage": USAGE}}
    wire.answers("GET", "/rag/stats", stats)

    table, document = sluice("stats", "--no-header"), sluice("stats", "--json")

    assert wire.seen[0].query == {"sizes": ["true"]}
    assert [line.rstrip("\t") for line in table.out.splitlines()] == [
        "documents total\t3",
        "documents created\t2",
        "documents updated\t1",
        "chunks\t17",
        "source handbook\t3\t17\t52000",
        "texts embedded\t12",
        "vectors copied\t5",
        "calls of the model\t2",
        "tokens embedded\t2400",
        "cost\t0.000048",
    ]
    assert json.loads(document.out) == stats


def test_an_operator_sees_every_tenant_with_its_sources(sluice: Sluice, wire: Wire) -> None:
    other = {"tenant": "b", "documents": 1, "chunks": 2, "bytes": 900, "sources": [{**HANDBOOK, "documents": 1}]}
    wire.answers("GET", "/rag/stats", {**STATS, "tenants": [*STATS["tenants"], other]})

    lines = sluice("stats").out.splitlines()

    assert [line.split("\t")[0] for line in lines[-4:]] == [
        "tenant a",
        "source a/handbook",
        "tenant b",
        "source b/handbook",
    ]


def test_who_is_no_operator_sees_no_work_of_the_model(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/stats", STATS)

    assert "embedded" not in sluice("stats").out


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
    first, second = (line.split("\t") for line in ran.out.splitlines()[1:])
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
