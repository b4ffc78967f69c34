"""The store's child, which rewrites much sooner: python -m tests.faults.hasty_store, with the child's own arguments."""

import runpy
from collections.abc import Callable
from typing import Any, Final

from shared.store import collection_compaction

SMALL: Final = 20  # dead points; of the product: thousands
INDEXED_FROM: Final = 40  # vectors; of the product: twenty thousand
PATIENCE_S: Final = 0.5


def set_default(function: Callable[..., Any], name: str, value: object) -> None:
    """Set the default of a keyword."""
    defaults = function.__kwdefaults__
    assert defaults is not None, function
    assert name in defaults, function
    defaults[name] = value


if __name__ == "__main__":
    vars(collection_compaction)["PATIENCE_S"] = PATIENCE_S
    set_default(collection_compaction.Rewriter.__init__, "small", SMALL)
    set_default(collection_compaction.Rewriter.__init__, "indexed_from", INDEXED_FROM)
    runpy.run_module("shared.store.edge_server", run_name="__main__")
