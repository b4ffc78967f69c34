"""Which store a setting means."""

from pathlib import Path

from shared.settings import ConfigurationError
from shared.store import Store
from shared.store.edge import EdgeStore


def open_store(setting: str, data: Path) -> Store:
    """Return the store, not started: `edge:` in the data folder, or a server at `qdrant+http://host:6333`.

    Raises:
        ConfigurationError: the setting is neither.
    """
    if setting == "edge:":
        return EdgeStore(data / "store")
    scheme, _, rest = setting.partition("://")
    if scheme in {"qdrant+http", "qdrant+https"} and rest:
        from shared.store.qdrant import QdrantStore  # noqa: PLC0415 - half a second that the other size needn't spend

        return QdrantStore(setting.removeprefix("qdrant+"))
    raise ConfigurationError(f"SLUICE_STORE={setting} must be edge: or qdrant+http://host:6333")
