"""`sluice eval`."""

from pathlib import Path
from typing import Annotated

import typer

from services.operator_cli.options import Json, client_of, fail

Questions = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="JSONL: question, documents (paths or ids), answer.")
]
Judge = Annotated[bool, typer.Option("--judge", help="Let the server's language model judge answers.")]


def evaluate(context: typer.Context, file: Questions, *, judge: Judge = False, as_json: Json = False) -> None:
    """Score the server's results and answers: hit, MRR, nDCG, citations. With --judge, score the answers' text, too."""
    from services.operator_cli.actions.evaluate import EvalFileError, evaluated, means, questions
    from services.operator_cli.terminal import console, print_json

    try:
        asked = questions(file)
    except EvalFileError as error:
        fail(str(error), 1)
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
