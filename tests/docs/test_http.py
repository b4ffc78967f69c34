"""The page of the doors is true: its lines work when pasted, in their order, and say what it says."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.readme import ROOT, SHOWN_URL
from tests.e2e.harness import served
from tests.selection import CI_ONLY

PAGE = (ROOT / "docs/http.md").read_text(encoding="utf-8")


@CI_ONLY
@pytest.mark.slow
def test_the_curl_lines_work_when_pasted(tmp_path: Path) -> None:
    with served(tmp_path / "data", LOG_LEVEL="error") as server:
        replies: list[dict[str, Any]] = []
        for line in re.findall(r"^\$ (curl .*)$", PAGE, re.MULTILINE):
            if replies:  # the page shows a made-up ETag
                line = line.replace("$ID", replies[0]["documentId"]).replace('"1790000000000"', "*")  # noqa: PLW2901
            command = shlex.split(line.replace(SHOWN_URL, server.url))
            ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
            replies.append(json.loads(ran.stdout))

    ingest, text, upload, raw, batch, base, patched = replies
    assert [each["status"] for each in (ingest, text, upload, raw)] == ["created"] * 4
    assert [(each["status"], each["index"]) for each in batch["items"]] == [("created", 0), ("failed", 1)]
    assert batch["items"][1].items() >= {"error": "text: is required", "code": "INVALID"}.items()
    assert (base["status"], base["title"]) == ("pending", "Licence")
    assert (patched["status"], patched["documentId"]) == ("updated", ingest["documentId"])
