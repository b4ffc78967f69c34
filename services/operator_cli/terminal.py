"""Prints the commands' output: tables and colours on a terminal, plain lines in a pipe, JSON on request."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from services.operator_cli.options import HEADER
from shared.contracts import with_header

SNIPPET: Final = 240  # characters of a passage
_WHOLE: Final = frozenset({"id", "documentId", "key", "request", "documents", "GROUP", "TOPIC"})  # to be copied


def console(*, stderr: bool = False) -> Console:
    """Return a console that neither wraps nor colours output to a pipe."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.soft_wrap = True
    return made


def print_json(value: Any) -> None:
    """Print the value as one JSON document."""
    print(json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=2))


def print_line(value: Any) -> None:
    """Print the value as JSON on one line, at once."""
    print(json.dumps(msgspec.to_builtins(value), ensure_ascii=False), flush=True)


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, right: Sequence[str] = ()) -> None:
    """Print a table; in a pipe, tab-separated lines. Without rows, say on stderr that there is nothing."""
    out = console()
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    if not rows:
        console(stderr=True).print("nothing to list")
    elif not out.is_terminal:
        for line in ([list(columns)] if HEADER.get() else []) + cells:
            print("\t".join(line))
    else:
        table = Table(box=None, pad_edge=False, header_style="bold", show_header=HEADER.get())
        width = 0
        for at, column in enumerate(columns):
            # An id is never broken: where the terminal is too narrow for the ids, the table is wider than the terminal.
            least = max(map(len, [column, *(line[at] for line in cells if column in _WHOLE)]))
            table.add_column(column, justify="right" if column in right else "left", overflow="fold", min_width=least)
            width += least + 1
        for line in cells:
            table.add_row(*map(escape, line))
        out.print(table, width=max(out.width, width), soft_wrap=True)


def print_found(
    found: Any, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, right: Sequence[str] = (), as_json: bool
) -> None:
    """Print what was found as JSON, or these rows of it as a table."""
    if as_json:
        print_json(found)
    else:
        print_rows(rows, columns, right=right)


def _cell(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())


def hit_lines(hits: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Yield search hits as lines: rank, score, location, and the beginning of the passage."""
    for number, hit in enumerate(hits, start=1):
        place = where(hit["metadata"])
        yield Text.assemble(f"{number:2}. ", (place, "bold"), ("  score ", "dim"), (f"{hit['score']:.2f}", "green"))
        text = with_header(hit["text"], hit["metadata"].get("tableHeader"))
        for line in textwrap.wrap(textwrap.shorten(text, SNIPPET, placeholder=" …"), 96):
            yield Text(f"    {line}")


def source_lines(reply: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sources that a chat reply cites as `[n] location`; all sources if it cites none."""
    numbered = [(f"[{number}]", each["metadata"]) for number, each in enumerate(reply["ragSources"], start=1)]
    cited = [each for each in numbered if each[0] in reply["response"]]
    for label, metadata in cited or numbered:
        yield f"{label} {where(metadata)}"


def note_line(note: Mapping[str, str]) -> str:
    """Return a note about what could not be read as a line."""
    return f"{note['place']}: {note['message']}" if note["place"] else note["message"]


def where(metadata: Mapping[str, Any]) -> str:
    """Return the location of a passage: path, page, section."""
    page, section = metadata.get("pageNumber"), metadata.get("sectionTitle")
    return str(metadata.get("path", "")) + (f", page {page}" if page else "") + (f" – {section}" if section else "")


class CommandProgress:
    """Receives how far a command is; this one shows it to nobody."""

    def begin(self, what: str, total: int) -> None:
        """Begin a step of `total` items; 0 if the number is unknown."""

    def step(self, count: int = 1, name: str = "") -> None:
        """Report `count` more items as done, and the name of the last."""


@contextmanager
def progress() -> Iterator[CommandProgress]:
    """Yield a progress that draws a bar on stderr; in a pipe, nothing is drawn."""
    err = console(stderr=True)
    if not err.is_terminal:
        yield CommandProgress()
        return
    from rich import progress as bars  # slow to import

    shown = ("{task.description}", bars.BarColumn(), bars.MofNCompleteColumn(), "{task.fields[name]}")
    columns = (bars.TextColumn(each, markup=False) if isinstance(each, str) else each for each in shown)
    with bars.Progress(*columns, console=err, transient=True) as bar:

        class Bar(CommandProgress):
            def begin(self, what: str, total: int) -> None:
                for task in bar.task_ids:
                    bar.remove_task(task)
                bar.add_task(what, total=total or None, name="")

            def step(self, count: int = 1, name: str = "") -> None:
                for task in bar.task_ids:
                    bar.update(task, advance=count, name=name)

        yield Bar()


def shown(done: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print the result as JSON, or as these lines of it."""
    if as_json:
        print_json(done)
        return
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)  # a command to paste must not be broken into two lines
