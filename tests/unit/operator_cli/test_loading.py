import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.operator_cli.client import Away, Refused
from services.operator_cli.files import Found
from services.operator_cli.loading import AT_ONCE, Outcome, load

PATIENCE_S = 20  # a hang guard


def files(count: int) -> list[Found]:
    return [Found(f"{number:03}.txt", Path(f"/{number:03}.txt")) for number in range(count)]


class Server:
    """Takes files; refuses those named, and can hold them until it has as many as asked for."""

    def __init__(self, *, refused: Sequence[str] = (), gone_after: int | None = None, together: int = 1) -> None:
        self.taken: list[str] = []
        self._refused, self._gone_after = refused, gone_after
        self._barrier = threading.Barrier(together)
        self._lock = threading.Lock()

    def upload(self, file: Path, *, source: str, path: str, tags: Sequence[str]) -> dict[str, Any]:
        self._barrier.wait(PATIENCE_S)
        with self._lock:
            if self._gone_after is not None and len(self.taken) >= self._gone_after:
                raise Away("gone")
            self.taken.append(path)
        if path in self._refused:
            raise Refused(f"{path} is not to its taste")
        return {"status": "created", "documentId": f"{source}/{path}/{'+'.join(tags)}", "chunkCount": 1}


def test_every_file_has_its_outcome_in_the_order_given() -> None:
    server, heard = Server(), list[Outcome]()

    outcomes = load(files(30), server.upload, source="s", tags=["t"], done=heard.append)

    assert [each.path for each in outcomes] == [each.name for each in files(30)]
    assert outcomes[3] == Outcome(path="003.txt", status="created", document_id="s/003.txt/t", chunk_count=1)
    assert sorted(each.path for each in heard) == [each.path for each in outcomes]


def test_one_refused_file_fails_alone_with_the_reason() -> None:
    outcomes = load(files(3), Server(refused=["001.txt"]).upload, source="s", done=lambda _: None)

    assert [each.status for each in outcomes] == ["created", "failed", "created"]
    assert outcomes[1].error == "001.txt is not to its taste"


def test_as_many_are_under_way_as_allowed() -> None:
    server = Server(together=AT_ONCE)  # nobody is let through before so many are there

    outcomes = load(files(AT_ONCE), server.upload, source="s", done=lambda _: None)

    assert len(outcomes) == AT_ONCE


def test_a_server_that_goes_away_ends_it_all() -> None:
    server = Server(gone_after=2)

    with pytest.raises(Away):
        load(files(500), server.upload, source="s", done=lambda _: None)

    assert len(server.taken) == 2


def test_a_name_that_is_not_utf_8_fails_alone() -> None:
    def upload(file: Path, *, source: str, path: str, tags: Sequence[str]) -> dict[str, Any]:
        return {"status": path.encode().decode()}

    [outcome] = load([Found("a\udcff", Path("x"))], upload, source="s", done=lambda _: None)

    assert outcome == Outcome(path="a?", status="failed", error="its name is not UTF-8")
