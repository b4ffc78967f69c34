"""The parts of the pages that are made from the code, between `<!-- begin: name -->` and `<!-- end: name -->`.

`make docs` writes them. Run it after a change of settings, targets, decisions, samples or what the commands print.
Only some of them: python -m tests.docs.readme settings decisions
"""

import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from shared import settings
from shared.settings import SECRETS, Settings
from tests.docs.features import table
from tests.docs.routes import routes_table
from tests.e2e.harness import Server, served
from tests.fuzz.target import in_process

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DECISIONS = ROOT / "docs/adr"
HOMES = {  # the page that each block stands on
    "demo": README,
    "run": README,
    "settings": ROOT / "docs/configuration.md",
    "targets": ROOT / "CONTRIBUTING.md",
    "decisions": DECISIONS / "README.md",
    "routes": ROOT / "docs/http.md",
    "features": ROOT / "docs/features.md",
}
HANG_S = 240
LOADED = "The sample library is loaded"
SHOWN_URL = "http://127.0.0.1:3000"
_BLOCK = r"(<!-- begin: {name} -->\n)(.*?)(<!-- end: {name} -->)"
_FIELD = re.compile(r"^    (\w+): .*? = .*?(?:  # (.*))?$", re.MULTILINE)
_TITLE = re.compile(r"^# (\d{4}) (.+)$", re.MULTILINE)
_VARYING = re.compile(r"\d+\.\d s|score \d\.\d\d")


def block(name: str) -> str:
    """Return what stands between the marks on the block's page."""
    match = re.search(_BLOCK.format(name=name), HOMES[name].read_text(encoding="utf-8"), re.DOTALL)
    assert match, f"{HOMES[name].name} has no block {name}"
    return match[2]


def decisions() -> str:
    """Return the table of all decisions: number, title."""
    rows = ["| | decision |", "| --- | --- |"]
    for page in sorted(DECISIONS.glob("[0-9]*.md")):
        title = _TITLE.search(page.read_text(encoding="utf-8"))
        assert title, f"{page.name} has no title with its number"
        rows.append(f"| [{title[1]}]({page.name}) | {title[2]} |")
    return "\n".join(rows) + "\n"


def settings_table() -> str:
    """Return the table of variables: names and defaults as the class has them, meanings as its comments have them."""
    meanings = dict(_FIELD.findall(Path(settings.__file__).read_text(encoding="utf-8")))
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else str(field.default)
        shown = f"`{default}`" if default else "none"
        variable = f"`SLUICE_{name.upper()}`"
        named = f"{variable} or `SLUICE_{name.upper()}_FILE`" if name in SECRETS else variable
        rows.append(f"| {named} | {shown} | {meanings[name]} |")
    return "\n".join(rows) + "\n"


def targets() -> str:
    """Return what `make` alone prints."""
    ran = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    return f"```console\n$ make\n{ran.stdout}```\n"


def demo() -> str:
    """Return the transcript of `make demo`."""
    ran = subprocess.run(
        [sys.executable, "-m", "services.operator_cli", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return f"```console\n$ make demo\n{ran.stdout}```\n"


def run(data: Path) -> str:
    """Return what `make run` prints on its first start, with the usual port."""
    with served(data, SAMPLES="on", LOG_LEVEL="error") as server:
        return f"```console\n$ make run\n{printed(server, LOADED).replace(server.url, SHOWN_URL)}```\n"


def routes(data: Path) -> str:
    """Return the table of all routes, as an API describes them."""
    with in_process(data) as target:
        return routes_table(target.spec)


def printed(server: Server, until: str) -> str:
    """Return what the server has written once `until` is in it."""
    deadline = time.monotonic() + HANG_S
    while until not in (text := server.log.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline, f"no {until!r} in: {text}"
        time.sleep(0.05)  # another process writes it; there is nothing to wait on
    return text


def steady(text: str) -> str:
    """Return the text without what another machine would print otherwise: durations, and scores' last digits."""
    return _VARYING.sub("…", text)


def main(*wanted: str) -> None:
    """Write the wanted blocks anew; all of them where none is named."""
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, Callable[[], str]] = {
            "settings": settings_table,
            "targets": targets,
            "decisions": decisions,
            "features": table,
            "routes": partial(routes, Path(folder, "routes")),
            "demo": demo,
            "run": partial(run, Path(folder, "data")),
        }
        for name in wanted or parts:
            made = parts[name]
            text = HOMES[name].read_text(encoding="utf-8")
            pattern = _BLOCK.format(name=name)
            text = re.sub(pattern, partial(_replaced, made()), text, flags=re.DOTALL)
            HOMES[name].write_text(text, encoding="utf-8")


def _replaced(content: str, match: re.Match[str]) -> str:
    return match[1] + content + match[3]


if __name__ == "__main__":
    main(*sys.argv[1:])
