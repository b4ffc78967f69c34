"""The verdict that readiness reads."""

from pathlib import Path

from shared.state import verification_result
from shared.state.verification_result import Verdict
from shared.store.edge import EdgeStore


async def test_readiness_hears_of_a_wrong_index_until_it_is_right_again(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    await store.start()
    try:
        unknown = await verification_result.trouble(store)
        await verification_result.write(store, Verdict(differences=0, at=1))
        never_wrong = await store.collections()
        await verification_result.write(store, Verdict(differences=3, at=2, first="point x is missing"))
        wrong = await verification_result.trouble(store)
        await verification_result.write(store, Verdict(differences=0, at=3))
        right = await verification_result.trouble(store)
    finally:
        await store.close()

    assert (unknown, never_wrong, right) == (None, [], None)
    assert wrong is not None
    assert "3 differences" in wrong
    assert "point x is missing" in wrong
