import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shared.embedder import unit


@given(arrays(np.float32, 384, elements=st.floats(-(2.0**100), 2.0**100, width=32)).filter(np.any))
def test_a_unit_vector_is_of_length_one_in_float32(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
    vector = unit(values)

    assert vector.dtype == np.float32
    assert abs(float(np.sum(vector.astype(np.float64) ** 2)) - 1) < 1e-6
    assert not vector.flags.writeable


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [1.0, float("nan")], [float("inf"), 1.0]])
def test_what_has_no_direction_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="can't be normalized"):
        unit(values)
