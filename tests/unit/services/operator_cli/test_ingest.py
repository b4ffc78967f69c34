"""`sluice ingest` against a server on the wire."""

import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services.operator_cli.client import Client
from services.operator_cli.ingest import IngestOptions, ingest_files
from shared.ids import bytes_hash
from tests.unit.services.operator_cli.conftest import Sluice, Wire

CHECK, UPLOAD, DOCUMENTS = "/rag/ingest/check", "/rag/ingest/upload", "/rag/documents"


def knows(wire: Wire, *unchanged: bool) -> None:
    """Let the server answer a comparison so."""
    items = [{"documentId": f"d{number}", "unchanged": each} for number, each in enumerate(unchanged)]
    wire.answers("POST", CHECK, {"items": items})


def holds(wire: Wire, *paths: str) -> None:
    items = [{"documentId": f"id-of-{path}", "path": path} for path in paths]
    wire.answers("GET", DOCUMENTS, {"items": items, "nextCursor": None})
    for path in paths:
        wire.answers("DELETE", f"{DOCUMENTS}/id-of-{path}", {"status": "deleted", "documentId": f"id-of-{path}"})


def asked(wire: Wire, method: str) -> list[str]:
    return [each.path for each in wire.seen if each.method == method]


def lines(out: str) -> list[Any]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.feature(65)
def test_files_are_named_by_their_path_in_the_folder(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "ä.md").write_text("Text.")
    knows(wire, False)
    wire.answers("POST", UPLOAD, {"status": "created", "documentId": "d1", "chunkCount": 1})

    ran = sluice("ingest", str(tmp_path), "--source", "handbook", "--tags", "x")

    assert (ran.code, ran.out) == (0, "1 document in handbook: 1 created\n")
    compared, sent = wire.seen
    assert json.loads(compared.body)["items"] == [
        {
            "source": "handbook",
            "path": "sub/ä.md",
            "hash": bytes_hash(b"Text."),
            "filename": "ä.md",
            "mediaType": "text/markdown",
            "tags": ["x"],
        }
    ]
    for part in (
        'name="source"\r\n\r\nhandbook',
        'name="path"\r\n\r\nsub/ä.md',
        'name="tags"\r\n\r\nx',
        "Content-Type: text/markdown",
        "Text.",
    ):
        assert part in sent.body.decode()
    assert sent.headers["prefer"] == "wait=300"


def test_what_the_server_has_is_not_sent(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(name)
    knows(wire, True, True)

    ran = sluice("ingest", str(tmp_path))

    assert (ran.code, ran.out) == (0, "2 documents in files: 2 unchanged\n")
    assert asked(wire, "POST") == [CHECK]


@pytest.mark.feature(76)
def test_one_file_that_fails_fails_the_command_and_is_named(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    knows(wire, False)
    wire.refuses("POST", UPLOAD, 422, "the PDF can't be read", "UNREADABLE", {"documentId": "d1"})

    ran, as_json = sluice("ingest", str(tmp_path)), sluice("ingest", str(tmp_path), "--json")

    assert (ran.code, ran.out) == (1, "1 document in files: 1 failed\n")
    assert ran.err == "a.pdf: the PDF can't be read\n"
    assert as_json.code == 1
    assert lines(as_json.out) == [
        {
            "path": "a.pdf",
            "status": "failed",
            "documentId": "d1",
            "error": "the PDF can't be read",
            "code": "UNREADABLE",
        },
        {"source": "files", "dryRun": False, "counts": {"failed": 1}},
    ]


def test_what_could_not_be_read_is_said(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK")
    knows(wire, False)
    notes = [{"code": "damaged", "place": f"page {number}", "message": "it is torn"} for number in range(1, 5)]
    reply = {"status": "created", "documentId": "d1", "chunkCount": 1, "notes": notes, "noteCount": 9}
    wire.answers("POST", UPLOAD, reply)

    ran, as_json = sluice("ingest", str(tmp_path)), sluice("ingest", str(tmp_path), "--json")

    assert (ran.code, ran.out) == (0, "1 document in files: 1 created, with notes\n")
    assert ran.err.splitlines() == [
        *(f"a.zip: page {number}: it is torn" for number in range(1, 4)),
        "a.zip: 6 more notes: sluice documents show d1",
    ]
    assert lines(as_json.out)[0]["notes"] == notes


def test_empty_files_of_a_folder_are_skipped_and_said_once(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    for name, text in {"__init__.py": "", "blank.md": "\ufeff\n \n", "a.md": "a"}.items():
        (tmp_path / name).write_text(text)
    knows(wire, True)

    ran, as_json = sluice("ingest", str(tmp_path)), sluice("ingest", str(tmp_path), "--json")
    kept = sluice("ingest", str(tmp_path / "blank.md"))

    assert (ran.code, ran.out) == (0, "3 documents in files: 2 skipped, 1 unchanged\n")
    assert ran.err == "skipped because they are empty: __init__.py, blank.md\n"
    assert as_json.code == 0
    assert {"path": "blank.md", "status": "skipped"} in lines(as_json.out)
    assert "skipped" not in kept.err + kept.out


def test_documents_are_read_again_from_what_is_kept(sluice: Sluice, wire: Wire) -> None:
    states = {"a": "ready", "b": "ready", "c": "ready", "d": "deleted"}
    items = [{"documentId": id_, "path": "same.md", "state": state} for id_, state in states.items()]
    wire.answers("GET", DOCUMENTS, {"items": items, "nextCursor": None})
    wire.answers("POST", f"{DOCUMENTS}/a/reread", {"status": "updated", "documentId": "a"})
    wire.answers("POST", f"{DOCUMENTS}/b/reread", {"status": "unchanged", "documentId": "b"})
    wire.refuses("POST", f"{DOCUMENTS}/c/reread", 404, "it isn't kept", "NOT_KEPT")

    ran = sluice("reread", "--source", "handbook")

    assert (ran.code, ran.out) == (0, "3 documents in handbook: 1 not kept, 1 unchanged, 1 updated\n")
    assert ran.err == "same.md: it isn't kept\n"


def test_nothing_to_load_is_said(sluice: Sluice, tmp_path: Path) -> None:
    ran = sluice("ingest", str(tmp_path))

    assert (ran.code, ran.err) == (1, f"sluice: nothing to load in {tmp_path}\n")


def test_a_path_that_is_not_there_is_named(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    ran = sluice("ingest", str(tmp_path / "nowhere"))

    assert (ran.code, ran.err) == (2, f"sluice: {tmp_path / 'nowhere'} does not exist\n")
    assert wire.seen == []


def test_an_address_is_fetched_by_the_server(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", "/rag/ingest/url", {"status": "created", "documentId": "d1", "chunkCount": 2})

    ran = sluice("ingest", "https://example.org/a", "--tags", "x")

    assert (ran.code, ran.out) == (0, "1 document: 1 created\n")
    assert json.loads(wire.seen[0].body) == {"url": "https://example.org/a", "tags": ["x"]}


def test_an_address_that_is_refused_fails_with_the_reason(sluice: Sluice, wire: Wire) -> None:
    wire.refuses("POST", "/rag/ingest/url", 404, "there is no /rag/ingest/url here", "NOT_FOUND")

    ran = sluice("ingest", "http://example.org/a", "--source", "web")

    assert (ran.code, ran.out) == (1, "1 document in web: 1 failed\n")
    assert ran.err == "http://example.org/a: there is no /rag/ingest/url here\n"


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ((), b""),
        (("--path", "notes/ä.md", "--source", "piped", "--tags", "a", "--tags", "b"), b"notes"),
    ],
)
def test_what_is_piped_in_is_sent(
    sluice: Sluice, wire: Wire, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], query: bytes
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"From a pipe.")))
    wire.answers("POST", UPLOAD, {"status": "created", "documentId": "d1", "chunkCount": 1})

    ran = sluice("ingest", "-", *options)

    assert ran.code == 0
    assert wire.seen[0].body == b"From a pipe."
    asked_for = dict(zip(("source", "path"), ("piped", "notes/ä.md"), strict=True)) if query else {}
    assert {name: wire.seen[0].query.get(name) for name in asked_for} == {k: [v] for k, v in asked_for.items()}
    assert wire.seen[0].query.get("tags") == (["a", "b"] if query else None)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(name)
    knows(wire, True, False)
    holds(wire, "a.md", "gone.md")

    ran = sluice("ingest", str(tmp_path), "--source", "s", "--delete-missing", "--dry-run")

    assert (ran.code, ran.out) == (0, "3 documents in s: 1 unchanged, 1 would load, 1 would remove\n")
    assert asked(wire, "POST") == [CHECK]
    assert asked(wire, "DELETE") == []


def test_missing_documents_are_removed_only_when_that_is_confirmed(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    knows(wire, *[True] * 5)
    holds(wire, "a.md", "gone.md", "other.txt", *(f"{n}.md" for n in "bcde"))
    for name in "bcde":
        (tmp_path / f"{name}.md").write_text(name)
    command = ("ingest", str(tmp_path), "--source", "s", "--include", "*.md", "--delete-missing")

    unconfirmed, confirmed = sluice(*command), sluice(*command, "--yes", "--json")

    assert (unconfirmed.code, unconfirmed.err) == (2, "sluice: add --yes to confirm that 1 will be removed\n")
    assert confirmed.code == 0
    assert lines(confirmed.out)[-2:] == [
        {"path": "gone.md", "status": "deleted", "documentId": "id-of-gone.md"},
        {"source": "s", "dryRun": False, "counts": {"deleted": 1, "unchanged": 5}},
    ]
    assert asked(wire, "DELETE") == [f"{DOCUMENTS}/id-of-gone.md"]


@pytest.mark.parametrize("more", [(), ("--yes",), ("--confirm", "3")])
def test_an_empty_folder_removes_nothing_whatever_is_confirmed(
    sluice: Sluice, wire: Wire, tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "a" / "a.md").write_text("a")
    knows(wire, True)
    holds(wire, "a.md", "b.md", "c.md", "d.md")
    folders = (str(tmp_path / "a"), str(tmp_path / "empty"))

    ran = sluice("ingest", *folders, "--source", "s", "--delete-missing", *more)

    assert ran.code == 2
    assert f"{folders[1]} has no file to load and may not be mounted, so nothing was removed" in ran.err
    assert asked(wire, "DELETE") == []


def test_more_than_a_fifth_of_the_source_goes_only_with_its_number(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.md").write_text(name)
    knows(wire, True, True, True)
    holds(wire, *(f"{name}.md" for name in "abcd"))
    command = ("ingest", str(tmp_path), "--source", "s", "--delete-missing", "--yes")

    many, wrong, right = sluice(*command), sluice(*command, "--confirm", "2"), sluice(*command, "--confirm", "1")

    assert (many.code, wrong.code, right.code) == (2, 2, 0)
    assert "1 of the source's 4 documents are gone, more than 20 %, so none was removed" in many.err
    assert "add --confirm 1" in many.err
    assert "--confirm 2 is not the number of documents that are gone: 1 of 4" in wrong.err
    assert asked(wire, "DELETE") == [f"{DOCUMENTS}/id-of-d.md"]


def test_chunk_sizes_and_a_callback_are_sent_and_sizes_are_compared(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    knows(wire, False)
    wire.answers("POST", UPLOAD, {"status": "created", "documentId": "d1", "chunkCount": 1})
    options = ("--chunk-size", "300", "--chunk-overlap", "20", "--callback-url", "https://a.test/done")

    ran = sluice("ingest", str(tmp_path), *options)

    compared, sent = wire.seen
    assert ran.code == 0
    assert json.loads(compared.body)["items"][0].items() >= {"chunkSize": 300, "chunkOverlap": 20}.items()
    for name, value in (("chunkSize", "300"), ("chunkOverlap", "20"), ("callbackUrl", "https://a.test/done")):
        assert f'name="{name}"\r\n\r\n{value}' in sent.body.decode()


def test_a_password_is_sent_in_the_form_and_never_in_an_address(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4")
    knows(wire, False)
    wire.answers("POST", UPLOAD, {"status": "created", "documentId": "d1", "chunkCount": 1})

    opened = sluice("ingest", str(tmp_path), "--password", "geheim")
    refused = [sluice("ingest", each, "--password", "geheim").code for each in ("-", "https://a.test/a.pdf")]

    assert (opened.code, refused) == (0, [2, 2])
    assert 'name="password"\r\n\r\ngeheim' in wire.seen[-1].body.decode()
    assert all("geheim" not in each.path for each in wire.seen)


def test_a_renamed_file_is_told_as_such(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("the same")
    knows(wire, False)
    wire.answers("POST", UPLOAD, {"status": "created", "documentId": "d1", "chunkCount": 1})
    holds(wire, "new.md", "old.md", "other.md")
    for path, text in (("old.md", b"the same"), ("other.md", b"another")):
        digest = hashlib.sha256(text).hexdigest()
        wire.answers("GET", f"{DOCUMENTS}/id-of-{path}", {"documentId": f"id-of-{path}", "sha256": digest})
    command = ("ingest", str(tmp_path), "--source", "s", "--delete-missing", "--confirm", "1")

    ran = sluice(*command)

    assert (ran.code, ran.out) == (0, "3 documents in s: 1 created, 2 deleted\n")
    assert ran.err == "old.md was renamed to new.md\n"


def test_title_and_metadata_are_compared_and_sent(sluice: Sluice, wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("a")
    knows(wire, False)
    wire.answers("POST", UPLOAD, {"status": "created", "documentId": "d1", "chunkCount": 1})

    ran = sluice("ingest", str(file), "--title", "Tea", "--metadata", "year=1900", "--metadata", '{"kind": "x"}')

    compared, sent = wire.seen
    described = {"title": "Tea", "metadata": {"year": 1900, "kind": "x"}}
    assert ran.code == 0
    assert json.loads(compared.body)["items"][0].items() >= described.items()
    assert b'{"year": 1900, "kind": "x"}' in sent.body
    assert b"Tea" in sent.body


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((".", "--title", "Tea"), "--title Tea names one document: give one file, URL or -"),
        ((".", "--metadata", "Tea"), "--metadata Tea must be name=value or a JSON object"),
        ((".", "--metadata", "{"), "--metadata { is not valid JSON"),
        (("-", "more"), "- reads standard input and can't be combined with files or URLs"),
        ((".", "--path", "x"), "--path x names a document from standard input: give - as well"),
        (("-", "--watch"), "--watch needs files or folders, and can't be combined with --dry-run"),
        ((".", "--watch", "--dry-run"), "--watch needs files or folders, and can't be combined with --dry-run"),
        (("http://a/b", "--source", "s", "--delete-missing"), "--delete-missing compares a source with folders"),
        ((__file__, "--source", "s", "--delete-missing"), "--delete-missing compares a source with folders"),
        ((".", "--delete-missing"), "--delete-missing deletes documents of a source that the folders don't have"),
        ((".", "--confirm", "1"), "--confirm 1 is the number that --delete-missing removes: give that as well"),
        (
            (".", "--source", "s", "--watch", "--delete-missing", "--yes", "--confirm", "1"),
            "--confirm 1 confirms one removal: run it without --watch first",
        ),
        ((".", "--source", "s", "--watch", "--delete-missing"), "add --yes to let --watch delete documents"),
    ],
)
def test_what_can_not_be_meant_is_said(sluice: Sluice, wire: Wire, options: tuple[str, ...], sentence: str) -> None:
    ran = sluice("ingest", *options)

    assert ran.code == 2
    assert ran.err.startswith(f"sluice: {sentence}")
    assert wire.seen == []


# Watching: what happens to the files between the looks is laid out, and the last look is interrupted.


class Between:
    """Does one thing between each two looks, then presses Ctrl-C."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps: Iterator[Callable[[], object]] = iter(steps)

    def __call__(self, seconds: float) -> None:
        assert seconds > 0
        step = next(self._steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()


def nothing() -> None:
    """Let time go by."""


def watch(folder: Path, between: Between, **wish: Any) -> int:
    with Client() as client:
        return ingest_files(client, IngestOptions(what=[str(folder)], source="s", watch=True, **wish), between)


def test_what_changes_is_loaded_once_it_is_written(
    wire: Wire, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("a")
    knows(wire, True)
    knows(wire, False)
    wire.answers("POST", UPLOAD, {"status": "created", "documentId": "d1", "chunkCount": 1})
    new = tmp_path / "new.md"

    code = watch(
        tmp_path, Between(nothing, lambda: new.write_text("half"), lambda: new.write_text("whole"), nothing, nothing)
    )

    assert code == 0
    assert capsys.readouterr().out.splitlines() == ["1 document in s: 1 unchanged", "new.md: created"]
    assert asked(wire, "POST") == [CHECK, CHECK, UPLOAD]
    assert b"whole" in wire.seen[-1].body


def five_loaded_files(wire: Wire, folder: Path) -> list[str]:
    """Write five files that the server has already, and return their names."""
    names = [f"{name}.md" for name in "abcde"]
    for name in names:
        (folder / name).write_text(name)
    knows(wire, *[True] * 5)
    holds(wire, *names)
    return names


def test_what_goes_is_removed_where_that_was_asked_for(
    wire: Wire, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    five_loaded_files(wire, tmp_path)

    watch(tmp_path, Between((tmp_path / "a.md").unlink, nothing), delete_missing=True, yes=True)

    assert capsys.readouterr().out.splitlines() == ["5 documents in s: 5 unchanged", "a.md: deleted"]
    assert asked(wire, "DELETE") == [f"{DOCUMENTS}/id-of-a.md"]


def test_a_share_that_is_unmounted_while_it_is_watched_removes_nothing_and_is_said_once(
    wire: Wire, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = five_loaded_files(wire, tmp_path)

    def unmounted() -> None:
        for name in names:
            (tmp_path / name).unlink()

    watch(tmp_path, Between(unmounted, nothing, nothing), delete_missing=True, yes=True)

    captured = capsys.readouterr()
    assert asked(wire, "DELETE") == []
    assert captured.err.count("may not be mounted, so nothing was removed") == 1


def test_a_folder_that_goes_as_a_whole_removes_nothing(
    wire: Wire, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "a.md").write_text("a")
    knows(wire, True)
    holds(wire, "a.md")

    watch(folder, Between(lambda: folder.rename(tmp_path / "away"), nothing), delete_missing=True, yes=True)

    assert asked(wire, "DELETE") == []
    assert capsys.readouterr().err == f"{folder} does not exist; looking again\n"


def test_a_server_that_is_away_for_a_while_gets_it_later(
    wire: Wire, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("a")
    knows(wire, True)
    wire.answers("POST", CHECK, b"<h1>Bad Gateway</h1>", 200, {"content-type": "text/html"})
    knows(wire, False)
    wire.answers("POST", UPLOAD, {"status": "updated", "documentId": "d1", "chunkCount": 1})

    watch(tmp_path, Between(lambda: (tmp_path / "a.md").write_text("b, longer"), nothing, nothing, nothing))

    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["1 document in s: 1 unchanged", "a.md: updated"]
    assert captured.err.endswith("looking again\n")
    assert captured.err.count("\n") == 1
