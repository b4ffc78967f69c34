"""A folder, by the command, into a Sluice of its own: what is there already is only compared."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Server, served

FILES = 120
HANG_S = 300.0  # a hang guard

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def ingest(server: Server, folder: Path, *options: str) -> tuple[dict[str, Any], float]:
    """Return the command's counts, and how many texts were embedded for it."""
    before = server.metric("sluice_embedded_texts_total")
    command = [sys.executable, "-m", "services.operator_cli", "--url", server.url, "ingest", str(folder)]
    ran = subprocess.run(
        [*command, "--source", "folder", "--json", *options], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    *items, total = map(json.loads, ran.stdout.splitlines())
    assert Counter(each["status"] for each in items) == total["counts"]
    return total["counts"], server.metric("sluice_embedded_texts_total") - before


def listed(server: Server) -> set[str]:
    with server.client() as client:
        items = client.get("/rag/documents", params={"source": "folder", "limit": 1000}).json()["items"]
    return {each["path"] for each in items}


@pytest.mark.feature(64, 260)
def test_a_folder_again_and_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for number in range(FILES):
        file = folder / f"{number % 7}" / f"{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Lantern {number}\n\nKeeper {number} lights lantern number {number} on the pier at dusk.")

    with served(tmp_path / "data") as server:
        assert ingest(server, folder)[0] == {"created": FILES}
        assert ingest(server, folder) == ({"unchanged": FILES}, 0)
        assert len(listed(server)) == FILES

        (folder / "0" / "7.md").write_text("# Lantern 7\n\nNobody lights it any more.")
        (folder / "1" / "8.md").unlink()
        changes, embedded = ingest(server, folder, "--delete-missing", "--yes")

        assert changes == {"deleted": 1, "unchanged": FILES - 2, "updated": 1}
        assert embedded <= 1
        assert listed(server) == {each.relative_to(folder).as_posix() for each in folder.rglob("*.md")}
        with server.client() as client:
            found = client.post("/rag/search", json={"query": "lantern 8 keeper 8", "topK": 200}).json()["results"]
        assert not [each for each in found if each["metadata"]["path"] == "1/8.md"]

        folder.rename(tmp_path / "unmounted")
        folder.mkdir()  # a mount point without its share
        with pytest.raises(subprocess.CalledProcessError) as refused:
            ingest(server, folder, "--delete-missing", "--yes")

        assert "may not be mounted, so nothing was removed" in refused.value.stderr
        assert len(listed(server)) == FILES - 1
