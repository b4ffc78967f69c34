"""`sluice ingest`: compare, load, remove what is missing, and go on watching."""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from services.operator_cli.actions.remove import confirm
from services.operator_cli.bulk_load import Done, LoadOutcome, load, missing, outcome, remove, renames, to_send
from services.operator_cli.client import Client, CommandError, Misuse, ServerAway
from services.operator_cli.folder_watch import Watched, stamps
from services.operator_cli.local_files import FoundFile, files_at, wanted
from services.operator_cli.terminal import console, print_line, progress

SOURCE: Final = "files"
STDIN: Final = "-"
LOOK_EVERY_S: Final = 1.0


class IngestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command was asked for."""

    what: tuple[str, ...]  # paths, addresses, or `-` for what is piped in
    source: str | None = None
    path: str | None = None  # of what is piped in
    tags: tuple[str, ...] = ()
    title: str | None = None
    metadata: dict[str, Any] | None = None
    keep: str | None = None
    on_conflict: str | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    callback_url: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    watch: bool = False
    delete_missing: bool = False
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False

    @property
    def piped(self) -> bool:
        """Return whether standard input is to be read."""
        return STDIN in self.what

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the addresses of pages."""
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
        """Raise Misused where its parts don't go together."""
        if self.piped and len(self.what) > 1:
            raise Misuse("- reads standard input and can't be combined with files or URLs")
        if self.path is not None and not self.piped:
            raise Misuse(f"--path {self.path} names a document from standard input: give - as well")
        if self.watch and (self.piped or self.urls or self.dry_run):
            raise Misuse("--watch needs files or folders, and can't be combined with --dry-run")
        if self.title is not None and (len(self.what) > 1 or any(path.is_dir() for path in self.paths)):
            raise Misuse(f"--title {self.title} names one document: give one file, URL or -")
        if not self.delete_missing:
            return
        if self.piped or self.urls or any(path.is_file() for path in self.paths):
            raise Misuse("--delete-missing compares a source with folders: give folders only")
        if self.source is None:
            raise Misuse("--delete-missing deletes documents of a source that the folders don't have: give --source")
        if self.watch and not self.yes:
            raise Misuse("add --yes to let --watch delete documents without asking")


class IngestReport:
    """Prints how each document ended, and at the end the counts by status."""

    def __init__(self, options: IngestOptions) -> None:
        self.counts = Counter[str]()
        self.created: list[str] = []  # paths
        self._options = options

    def __call__(self, ended: LoadOutcome) -> None:
        """Print and count how a document ended."""
        self.counts[ended.status] += 1
        if ended.status == "created":
            self.created.append(ended.path)
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

    def total(self) -> None:
        """Print the sum."""
        source = self._options.files_source if self._options.paths else self._options.source
        counts = dict(sorted(self.counts.items()))
        if self._options.as_json:
            print_line({"source": source, "dryRun": self._options.dry_run, "counts": counts})
            return
        number = self.counts.total()
        sentence = f"{number} {'document' if number == 1 else 'documents'}" + (f" in {source}" if source else "")
        console().print(
            f"{sentence}: " + ", ".join(f"{count} {status}" for status, count in counts.items()), markup=False
        )


def ingest(client: Client, options: IngestOptions, pause: Callable[[float], None] = time.sleep) -> int:
    """Load what was asked for, and return the exit code: 1, where a document failed. `pause` is between two looks.

    Raises:
        Misused: it can't be meant so, or a path can't be read. Away: there is no server.
    """
    options.check()
    asked = {
        "title": options.title,
        "keep": options.keep,
        "onConflict": options.on_conflict,
        "chunkSize": None if options.chunk_size is None else str(options.chunk_size),
        "chunkOverlap": None if options.chunk_overlap is None else str(options.chunk_overlap),
        "callbackUrl": options.callback_url,
    }
    if options.metadata is not None:
        asked["metadata"] = json.dumps(options.metadata, ensure_ascii=False)
    client.described = {name: value for name, value in asked.items() if value is not None}
    files, report = _files(options), IngestReport(options)
    if not (files or options.piped or options.urls or options.watch or options.delete_missing):
        raise CommandError(f"nothing to load in {', '.join(map(str, options.paths))}")
    watched = Watched(stamps(files))  # before they are read: what changes meanwhile is loaded again
    for name, send in _others(client, options):
        report(LoadOutcome(path=name, status="would load") if options.dry_run else outcome(name, send))
    with progress(len(files), "loading") as step:

        def done(ended: LoadOutcome) -> None:
            step(ended.path)
            report(ended)

        _load(client, options, files, done)
    if options.delete_missing:
        _remove(client, options, files, report)
    report.total()
    if options.watch:
        _watch(client, options, watched, report, pause)
    return 1 if report.counts["failed"] else 0


def _files(options: IngestOptions) -> list[FoundFile]:
    try:
        return files_at(options.paths, include=options.include, exclude=options.exclude)
    except (OSError, ValueError) as error:
        raise Misuse(str(error)) from None


def _others(client: Client, options: IngestOptions) -> list[tuple[str, Callable[[], dict[str, Any]]]]:
    """Return what is no file, by a name to show, with what sends it."""

    def piped() -> dict[str, Any]:
        return client.upload_body(sys.stdin.buffer.read(), source=options.source, path=options.path, tags=options.tags)

    def fetched(url: str) -> Callable[[], dict[str, Any]]:
        return lambda: client.ingest_url(url, source=options.source, tags=options.tags)

    return [(options.path or STDIN, piped)] * options.piped + [(url, fetched(url)) for url in options.urls]


def _load(client: Client, options: IngestOptions, files: Sequence[FoundFile], done: Done) -> None:
    changed = to_send(files, client, source=options.files_source, tags=options.tags, done=done)
    if options.dry_run:
        for each in changed:
            done(LoadOutcome(path=each.name, status="would load"))
    else:
        load(changed, client, source=options.files_source, tags=options.tags, done=done)


def _remove(client: Client, options: IngestOptions, files: Sequence[FoundFile], report: IngestReport) -> None:
    """Remove the source's documents that no file stands for, of those that the globs let through."""
    names = (each.name for each in files)
    gone = missing(
        names, client, source=options.files_source, chosen=lambda path: wanted(path, options.include, options.exclude)
    )
    if options.dry_run:
        for path, id_ in gone.items():
            report(LoadOutcome(path=path, status="would remove", document_id=id_))
    elif gone:
        confirm("removed", "Remove", len(gone), yes=options.yes, as_json=options.as_json)
        created = {each.name: each.file for each in files if each.name in set(report.created)}
        remove(gone, client, done=report, renamed=renames(gone, created, client))


def _watch(
    client: Client, options: IngestOptions, watched: Watched, report: IngestReport, pause: Callable[[float], None]
) -> None:
    """Load what changes, and remove what goes where that was asked for, until Ctrl-C."""

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
                if options.delete_missing and gone:
                    there = missing(files, client, source=options.files_source, chosen=frozenset(gone).__contains__)
                    remove(there, client, done=done)
                for name in (*changed, *gone):
                    watched.done(name)  # failed or not: it comes again when it changes
                last_error = ""
            except (ServerAway, Misuse) as error:  # it may come back, and what was to be done then is
                if str(error) != last_error:
                    console(stderr=True).print(f"{error}; looking again", markup=False)
                last_error = str(error)
    except KeyboardInterrupt:
        return
