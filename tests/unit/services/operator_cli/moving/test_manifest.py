"""A manifest says what a backup holds, and nothing else passes for one."""

from pathlib import Path

import msgspec
import pytest

from services.operator_cli.moving import manifest
from services.operator_cli.moving.manifest import BackedUpFile, Manifest
from shared.ids import bytes_hash
from shared.settings import ConfigurationError

CONTENT = b"frames"


def of(*files: BackedUpFile, format_: int = manifest.FORMAT) -> Manifest:
    return Manifest(
        format=format_,
        sluice="0.1.0",
        created="2026-11-22T19:00:00Z",
        log_id="a",
        store_id="b",
        checkpoint=3,
        documents=1,
        points=2,
        blobs=0,
        settings={"chunk_size": "400"},
        files=files,
    )


@pytest.fixture
def file(tmp_path: Path) -> BackedUpFile:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "ledger").write_bytes(CONTENT)
    return BackedUpFile(path="store/ledger", size=len(CONTENT), xxh3=bytes_hash(CONTENT))


def test_it_is_read_as_it_was_written(tmp_path: Path, file: BackedUpFile) -> None:
    manifest.write(tmp_path, of(file))

    assert manifest.read(tmp_path) == of(file)
    sizes = list[int]()
    manifest.check(tmp_path, of(file), sizes.append)
    assert sizes == [file.size]
    assert of(file).size == len(CONTENT)


def test_one_of_another_format_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"not a complete backup: it has no manifest\.json"):
        manifest.read(tmp_path)
    other = msgspec.to_builtins(of(format_=manifest.FORMAT + 1)) | {"files": "in another way"}
    (tmp_path / manifest.NAME).write_bytes(msgspec.json.encode(other))
    with pytest.raises(
        ConfigurationError, match=f"has format {manifest.FORMAT + 1}, .* reads format {manifest.FORMAT}"
    ):
        manifest.read(tmp_path)
    (tmp_path / manifest.NAME).write_bytes(b'{"format": 1')
    with pytest.raises(ConfigurationError, match="damaged"):
        manifest.read(tmp_path)


def test_other_content_and_places_outside_are_refused(tmp_path: Path, file: BackedUpFile) -> None:
    (tmp_path / "store" / "ledger").write_bytes(b"Frames")
    with pytest.raises(ConfigurationError, match="ledger is damaged"):
        manifest.check(tmp_path, of(file), print)
    for path in ("../elsewhere", "/etc/passwd", "", "a\0b"):
        with pytest.raises(ConfigurationError, match="isn't in the backup"):
            manifest.check(tmp_path, of(BackedUpFile(path=path, size=0, xxh3="")), print)


def test_a_folder_that_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be read: File name too long"):
        manifest.read(tmp_path / ("x" * 300))
