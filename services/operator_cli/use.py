"""`sluice search`, `ask`, `open`, `mcp` and `eval`: the commands that ask a running server."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.operator_cli.options import Json, Source, Tags, TopK, client_of
from services.operator_cli.terminal import console, hit_lines, print_json, source_lines


def search(
    context: typer.Context,
    query: str,
    *,
    top_k: TopK = 5,
    source: Source = None,
    tags: Tags = None,
    explain: Annotated[bool, typer.Option(help="With --json: include each hit's scores and ranks.")] = False,
    as_json: Json = False,
) -> None:
    """Search for passages."""
    wordy = explain or not as_json
    reply = client_of(context).search(
        query, top_k=top_k, filters={"source": source, "tags": tags or None}, explain=wordy
    )
    if as_json:
        print_json(reply)
        return
    out = console()
    if not reply["results"]:
        out.print("nothing found")
    elif all(hit["score"] < reply.get("threshold", 0.0) for hit in reply["results"]):
        out.print("nothing relevant was found; an answer would use none of these nearest passages:")
    for line in hit_lines(reply["results"]):
        out.print(line)


def ask(
    context: typer.Context,
    question: str,
    *,
    top_k: TopK = 5,
    source: Source = None,
    tags: Tags = None,
    as_json: Json = False,
) -> None:
    """Ask a question; the answer cites its sources."""
    reply = client_of(context).ask(question, top_k=top_k, filters={"source": source, "tags": tags or None})
    if as_json:
        print_json(reply)
        return
    out = console()
    out.print(reply["response"], markup=False)
    for line in source_lines(reply):
        out.print(f"  {line}", markup=False, style="dim")


def open_page(
    context: typer.Context,
    named: Annotated[
        str | None, typer.Argument(metavar="[DOCUMENT]", help="Open this document: its id, path or address.")
    ] = None,
) -> None:
    """Open the console in a browser, and print its address."""
    import webbrowser

    client = client_of(context)
    if named is None:
        client.get()  # raises with a reason if no Sluice answers
        address = f"{client.url}/"
    else:
        address = f"{client.url}/documents/{client.found(named)['documentId']}"
    print(address)
    webbrowser.open(address)


def mcp(context: typer.Context) -> None:
    """Connect an agent on this machine: the Model Context Protocol over stdin and stdout."""
    from services.operator_cli.mcp import pipe

    pipe(client_of(context), sys.stdin.buffer, sys.stdout.buffer)


Questions = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="JSONL: question, documents (paths or ids), answer.")
]
Judge = Annotated[bool, typer.Option("--judge", help="Let the server's language model judge answers.")]


def evaluate(context: typer.Context, file: Questions, *, judge: Judge = False, as_json: Json = False) -> None:
    """Score the server's results and answers: hit, MRR, nDCG, citations. With --judge, score the answers' text, too."""
    from services.operator_cli.evaluate import evaluated, means, questions

    asked = questions(file)
    scores = []
    for each in evaluated(client_of(context), asked, judged=judge):
        scores.append(each)
        if as_json:
            print_json(each)
    if as_json:
        print_json({"questions": len(scores), **means(scores)})
        return
    out = console()
    out.print(f"{len(scores)} questions")
    for name, value in means(scores).items():
        out.print(f"  {name:13}{value:.3f}")
