"""Opens the store that the settings name."""

from shared.settings import Settings
from shared.store import Store
from shared.store.edge import EdgeStore
from shared.store.qdrant.address import qdrant_address


def open_store(settings: Settings, *, attach: bool = False) -> Store:
    """Return the store, not started: `edge:` in the data folder, or a server at `qdrant+http://host:6333`.

    With `attach`, an embedded store is opened through the process that owns it.

    Raises:
        ConfigurationError: SLUICE_STORE is neither, or an option of it is wrong.
    """
    if settings.embeds_store:
        return EdgeStore(settings.data / "store", attach=attach)
    from shared.store.qdrant.store import QdrantStore  # takes half a second, which a standalone server saves

    address = qdrant_address(settings.store)
    return QdrantStore(address, settings.qdrant_api_key.get_secret_value() or None, settings.qdrant_prefix)
