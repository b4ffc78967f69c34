"""What fake servers of models make up: vectors that show shared words, and answers in pieces."""

import hashlib
import re

DIMENSION = 64


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def vector(text: str) -> list[float]:
    """Return a vector that is nearer where more words are shared; not of unit length."""
    values = [0.01] * DIMENSION
    for word in words(text):
        values[int(digest(word)[:8], 16) % DIMENSION] += 3.0
    return values


def spoilt(vectors: list[list[float]], fault: str | None) -> list[list[float]]:
    """Return the vectors as a server gives them that fails in this way."""
    match fault:
        case "few":
            return vectors[:-1]
        case "short":
            return [each[:-1] for each in vectors]
        case "nan":
            return [*vectors[:-1], [float("nan"), *vectors[-1][1:]]]
        case "null":
            return [*vectors[:-1], [None, *vectors[-1][1:]]]  # type: ignore[list-item]  # so it is no list of numbers
        case "zero":
            return [*vectors[:-1], [0.0] * DIMENSION]
        case _:
            return vectors


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def pieces(text: str) -> list[str]:
    return re.findall(r"\s*\S{1,3}", text)
