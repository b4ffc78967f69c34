"""`sluice ingest`, `reread` and `inspect`.

`ingest` compares files with the server, loads them, removes missing documents, and watches for changes.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec.structs import replace as replaced

from services.operator_cli.bulk_load import (
    Done,
    LoadOutcome,
    change_each,
    check_share,
    load,
    missing,
    outcome,
    renames,
    to_send,
)
from services.operator_cli.documents import confirm_count, metadata_of
from services.operator_cli.errors import CommandError, Misuse, ServerAway
from services.operator_cli.local_files import FoundFile, Watched, files_at, stamps, wanted
from services.operator_cli.options import Json, Manner, Source, client_of, given, with_options
from services.operator_cli.terminal import CommandProgress, console, note_line, print_json, print_line, progress

if TYPE_CHECKING:
    from services.operator_cli.client import Client

SOURCE: Final = "files"
STDIN: Final = "-"
LOOK_EVERY_S: Final = 1.0
_NOTES: Final = 3  # printed of a document
_SENT: Final = frozenset(
    ("source", "title", "keep", "onConflict", "chunkSize", "chunkOverlap", "callbackUrl", "password")
)  # with each document


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """What is loaded, and how."""

    what: Annotated[
        list[str], typer.Argument(help="Files, folders (hidden files are skipped), page URLs, or - for standard input.")
    ]
    source: Annotated[
        str | None, typer.Option("--source", "-s", help="Source to file the documents under. Default: files.")
    ] = None
    path: Annotated[
        str | None, typer.Option(help="Path of the piped document. Default: a name made from its content.")
    ] = None
    tags: Annotated[list[str], typer.Option("--tags", "-t", help="Tags of the documents; repeatable.")] = field(
        default_factory=list
    )
    include: Annotated[list[str], typer.Option(help="Only files that match this glob, such as '*.md'.")] = field(
        default_factory=list
    )
    exclude: Annotated[list[str], typer.Option(help="Skip files that match this glob.")] = field(default_factory=list)
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and load changes until Ctrl-C.")] = False
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Delete documents of the source that are no longer in the folders.")
    ] = False
    confirm: Annotated[
        int | None, typer.Option(help="Confirms this number of deletions; needed above 20 % of the source.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be loaded and deleted.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per document.")] = False
    title: Annotated[str | None, typer.Option(help="Title of the one document.")] = None
    metadata: Annotated[
        list[str] | None,
        typer.Option(help="Metadata of the documents, as name=value or a JSON object; repeatable."),
    ] = None
    keep: Annotated[
        str | None, typer.Option(help="Keep these fields of the accepted version: title, description, tags, metadata.")
    ] = None
    on_conflict: Annotated[
        str | None, typer.Option(help="If the document exists with other content: replace (default), error or new.")
    ] = None
    chunk_size: Annotated[
        int | None, typer.Option(help="Characters of the largest chunk, 100 to 2000. Default: the index's own.")
    ] = None
    chunk_overlap: Annotated[
        int | None, typer.Option(help="Characters that the next chunk repeats, at most half of the size.")
    ] = None
    callback_url: Annotated[
        str | None, typer.Option(help="Address to call when the processing of a sent document has ended.")
    ] = None
    password: Annotated[str | None, typer.Option(help="Password that opens locked PDF files; - asks for it.")] = None

    @property
    def about(self) -> dict[str, Any]:
        """Return the fields that are sent with each document, as those of a form. Raises Misuse as `metadata_of`."""
        found: dict[str, Any] = {name: str(value) for name, value in given(self).items() if name in _SENT}
        if self.tags:
            found["tags"] = self.tags
        if self.metadata:
            found["metadata"] = json.dumps(metadata_of(self.metadata), ensure_ascii=False)
        return found

    @property
    def piped(self) -> bool:
        """Return whether standard input is to be read."""
        return STDIN in self.what

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the URLs of pages."""
        return tuple(each for each in self.what if each.startswith(("http://", "https://")))

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the files and folders."""
        return tuple(Path(each) for each in self.what if each != STDIN and each not in self.urls)

    @property
    def files_source(self) -> str:
        """Return the source of the files."""
        return self.source or SOURCE

    def check(self) -> None:
        """Raise Misuse if options contradict each other, or as `metadata_of`."""
        if self.piped and len(self.what) > 1:
            raise Misuse("- reads standard input and can't be combined with files or URLs")
        if self.path is not None and not self.piped:
            raise Misuse(f"--path {self.path} names a document from standard input: give - as well")
        if self.watch and (self.piped or self.urls or self.dry_run):
            raise Misuse("--watch needs files or folders, and can't be combined with --dry-run")
        if self.title is not None and (len(self.what) > 1 or any(path.is_dir() for path in self.paths)):
            raise Misuse(f"--title {self.title} names one document: give one file, URL or -")
        if self.password is not None and (self.piped or self.urls):
            raise Misuse("--password opens files: give no URL and no -")
        metadata_of(self.metadata or ())
        self._check_removal()

    def _check_removal(self) -> None:
        if self.confirm is not None and not self.delete_missing:
            raise Misuse(f"--confirm {self.confirm} is the number that --delete-missing removes: give that as well")
        if not self.delete_missing:
            return
        if self.piped or self.urls or any(path.is_file() for path in self.paths):
            raise Misuse("--delete-missing compares a source with folders: give folders only")
        if self.source is None:
            raise Misuse("--delete-missing deletes documents of a source that the folders don't have: give --source")
        if self.watch and self.confirm is not None:
            raise Misuse(f"--confirm {self.confirm} confirms one removal: run it without --watch first")
        if self.watch and not self.yes:
            raise Misuse("add --yes to let --watch delete documents without asking")


@with_options
def ingest(context: typer.Context, *, options: IngestOptions) -> None:
    """Load files, folders, web pages or standard input. Unchanged files are not sent again."""
    if options.password == STDIN:  # so that neither the shell nor the list of processes has it
        options = replace(options, password=typer.prompt("Password", hide_input=True, err=True))
    raise typer.Exit(ingest_files(client_of(context), options))


def inspect(
    file: Annotated[Path, typer.Argument(help="The file.")],
    as_json: Json = False,
) -> None:
    """Show what would be indexed of a file: text, tables, pages, chunks, notes, times. Nothing is stored."""
    from services.operator_cli.inspect_file import inspect_file, markdown  # slow to import

    seen = inspect_file(file)
    if as_json:
        print_json(seen)
    else:
        print("\n\n".join(markdown(seen)))


def reread(context: typer.Context, *, source: Source = None, as_json: Json = False) -> None:
    """Read documents again from their originals where the reader of their format has changed since."""
    client = client_of(context)
    report = IngestReport(IngestOptions(what=[], source=source, as_json=as_json))
    listed = client.listed("/rag/documents", source=source)["items"]
    with report.progress("reading", len(listed)):
        ready = ((each["path"], each["documentId"]) for each in listed if each["state"] == "ready")
        change_each(ready, client.reread, report)
    report.total()
    raise typer.Exit(1 if report.counts["failed"] else 0)


class IngestReport:
    """Prints how each document ended, and finally the counts by status."""

    def __init__(self, options: IngestOptions) -> None:
        self.counts = Counter[str]()
        self._noted = Counter[str]()  # those with notes
        self.created = set[str]()  # paths
        self._options = options
        self._watch = CommandProgress()

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[None]:
        """Show how many of `total` documents have ended while the block runs."""
        with progress() as self._watch:
            self._watch.begin(what, total)
            yield
        self._watch = CommandProgress()

    def __call__(self, ended: LoadOutcome) -> None:
        """Print and count how a document ended."""
        self._watch.step(name=ended.path)
        self.counts[ended.status] += 1
        self._noted[ended.status] += bool(ended.notes)
        if ended.status == "created":
            self.created.add(ended.path)
        if self._options.as_json:
            print_line(ended)
        elif ended.error:
            console(stderr=True).print(f"{ended.path}: {ended.error}", markup=False)
        elif ended.renamed_to:
            console(stderr=True).print(f"{ended.path} was renamed to {ended.renamed_to}", markup=False)
        elif ended.dropped:
            named = ", ".join(ended.dropped)
            console(stderr=True).print(
                f"{ended.path}: removed {named}, which this load omitted; --keep would keep them", markup=False
            )
        if not self._options.as_json:
            for note in ended.notes[:_NOTES]:
                console(stderr=True).print(f"{ended.path}: {note_line(note)}", markup=False)
            if (more := ended.note_count - _NOTES) > 0:
                shown_by = f"sluice documents show {ended.document_id}"
                console(stderr=True).print(f"{ended.path}: {more} more notes: {shown_by}", markup=False)

    def total(self) -> None:
        """Print the counts."""
        source = self._options.files_source if self._options.paths else self._options.source
        counts = dict(sorted(self.counts.items()))
        if self._options.as_json:
            print_line({"source": source, "dryRun": self._options.dry_run, "counts": counts})
            return
        number = self.counts.total()
        sentence = f"{number} {'document' if number == 1 else 'documents'}" + (f" in {source}" if source else "")
        console().print(
            f"{sentence}: " + ", ".join(self._counted(status, count) for status, count in counts.items()), markup=False
        )

    def _counted(self, status: str, count: int) -> str:
        noted = self._noted[status]
        return f"{count} {status}" + (f", {'' if noted == count else f'{noted} '}with notes" if noted else "")


def ingest_files(client: "Client", options: IngestOptions, pause: Callable[[float], None] = time.sleep) -> int:
    """Load the documents and return the exit code: 1 if one failed. `pause` waits between two looks.

    Raises:
        Misuse: options contradict each other, or a path can't be read. ServerAway: there is no server.
    """
    options.check()
    files, report = _files(options), IngestReport(options)
    if not (files or options.piped or options.urls or options.watch or options.delete_missing):
        raise CommandError(f"nothing to load in {', '.join(map(str, options.paths))}")
    watched = Watched(stamps(files))  # before the files are read, so that a file that changes meanwhile is loaded again
    for name, send in _others(client, options):
        report(LoadOutcome(path=name, status="would load") if options.dry_run else outcome(name, send))
    with report.progress("loading", len(files)):
        _load(client, options, files, report)
    if options.delete_missing:
        created = {each.name: each.file for each in files if each.name in report.created}
        _remove(client, options, files, created, report)
    report.total()
    if options.watch:
        _watch(client, options, watched, report, pause)
    return 1 if report.counts["failed"] else 0


def _files(options: IngestOptions) -> list[FoundFile]:
    try:
        return files_at(options.paths, include=options.include, exclude=options.exclude)
    except (OSError, ValueError) as error:
        raise Misuse(str(error)) from None


def _others(client: "Client", options: IngestOptions) -> list[tuple[str, Callable[[], dict[str, Any]]]]:
    """Return the documents that aren't files: a name to show, and the function that sends it."""

    def piped() -> dict[str, Any]:
        named = {} if options.path is None else {"path": options.path}
        content = sys.stdin.buffer.read()
        return client.waiting("POST", "/rag/ingest/upload", params={**named, **options.about}, content=content)

    send = partial(client.waiting, "POST", "/rag/ingest/url")
    pages = [(url, partial(send, json={**options.about, "url": url})) for url in options.urls]
    return [(options.path or STDIN, piped)] * options.piped + pages


def _load(client: "Client", options: IngestOptions, files: Sequence[FoundFile], done: Done) -> None:
    named = options.paths  # such a file is sent, and refused
    empty = {each.name for each in files if each.file not in named and each.is_empty()}
    if empty and not options.as_json:
        console(stderr=True).print(f"skipped because they are empty: {', '.join(sorted(empty))}", markup=False)
    for name in sorted(empty):
        done(LoadOutcome(path=name, status="skipped"))
    files = [each for each in files if each.name not in empty]
    about = {"source": SOURCE, **options.about}
    changed = to_send(files, client, about, done)
    if options.dry_run:
        for each in changed:
            done(LoadOutcome(path=each.name, status="would load"))
    else:
        load(changed, client, about, done)


def _remove(  # noqa: PLR0917 - what was loaded, and what was found
    client: "Client",
    options: IngestOptions,
    files: Sequence[FoundFile],
    created: Mapping[str, Path],
    done: Done,
    only: Collection[str] | None = None,
) -> None:
    """Remove the source's documents that have no file, except those that the globs exclude; or `only` these of them.

    Raises:
        Misuse: a folder looks like an unmounted one, or so many are gone that their number has to be confirmed.
    """
    names = (each.name for each in files)
    chosen = partial(wanted, include=options.include, exclude=options.exclude)
    found, total = missing(names, client, source=options.files_source, chosen=chosen)
    gone = {path: id_ for path, id_ in found.items() if only is None or path in only}
    if options.dry_run:
        for path, id_ in gone.items():
            done(LoadOutcome(path=path, status="would remove", document_id=id_))
    elif gone:
        _check_folders(options, files)
        renamed = renames(gone, created, client)
        check_share(len(gone) - len(renamed), total, options.confirm)
        if options.confirm is None:
            confirm_count("removed", "Remove", len(gone), Manner(yes=options.yes, as_json=options.as_json))
        asked = gone.items()
        change_each(asked, client.delete, lambda end: done(replaced(end, renamed_to=renamed.get(end.path))))


def _check_folders(options: IngestOptions, files: Sequence[FoundFile]) -> None:
    """Raise Misuse if a folder has no file: a share that isn't mounted looks like that."""
    for folder in options.paths:
        if not any(each.file.is_relative_to(folder) for each in files):
            raise Misuse(
                f"{folder} has no file to load and may not be mounted, so nothing was removed; to remove all "
                f"documents of the source: sluice documents rm --source {options.files_source}"
            )


def _watch(
    client: "Client", options: IngestOptions, watched: Watched, report: IngestReport, pause: Callable[[float], None]
) -> None:
    """Load changed files, and remove the documents of deleted files if requested, until Ctrl-C."""

    def done(ended: LoadOutcome) -> None:
        report(ended)
        if not (options.as_json or ended.error):
            console().print(f"{ended.path}: {ended.status}", markup=False)

    last_error = ""
    try:
        while True:
            pause(LOOK_EVERY_S)
            try:
                files = {each.name: each for each in _files(options)}
                changed, gone = watched.look(stamps(list(files.values())))
                _load(client, options, [files[name] for name in changed], done)
                for name in changed:
                    watched.done(name)  # even if it failed: it is loaded again when it changes
                if options.delete_missing and gone:
                    created = {name: files[name].file for name in changed}
                    _remove(client, options, list(files.values()), created, done, only=gone)
                for name in gone:
                    watched.done(name)
                last_error = ""
            except (ServerAway, Misuse) as error:  # the server may come back; the work is then done
                if str(error) != last_error:
                    console(stderr=True).print(f"{error}; looking again", markup=False)
                last_error = str(error)
    except KeyboardInterrupt:
        return
