"""`sluice ingest`, `inspect` and `reread`."""

from pathlib import Path
from typing import Annotated

import typer

from services.operator_cli.options import Json, Source, client_of


def ingest(
    context: typer.Context,
    what: Annotated[
        list[str], typer.Argument(help="Files, folders (hidden files are skipped), page URLs, or - for standard input.")
    ],
    *,
    source: Annotated[
        str | None, typer.Option("--source", "-s", help="Source to file the documents under. Default: files.")
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="Path of the piped document. Default: a name made from its content.")
    ] = None,
    tags: Annotated[list[str] | None, typer.Option("--tags", "-t", help="Tags of the documents; repeatable.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the one document.")] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(help="Metadata of the documents, as name=value or a JSON object; repeatable."),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Keep these fields of the accepted version: title, description, tags, metadata."),
    ] = None,
    on_conflict: Annotated[
        str | None,
        typer.Option(help="If the document exists with other content: replace (default), error or new."),
    ] = None,
    chunk_size: Annotated[
        int | None, typer.Option(help="Characters of the largest chunk, 100 to 2000. Default: the index's own.")
    ] = None,
    chunk_overlap: Annotated[
        int | None, typer.Option(help="Characters that the next chunk repeats, at most half of the size.")
    ] = None,
    callback_url: Annotated[
        str | None, typer.Option(help="Address to call when the processing of a sent document has ended.")
    ] = None,
    include: Annotated[list[str] | None, typer.Option(help="Only files that match this glob, such as '*.md'.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Skip files that match this glob.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and load changes until Ctrl-C.")] = False,
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Delete documents of the source that are no longer in the folders.")
    ] = False,
    confirm: Annotated[
        int | None,
        typer.Option(help="Confirms this number of deletions; needed above 20 % of the source."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be loaded and deleted.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per document.")] = False,
) -> None:
    """Load files, folders, web pages or standard input. Unchanged files are not sent again."""
    from services.operator_cli.actions.ingest import IngestOptions
    from services.operator_cli.actions.ingest import ingest as ingested
    from services.operator_cli.actions.remove import metadata_of

    options = IngestOptions(
        what=tuple(what),
        source=source,
        path=path,
        tags=tuple(tags or ()),
        title=title,
        metadata=metadata_of(metadata) if metadata else None,
        keep=keep,
        on_conflict=on_conflict,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        callback_url=callback_url,
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        watch=watch,
        delete_missing=delete_missing,
        confirm=confirm,
        dry_run=dry_run,
        yes=yes,
        as_json=as_json,
    )
    raise typer.Exit(ingested(client_of(context), options))


def inspect(
    file: Annotated[Path, typer.Argument(help="The file.")],
    as_json: Json = False,
) -> None:
    """Show what would be indexed of a file: text, tables, pages, chunks, notes, times. Nothing is stored."""
    from services.operator_cli.actions.inspect_file import inspect_file, markdown
    from services.operator_cli.terminal import print_json

    seen = inspect_file(file)
    if as_json:
        print_json(seen)
    else:
        print("\n\n".join(markdown(seen)))


def reread(context: typer.Context, *, source: Source = None, as_json: Json = False) -> None:
    """Read documents again from their originals where the reader of their format has changed since."""
    from services.operator_cli.actions.ingest import reread as reread_all

    raise typer.Exit(reread_all(client_of(context), source, as_json=as_json))
