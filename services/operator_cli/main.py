"""The `sluice` command. `serve` is the server; most other commands talk to a running server over HTTP.

Exit codes: 0 done; 1 the server refused, or a file or a check failed; 2 no server, wrong usage, or a wrong setting.
Modules that are slow to import are imported by the commands that need them, so that `sluice --help` answers at once.
"""

import inspect
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Final, NoReturn

import typer

from services.operator_cli.dlq import dlq
from services.operator_cli.documents import documents, erase
from services.operator_cli.errors import CommandError, fail
from services.operator_cli.ingest import ingest, reread
from services.operator_cli.ingest import inspect as inspect_file
from services.operator_cli.keys import keys
from services.operator_cli.log_commands import groups, lag, replay
from services.operator_cli.maintenance_commands import backup, migrate, optimize, restore, verify
from services.operator_cli.options import HEADER, Url
from services.operator_cli.reindex import reindex
from services.operator_cli.serve import embed_worker, ingest_worker, query_api, serve, store
from services.operator_cli.server_reports import audit, stats, tenants
from services.operator_cli.set_up import config, demo, doctor, init, version
from services.operator_cli.use import ask, evaluate, mcp, open_page, search
from shared.version import VERSION

app = typer.Typer(
    name="sluice",
    help="Ingest documents, search them, and ask questions about them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
GROUPS: Final[dict[str, dict[Callable[..., None] | typer.Typer, str]]] = {  # as the help shows them; with examples
    "Use": {
        search: "sluice search 'tickets for the boat' --top-k 3",
        ask: "sluice ask 'When is the tower open?' --source handbook",
        open_page: "sluice open handbook/prices.md",
        mcp: "sluice --url http://127.0.0.1:3000 mcp",
        evaluate: "sluice eval questions.jsonl",
    },
    "Documents": {
        ingest: "sluice ingest ./handbook --source handbook --tags 2026",
        inspect_file: "sluice inspect report.pdf --json",
        reread: "sluice reread --source handbook",
        documents: "",
        erase: "sluice erase --source handbook --dry-run",
        dlq: "",
    },
    "Index": {
        verify: "sluice verify --repair --dry-run",
        reindex: "",
        optimize: "sluice optimize",
    },
    "Operate": {
        stats: "sluice stats --json",
        lag: "sluice lag --json",
        groups: "",
        replay: "sluice replay --topic documents.submitted --from beginning --source handbook --dry-run",
        tenants: "",
        audit: "sluice audit --since 2026-11-20T18:00Z --action rag_document_delete",
        backup: "sluice backup /backups/2026-11-22",
        restore: "sluice restore /backups/2026-11-22 --data ./data",
        migrate: "sluice migrate --to qdrant+http://qdrant:6333 --dry-run",
    },
    "Set up": {
        serve: "sluice serve --port 3000 --data ./data",
        ingest_worker: "SLUICE_LOG=kafka://broker:9092 sluice ingest-worker",
        embed_worker: "SLUICE_LOG=kafka://broker:9092 sluice embed-worker",
        query_api: "SLUICE_LOG=kafka://broker:9092 sluice query-api --port 3000",
        store: "sluice store --side-port 9090",
        init: "sluice init --dry-run",
        doctor: "sluice doctor",
        demo: "sluice demo",
        config: "",
        keys: "",
        version: "sluice version",
    },
}
_NO_HEADER: Final = "--no-header"
_URL: Final = "--url"
_NAMES: Final = {"open_page": "open", "evaluate": "eval"}  # of commands that Python's names would hide
for group, commands in GROUPS.items():
    for command, example in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=group)
        else:
            name = _NAMES.get(command.__name__, command.__name__)
            app.command(name.replace("_", "-"), epilog=f"Example: {example}", rich_help_panel=group)(command)


def _join_lines(commands: typer.Typer) -> None:
    """Join the lines of each paragraph of the help texts, so that they are wrapped to the terminal's width."""
    for command in commands.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _join_lines(group.typer_instance)


_join_lines(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code. An error is printed as one line on stderr."""
    from shared.errors import Rejected, Unavailable, masked
    from shared.settings import ConfigurationError

    os.umask(0o077)  # whatever a command writes may hold documents or keys, so only this user may read it
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a title that the terminal can't show must not stop a list
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    while _URL in given[:-1]:
        at = given.index(_URL)
        given[at : at + 2] = [f"{_URL}={given[at + 1]}"]
    # Options of all commands may stand behind any of them.
    given.sort(key=lambda each: each != _NO_HEADER and not each.startswith(f"{_URL}="))
    try:
        app(given, prog_name="sluice")
    except ConfigurationError as error:
        fail(str(error), 2)
    except Unavailable as error:  # only raised at the start; later, workers wait
        fail(f"{error.sentence}; run the command again when it is available", 2)
    except Rejected as error:  # by a log or a store: of what a server refuses, the client makes a CommandError
        fail(masked(error.sentence), 1)
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe.
        sys.stderr.close()
        sys.exit(0)
    except CommandError as error:
        fail(str(error), error.exit_code)
    sys.exit(0)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"sluice {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    url: Url = None,
    no_header: Annotated[bool, typer.Option(_NO_HEADER, help="Print tables without their first line.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Store the options that all commands share."""
    context.obj = url
    HEADER.set(not no_header)
