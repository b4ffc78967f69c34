"""Finds files that have changed since they were loaded. It polls, which works on every file system."""

from collections.abc import Mapping, Sequence

from services.operator_cli.local_files import FoundFile, Stamp


class Watched:
    """The states of files when they were loaded and at the last look, by name."""

    def __init__(self, loaded: Mapping[str, Stamp]) -> None:
        self._loaded = dict(loaded)
        self._seen = dict(loaded)

    def look(self, now: Mapping[str, Stamp]) -> tuple[list[str], list[str]]:
        """Return the sorted names of files to load, and of deleted files.

        A changed file is loaded once two looks in a row find the same state. Before, it may still be being written.
        """
        before, self._seen = self._seen, dict(now)
        changed = [name for name, stamp in now.items() if stamp != self._loaded.get(name) and stamp == before.get(name)]
        return sorted(changed), sorted(self._loaded.keys() - now.keys())

    def done(self, name: str) -> None:
        """Note that the file was loaded in the state last seen, or that its document was removed."""
        if name in self._seen:
            self._loaded[name] = self._seen[name]
        else:
            self._loaded.pop(name, None)


def stamps(files: Sequence[FoundFile]) -> dict[str, Stamp]:
    """Return a stamp of each file's state; files deleted meanwhile are left out."""
    seen = ((found.name, found.stamp()) for found in files)
    return {name: stamp for name, stamp in seen if stamp is not None}
