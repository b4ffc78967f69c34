"""The n8n node: its own tests by Node's runner, and each operation against the real API."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.readme import ROOT
from tests.integration.api import HERONS
from tests.integration.clients.site import Site
from tests.selection import CI_ONLY
from tests.servers.cache import Recipe, Say, run

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

SOURCE = ROOT / "deploy/n8n/node"
FILES = sorted(
    file
    for file in SOURCE.rglob("*")
    if file.is_file() and not {"node_modules", "dist"} & {*file.relative_to(SOURCE).parts}
)
SCRIPT = """
const { Sluice } = require('./dist/nodes/Sluice/Sluice.node.js');
const { executing } = require('./dist/test/executing.js');
const [url, key, calls] = [process.argv[2], process.argv[3], JSON.parse(process.argv[4])];
(async () => {
  const told = [];
  for (const call of calls) {
    const parameters = Object.fromEntries(
      Object.entries(call).map(([name, value]) => [name, value === '$id' ? told[0][0].documentId : value]));
    const files = { data: Buffer.from('# Ferry\\n\\nThe ferry leaves at nine.') };
    const items = [{ json: {}, binary: { data: { fileName: 'ferry.md', mimeType: 'text/markdown' } } }];
    const [found] = await new Sluice().execute.call(executing(url, key, parameters, { items, files, goOn: true }));
    told.push(found.map((item) => item.json));
  }
  console.log(JSON.stringify(told));
})();
"""


def _build(folder: Path, _: Say) -> None:
    for file in FILES:
        target = folder / file.relative_to(SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder], timeout=120)
    run(["npm", "run", "build", "--prefix", folder], timeout=120)


@pytest.fixture(scope="module")
def node() -> Path:
    """The built node; skipped where there is no Node, or no way to install its compiler."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("no n8n node: node and npm are not here")
    try:
        return Recipe("n8n-node", [file.read_bytes() for file in FILES], _build).made()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"no n8n node: npm can't build it: {error}")


@CI_ONLY
async def test_its_own_tests_pass(node: Path) -> None:
    await asyncio.to_thread(run, ["node", "--test", node / "dist/test/sluice.test.js"], timeout=120)


@CI_ONLY
async def test_each_operation_does_what_it_says(node: Path, quoting: Site) -> None:
    put = {"resource": "document", "source": "n8n", "operation": "put"}
    document = {"resource": "document", "documentId": "$id"}
    year = {"metadata": '{"year": 1900}'}
    calls: list[dict[str, Any]] = [
        {**put, "path": "herons.md", "text": HERONS, "fields": {"tags": "birds"}},
        {**put, "path": "ferry.md", "from": "binary", "fields": year},
        {**document, "operation": "wait"},
        {**document, "operation": "get"},
        {"resource": "search", "query": "When does the ferry leave?", "topK": 1, "filters": '{"year": 1900}'},
        {"resource": "ask", "question": "When does the ferry leave?", "filters": {"source": "n8n"}},
        {**document, "operation": "delete"},
        {**put, "path": "empty.md", "text": " "},
    ]
    script = node / "each.cjs"
    script.write_text(SCRIPT, encoding="utf-8")

    told = json.loads(
        await asyncio.to_thread(run, ["node", script, quoting.url, quoting.key, json.dumps(calls)], timeout=120)
    )

    text, file, waited, got, found, asked, deleted, refused = told
    assert (text[0]["status"], file[0]["status"], waited[0]["state"]) == ("created", "created", "ready")
    assert (got[0]["path"], got[0]["tags"]) == ("herons.md", ["birds"])
    assert found[0]["metadata"]["path"] == "ferry.md"
    assert asked[0]["grounded"] is True
    assert "at nine" in asked[0]["answer"]
    assert deleted[0]["status"] == "deleted"
    assert refused == [{"error": "Sluice replied 400: text: must not be empty"}]


async def test_its_lock_names_no_registry() -> None:
    assert '"resolved"' not in (SOURCE / "package-lock.json").read_text(encoding="utf-8")
