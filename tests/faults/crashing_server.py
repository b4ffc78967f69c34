"""`sluice serve` with crash points: python -m tests.faults.crashing_server FOLDER, FOLDER being the trap's.

Settings are taken from the environment, as the product does.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from services.operator_cli.serve import serve_here
from shared.embedder import open as embedders
from shared.runtime import resources
from tests.faults.crash_points import guard_blobs, guard_embedder, guard_log, guard_store
from tests.faults.trap import Trap


def main(folder: Path) -> int:
    """Return the exit code of a server that didn't have to die."""
    trap = Trap(folder)
    for module, opener, guard in (
        (resources, "open_log", guard_log),
        (resources, "open_store", guard_store),
        (resources, "open_blobs", guard_blobs),
        (embedders, "open_embedder", guard_embedder),
    ):
        setattr(module, opener, _then(getattr(module, opener), guard, trap))
    resources.CHECKPOINT_S = 0.2  # a story is over before the product writes one
    return serve_here()


def _then(open_: Callable[..., Any], guard: Callable[[Any, Trap], Any], trap: Trap) -> Callable[..., Any]:
    return lambda *arguments, **named: guard(open_(*arguments, **named), trap)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
