"""Collections are read in an order that leaves nothing unmended."""

from services.operator_cli.moving.collections import in_reading_order


def test_heads_come_before_points_and_the_ledger_after_all() -> None:
    names = ["chunks.a", "heads.b", "ledger", "verdict", "generations", "heads.a", "pairing", "unowned.blobs"]

    assert in_reading_order(names) == [
        "generations",
        "pairing",
        "heads.a",
        "heads.b",
        "chunks.a",
        "unowned.blobs",
        "verdict",
        "ledger",
    ]
