"""What an older chunker made is believed where it is all of the text, and nowhere else."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from services.operator_cli.verify.expected_points import expected
from services.operator_cli.verify.older_chunks import as_it_was_written, read_back
from shared.contracts import Chunk
from shared.ids import text_hash
from shared.store import Point, Sparse
from tests.fakes.tokens import Characters
from tests.unit.services.operator_cli.verify.builders import a_version, right_points

TEXT = "# Tea\n\nGreen leaves.\n\nBlack leaves."
SPANS = ((0, 20), (22, 35))


def _chunks(*spans: tuple[int, int], **fields: Any) -> tuple[Chunk, ...]:
    given: dict[str, Any] = {"section": "Tea", "type": "section", "semantic_score": 0.5} | fields
    return tuple(
        Chunk(order=n, text=TEXT[a:b], hash=text_hash(TEXT[a:b]), start=a, end=b, tokens=b - a, **given)
        for n, (a, b) in enumerate(spans)
    )


def _points(made: Sequence[Chunk]) -> list[Point]:
    return right_points(expected(a_version(), made, [Sparse([n], [1.0]) for n in range(len(made))], described=True))


def _changed(points: list[Point], number: int, **fields: Any) -> list[Point]:
    metadata = {**points[number].payload["metadata"], **fields}
    changed = msgspec.structs.replace(points[number], payload={**points[number].payload, "metadata": metadata})
    return [*points[:number], changed, *points[number + 1 :]]


def test_chunks_that_are_all_of_the_text_are_read_back_in_order() -> None:
    made = _chunks(*SPANS)

    assert read_back(_points(made)[::-1], TEXT, (), Characters(25, each=1)) == made
    assert [chunk.page for chunk in read_back(_points(made), TEXT, (0, 21), Characters(25, each=1)) or ()] == [1, 2]
    assert read_back(_changed(_points(made), 1, contextBefore="leaves."), TEXT, (), Characters(25, each=1)) is not None


@pytest.mark.parametrize(
    "points",
    [
        [],
        _points(_chunks(*SPANS))[:1],
        _points(_chunks(*SPANS))[1:],
        _points(_chunks((0, 20), (23, 35))),
        _points(_chunks((0, 20), (19, 35))),
        _points(_chunks((0, 20), (22, 34))),
        _points(_chunks((0, 20), (22, 36))),
        _points(_chunks((0, 35))),  # more than the model takes
        _changed(_points(_chunks(*SPANS)), 1, chunkOrder=2),
        _changed(_points(_chunks(*SPANS)), 1, chunkOrder=0),
        _changed(_points(_chunks(*SPANS)), 1, start=-13),
        _changed(_points(_chunks(*SPANS)), 1, start="22"),
        _changed(_points(_chunks(*SPANS)), 1, chunkType="poem"),
        _changed(_points(_chunks(*SPANS)), 1, contextBefore="tea."),
    ],
)
def test_chunks_that_are_not_are_no_cut(points: list[Point]) -> None:
    assert read_back(points, TEXT, (), Characters(25, each=1)) is None


def test_points_may_lack_the_score_and_the_section_among_their_terms() -> None:
    made = _chunks(*SPANS, semantic_score=None)
    wanted = expected(a_version(), made, [Sparse([7], [1.0])] * 2, described=True)
    first, second = _points(made)
    del first.payload["metadata"]["semanticScore"]

    older = as_it_was_written(wanted, [first, second], [Sparse([0], [1.0]), Sparse([9], [1.0])])

    assert older.points[first.id].sparse == first.sparse
    assert "semanticScore" not in older.points[first.id].payload["metadata"]
    assert older.points[second.id].sparse == Sparse([7], [1.0])
    assert older.points[second.id].payload["metadata"]["semanticScore"] is None
