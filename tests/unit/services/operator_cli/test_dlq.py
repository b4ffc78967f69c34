"""`sluice dlq` against a server on the wire: what is asked, what is printed, how it exits."""

import json
from typing import Any

import pytest

from services.operator_cli.main import main
from tests.unit.services.operator_cli.conftest import Wire

LIST = "/ops/dead-letters"
LETTER = {
    "id": "00ff",
    "stage": "embed",
    "code": "BUG",
    "error": "KeyError: 'x'",
    "lastSeen": "2026-11-20T18:00:00.000Z",
    "source": "s",
    "path": "a.md",
}
REDRIVEN = {"id": "00ff", "outcome": "redriven"}
OVERTAKEN = {"id": "00fe", "outcome": "superseded", "sentence": "version 7 was accepted since"}


class Sluice:
    """Runs a command and keeps what it wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(("dlq", *arguments))
        self.out, self.err = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code


@pytest.fixture
def sluice(capsys: pytest.CaptureFixture[str]) -> Sluice:
    return Sluice(capsys)


def settled(*items: dict[str, Any], cursor: str | None = None, dry_run: bool = False) -> dict[str, Any]:
    return {"items": list(items), "dryRun": dry_run, "nextCursor": cursor}


def bodies(wire: Wire) -> list[Any]:
    return [json.loads(each.body) for each in wire.seen if each.method == "POST"]


def test_ls_prints_a_line_a_letter_over_as_many_pages_as_it_takes(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", LIST, {"items": [LETTER] * 100, "total": 150, "nextCursor": "9"})
    wire.answers("GET", LIST, {"items": [LETTER] * 20, "total": 150, "nextCursor": "4"})

    code = sluice("ls", "--stage", "embed", "--code", "bug", "--limit", "120")

    assert code == 0
    assert sluice.out.splitlines()[1:] == ["00ff\tembed\tBUG\t2026-11-20T18:00:00.000Z\ts\ta.md\tKeyError: 'x'"] * 120
    assert sluice.err == "120 of 150 dead letters are listed: raise --limit\n"
    assert [each.path for each in wire.seen] == [LIST, LIST]


def test_ls_as_json_is_the_page(sluice: Sluice, wire: Wire) -> None:
    page = {"items": [LETTER], "total": 1, "nextCursor": None}
    wire.answers("GET", LIST, page)

    assert sluice("ls", "--json") == 0
    assert json.loads(sluice.out) == page


def test_show_prints_the_letter_and_its_record(sluice: Sluice, wire: Wire) -> None:
    record = {"time": "t", "headers": [], "key": {"text": "k"}, "value": {"base64": "/3s="}}
    wire.answers("GET", f"{LIST}/00ff", LETTER | {"record": record})

    assert sluice("show", "00ff") == 0
    assert "error\tKeyError: 'x'" in sluice.out.splitlines()
    assert "record value\t/3s=" in sluice.out.splitlines()


def test_show_gives_the_record_byte_by_byte(wire: Wire, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    wire.answers("GET", f"{LIST}/00ff/record", b"\xff{", headers={"content-type": "application/octet-stream"})

    with pytest.raises(SystemExit) as ended:
        main(("dlq", "show", "00ff", "--record"))

    assert ended.value.code == 0
    assert capfdbinary.readouterr().out == b"\xff{"


def test_redrive_goes_on_to_the_last_page_and_counts(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", f"{LIST}/redrive", settled(REDRIVEN, cursor="5-9"))
    wire.answers("POST", f"{LIST}/redrive", settled(OVERTAKEN))

    code = sluice("redrive", "--code", "bug", "--since", "2026-11-20")

    assert code == 0
    assert sluice.out.splitlines()[1:] == ["00ff\tredriven\t", "00fe\tsuperseded\tversion 7 was accepted since"]
    assert sluice.err == "1 redriven, 1 superseded\n"
    asked = {"code": "bug", "since": "2026-11-20", "dryRun": False}
    assert bodies(wire) == [asked, asked | {"cursor": "5-9"}]


def test_redrive_as_json_counts_too(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", f"{LIST}/redrive", settled(REDRIVEN, dry_run=True))

    assert sluice("redrive", "--all", "--dry-run", "--json") == 0
    assert json.loads(sluice.out) == {"dryRun": True, "counts": {"redriven": 1}, "items": [REDRIVEN]}
    assert bodies(wire) == [{"all": True, "dryRun": True}]


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
def test_what_could_not_be_settled_is_exit_1(sluice: Sluice, wire: Wire, outcome: str) -> None:
    wire.answers("POST", f"{LIST}/redrive", settled({"id": "00ff", "outcome": outcome, "sentence": "no"}, REDRIVEN))

    assert sluice("redrive", "00ff", "00fe") == 1
    assert f"1 {outcome}" in sluice.err


def test_many_ids_are_sent_in_pieces_and_each_once(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", f"{LIST}/redrive", settled())
    ids = [f"{number:04x}" for number in range(130)]

    assert sluice("redrive", *ids, ids[0]) == 0
    assert [each["ids"] for each in bodies(wire)] == [ids[:100], ids[100:]]


@pytest.mark.parametrize("how", ["redrive", "drop"])
@pytest.mark.parametrize("choice", [(), ("00ff", "--all"), ("00ff", "--code", "bug"), ("--all", "--code", "bug")])
def test_a_choice_is_made_by_one_means(sluice: Sluice, wire: Wire, how: str, choice: tuple[str, ...]) -> None:
    assert sluice(how, *choice) == 2
    assert sluice.err == "sluice: give either ids, or filters, or --all\n"
    assert wire.seen == []


def test_drop_wants_to_be_confirmed(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", LIST, {"items": [LETTER], "total": 41, "nextCursor": "3"})

    assert sluice("drop", "--code", "bug") == 2
    assert sluice.err == "sluice: add --yes to drop 41 dead letters without being asked\n"
    assert bodies(wire) == []


@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
def test_drop_drops(sluice: Sluice, wire: Wire, option: str) -> None:
    wire.answers("POST", f"{LIST}/drop", settled({"id": "00ff", "outcome": "dropped"}))

    assert sluice("drop", "00ff", option) == 0
    assert sluice.err == ("1 dropped\n" if option == "--yes" else "1 dropped (dry run)\n")
    assert bodies(wire) == [{"ids": ["00ff"], "dryRun": option == "--dry-run"}]


def test_nothing_to_do_is_told_and_fine(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", f"{LIST}/redrive", settled())

    assert sluice("redrive", "--all") == 0
    assert (sluice.out, sluice.err) == ("", "no dead letter matches\n")
