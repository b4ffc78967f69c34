"""The golden data folders of earlier releases, and the migrations that each needs."""

import tarfile
from pathlib import Path
from typing import Final, NamedTuple


class GoldenFolder(NamedTuple):
    """An archive that `make_folder.py` made, named for the commit whose code ran."""

    commit: str
    due: tuple[int, ...]  # numbers of the migrations that it needs
    chunks: int = 2  # of both.md; the first release knew no `chunkSize`
    points: int = 6


FOLDERS: Final = (
    GoldenFolder("76a351b", (2, 3, 4, 5, 6, 7), chunks=1, points=4),  # the first that started
    GoldenFolder("0d4b56e", (2, 3, 4, 5, 6, 7)),
    GoldenFolder("c89ed43", (2, 3, 4, 6, 7)),  # log and index are paired
    GoldenFolder("28fcdbb", (2, 3, 4, 7)),  # with a registry
    GoldenFolder(
        "d4c4e46", (2, 3, 4)
    ),  # with the log's copy of it; it had the tables of migration 2, but not its number
    GoldenFolder("1f013d3", (2, 3, 4)),  # also with those of migration 3
)
OLDEST: Final = FOLDERS[1]  # that has all that `make_folder.py` sends


def unpacked(folder: GoldenFolder, target: Path) -> Path:
    """Return the data folder, unpacked into `target`."""
    with tarfile.open(Path(__file__).with_name(f"{folder.commit}.tar.xz")) as archive:
        archive.extractall(target, filter="data")
    return target / "data"
