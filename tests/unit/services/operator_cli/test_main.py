"""The commands against a server on the wire: what is asked, what is printed, how it exits."""

import json
import os
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from shared.version import VERSION
from tests.selection import CI_ONLY
from tests.unit.services.operator_cli.conftest import Sluice, Wire, free_port

HIT = {"text": "Open from ten.\nClosed on Mondays.", "score": 0.876, "metadata": {"path": "a.md", "pageNumber": 2}}
DOCUMENT = {
    "documentId": "d1",
    "status": "created",
    "chunkCount": 3,
    "source": "s",
    "path": "a.md",
    "title": None,
    "state": "ready",
}


def test_no_server_is_one_line_that_says_how_to_start_one(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("SLUICE_PORT", str(port))

    ran = sluice("search", "anything")

    assert ran.code == 2
    assert ran.out == ""
    assert ran.err == (
        f"sluice: no Sluice answers at http://127.0.0.1:{port}; start it with `make run` or `sluice serve`, "
        "or set SLUICE_URL to where it is\n"
    )


def test_a_refusal_is_its_sentence_and_exit_1(sluice: Sluice, wire: Wire) -> None:
    wire.refuses("POST", "/rag/search", 422, "filters: there is no operator $near")

    ran = sluice("search", "x")

    assert (ran.code, ran.err) == (1, "sluice: filters: there is no operator $near\n")


def test_a_missing_key_says_where_the_command_takes_it_from(sluice: Sluice, wire: Wire) -> None:
    wire.refuses("POST", "/chat", 401, "a key is needed", "UNAUTHENTICATED")

    assert "a key is needed (the command takes its key from SLUICE_API_KEY)" in sluice("ask", "x").err


def test_an_error_page_of_something_else_is_told_as_such(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", "/rag/search", b"<h1>Bad Gateway</h1>", 502, {"content-type": "text/html"})
    wire.answers("POST", "/chat", b"<h1>Hello</h1>", 200, {"content-type": "text/html"})

    refused, strange = sluice("search", "x"), sluice("ask", "x")

    assert (refused.code, refused.err) == (1, "sluice: POST /rag/search was answered 502 Bad Gateway\n")
    assert strange.code == 2
    assert "is not Sluice" in strange.err


@pytest.mark.parametrize(("status", "code"), [(503, "UNAVAILABLE"), (429, "TOO_MANY_REQUESTS")])
def test_a_server_that_can_not_now_is_asked_again(sluice: Sluice, wire: Wire, status: int, code: str) -> None:
    wire.refuses("POST", "/rag/search", status, "not now", code, retry_after="0")
    wire.answers("POST", "/rag/search", {"results": []})

    ran = sluice("search", "x")

    assert (ran.code, ran.out) == (0, "nothing found\n")
    assert len(wire.seen) == 2


def test_a_503_that_no_waiting_mends_is_told_at_once(sluice: Sluice, wire: Wire) -> None:
    wire.refuses("POST", "/chat", 503, "no model: set SLUICE_CHAT", "NO_MODEL", retry_after="0")

    ran = sluice("ask", "x")

    assert (ran.code, ran.err) == (1, "sluice: no model: set SLUICE_CHAT\n")
    assert len(wire.seen) == 1


def test_search_sends_what_was_asked_and_prints_places_and_passages(
    sluice: Sluice, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_API_KEY", "key-of-mine")
    wire.answers("POST", "/rag/search", {"results": [HIT]})

    ran = sluice("search", "opening hours", "-k", "7", "--source", "s", "--tags", "a", "--tags", "b")

    assert ran.out.splitlines() == [" 1. a.md, page 2  score 0.88", "    Open from ten. Closed on Mondays."]
    assert json.loads(wire.seen[0].body) == {
        "query": "opening hours",
        "topK": 7,
        "filters": {"source": "s", "tags": ["a", "b"]},
        "explain": True,
    }
    assert wire.seen[0].headers["authorization"] == "Bearer key-of-mine"


def test_a_search_that_finds_nothing_relevant_says_so(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", "/rag/search", {"results": [{**HIT, "score": 0.004}], "threshold": 0.02})

    lines = sluice("search", "zeppelins").out.splitlines()

    assert lines[0] == "nothing relevant was found; an answer would use none of these nearest passages:"
    assert lines[1].startswith(" 1. a.md")


def test_json_is_the_reply_itself(sluice: Sluice, wire: Wire) -> None:
    wire.answers("POST", "/rag/search", {"results": [HIT]})

    assert json.loads(sluice("search", "x", "--json").out) == {"results": [HIT]}


def test_an_answer_comes_with_its_sources_and_is_printed_as_it_is(sluice: Sluice, wire: Wire) -> None:
    reply = {"response": "At [bold]ten[/bold] [1].", "ragSources": [{"metadata": {"path": "a.md"}}], "data": {}}
    wire.answers("POST", "/chat", reply)

    ran = sluice("ask", "when?")

    assert ran.out.splitlines() == ["At [bold]ten[/bold] [1].", "  [1] a.md"]
    assert json.loads(wire.seen[0].body)["useRag"] is True


def test_a_list_goes_over_pages_and_is_tab_separated_in_a_pipe(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/documents", {"items": [DOCUMENT], "nextCursor": "more"})
    wire.answers("GET", "/rag/documents", {"items": [{**DOCUMENT, "documentId": "d2"}], "nextCursor": None})

    ran = sluice("documents", "ls")

    assert ran.out.splitlines()[1:] == ["d1\tcreated\t3\ts\ta.md\tready\t", "d2\tcreated\t3\ts\ta.md\tready\t"]


@CI_ONLY
@pytest.mark.parametrize(
    "arguments", [("documents", "ls"), ("dlq", "ls"), ("tenants", "ls"), ("reindex", "status"), ("audit",), ("stats",)]
)
def test_every_table_has_a_header_unless_nobody_wants_one(
    sluice: Sluice, wire: Wire, arguments: tuple[str, ...]
) -> None:
    row = {"chunkSize": 1, "chunkUnit": "c", "documents": 1, "ofDocuments": 1, "state": "serving"}
    list_ = {"items": [row], "nextCursor": None, "total": 1, "cursor": "", "more": False}
    for path in ("/rag/documents", "/ops/dead-letters", "/ops/tenants", "/ops/generations", "/ops/audit"):
        wire.answers("GET", path, list_)
    wire.answers("GET", "/rag/stats", {"documents": {}, "chunks": 0, "sources": []})

    whole, bare, before = sluice(*arguments), sluice(*arguments, "--no-header"), sluice("--no-header", *arguments)

    assert whole.out.splitlines()[1:] == bare.out.splitlines() == before.out.splitlines()
    assert len(bare.out.splitlines()) == 1


@pytest.mark.parametrize("behind", [["--url={}"], ["--url", "{}"]])
def test_the_server_s_address_may_stand_behind_the_command(
    sluice: Sluice, wire: Wire, monkeypatch: pytest.MonkeyPatch, behind: list[str]
) -> None:
    wire.answers("GET", "/rag/documents", {"items": [DOCUMENT], "nextCursor": None})
    url = [each.format(wire.url) for each in behind]
    monkeypatch.setenv("SLUICE_URL", "http://127.0.0.1:1")

    ran = sluice("documents", "ls", *url, "--source", "s")

    assert (ran.code, ran.out.splitlines()[1:]) == (0, ["d1\tcreated\t3\ts\ta.md\tready\t"])


def test_a_table_of_nothing_says_so(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/documents", {"items": [], "nextCursor": None})

    ran = sluice("documents", "ls")

    assert (ran.code, ran.out, ran.err) == (0, "", "nothing to list\n")


def test_an_id_is_whole_however_narrow_the_terminal(
    sluice: Sluice, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = "11ca04b3-12ec-5b35-8f4b-4ab297c91387"
    wire.answers("GET", "/rag/documents", {"items": [{**DOCUMENT, "documentId": id_}], "nextCursor": None})
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")

    assert id_ in sluice("documents", "ls").out


def test_a_list_cut_short_says_so(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/documents", {"items": [DOCUMENT], "nextCursor": "more"})

    assert sluice("documents", "ls", "--limit", "1").err == "there are more than 1: raise --limit\n"


def test_a_document_is_shown_field_by_field_or_as_its_text(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/documents/d1", DOCUMENT)
    wire.answers("GET", "/rag/documents/d1/text", b"# Read\n", 200, {"content-type": "text/markdown"})

    assert sluice("documents", "show", "d1").out.splitlines()[1:3] == ["documentId\td1", "status\tcreated"]
    assert sluice("documents", "show", "d1", "--text").out.startswith("# Read\n")


def test_an_id_can_not_lead_to_another_route(sluice: Sluice, wire: Wire) -> None:
    wire.refuses("GET", "/rag/documents/../../chat", 404, "there is no such document", "NOT_FOUND")
    wire.answers("GET", "/rag/documents", {"items": [], "nextCursor": None})

    ran = sluice("documents", "show", "../../chat")

    assert ran.err.startswith("sluice: no document has the id, path or address ../../chat; list them with")
    assert wire.seen[0].path == "/rag/documents/../../chat"


def test_a_document_is_named_by_its_path_or_address_too(sluice: Sluice, wire: Wire) -> None:
    for name in ("a.md", "https://a/b"):
        wire.refuses("GET", f"/rag/documents/{name}", 404, "there is no such document", "NOT_FOUND")
    wire.answers("GET", "/rag/documents", {"items": [DOCUMENT], "nextCursor": None})
    wire.answers("GET", "/rag/documents/d1", DOCUMENT)
    wire.answers("DELETE", "/rag/documents/d1", {"status": "deleted", "documentId": "d1"})

    shown, removed = sluice("documents", "show", "a.md"), sluice("documents", "rm", "https://a/b", "--yes")

    assert shown.out.startswith("field\tvalue\ndocumentId\td1")
    assert (removed.code, removed.out) == (0, "documentId\tsource\tpath\nd1\ts\ta.md\n1 of 1 removed\n")
    assert [each.query["path"] for each in wire.seen if each.path == "/rag/documents"] == [["a.md"], ["https://a/b"]]


def test_a_path_of_several_sources_is_not_guessed(sluice: Sluice, wire: Wire) -> None:
    wire.refuses("GET", "/rag/documents/a.md", 404, "there is no such document", "NOT_FOUND")
    wire.answers("GET", "/rag/documents", {"items": [DOCUMENT, {**DOCUMENT, "documentId": "d2"}], "nextCursor": None})

    ran = sluice("documents", "rm", "a.md", "--yes")

    assert ran.code == 2
    assert "several documents have the path a.md; give one of their ids: d1 (s), d2 (s)" in ran.err


def test_open_prints_the_page_that_it_opens(sluice: Sluice, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    wire.answers("GET", "/", {"name": "Sluice"})
    wire.answers("GET", "/rag/documents/d1", DOCUMENT)

    page, document = sluice("open").out.strip(), sluice("open", "d1").out.strip()

    assert opened == [page, document]
    assert page.endswith("/")
    assert document == f"{page}documents/d1"


def every_help() -> list[tuple[str, ...]]:
    groups = {"documents": ("ls", "show", "rm"), "dlq": ("ls", "show", "redrive", "drop")}
    names = (
        "serve ingest-worker embed-worker query-api store mcp init demo ingest search ask erase verify doctor open eval"
    )
    return [(name,) for name in names.split()] + [(group, name) for group, found in groups.items() for name in found]


@pytest.mark.parametrize("command", every_help(), ids=" ".join)
def test_each_help_has_an_example_and_fits_80_columns(
    sluice: Sluice, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    shown = sluice(*command, "--help").out

    assert "Example:" in shown
    assert f"sluice {' '.join(command)}" in " ".join(shown.split())
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "\x1b" not in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@CI_ONLY
def test_the_shell_completes_commands(shell: str) -> None:
    program = f"from services.operator_cli.main import main; main(['--show-completion', {shell!r}])"
    # Typer asks which shell started it, which may be none; so told, it takes the one that is named.
    named = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, env=named
    )

    assert "_SLUICE_COMPLETE" in ran.stdout
    assert {"bash": "COMPREPLY", "zsh": "compdef", "fish": "complete --command"}[shell] in ran.stdout


def test_removing_asks_and_dry_run_only_tells(sluice: Sluice, wire: Wire) -> None:
    wire.answers("GET", "/rag/documents/d1", DOCUMENT)

    unconfirmed = sluice("documents", "rm", "d1")
    dry = sluice("documents", "rm", "d1", "--dry-run")

    assert (unconfirmed.code, unconfirmed.err) == (2, "sluice: add --yes to delete 1 documents without being asked\n")
    assert (dry.code, dry.out) == (0, "documentId\tsource\tpath\nd1\ts\ta.md\n")
    assert {each.method for each in wire.seen} == {"GET"}


def test_removing_removes_all_it_can_and_fails_where_one_fails(sluice: Sluice, wire: Wire) -> None:
    for name in ("d1", "d2"):
        wire.answers("GET", f"/rag/documents/{name}", {**DOCUMENT, "documentId": name})
    wire.refuses("DELETE", "/rag/documents/d1", 422, "it won't go")
    wire.answers("DELETE", "/rag/documents/d2", {"status": "deleted", "documentId": "d2"})

    ran = sluice("documents", "rm", "d1", "d2", "--yes", "--json")

    assert ran.code == 1
    assert json.loads(ran.out)["items"] == [
        {"status": "failed", "documentId": "d1", "error": "it won't go"},
        {"status": "deleted", "documentId": "d2"},
    ]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("URL", "localhost:3000", "SLUICE_URL=localhost:3000 must be http://host:port or https://host"),
        ("PORT", "0", "SLUICE_PORT=0 means any free port: set SLUICE_URL=http://host:port to the server's address"),
        ("PORT", "many", "SLUICE_PORT=many: "),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(f"SLUICE_{name}", value)

    ran = sluice("search", "x")

    assert ran.code == 2
    assert ran.err.startswith(f"sluice: {sentence}")
    assert ran.err.count("\n") == 1


def test_the_version_is_the_product_s(sluice: Sluice) -> None:
    assert sluice("--version").out == f"sluice {VERSION}\n"
    assert sluice("version").out.split()[:2] == ["sluice", VERSION]
    assert json.loads(sluice("version", "--json").out)["version"] == VERSION


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys\nfrom services.operator_cli.main import main\n"
        "try:\n    main(['--help'])\nfinally:\n"
        "    slow = {'httpx', 'numpy', 'litestar', 'faststream', 'onnxruntime', 'qdrant_client'} & set(sys.modules)\n"
        "    print(sorted(slow), file=sys.stderr)\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert "serve" in ran.stdout
    assert ran.stderr == "[]\n"


def test_a_paragraph_of_the_help_fills_the_width_of_the_terminal(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    shown = sluice("config", "show", "--help").out

    assert "A running server is asked which of its settings its index wasn't built with" in shown


@CI_ONLY
def test_whatever_a_command_writes_is_this_user_s_alone(tmp_path: Path) -> None:
    """Also what its child process writes, and whatever the shell's umask is."""
    data = tmp_path / "data"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    environment |= {"SLUICE_DATA": str(data), "SLUICE_CONFIG": ""}

    command = [sys.executable, "-m", "services.operator_cli", "init"]
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120, umask=0)

    made = [data, *data.rglob("*")]
    assert len(made) > 100
    assert [path for path in made if path.lstat().st_mode & 0o077] == []
