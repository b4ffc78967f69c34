"""Which settings are in force. An index keeps the model and the chunk sizes that it was built with.

A setting that differs doesn't stop the start, nor does an index of another format, chunker or tokenizer, which answers
as it is. The banner and readiness name them, with the command that builds an index with them (ADR 0013).
"""

from typing import Final

from shared.embedder import Embedder, Model
from shared.embedder.open import EmbedderPool
from shared.errors import Unavailable
from shared.settings import ConfigurationError, Settings
from shared.state.generations import FORMAT, Registered, Registry
from shared.store.bm25 import current_bm25

COMMAND: Final = "sluice reindex start"


async def model_in_force(registered: Registered, settings: Settings, embedders: EmbedderPool) -> tuple[Embedder, str]:
    """Return the model that the index was built with, started, and its address.

    SLUICE_EMBEDDER is asked first, because a model may have moved to another server.

    Raises:
        Unavailable: no address gives the model now.
    """
    wanted = registered.generation.model
    found: list[str] = []
    for address in dict.fromkeys((settings.embedder, registered.embedder)):
        try:
            embedder = await embedders.get(address)
        except (ConfigurationError, Unavailable) as error:
            found.append(str(error))
            continue
        if embedder.model == wanted:
            return embedder, address
        found.append(f"{address} has {_named(embedder.model)}")
    raise Unavailable(
        f"the index was built with {_named(wanted)}, which can't be reached: {'; '.join(found)}. Start its server, or "
        "set SLUICE_EMBEDDER to where the model is; another model needs an index of its own: docs/reindex.md",
        "model_away",
    )


def not_in_force(settings: Settings, registry: Registry, chunker: str | None) -> tuple[str, ...]:
    """Return a sentence for each setting that is set and differs from the serving index, or whose code differs.

    `chunker` is this process's; None: it has none.
    """
    generation = registry.current.generation
    differing = [
        f"the index has {name} {built}, and this release has {ours}: it goes on as it was built"
        for name, built, ours in (
            ("format", registry.format, FORMAT),
            ("chunker", generation.chunker, chunker or generation.chunker),
            ("tokenizer", generation.bm25, current_bm25().fingerprint),
        )
        if built != ours
    ]
    differing += [
        f"SLUICE_{name.upper()}={getattr(settings, name)} is not in force, the index was built with {built}"
        for name, built in (
            ("embedder", registry.current.embedder),
            ("chunk_unit", generation.chunk_unit),
            ("chunk_size", generation.chunk_size),
            ("chunk_overlap", generation.chunk_overlap),
        )
        if name in settings.model_fields_set and getattr(settings, name) != built
    ]
    return (*differing, f"build an index with it: {COMMAND}") if differing else ()


def _named(model: Model) -> str:
    return f"{model.name} (digest {model.digest[:12]})"
