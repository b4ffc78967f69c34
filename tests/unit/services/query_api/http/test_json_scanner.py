import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.query_api.http.json_scanner import COMMA, OPENING, JsonScanner

values = st.recursive(
    st.none() | st.integers() | st.text('"\\[]{},:\n aé', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('"\\]}', max_size=3), inner, max_size=4),
    max_leaves=20,
)


def counted(value: Any) -> tuple[int, int]:
    """Return the number of values in the value and below, and of levels."""
    if not isinstance(value, list | dict):
        return 1, 0
    inner = [counted(each) for each in (value.values() if isinstance(value, dict) else value)]
    return 1 + sum(count for count, _ in inner), 1 + max((depth for _, depth in inner), default=0)


@given(value=values, data=st.data())
def test_marks_outside_strings_tell_the_number_of_values_and_their_depth(value: Any, data: st.DataObject) -> None:
    body = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()
    size = data.draw(st.integers(1, len(body)))
    scanner = JsonScanner()

    marks = [scanner.feed(body[start : start + size]) for start in range(0, len(body), size)]

    count, depth = counted(value)
    commas = sum(int((piece.kinds == COMMA).sum()) for piece in marks)
    opening = sum(int((piece.kinds == OPENING).sum()) for piece in marks)
    assert count <= 1 + opening + commas <= 2 * count  # empty lists count twice
    assert max((int(piece.depths.max()) for piece in marks if piece.depths.size), default=0) == depth
    assert [int(piece.depths[-1]) for piece in marks if piece.depths.size][-1:] in ([], [0])


def test_each_mark_has_its_offset_in_the_piece() -> None:
    marks = JsonScanner().feed(b'{"a,[": [1, "\\"]"]}')

    assert marks.at.tolist() == [0, 8, 10, 17, 18]
    assert marks.depths.tolist() == [1, 2, 2, 1, 0]
