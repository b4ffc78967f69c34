"""The `sluice` command. `serve` is the server; everything else talks HTTP to one that runs.

Exit codes: 0 done; 1 the server refused, or a file or check failed; 2 no server, or settings that can't work.
"""

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from services.operator_cli.commands.dlq import dlq
from shared.version import VERSION

# Everything slow to import is imported by the command that needs it: `sluice --help` answers at once.
if TYPE_CHECKING:
    from services.operator_cli.client import Client

app = typer.Typer(
    name="sluice",
    help="Documents in, an index that is always right out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
documents = typer.Typer(help="List, show and remove documents.", no_args_is_help=True)
app.add_typer(documents, name="documents")
app.add_typer(dlq, name="dlq")

LISTED: Final = 100

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TopK = Annotated[int, typer.Option("--top-k", "-k", min=1, max=1000, help="How many passages.")]
Source = Annotated[str | None, typer.Option("--source", "-s", help="Only documents of this source.")]
Tags = Annotated[list[str] | None, typer.Option("--tags", "-t", help="Only documents with one of these; repeatable.")]
Host = Annotated[str | None, typer.Option(help="Else SLUICE_HOST, else 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(help="Else SLUICE_PORT, else 3000; 0 is any free one.")]
SidePort = Annotated[
    int | None, typer.Option(help="For probes and metrics; else SLUICE_SIDE_PORT, else 0: any free one.")
]
Url = Annotated[
    str | None, typer.Option("--url", help="The server's address; else SLUICE_URL, else SLUICE_HOST and SLUICE_PORT.")
]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code; what went wrong is one line on stderr."""
    from shared.errors import Unavailable  # noqa: PLC0415 - see above
    from shared.settings import ConfigurationError  # noqa: PLC0415 - see above

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a title that this terminal can't show must not end a list
    try:
        app(arguments)
    except ConfigurationError as error:
        _fail(str(error), 2)
    except Unavailable as error:  # at start; later the workers wait
        _fail(f"{error.sentence}; start again when it is back", 2)
    except BrokenPipeError:
        # The reader has seen enough, as `head` does; nothing more can be said to it.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        from services.operator_cli.client import CommandError  # noqa: PLC0415 - see above

        if not isinstance(error, CommandError):
            raise
        _fail(str(error), error.exit_code)
    sys.exit(0)


def _fail(sentence: str, code: int) -> NoReturn:
    print(f"sluice: {sentence}", file=sys.stderr)  # noqa: T201 - the command's output
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"sluice {VERSION}")  # noqa: T201 - the command's output
        raise typer.Exit


def _client(context: typer.Context) -> "Client":
    from services.operator_cli.client import Client  # noqa: PLC0415 - see above

    return context.with_resource(Client(context.obj))


@app.callback()
def options(
    context: typer.Context,
    url: Url = None,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep what all commands share."""
    context.obj = url


@app.command()
def serve(
    host: Host = None,
    port: Port = None,
    data: Annotated[Path | None, typer.Option(help="Folder of what is kept; else SLUICE_DATA, else ./data.")] = None,
) -> None:
    """Run all of Sluice in this process until Ctrl-C."""
    from services.operator_cli.commands.serve import serve_here  # noqa: PLC0415 - see above

    given = {"host": host, "port": port, "data": data}
    raise typer.Exit(serve_here({name: value for name, value in given.items() if value is not None}))


@app.command("ingest-worker")
def ingest_worker(side_port: SidePort = None) -> None:
    """Run an ingest worker: accept, fetch, extract, chunk. As many as there are partitions may run."""
    from services.ingest_worker.app import start  # noqa: PLC0415 - see above
    from services.operator_cli.commands.worker import run_here  # noqa: PLC0415

    raise typer.Exit(run_here("ingest-worker", start, side_port=side_port))


@app.command("embed-worker")
def embed_worker(side_port: SidePort = None) -> None:
    """Run an embed worker: embed, write, switch. As many as there are partitions may run."""
    from services.embed_worker.app import start  # noqa: PLC0415 - see above
    from services.operator_cli.commands.worker import run_here  # noqa: PLC0415

    raise typer.Exit(run_here("embed-worker", start, side_port=side_port))


@app.command("query-api")
def query_api(host: Host = None, port: Port = None, side_port: SidePort = None) -> None:
    """Run the API: search, chat, and the door for documents. Any number may run."""
    from services.operator_cli.commands.worker import run_here  # noqa: PLC0415 - see above
    from services.query_api.process import start  # noqa: PLC0415

    raise typer.Exit(run_here("query-api", start, door=True, host=host, port=port, side_port=side_port))


@app.command("store")
def store(side_port: SidePort = None) -> None:
    """Run the embedded store of SLUICE_DATA for the workers and APIs of this machine."""
    from services.operator_cli.commands.worker import run_here  # noqa: PLC0415 - see above
    from services.standalone.store_process import start  # noqa: PLC0415

    raise typer.Exit(run_here("store", start, side_port=side_port))


@app.command()
def mcp(context: typer.Context) -> None:
    """Let an agent of this machine use a running server: the Model Context Protocol over stdin and stdout."""
    from services.operator_cli.commands.mcp import pipe  # noqa: PLC0415 - see above

    with _client(context) as client:
        pipe(client, sys.stdin.buffer, sys.stdout.buffer)


@app.command()
def init(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be made.")] = False,
    as_json: Json = False,
) -> None:
    """Make the topics and collections that are missing, and say how the others differ. Exit code 1: one is unfit."""
    from services.operator_cli.commands.init import initialise_here, lines  # noqa: PLC0415 - see above
    from services.operator_cli.terminal import console, print_json  # noqa: PLC0415

    parts = initialise_here(dry_run=dry_run)
    if as_json:
        print_json({"dryRun": dry_run, "parts": parts})
    else:
        for line in lines(parts, dry_run=dry_run):
            console().print(line, markup=False, soft_wrap=True)  # a command to paste must not be broken in two
    raise typer.Exit(1 if any(part.state == "unfit" for part in parts) else 0)


@app.command()
def demo(
    processes: Annotated[
        bool, typer.Option("--processes", help="As separate processes, on what SLUICE_LOG, _STORE, _EMBEDDER … name.")
    ] = False,
) -> None:
    """Load, search, ask, change, delete: on a temporary folder and a free port."""
    from services.operator_cli.commands.demo import run  # noqa: PLC0415 - see above

    run(processes=processes)


@app.command()
def ingest(
    context: typer.Context,
    what: Annotated[
        list[str], typer.Argument(help="Files, folders with all in them but hidden files, addresses of pages, or -")
    ],
    *,
    source: Annotated[
        str | None, typer.Option("--source", "-s", help="The name the documents stand under; files: files.")
    ] = None,
    path: Annotated[str | None, typer.Option(help="What is piped in is called so; else after its content.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tags", "-t", help="Tags of the documents; repeatable.")] = None,
    include: Annotated[list[str] | None, typer.Option(help="Only files that match a glob, such as '*.md'.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No files that match a glob.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and load what changes, until Ctrl-C.")] = False,
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Remove the source's documents that the folders haven't any more.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be loaded and removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before removing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line for each document.")] = False,
) -> None:
    """Load files, pages, or what is piped in. What the server has already is only compared."""
    from services.operator_cli.commands.ingest import IngestOptions  # noqa: PLC0415 - see above
    from services.operator_cli.commands.ingest import ingest as ingested  # noqa: PLC0415

    wish = IngestOptions(
        what=tuple(what),
        source=source,
        path=path,
        tags=tuple(tags or ()),
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        watch=watch,
        delete_missing=delete_missing,
        dry_run=dry_run,
        yes=yes,
        as_json=as_json,
    )
    raise typer.Exit(ingested(_client(context), wish))


@app.command()
def search(
    context: typer.Context,
    query: str,
    *,
    top_k: TopK = 5,
    source: Source = None,
    tags: Tags = None,
    explain: Annotated[bool, typer.Option(help="With --json: each leg's scores and ranks.")] = False,
    as_json: Json = False,
) -> None:
    """Find passages."""
    from services.operator_cli.terminal import console, hit_lines, print_json  # noqa: PLC0415 - see above

    reply = _client(context).search(query, top_k=top_k, filters=_filters(source, tags), explain=explain)
    if as_json:
        print_json(reply)
        return
    out = console()
    if not reply["results"]:
        out.print("nothing found")
    for line in hit_lines(reply["results"]):
        out.print(line)


@app.command()
def ask(
    context: typer.Context,
    question: str,
    *,
    top_k: TopK = 5,
    source: Source = None,
    tags: Tags = None,
    as_json: Json = False,
) -> None:
    """Ask a question; the answer names its sources."""
    from services.operator_cli.terminal import console, print_json, source_lines  # noqa: PLC0415 - see above

    reply = _client(context).ask(question, top_k=top_k, filters=_filters(source, tags))
    if as_json:
        print_json(reply)
        return
    out = console()
    out.print(reply["response"], markup=False)
    for line in source_lines(reply):
        out.print(f"  {line}", markup=False, style="dim")


@documents.command("ls")
def documents_ls(
    context: typer.Context,
    *,
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="Only documents that stand so, such as failed.")] = None,
    tags: Tags = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = LISTED,
    as_json: Json = False,
) -> None:
    """List documents, last changed first. In a pipe: tab-separated lines."""
    from services.operator_cli.terminal import console, print_json, print_rows  # noqa: PLC0415 - see above

    page = _client(context).documents(source=source, status=status, tags=tags or (), limit=limit)
    if as_json:
        print_json(page)
        return
    columns = ("documentId", "status", "chunkCount", "source", "path")
    print_rows(page["items"], columns, right=("chunkCount",))
    if page["nextCursor"]:
        console(stderr=True).print(f"there are more than {limit}: raise --limit")


@documents.command("show")
def documents_show(
    context: typer.Context,
    document_id: str,
    text: Annotated[bool, typer.Option("--text", help="Print the extracted text instead.")] = False,
    as_json: Json = False,
) -> None:
    """Show how a document stands, or what was read of it."""
    from services.operator_cli.terminal import print_json, print_rows  # noqa: PLC0415 - see above

    client = _client(context)
    if text:
        shown = client.text(document_id)
        if as_json:
            print_json({"documentId": document_id, "text": shown})
        else:
            print(shown)  # noqa: T201 - the command's output
        return
    document = client.document(document_id)
    if as_json:
        print_json(document)
        return
    rows = [{"field": name, "value": value} for name, value in document.items() if value not in (None, [], "")]
    print_rows(rows, ("field", "value"))


@documents.command("rm")
def documents_rm(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Document ids.")] = None,
    *,
    source: Annotated[str | None, typer.Option("--source", "-s", help="All documents of this source.")] = None,
    tags: Tags = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="Only where a metadata field is so: name=value; repeatable.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All documents.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Remove documents and all that was made from them: by id, by filters, or all."""
    from services.operator_cli.commands.remove import metadata_filters, remove  # noqa: PLC0415 - see above
    from services.operator_cli.terminal import console, print_json, print_rows  # noqa: PLC0415

    wanted = {**_filters(source, tags), **metadata_filters(filters or ())}
    if [bool(ids), bool(wanted), everything].count(True) != 1:
        _fail("name document ids, or a --source, --tags and --filter, or --all; one of them", 2)
    client = _client(context)
    if not ids:
        chosen_by: dict[str, Any] = {"all": True} if everything else {"filters": wanted}
        raise typer.Exit(remove(client, chosen_by, yes=yes, dry_run=dry_run, as_json=as_json))
    chosen = [client.document(each) for each in dict.fromkeys(ids)]
    if as_json and dry_run:
        print_json({"dryRun": True, "items": chosen})
    elif not as_json:
        print_rows(chosen, ("documentId", "source", "path"))
    if dry_run or not chosen:
        return
    if not yes:
        if as_json or not sys.stdin.isatty():
            _fail(f"confirm by --yes that {len(chosen)} should be removed", 2)
        typer.confirm(f"Remove {len(chosen)}?", abort=True)

    removed = [_removed(client, each) for each in chosen]
    failed = [each for each in removed if each["status"] == "failed"]
    if as_json:
        print_json({"items": removed})
    else:
        for each in failed:
            console(stderr=True).print(f"{each['documentId']}: {each['error']}", markup=False)
        console().print(f"{len(removed) - len(failed)} of {len(removed)} removed")
    raise typer.Exit(1 if failed else 0)


def _removed(client: "Client", document: Mapping[str, Any]) -> dict[str, Any]:
    from services.operator_cli.client import RequestRefused  # noqa: PLC0415 - see above

    try:
        return client.delete(document["documentId"])
    except RequestRefused as error:
        return {"status": "failed", "documentId": document["documentId"], "error": str(error)}


@app.command()
def erase(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Document ids.")] = None,
    *,
    source: Annotated[str | None, typer.Option("--source", "-s", help="All documents of this source.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Have the files forget now, and search them for its words.")] = (
        False
    ),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be erased.")] = False,
    as_json: Json = False,
) -> None:
    """Erase documents for good: text, names, vectors, dead letters. Deleted ones too. Needs the role admin."""
    from services.operator_cli.commands.remove import erase as erased  # noqa: PLC0415 - see above

    code = erased(_client(context), ids or (), source, yes=yes, dry_run=dry_run, wait=wait, as_json=as_json)
    raise typer.Exit(code)


@app.command()
def verify(
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Publish what differs again, once it is counted.")] = False,
    renew: Annotated[
        bool, typer.Option("--renew", help="With --repair: cut anew what an older chunker has cut, too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --repair: only say what would be done.")] = False,
    embed: Annotated[
        str, typer.Option(help="How many chunks are embedded anew and compared, chosen by chance; or all.")
    ] = "32",
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for documents that are on their way.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Compare all of the index with the log. Exit code 1: something differs; 2: not all could be looked at."""
    from services.operator_cli.terminal import console, print_json  # noqa: PLC0415 - see above
    from services.operator_cli.verify.command import as_dict, lines, verify_here  # noqa: PLC0415

    if dry_run and not repair:
        _fail("--dry-run says what --repair would do: give both", 2)
    if renew and not repair:
        _fail("--renew is a repair: give --repair, too", 2)
    if embed != "all" and not (embed.isascii() and embed.isdigit()):
        _fail(f"--embed {embed} must be a number, or all", 2)
    sample = None if embed == "all" else int(embed)
    outcome = verify_here(repair=repair, renew=renew, dry_run=dry_run, sample=sample, patience_s=patience)
    if as_json:
        print_json(as_dict(outcome))
    else:
        for line in lines(outcome):
            console().print(line, markup=False, soft_wrap=True)
    raise typer.Exit(outcome.exit_code)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check all that a Sluice here needs, and say how to mend what it lacks."""
    from services.operator_cli.commands.doctor import Check, examine  # noqa: PLC0415 - see above
    from services.operator_cli.terminal import console, print_json  # noqa: PLC0415

    out, checks, colour = console(), list[Check](), {"ok": "green", "warning": "yellow", "failed": "red"}
    for check in examine():
        checks.append(check)
        if as_json:
            continue
        out.print(f"{check.verdict:8}", style=colour[check.verdict], end="")
        out.print(f"{check.name:10}{check.found}", markup=False)
        if check.fix:
            out.print(f"{'':18}fix: {check.fix}", markup=False)
    if as_json:
        print_json({"version": VERSION, "checks": checks})
    raise typer.Exit(1 if any(check.verdict == "failed" for check in checks) else 0)


def _filters(source: str | None, tags: Sequence[str] | None) -> dict[str, Any]:
    known = {"source": source, "tags": list(tags) if tags else None}
    return {name: value for name, value in known.items() if value is not None}
