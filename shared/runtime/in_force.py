"""Which settings are in force. An index keeps the model and the chunk sizes that it was built with.

A setting that differs doesn't stop the start. The banner, readiness and `sluice doctor` name it, with the command that
builds an index with it (ADR 0013).
"""

from typing import Final

import structlog

from shared.embedder import Embedder, Model
from shared.embedder.pool import EmbedderPool
from shared.errors import Unavailable
from shared.settings import ConfigurationError, Settings
from shared.state.generations import Registered
from shared.state.index import Generation

log = structlog.get_logger(__name__)

COMMAND: Final = "sluice reindex start"
_BUILT_IN: Final = {"all-MiniLM-L6-v2": "minilm:"}  # addresses of models that earlier releases didn't write down


async def model_in_force(registered: Registered, settings: Settings, embedders: EmbedderPool) -> tuple[Embedder, str]:
    """Return the model that the index was built with, started, and its address.

    SLUICE_EMBEDDER is asked first, because a model may have moved to another server.

    Raises:
        Unavailable: no address gives the model now.
    """
    wanted = registered.generation.model
    addresses = [settings.embedder, registered.embedder, _BUILT_IN.get(wanted.name, "")]
    found: list[str] = []
    for address in dict.fromkeys(filter(None, addresses)):
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


def settings_not_in_force(settings: Settings, generation: Generation, address: str) -> tuple[str, ...]:
    """Return a sentence for each setting that is set and differs from the serving index; `address` is its model's."""
    differing = [
        f"SLUICE_{name.upper()}={getattr(settings, name)} is not in force, the index was built with {built}"
        for name, built in (
            ("embedder", address),
            ("chunk_unit", generation.chunk_unit),
            ("chunk_size", generation.chunk_size),
            ("chunk_overlap", generation.chunk_overlap),
        )
        if name in settings.model_fields_set and getattr(settings, name) != built
    ]
    return (*differing, f"build an index with it: {COMMAND}") if differing else ()


def refuse_newer_chunker(generation: Generation, chunker: str) -> None:
    """Refuse an index whose chunks were cut by a newer release.

    Raises:
        ConfigurationError: this release would cut documents in another way.
    """
    if generation.chunker.isdigit() and chunker.isdigit() and int(generation.chunker) > int(chunker):
        raise ConfigurationError(
            f"a newer release of Sluice has built this index (its chunker is {generation.chunker}, this release has "
            f"{chunker}): start that release, or choose another SLUICE_DATA"
        )
    if generation.chunker != chunker:
        log.warning("older_chunker", index=generation.chunker, ours=chunker)


def _named(model: Model) -> str:
    return f"{model.name} (digest {model.digest[:12]})"
