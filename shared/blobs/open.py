"""From the setting to the blob store."""

from pathlib import Path

from shared.blobs import Blobs
from shared.blobs.file import FileBlobs
from shared.settings import ConfigurationError


def open_blobs(setting: str, data: Path) -> Blobs:
    """Return the store of `file:`, the folder `blobs` in `data`, or of `file:/a/folder/of/its/own`.

    Raises:
        ConfigurationError: the setting is neither; the sentence names SLUICE_BLOBS and the value.
    """
    scheme, separator, path = setting.partition(":")
    if scheme != "file" or not separator:
        raise ConfigurationError(f"SLUICE_BLOBS={setting} must be file: or file:/folder")
    if not path:
        return FileBlobs(data / "blobs")
    folder = Path(path.removeprefix("//"))
    if not folder.is_absolute():
        raise ConfigurationError(f"SLUICE_BLOBS={setting} must give the folder's whole path, as in file:/folder")
    return FileBlobs(folder)
