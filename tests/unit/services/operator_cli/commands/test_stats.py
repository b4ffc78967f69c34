import json
from typing import Final

import pytest

from tests.unit.services.operator_cli.conftest import Sluice, Wire

STATS: Final = {
    "documents": {"total": 3, "created": 2, "updated": 1, "failed": 0},
    "chunks": 17,
    "sources": [{"source": "handbook", "documents": 3}],
}
METRICS: Final = b"sluice_embedded_texts_total 12.0\nsluice_reused_vectors_total 5.0\n"


@pytest.mark.feature(130)
def test_documents_chunks_sources_and_the_model_s_work_are_counted(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/stats", STATS)
    wire.answers("GET", "/metrics", METRICS)

    table, document = sluice("stats"), sluice("stats", "--json")

    assert table.out.splitlines() == [
        "documents total\t3",
        "documents created\t2",
        "documents updated\t1",
        "chunks\t17",
        "source handbook\t3",
        "texts embedded\t12",
        "vectors reused\t5",
    ]
    assert json.loads(document.out) == {**STATS, "usage": {"embedded": 12, "reused": 5}}


def test_who_may_not_see_the_server_s_counts_sees_its_own_documents(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/stats", STATS)
    wire.refuses("GET", "/metrics", 403, "this API key lacks the role operator")

    ran = sluice("stats", "--json")

    assert (ran.code, json.loads(ran.out)["usage"]) == (0, None)
