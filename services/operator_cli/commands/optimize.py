"""`sluice optimize`."""

from services.operator_cli.options import DryRun, Json


def optimize(*, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Free disk space now: compact the log, rewrite the index without deleted points, and collect blobs.

    The same happens by itself, at intervals.

    Exit code 2: a part is away, or a backup is being made.
    """
    from services.operator_cli.actions.keeping import optimize_here, shown
    from services.operator_cli.actions.optimize import optimized_lines

    shown(optimize_here(dry_run=dry_run), optimized_lines, as_json=as_json)
