"""Which files have changed since they were loaded, seen by looking again and again: works on every file system."""

from collections.abc import Mapping, Sequence

from services.operator_cli.local_files import FoundFile, Stamp


class Watched:
    """Files by name, as they were when they were loaded and when they were last looked at."""

    def __init__(self, loaded: Mapping[str, Stamp]) -> None:
        self._loaded = dict(loaded)
        self._seen = dict(loaded)

    def look(self, now: Mapping[str, Stamp]) -> tuple[list[str], list[str]]:
        """Return the names of the files to load, and of those that are gone, each in order.

        A file is to be loaded when two looks in a row saw it as it is: until then somebody may still be writing it.
        """
        before, self._seen = self._seen, dict(now)
        changed = [name for name, stamp in now.items() if stamp != self._loaded.get(name) and stamp == before.get(name)]
        return sorted(changed), sorted(self._loaded.keys() - now.keys())

    def done(self, name: str) -> None:
        """Note that the file was loaded as it was last seen, or its document removed."""
        if name in self._seen:
            self._loaded[name] = self._seen[name]
        else:
            self._loaded.pop(name, None)


def stamps(files: Sequence[FoundFile]) -> dict[str, Stamp]:
    """Return what tells one state of each file from another; one that has just gone is left out."""
    seen = ((found.name, found.stamp()) for found in files)
    return {name: stamp for name, stamp in seen if stamp is not None}
