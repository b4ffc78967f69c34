"""`sluice reindex`: what it asks and prints, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.services.operator_cli.conftest import Sluice, Wire

PATH = "/ops/generations/compare"
SIDE = {
    "id": "a" * 12,
    "model": "minilm",
    "chunkSize": 800,
    "chunkUnit": "characters",
    "documents": 4,
    "chunks": 9,
    "failed": 0,
    "embedded": 9,
    "copied": 0,
    "diskBytes": 1_500_000,
    "buildSeconds": None,
    "searchMs": 12.5,
    "ndcg": 0.9,
}
CHANGED = {"question": "Where?", "overlap": 0.5, "moved": 1.0, "first": "a.md", "firstOther": "b.md"}


def found(drop: float | None) -> dict[str, Any]:
    ndcg = None if drop is None else 0.9 - drop
    return {
        "serving": SIDE,
        "other": {**SIDE, "id": "b" * 12, "buildSeconds": 120, "ndcg": ndcg},
        "topK": 10,
        "questions": 2,
        "judged": 1,
        "drawn": False,
        "overlap": 0.75,
        "moved": 0.5,
        "drop": drop,
        "changed": [CHANGED],
        "notes": ["generation b is still being built"],
    }


def test_it_sends_the_questions_and_prints_both_sides(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    wire.answers("POST", PATH, found(0.1))
    file = tmp_path / "questions.jsonl"
    file.write_text('{"question": "Where?", "documents": ["a.md"], "answer": "There."}\n{"question": "Who?"}\n')

    ran = sluice("reindex", "compare", "--questions", str(file), "--top-k", "5")

    asked = json.loads(wire.seen[0].body)
    assert asked["questions"] == [{"question": "Where?", "documents": ["a.md"]}, {"question": "Who?", "documents": []}]
    assert asked["topK"] == 5
    assert ran.code == 0
    assert "nDCG@10\t0.900\t0.800" in ran.out
    assert "built in\t\t2 min" in ran.out
    assert "Where?: 50% the same documents, first is b.md instead of a.md" in ran.out
    assert "still being built" in ran.out


@pytest.mark.parametrize(
    ("drop", "allowed", "code", "said"),
    [
        (0.1, "0.05", 1, "nDCG is lower by 0.100, which is more than 0.05"),
        (0.05, "0.05", 0, ""),
        (-0.2, "0", 0, ""),
        (None, "0.05", 2, "--max-drop needs questions that name the documents"),
    ],
)
def test_its_exit_code_says_whether_the_other_one_is_worse(
    sluice: Sluice, wire: Wire, drop: float | None, allowed: str, code: int, said: str
) -> None:
    wire.answers("POST", PATH, found(drop))

    ran = sluice("reindex", "compare", "--max-drop", allowed, "--json")

    assert (ran.code, json.loads(ran.out)["drop"]) == (code, drop)
    assert said in ran.err


def test_a_file_that_can_not_be_read_is_named(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text("Where?\n")

    ran = sluice("reindex", "compare", "--questions", str(file))

    assert (ran.code, wire.seen) == (1, [])
    assert "questions.jsonl, line 1" in ran.err


def test_a_switch_and_a_rollback_ask_or_are_told_yes_or_only_say_what_would_be(sluice: Sluice, wire: Wire) -> None:
    for what in ("switch", "rollback"):
        wire.answers("POST", f"/ops/generations/{what}", {"serving": "a", "sentence": "generation b would serve"})

        unasked, dry = sluice("reindex", what), sluice("reindex", what, "--dry-run")

        assert (unasked.code, "--yes" in unasked.err) == (2, True)
        assert (dry.code, json.loads(wire.seen[-1].body)["dryRun"]) == (0, True)
        assert sluice("reindex", what, "--yes").code == 0
