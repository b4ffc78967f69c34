"""Opens the blob store that the setting names."""

from pathlib import Path

from shared.blobs import Blobs
from shared.blobs.file import FileBlobs
from shared.settings import ConfigurationError


def open_blobs(setting: str, data: Path) -> Blobs:
    """Return the store of `file:` (the folder `blobs` in `data`), `file:/a/folder/of/its/own`, or `s3://bucket/prefix`.

    Raises:
        ConfigurationError: the setting is none of them; the sentence names SLUICE_BLOBS and the value.
    """
    scheme, separator, path = setting.partition(":")
    if scheme == "s3" and separator:
        from shared.blobs.s3 import S3Blobs  # imported here, so that `file:` doesn't load the S3 client
        from shared.blobs.s3_address import s3_address

        return S3Blobs(s3_address(setting))
    if scheme != "file" or not separator:
        raise ConfigurationError(f"SLUICE_BLOBS={setting} must be file:, file:/folder or s3://bucket/prefix")
    if not path:
        return FileBlobs(data / "blobs")
    folder = Path(path.removeprefix("//"))
    if not folder.is_absolute():
        raise ConfigurationError(f"SLUICE_BLOBS={setting} must give an absolute path, as in file:/folder")
    return FileBlobs(folder)
