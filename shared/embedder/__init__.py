"""Port: text in, unit vectors out."""

from collections.abc import Hashable, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared.errors import Rejected

BUILT_IN_MODEL: Final = "all-MiniLM-L6-v2"  # its name, in either precision
Vector = NDArray[np.float32]  # shape (dimension,), unit length, finite


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The identity of an embedding model. Models that compare equal give comparable, reusable vectors.

    It is hashed into a generation's id, so a new field needs a default, which isn't encoded: old ids stay the same.
    """

    name: str
    digest: str  # of the weights and everything else that determines a vector
    dimension: int
    max_tokens: int  # the chunker refuses longer texts; they are never truncated silently
    precision: str = "float32"


class TokenCounter(Protocol):
    """Counts a model's tokens, for the chunker."""

    @property
    def max_tokens(self) -> int:
        """Return the longest input, special tokens excluded."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, special tokens excluded; may be too high, never too low."""


class Embedder(Protocol):
    """An embedding model. Adapters own their threads, connections and timeouts."""

    @property
    def model(self) -> Model:
        """Return the identity of the model, known after `start`."""

    @property
    def tokens(self) -> TokenCounter:
        """Return the model's token counter (an estimate where the server has none)."""

    async def start(self) -> None:
        """Load or reach the model and learn its dimension and digest.

        Raises:
            Unavailable: the server can't be reached. ConfigurationError (settings): no such model.
        """

    async def embed_documents(self, texts: Sequence[str], *, flow: Hashable = None) -> list[Vector]:
        """Return one unit vector per text, in order. Calls of the same flow, such as one tenant's, share its turns.

        Raises:
            Unavailable: the server can't be reached, is slow, or gave an invalid answer (count, dimension, NaN).
            Rejected: a text is blank or longer than the model accepts.
        """

    async def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a search query; longer queries are truncated at the model's limit."""

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of the question with each text, -1 to 1. Doesn't queue behind documents.

        Texts longer than the model's limit are truncated.

        Raises:
            Unavailable: as for documents. Rejected: the question or a text is blank.
        """

    async def ping(self) -> None:
        """Return when the model's server answers. It isn't asked to embed, so a busy server answers, too.

        Raises:
            Unavailable: the server can't be reached. The caller must set a timeout for a server that hangs.
        """

    async def close(self) -> None:
        """Release threads and connections."""


def unit(values: ArrayLike) -> Vector:
    """Return `values` at length 1, in float32, read-only: |norm² - 1| < 1e-6.

    Raises:
        ValueError: a value isn't finite, or all are zero.
    """
    # In float64, because a norm summed in float32 is off by more than 1e-6.
    exact = np.asarray(values, dtype=np.float64)
    length = float(np.linalg.norm(exact))
    if not (np.isfinite(length) and length > 0):
        raise ValueError(f"a vector of length {length} can't be normalized")
    vector: Vector = (exact / length).astype(np.float32)
    vector.flags.writeable = False  # the query cache hands one array to many callers
    return vector


def refuse_unreadable(texts: Sequence[str]) -> None:
    """Raise Rejected if a text is blank, or holds half a surrogate pair and so isn't Unicode text."""
    for position, text in enumerate(texts):
        if not text.strip():
            raise Rejected(f"text {position} of {len(texts)} is blank, so it can't be embedded", "blank_text")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Rejected(
                f"text {position} of {len(texts)} is not Unicode text: it has the lone surrogate "
                f"{text[error.start]!a} at character {error.start}",
                "not_unicode",
            ) from error
