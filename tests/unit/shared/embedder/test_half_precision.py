"""Vectors whose numbers are exact in half precision, and whose length is 1 all the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.embedder import Vector, unit
from shared.embedder.half_precision import LEAST_DIMENSION, half_precision, precision_of


@st.composite
def unit_vectors(draw: st.DrawFn, least: int = LEAST_DIMENSION) -> Vector:
    """Draw unit vectors of models and of none: numbers of one size, of many sizes, nearly all of them zero."""
    dimension = draw(st.integers(least, 600))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.standard_normal(dimension) * rng.random(dimension) ** draw(st.integers(0, 9))
    values[draw(st.integers(1, dimension)) :] = 0
    return unit(rng.permutation(values))


@given(unit_vectors())
def test_the_numbers_are_halves_and_the_length_is_1(vector: Vector) -> None:
    [kept] = half_precision([vector])

    assert kept.dtype == np.float32
    assert (kept.astype(np.float16) == kept).all()
    assert abs(float(kept.astype(np.float64) @ kept.astype(np.float64)) - 1) < 5e-7
    assert float(kept.astype(np.float64) @ vector.astype(np.float64)) > 0.999


@given(unit_vectors())
def test_what_is_in_half_precision_stays_as_it_is(vector: Vector) -> None:
    [kept] = half_precision([vector])

    assert half_precision([kept])[0].tobytes() == kept.tobytes()


@given(st.integers(LEAST_DIMENSION, 1_536), st.integers(0, 2**32))
def test_a_vector_like_those_of_models_hardly_changes(dimension: int, seed: int) -> None:
    vector = unit(np.random.default_rng(seed).standard_normal(dimension))

    [kept] = half_precision([vector])

    assert np.abs(kept - vector).max() < 2**-10
    assert float(kept.astype(np.float64) @ vector.astype(np.float64)) > 0.99999


@pytest.mark.parametrize("levels", [1, 7, 127])
def test_a_vector_of_few_different_numbers_has_length_1_too(levels: int) -> None:
    rng = np.random.default_rng(levels)
    drawn = np.rint(rng.standard_normal((300, 768)) * levels / 3)  # as a model at 2, 4 or 8 bits gives them

    kept = np.stack(half_precision([unit(row) for row in drawn])).astype(np.float64)

    assert np.abs((kept * kept).sum(axis=1) - 1).max() < 5e-7


def test_an_input_stays_as_it_is_and_a_result_cannot_be_written() -> None:
    vector = unit(np.random.default_rng(1).standard_normal(384))
    before = vector.copy()

    [kept] = half_precision([vector])

    assert (vector == before).all()
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1


@given(st.lists(unit_vectors(), min_size=1, max_size=5))
def test_a_vector_becomes_the_same_whatever_is_beside_it(drawn: list[Vector]) -> None:
    least = min(vector.size for vector in drawn)
    vectors = [unit(vector[:least]) for vector in drawn if vector[:least].any()]

    assert [each.tobytes() for each in half_precision(vectors)] == [
        half_precision([vector])[0].tobytes() for vector in vectors
    ]


def test_a_short_vector_stays_as_it_is() -> None:
    vector = unit([0.3, 0.4, 0.5])

    assert half_precision([vector])[0] is vector
    assert [precision_of(size) for size in (3, LEAST_DIMENSION - 1, LEAST_DIMENSION, 384)] == [
        "full",
        "full",
        "half",
        "half",
    ]
