"""While a log is copied nothing is deleted from it, and a copy waits for deletions."""

import asyncio
from pathlib import Path

import pytest

from shared.errors import Unavailable
from shared.log.sqlite.hold import HELD, Hold


async def test_deletions_share_the_log_and_a_copy_has_it_alone(tmp_path: Path) -> None:
    one, other = Hold(tmp_path / "log"), Hold(tmp_path / "log")

    with one.deleting(), other.deleting():
        with pytest.raises(Unavailable, match="upkeep") as refused:
            async with one.copying(0):
                pass
        assert refused.value.code == HELD
    async with one.copying(0):
        with pytest.raises(Unavailable, match="backup") as refused, other.deleting():
            pass
        assert refused.value.code == HELD
        with pytest.raises(Unavailable, match="another backup"):
            async with other.copying(0):
                pass
    with other.deleting():
        pass


async def test_a_copy_waits_for_a_deletion_to_end(tmp_path: Path) -> None:
    hold = Hold(tmp_path / "log")

    async def copy() -> None:
        async with hold.copying(30):
            pass

    with hold.deleting():
        copying = asyncio.create_task(copy())
        await asyncio.sleep(0)
        assert not copying.done()
    await copying
