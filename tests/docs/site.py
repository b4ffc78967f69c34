"""The pages as a site with search, by who reads them: `make site` writes it into build/site.

A page may link code; a site can't show that, so such a link becomes its text.
"""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.bench.peers.environments import environment
from tests.servers.cache import run

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = Path(__file__).with_name("site.yml")
_LINK = re.compile(r"(!?)\[([^\[\]\n]*)\]\(([^()\s]+)\)")


def pages() -> list[Path]:
    """Return all pages of the site, relative to the root: those at the root, of docs, and about deploying."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("clients/*/README.md")]
    return sorted(each.relative_to(ROOT) for each in [*found, *ROOT.glob("deploy/**/README.md")])


def configuration() -> dict[str, Any]:
    """Return what MkDocs is told, with every decision in its place."""
    decisions = ["docs/adr/README.md", *(str(each) for each in pages() if re.match("docs/adr/[0-9]", str(each)))]
    told: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text("utf-8").replace("[DECISIONS]", str(decisions)))
    return told


def as_page(path: Path, among: set[Path]) -> str:
    """Return the page's text; a link to what is no page or picture is its words."""

    def kept(link: re.Match[str]) -> str:
        target = link[3].partition("#")[0]
        if not target or "://" in target or link[1]:
            return link[0]
        led = (ROOT / path.parent / target).resolve()
        return link[0] if led.relative_to(ROOT) in among else link[2]

    return _LINK.sub(kept, (ROOT / path).read_text("utf-8"))


def main() -> None:
    """Write the site; MkDocs refuses a page that has no place and a link that leads nowhere."""
    mkdocs = environment("site", print) / "bin" / "mkdocs"
    target = ROOT / "build" / "site"
    among = {*pages()}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "pages")
        for path in among:
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(as_page(path, among), "utf-8")
        shutil.copytree(ROOT / "docs/images", source / "docs/images")
        told = configuration() | {"docs_dir": str(source), "site_dir": str(target)}
        (Path(folder) / "mkdocs.yml").write_text(yaml.safe_dump(told, sort_keys=False), "utf-8")
        run([mkdocs, "build", "--strict", "--quiet", "-f", Path(folder) / "mkdocs.yml"])
    print(f"{target}/index.html")


if __name__ == "__main__":
    main()
