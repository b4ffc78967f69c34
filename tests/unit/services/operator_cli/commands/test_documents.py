"""`sluice documents ls` and `show` against a server on the wire."""

from tests.unit.services.operator_cli.conftest import Sluice, Wire

NOTES = [{"code": "hidden", "place": "Geese", "message": "the hidden sheet was left out"}]
DOCUMENT = {"documentId": "d1", "source": "s", "path": "a.xlsx", "status": "created", "notes": NOTES, "noteCount": 1}


def test_the_stages_of_a_waiting_document_are_shown(sluice: Sluice, wire: Wire) -> None:
    stages = [{"stage": "received", "at": "2026-11-20T18:00:00.000Z"}, {"stage": "extracted"}]
    wire.answers("GET", "/rag/documents/d1", DOCUMENT | {"stages": stages})

    lines = sluice("documents", "show", "d1").out.splitlines()

    assert {"received\t2026-11-20T18:00:00.000Z", "extracted\tpassed"} <= {*lines}


def test_notes_are_counted_in_lists_and_shown_with_the_document(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/documents", {"items": [DOCUMENT], "nextCursor": None})
    wire.answers("GET", "/rag/documents/d1", DOCUMENT)

    listed, shown = sluice("documents", "ls"), sluice("documents", "show", "d1")

    assert listed.out.split("\t")[-1] == "1\n"
    assert "note\tGeese: the hidden sheet was left out\n" in shown.out
