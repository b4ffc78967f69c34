"""`sluice mcp`."""

import sys

import typer

from services.operator_cli.options import client_of


def mcp(context: typer.Context) -> None:
    """Connect an agent on this machine: the Model Context Protocol over stdin and stdout."""
    from services.operator_cli.actions.mcp import pipe

    pipe(client_of(context), sys.stdin.buffer, sys.stdout.buffer)
