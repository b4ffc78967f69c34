"""`sluice lag`, `groups` and `replay`. `groups` has the options and columns of Kafka's kafka-consumer-groups.sh."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.operator_cli.errors import Misuse
from services.operator_cli.options import DryRun, Json, Manner, client_of, with_options
from services.operator_cli.terminal import print_found, print_json, print_rows

if TYPE_CHECKING:
    from shared.log.groups import ResetTo


def lag(context: typer.Context, *, as_json: Json = False) -> None:
    """Show how many records each stage has yet to read, and since when. Works while Sluice is stopped.

    With --url or SLUICE_URL, that server is asked, which needs the role operator.
    """
    import msgspec

    from services.operator_cli.installation import on_log
    from shared.log.groups import lags

    if context.obj or os.environ.get("SLUICE_URL"):
        found = json.loads(client_of(context).content("ops", "lag"))
    else:
        found = msgspec.to_builtins(on_log(lags))
    names = _titles("group", "topic", "lag", "members", "oldestUnread")
    rows = [{names[name]: value for name, value in each.items()} for each in found]
    print_found(found, rows, tuple(names.values()), right=_NUMBERS, as_json=as_json)


groups = typer.Typer(name="groups", help="Describe and reset consumer groups.", no_args_is_help=True)

_NUMBERS: Final = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "NEW-OFFSET", "MEMBERS")


def _titles(*names: str) -> dict[str, str]:
    """Return the columns as Kafka's tool names them."""
    return {name: re.sub(r"([A-Z])", r"-\1", name).upper() for name in names}


@groups.command("describe", epilog="Example: sluice groups describe --group ingest")
def describe(
    *,
    group: Annotated[str | None, typer.Option(help="Only this group; all of them by default.")] = None,
    as_json: Json = False,
) -> None:
    """Show offsets, lag and members of each partition."""
    from services.operator_cli.installation import on_log
    from shared.log.groups import descriptions

    offsets = ("currentOffset", "logEndOffset", "lag", "consumerId", "host", "clientId")
    _print(on_log(lambda log: descriptions(log, group)), *offsets, as_json=as_json)


@dataclass(frozen=True, kw_only=True)
class ResetTarget:
    """Where a group goes: exactly one of these."""

    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record.")] = False
    to_latest: Annotated[bool, typer.Option("--to-latest", help="After the newest record.")] = False
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None
    to_datetime: Annotated[str | None, typer.Option(help="To a time, such as 2026-11-20T18:00:00Z.")] = None
    shift_by: Annotated[int | None, typer.Option(help="By this number of records; negative numbers move back.")] = None

    def chosen(self) -> "ResetTo":
        """Return the target. Raises Misuse unless exactly one option names it."""
        from services.operator_cli.installation import parsed
        from shared.log.groups import ResetKind, ResetTo
        from shared.times import parse_iso

        options: dict[ResetKind, int | None] = {
            "earliest": 0 if self.to_earliest else None,
            "latest": 0 if self.to_latest else None,
            "offset": self.to_offset,
            "datetime": None if self.to_datetime is None else parsed(parse_iso, self.to_datetime, "--to-datetime"),
            "shift-by": self.shift_by,
        }
        given = [ResetTo(kind, value) for kind, value in options.items() if value is not None]
        if len(given) != 1:
            raise Misuse("give one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by")
        return given[0]


@groups.command("reset", epilog="Example: sluice groups reset --group ingest --to-earliest --dry-run")
@with_options
def reset_offsets(
    *,
    group: Annotated[str, typer.Option(help="Name of the group, such as ingest.")],
    target: ResetTarget,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this partition; repeatable.")] = None,
    manner: Manner,
) -> None:
    """Move a group to other offsets. This is refused while the group has members.

    Records read again change no submission that has ended. Skipped records stay out of the index until a replay.
    Exit code 1: it was refused.
    """
    from services.operator_cli.installation import on_log, planned_reset, reset

    to = target.chosen()
    plan = on_log(lambda log: planned_reset(log, group, to, partition or ()))
    if not manner.dry_run:
        otherwise = f"add --yes to reset {group} without being asked, or --dry-run to see where it would go"
        manner.confirm(f"Reset {group} in {len(plan)} partitions?", otherwise=otherwise)
        on_log(lambda log: reset(log, plan))
    _print(plan, "newOffset", as_json=manner.as_json)


def _print(found: Sequence[Any], *more: str, as_json: bool) -> None:
    """Print a row of each partition: which it is, and `more`."""
    import msgspec

    columns = _titles("group", "topic", "partition", *more)
    rows = [msgspec.to_builtins(each) for each in found]
    shown = [{title: "-" if row[name] is None else row[name] for name, title in columns.items()} for row in rows]
    print_found(found, shown, tuple(columns.values()), right=_NUMBERS, as_json=as_json)


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
    from services.operator_cli.installation import on_log, parsed, replay_on
    from shared.replay import ReplayBound, ReplayOrder

    order = ReplayOrder(
        topic=topic,
        since=parsed(ReplayBound.of, since, "--from"),
        until=parsed(ReplayBound.of, until, "--until"),
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
