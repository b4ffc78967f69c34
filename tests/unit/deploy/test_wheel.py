"""The wheel: one package with all that the product reads, the same each time, that leaves short names to others."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from shared.embedder.minilm import package_folder
from shared.version import VERSION
from tests.selection import CI_ONLY
from tests.unit.deploy.files import ROOT

EPOCH = "1700000000"
WEIGHTS = "shared/embedder/minilm_model"
PAGES = (":(glob)docs/*.md", ":(glob)docs/clients/*.md")
WEIGHT_FILES = ("README.md", "model.safetensors", "tokenizer.json")


def script(name: str) -> ModuleType:
    """Return a file of deploy as a module; the folder is no package."""
    spec = importlib.util.spec_from_file_location(f"deploy_{name}", ROOT / "deploy" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files_of(*folders: str) -> list[str]:
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    found = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in found if name and (ROOT / name).is_file()]


def built(folder: Path) -> tuple[bytes, bytes, Path]:
    """Return wheel and source distribution of this checkout, with weights of three bytes, and where the wheel is."""
    tree, target = folder / "tree", folder / "release"
    for name in files_of("services", "shared", "deploy", "docs", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    (tree / WEIGHTS).mkdir()
    for name in WEIGHT_FILES:
        (tree / WEIGHTS / name).write_text(name[:3])
    script("release").build(tree, target, EPOCH)
    [wheel], [source] = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel.read_bytes(), source.read_bytes(), wheel


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, Path]:
    return built(tmp_path_factory.mktemp("release"))


@CI_ONLY
def test_a_release_is_the_same_to_the_byte_in_another_folder(
    release: tuple[bytes, bytes, Path], tmp_path: Path
) -> None:
    assert built(tmp_path)[:2] == release[:2]


@CI_ONLY
def test_the_wheel_holds_one_package_with_all_that_the_product_reads(release: tuple[bytes, bytes, Path]) -> None:
    with zipfile.ZipFile(release[2]) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"sluice_rag-{VERSION}.dist-info/METADATA").decode()

    assert {name.partition("/")[0] for name in names} == {"sluice", f"sluice_rag-{VERSION}.dist-info"}
    assert [
        each for each in files_of("services", "shared", "deploy/samples", *PAGES) if f"sluice/{each}" not in names
    ] == []
    assert [name for name in WEIGHT_FILES if f"sluice/{WEIGHTS}/{name}" not in names] == []
    assert not re.search(r"^Requires-Dist: (gt-all|torch|sentence)", metadata, re.MULTILINE)


class Installed:
    """The wheel in an environment of its own, beside packages called `services` and `shared` that nobody may import."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python, self.sluice = folder / "bin" / "python", folder / "bin" / "sluice"
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True)
        [self.packages] = folder.glob("lib/python*/site-packages")
        for name in ("services", "shared"):
            (self.packages / name).mkdir()
            (self.packages / name / "__init__.py").write_text('raise RuntimeError("of another project")')
        # What Sluice needs is there already; files in that folder that lead to the checkout aren't read.
        (self.packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
        shutil.rmtree(self.packages / "sluice" / WEIGHTS)
        (self.packages / "sluice" / WEIGHTS).symlink_to(package_folder())
        self.folder = folder

    def ran(self, *command: str | Path) -> str:
        kept = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "SLUICE_DATA": str(self.folder / "data")}
        done = subprocess.run(
            [*map(str, command)], cwd=self.folder, env=kept, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(release: tuple[bytes, bytes, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(release[2], tmp_path_factory.mktemp("environment"))


@CI_ONLY
@pytest.mark.slow
def test_beside_others_of_our_short_names_the_whole_system_runs(installed: Installed) -> None:
    ended = installed.ran(installed.sluice, "demo").splitlines()[-1]

    assert ended == "All of it held. Now yours: `sluice serve`, then `sluice ingest FOLDER`."


@CI_ONLY
@pytest.mark.slow
def test_beside_others_of_our_short_names_nothing_is_found_wrong(installed: Installed) -> None:
    verdicts = [line.split()[:2] for line in installed.ran(installed.sluice, "doctor").splitlines()]

    assert [each for each in verdicts if each[0] == "failed"] == []
    assert ["ok", "weights"] in verdicts
    found = installed.ran(
        installed.python, "-c", "from sluice.shared.version import how_to_add; print(how_to_add('ocr'))"
    )
    assert "WHEEL[ocr]" in found


@CI_ONLY
def test_no_text_of_the_product_names_a_module_of_ours_as_a_wheel_would_not() -> None:
    found = [
        f"{name}:{node.lineno}: {node.value}"
        for name in files_of("services", "shared")
        if name.endswith(".py")
        for node in ast.walk(ast.parse((ROOT / name).read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"(?:services|shared)(?:\.\w+)+", node.value)
    ]

    assert found == []


def test_imports_of_ours_move_and_every_line_stays_where_it_was() -> None:
    source = (
        'from shared import ids\n\ndef f():\n    from services.x import (\n        y,\n    )\n    """from shared"""\n'
    )

    moved = script("wheel").renamed(source)

    assert moved.replace("from sluice.", "from ") == source
    assert [line.strip() for line in moved.splitlines() if "sluice" in line] == [
        "from sluice.shared import ids",
        "from sluice.services.x import (",
    ]
    with pytest.raises(ValueError, match="line 2"):
        script("wheel").renamed("import numpy\nimport shared.ids\n")


def test_the_notes_of_a_release_are_the_newest_section() -> None:
    text = "# Changelog\n\nIntro.\n\n## 2.0.0\n\n- new\n\n### Part\n\n## 1.0.0\n\n- old\n"

    assert script("release").changes(text) == "## 2.0.0\n\n- new\n\n### Part\n"


def test_what_is_said_of_a_release_is_said_of_the_tree_that_it_is_made_from(tmp_path: Path) -> None:
    tree, target = tmp_path / "tree", tmp_path / "release"
    for name in ("shared/version.py", "tests/__init__.py", "tests/licences/__init__.py", "tests/licences/sbom.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    (tree / "requirements").mkdir()
    (tree / "requirements" / "extras.txt").write_text(f"only==1 \\\n    --hash=sha256:{'0' * 64}\n")
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## 9.9.9\n\n- new\n")

    script("release").describe(tree, target)

    assert "| only 1 |" in (target / "licences.md").read_text()
    assert (target / "CHANGES.md").read_text() == "## 9.9.9\n\n- new\n"
    assert len((target / "SHA256SUMS").read_text().splitlines()) == 3


def test_the_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_text("a")
    (tmp_path / "b.tar.gz").write_text("b")
    (tmp_path / "SHA256SUMS").write_text(script("release").checksums(tmp_path))

    checked = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert checked.stdout.splitlines() == ["a.whl: OK", "b.tar.gz: OK"]
