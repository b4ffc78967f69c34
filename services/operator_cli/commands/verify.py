"""`sluice verify`."""

from typing import Annotated

import typer

from services.operator_cli.options import Json, fail


def verify(
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Repair the differences that were found.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --repair: only report what would be done.")] = False,
    embed: Annotated[str, typer.Option(help="Number of random chunks to embed again and compare, or all.")] = "32",
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for documents in progress.")] = 30.0,
    generation: Annotated[str | None, typer.Option(help="Compare this generation instead of the serving one.")] = None,
    as_json: Json = False,
) -> None:
    """Compare the whole index with the log. Exit code 1: something differs; 2: not everything could be checked."""
    from services.operator_cli.terminal import console, print_json
    from services.operator_cli.verify.command import as_dict, lines, verify_here

    if dry_run and not repair:
        fail("--dry-run reports what --repair would do: give both", 2)
    if generation is not None and repair:
        fail("--repair repairs the serving generation: leave --generation out", 2)
    if embed != "all" and not (embed.isascii() and embed.isdigit()):
        fail(f"--embed {embed} must be a number, or all", 2)
    sample = None if embed == "all" else int(embed)
    outcome = verify_here(repair=repair, dry_run=dry_run, sample=sample, patience_s=patience, generation=generation)
    if as_json:
        print_json(as_dict(outcome))
    else:
        for line in lines(outcome):
            console().print(line, markup=False, soft_wrap=True)
    raise typer.Exit(outcome.exit_code)
