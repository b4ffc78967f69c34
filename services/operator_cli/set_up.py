"""`sluice init`, `doctor`, `demo`, `config` and `version`."""

from typing import Annotated

import typer

from services.operator_cli.errors import RequestRefused, ServerAway
from services.operator_cli.options import Json, client_of
from services.operator_cli.terminal import console, print_json, print_rows, shown
from shared.version import VERSION, commit

config = typer.Typer(name="config", help="Show the settings.", no_args_is_help=True)


@config.command("show", epilog="Example: sluice config show --changed")
def show(
    context: typer.Context,
    *,
    changed: Annotated[bool, typer.Option("--changed", help="Only settings that were set somewhere.")] = False,
    as_json: Json = False,
) -> None:
    """Show every setting's value and where it comes from; secrets are ***. Exit code 1: a name is unknown.

    The environment wins over `sluice.toml`, and both win over the default. A running server is asked which of its
    settings its index wasn't built with: they aren't in force.
    """
    import msgspec

    from shared.runtime.settings_report import settings_report, without_effect
    from shared.settings import load_settings, read_given

    given = read_given()
    report = settings_report(load_settings(), given)
    if changed:
        chosen = [each for each in report.settings if each.source != "default"]
        report = msgspec.structs.replace(report, settings=chosen)
    waiting = _not_in_force(context)
    if as_json:
        print_json({**msgspec.to_builtins(report), "notInForce": waiting})
    else:
        print_rows([msgspec.to_builtins(each) for each in report.settings], ("name", "value", "source"))
        for sentence in without_effect(given):
            console(stderr=True).print(sentence, markup=False)
        if waiting is not None:
            console(stderr=True).print(waiting, markup=False, soft_wrap=True)
    raise typer.Exit(1 if report.unknown else 0)


def _not_in_force(context: typer.Context) -> str | None:
    """Return the server's sentences about settings that its index wasn't built with; None if no server answers."""
    try:
        details: dict[str, str] = client_of(context).readiness().get("details") or {}
    except (RequestRefused, ServerAway):
        return None
    return details.get("settings")


def init(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be created.")] = False,
    pair: Annotated[
        bool, typer.Option("--pair", help="Pair this log with this store, even if either was paired with another.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create missing topics and collections; report how existing ones differ. Exit code 1: one can't be used."""
    from services.operator_cli.installation import run
    from services.operator_cli.provisioning import initialise, lines

    parts = run(lambda settings, _: initialise(settings, dry_run=dry_run, pair=pair))
    shown({"dryRun": dry_run, "parts": parts}, lines(parts, dry_run=dry_run), as_json=as_json)
    raise typer.Exit(1 if any(part.state == "unfit" for part in parts) else 0)


def doctor(as_json: Json = False) -> None:
    """Check everything that Sluice needs here, and say how to fix what is missing."""
    from services.operator_cli.doctor import Check, examine

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


def demo() -> None:
    """Load, search, ask, edit and delete sample documents in a temporary folder."""
    from services.operator_cli.demo import run

    run()


def version(as_json: Json = False) -> None:
    """Print the version, and the commit from which it was made, if that is known."""
    made_from = commit()
    line = f"sluice {VERSION}{f' ({made_from[:12]})' if made_from else ''}"
    shown({"version": VERSION, "commit": made_from or None}, [line], as_json=as_json)
