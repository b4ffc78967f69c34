"""`sluice replay`."""

from typing import Annotated

import typer

from services.operator_cli.options import DryRun, Json


def replay(
    *,
    topic: Annotated[str, typer.Option(help="documents.submitted, documents.extracted or chunks.<generation>.")],
    since: Annotated[str, typer.Option("--from", help="beginning, an offset, or a time such as 2026-11-20T18:00:00Z.")],
    until: Annotated[str, typer.Option(help="Where to stop: end, an offset, or a time; exclusive.")] = "end",
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    key: Annotated[str | None, typer.Option(help="Only records with this key, or of this document.")] = None,
    source: Annotated[str | None, typer.Option("--source", "-s", help="Only documents of this source.")] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Process records again while Sluice runs. Ended submissions are passed over; missing parts are made again.

    Every record keeps the position at which it first entered the log, so nothing old replaces anything new. Exit code
    1: some records couldn't be read and were left out.
    """
    from services.operator_cli.actions.log_tools import bound_of, on_log, replay_on
    from services.operator_cli.terminal import print_json, print_rows
    from services.query_api.ops.replay import ReplayOrder

    order = ReplayOrder(
        topic=topic,
        since=bound_of(since, "--from"),
        until=bound_of(until, "--until"),
        partition=partition,
        key=key,
        source=source,
    )
    done = on_log(lambda log: replay_on(log, order, dry_run=dry_run))
    if as_json:
        print_json(done)
    else:
        columns = ("TOPIC", "PARTITION", "FROM", "UNTIL", "READ", "SENT", "UNREADABLE")
        rows = [
            dict(zip(columns, (topic, p.partition, p.since, p.until, p.read, p.sent, p.unreadable), strict=True))
            for p in done.partitions
        ]
        print_rows(rows, columns, right=columns[1:])
        print(f"{done.sent} records {'would be sent' if dry_run else 'sent'} again")
    raise typer.Exit(1 if done.unreadable else 0)
