"""`sluice COMMAND` with upkeep thousands of times as often: python -m tests.faults.hasty_upkeep COMMAND [ARGUMENT…].

Between two kills lie seconds, so what happens hourly, daily or weekly happens each second here: sweep, compaction,
collection of blobs, rewrites of the store, checkpoints, settling of letters.
"""

import asyncio
import os
from typing import Any, Final

from services.embed_worker import app as embed_worker
from services.embed_worker import blob_collector
from services.operator_cli.main import main
from services.query_api import process as query_api
from shared.log.sqlite import SqliteLog, compaction
from shared.runtime import resources
from shared.store import edge
from tests.faults.hasty_store import set_default

EVERY_S: Final = 0.5
# Longer than a worker takes between storing a blob and the record that names it, a restart included.
GRACE_MS: Final = 20_000
_CHILD: Final = "shared.store.edge_server"


def hasten() -> None:
    """Have this process do its upkeep each half second, and the store's child, too."""
    os.environ["SLUICE_COMPACTION_LAG"] = "0"
    embed_worker.SWEEP_EVERY_S = 2 * EVERY_S  # it reads every point
    embed_worker.SWEEP_SHARE = 0.5
    embed_worker.SHORTEN_EVERY_S = EVERY_S
    vars(blob_collector)["GRACE_MS"] = GRACE_MS
    vars(blob_collector)["DAY"] = int(1000 * EVERY_S)
    vars(compaction)["TOMBSTONE_MS"] = GRACE_MS
    vars(compaction)["FULL_PASS_MS"] = 2 * GRACE_MS
    resources.CHECKPOINT_S = EVERY_S
    embed_worker.COLLECT_EVERY_S = EVERY_S
    query_api.SETTLE_EVERY_S = EVERY_S
    set_default(SqliteLog.__init__, "upkeep_every_s", EVERY_S)
    set_default(edge.EdgeStore.__init__, "upkeep_every_s", EVERY_S)
    start = asyncio.create_subprocess_exec

    def started(*command: Any, **options: Any) -> Any:
        return start(*("tests.faults.hasty_store" if each == _CHILD else each for each in command), **options)

    vars(asyncio)["create_subprocess_exec"] = started


if __name__ == "__main__":
    hasten()
    main()
