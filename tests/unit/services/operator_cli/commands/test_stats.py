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

    table, document = sluice("stats"), sluice("stats", "--json")

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
