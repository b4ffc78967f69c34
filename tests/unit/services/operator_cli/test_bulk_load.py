import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from services.operator_cli.bulk_load import AT_ONCE, COMPARED_AT_ONCE, LoadOutcome, change_each, load, missing, to_send
from services.operator_cli.client import Client
from services.operator_cli.errors import RequestRefused, ServerAway
from services.operator_cli.local_files import FoundFile
from shared.ids import bytes_hash

PATIENCE_S = 20  # a hang guard
ABOUT = {"source": "s", "tags": ["t"]}


def files(count: int) -> list[FoundFile]:
    return [FoundFile(f"{number:03}.txt", Path(f"/{number:03}.txt")) for number in range(count)]


class Server(Client):
    """Takes files; refuses those named, and can hold them until it has as many as asked for. It has those of `has`."""

    def __init__(
        self,
        *,
        refused: Sequence[str] = (),
        gone_after: int | None = None,
        together: int = 1,
        has: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.taken: list[str] = []
        self.asked: list[int] = []
        self.has = dict(has)
        self.refused, self._gone_after = refused, gone_after
        self._barrier = threading.Barrier(together)
        self._lock = threading.Lock()

    def upload(self, file: Path, path: str, about: Mapping[str, Any]) -> dict[str, Any]:
        self._barrier.wait(PATIENCE_S)
        with self._lock:
            if self._gone_after is not None and len(self.taken) >= self._gone_after:
                raise ServerAway("gone")
            self.taken.append(path)
        if path in self.refused:
            raise RequestRefused(f"{path} is not to its taste")
        return {
            "status": "created",
            "documentId": f"{about['source']}/{path}/{'+'.join(about['tags'])}",
            "chunkCount": 1,
        }

    def unchanged(self, held: Sequence[tuple[Path, str, str]], about: Mapping[str, Any]) -> list[bool]:
        self.asked.append(len(held))
        return [self.has.get(f"{about['source']}/{path}/{'+'.join(about['tags'])}") == hash_ for _, path, hash_ in held]

    def listed(self, path: str, limit: int = sys.maxsize, **filters: Any) -> dict[str, Any]:
        assert (path, limit) == ("/rag/documents", sys.maxsize)
        return {"items": [{"path": each, "documentId": f"{filters['source']}/{each}"} for each in self.has]}

    def delete(self, document_id: str) -> dict[str, Any]:
        if document_id in self.refused:
            raise RequestRefused("it won't go")
        return {"status": "deleted", "documentId": document_id}


def loaded(count: int, server: Server) -> list[LoadOutcome]:
    outcomes: list[LoadOutcome] = []
    load(files(count), server, ABOUT, outcomes.append)
    return sorted(outcomes, key=lambda each: each.path)


def test_every_file_has_its_outcome() -> None:
    outcomes = loaded(3 * AT_ONCE, Server())

    assert [each.path for each in outcomes] == [each.name for each in files(3 * AT_ONCE)]
    assert outcomes[3] == LoadOutcome(path="003.txt", status="created", document_id="s/003.txt/t", chunk_count=1)


def test_one_refused_file_fails_alone_with_the_reason() -> None:
    outcomes = loaded(3, Server(refused=["001.txt"]))

    assert [each.status for each in outcomes] == ["created", "failed", "created"]
    assert outcomes[1].error == "001.txt is not to its taste"


def test_as_many_are_under_way_as_allowed() -> None:
    server = Server(together=AT_ONCE)  # nobody is let through before so many are there

    assert len(loaded(AT_ONCE, server)) == AT_ONCE


def test_a_server_that_goes_away_ends_it_all() -> None:
    server = Server(gone_after=2)

    with pytest.raises(ServerAway):
        loaded(500, server)

    assert len(server.taken) == 2


class Strict(Server):
    def upload(self, file: Path, path: str, about: Mapping[str, Any]) -> dict[str, Any]:
        path.encode()
        return super().upload(file, path, about)


def test_a_name_that_is_not_utf_8_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    named = [FoundFile("a\udcff", tmp_path / "x"), FoundFile("b", tmp_path / "x")]
    server, outcomes = Strict(), list[LoadOutcome]()

    changed = to_send(named, server, ABOUT, outcomes.append)
    load(changed, server, ABOUT, outcomes.append)

    assert server.asked == [1]
    assert {each.path: each.status for each in outcomes} == {"a?": "failed", "b": "created"}
    assert {each.error for each in outcomes} == {None, "its name is not UTF-8"}


def test_only_what_the_server_has_not_just_so_is_sent(tmp_path: Path) -> None:
    named = [FoundFile(f"{number}", tmp_path / f"{number}") for number in range(COMPARED_AT_ONCE + 1)]
    for each in named[:-1]:
        each.file.write_text(each.name)
    (tmp_path / "1").write_text("changed since")
    server = Server(has={f"s/{each.name}/t": bytes_hash(each.name.encode()) for each in named})
    heard: list[LoadOutcome] = []

    changed = to_send(named, server, ABOUT, heard.append)

    # The last one can't be read: it is sent, so that its reason is told.
    assert [each.name for each in changed] == ["1", named[-1].name]
    assert heard == [LoadOutcome(path=each.name, status="unchanged") for each in named if each not in changed]
    assert server.asked == [COMPARED_AT_ONCE]


def test_what_can_not_be_compared_is_sent(tmp_path: Path) -> None:
    class Older(Server):
        def unchanged(self, held: Sequence[tuple[Path, str, str]], about: Mapping[str, Any]) -> list[bool]:
            raise RequestRefused("there is no /rag/ingest/check here")

    (tmp_path / "a").write_text("a")

    changed = to_send([FoundFile("a", tmp_path / "a")], Older(), ABOUT, lambda _: None)

    assert [each.name for each in changed] == ["a"]


def test_missing_are_the_source_s_documents_that_no_file_stands_for() -> None:
    server = Server(has=dict.fromkeys(("a.md", "b.md", "kept.txt"), ""))

    gone = missing(["a.md"], server, source="s", chosen=lambda path: path.endswith(".md"))

    assert gone == ({"b.md": "s/b.md"}, 2)


def test_what_can_not_be_removed_fails_alone() -> None:
    heard: list[LoadOutcome] = []

    change_each([("a", "s/a"), ("b", "s/b")], Server(refused=["s/a"]).delete, heard.append)

    assert sorted(heard, key=lambda each: each.path) == [
        LoadOutcome(path="a", status="failed", error="it won't go"),
        LoadOutcome(path="b", status="deleted", document_id="s/b"),
    ]
