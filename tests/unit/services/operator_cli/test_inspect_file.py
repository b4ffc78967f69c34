"""`sluice inspect`, with the readers and the built-in model."""

import json
from pathlib import Path

from services.operator_cli.inspect_file import Inspection, markdown
from shared.contracts import Chunk, Note
from tests.selection import CI_ONLY
from tests.unit.services.ingest_worker.files import a_pdf, a_zip
from tests.unit.services.operator_cli.conftest import Sluice

FRONT = "---\nauthor: Ada\n---\n"
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |"


@CI_ONLY
def test_a_file_is_shown_as_it_would_be_indexed(sluice: Sluice, tmp_path: Path) -> None:
    file = tmp_path / "tide.zip"
    file.write_bytes(a_zip({"a.md": f"{FRONT}# Tide\n\nIt rose.\n\n{TABLE}", "b.bin": b"\0\1\2" * 99}))
    before = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")}

    ran, shown = sluice("inspect", str(file), "--json"), sluice("inspect", str(file))

    seen = json.loads(ran.out)
    assert (ran.code, seen["documentType"], seen["noteCount"]) == (0, "zip", 1)
    assert [each["place"] for each in seen["notes"]] == ["b.bin"]
    assert [each["text"] for each in seen["tables"]] == [TABLE]
    assert all(seen["text"][each["start"] : each["end"]] == each["text"] for each in seen["chunks"])
    assert seen["seconds"].keys() == {"start", "read", "chunk"}
    assert "## 1 notes\n\n- b.bin: b.bin is neither text" in shown.out
    assert {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")} == before


@CI_ONLY
def test_a_file_that_cannot_be_read_says_why(sluice: Sluice, tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(a_pdf("x")[:60])

    damaged, missing = sluice("inspect", str(file)), sluice("inspect", str(tmp_path / "none"))

    assert (damaged.code, damaged.out) == (1, "")
    assert "a.pdf is damaged" in damaged.err
    assert missing.code == 2


def test_the_report_shows_every_part() -> None:
    seen = Inspection(
        name="a.pdf",
        document_type="pdf",
        title=None,
        language="de",
        file={"author": ["Ada", "Bo"]},
        notes=[Note(code="damaged", place="page 2", message="the page could not be read")],
        note_count=3,
        seconds={"read": 0.5},
        pages=[{"page": 1, "start": 0, "end": 4}],
        tables=[{"start": 0, "end": 4, "text": "```"}],
        chunks=[Chunk(order=0, text="1 | 2", hash="", start=0, end=5, tokens=3, page=1, table_header="a | b")],
        text="1 | 2",
    )

    report = "\n".join(markdown(seen))

    for part in (
        "- file.author: Ada; Bo",
        "- seconds: read 0.5",
        "## 3 notes\n- page 2: the page could not be read (damaged)",
        "| 1 | 0 | 4 |",
        "````\n```\n````",
        "### 1: page 1, paragraph, 3 tokens, 0–5\n```\na | b\n1 | 2\n```",
    ):
        assert part in report
