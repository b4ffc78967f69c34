"""`sluice config show`: the settings in force."""

from typing import Annotated

import typer

from services.operator_cli.examples import example
from services.operator_cli.options import Json, client_of

config = typer.Typer(name="config", help="Show the settings.", no_args_is_help=True)


@config.command("show", epilog=example("config_show"))
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

    from services.operator_cli.terminal import console, print_json, print_rows
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
    from services.operator_cli.client import RequestRefused, ServerAway

    try:
        details: dict[str, str] = client_of(context).readiness().get("details") or {}
    except (RequestRefused, ServerAway):
        return None
    return details.get("settings")
