"""A copied folder has the same bytes, and takes no more of the disk."""

from pathlib import Path

from shared.store.folder_copy import copied_folder, disk_bytes


def test_holes_stay_holes_and_bytes_stay_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "in").mkdir(parents=True)
    with (folder / "in" / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(40_000_000)
        file.write(b"middle")
        file.truncate(80_000_000)
    (folder / "empty").touch()
    (folder / "left out").write_bytes(b"x")

    copy = copied_folder(folder, tmp_path / "copy", ignore=lambda _, names: {"left out"} & {*names})

    assert sorted(path.name for path in copy.rglob("*")) == ["empty", "in", "sparse"]
    written = (copy / "in" / "sparse").read_bytes()
    assert (len(written), written[:5], written[40_000_000:40_000_006]) == (80_000_000, b"begin", b"middle")
    assert written.count(0) == 80_000_000 - len(b"beginmiddle")
    assert disk_bytes(copy) < 1_000_000
