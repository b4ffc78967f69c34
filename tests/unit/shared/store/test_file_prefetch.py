"""Files are read ahead up to a limit; which ones, by where the engine keeps them."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest
import qdrant_edge as qdrant

from shared.store.file_prefetch import available_memory, opening_files, read_ahead, searched_files

PAGE = mmap.PAGESIZE
pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system has no such request")


def a_file(path: Path, pages: int) -> Path:
    path.write_bytes(os.urandom(pages * PAGE))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def cached(path: Path) -> list[bool]:
    """Return for each of the file's pages whether it is in the page cache."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        pages = ctypes.create_string_buffer(len(mapped) // PAGE)
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(first)), len(mapped), pages) == 0
        del first
        return [bool(page[0] & 1) for page in pages]


def test_files_are_in_the_page_cache_up_to_the_limit(tmp_path: Path) -> None:
    files = [a_file(tmp_path / name, 4) for name in "abc"]
    if any(any(cached(path)) for path in files):
        pytest.skip("this file system keeps all pages in memory")

    assert read_ahead([files[0], tmp_path / "gone", files[1], files[2]], 6 * PAGE) == 6 * PAGE

    for path in files[:2]:  # a read waits for the pages that are under way
        path.read_bytes()
    assert [sum(cached(path)) for path in files] == [4, 4, 0]
    assert read_ahead(files, 0) == 0
    assert read_ahead(files, 10**9) == 12 * PAGE


def test_what_opening_a_shard_reads_and_what_searches_read_are_all_its_segments(tmp_path: Path) -> None:
    vectors = qdrant.EdgeVectorParams(size=4, distance=qdrant.Distance.Cosine)
    shard = qdrant.EdgeShard.create(str(tmp_path), qdrant.EdgeConfig(vectors=vectors))
    shard.update(qdrant.UpdateOperation.create_field_index("a", qdrant.PayloadSchemaType.Keyword))
    shard.update(qdrant.UpdateOperation.upsert_points([qdrant.Point(1, {"": [1.0, 0, 0, 0]}, {"a": "x"})]))
    shard.flush()
    shard.close()

    opening, searched = set(opening_files(tmp_path)), set(searched_files(tmp_path))

    kinds = {path.relative_to(tmp_path / "segments").parts[1] for path in searched}
    assert kinds == {"payload_storage", "vector_storage"}
    assert any("payload_index" in path.parts for path in opening)
    assert opening | searched == {
        path for path in (tmp_path / "segments").rglob("*") if path.parent != tmp_path / "segments" and path.is_file()
    }
    assert not opening & searched


def test_available_memory_is_less_than_all_memory() -> None:
    assert available_memory() < os.sysconf("SC_PHYS_PAGES") * PAGE
