"""Port: text in, unit vectors out."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]  # shape (dimension,), unit length, finite


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What tells two embedding models apart. Two equal ones give comparable, reusable vectors.

    It is part of a generation's id: a later field has a plain default, so that it is left out where it says nothing.
    """

    name: str
    digest: str  # of weights and everything else that decides a vector
    dimension: int
    max_tokens: int  # longer texts are refused by the chunker, never cut in silence
    precision: str = msgspec.field(default_factory=lambda: "float32")  # made, so it is written: it always was


class TokenCounter(Protocol):
    """What the chunker needs of a model."""

    @property
    def max_tokens(self) -> int:
        """Return the longest input, special tokens excluded."""
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, special tokens excluded; may be an over-estimate."""
        ...


class Embedder(Protocol):
    """A model that is ready. Adapters own their threads, connections and timeouts."""

    @property
    def model(self) -> Model:
        """Return the identity of the model, known after `start`."""
        ...

    @property
    def tokens(self) -> TokenCounter:
        """Return the model's token counter (an estimate where the server has none)."""
        ...

    async def start(self) -> None:
        """Load or reach the model and learn its dimension and digest.

        Raises:
            Unavailable: the server is away. ConfigurationError (settings): no such model.
        """
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector a text, in order.

        Raises:
            Unavailable: the server is away, slow, or answered nonsense (count, dimension, NaN).
            Rejected: a text is blank or longer than the model takes.
        """
        ...

    async def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a search query; longer queries are cut at the model's limit."""
        ...

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of the question with each text, -1 to 1; longer texts are cut, none waits behind documents.

        Raises:
            Unavailable: as for documents. Rejected: the question or a text is blank.
        """
        ...

    async def ping(self) -> None:
        """Return when the model's server answers; it isn't asked to embed, so a busy one answers too.

        Raises:
            Unavailable: it is away. A server that hangs is for the caller to time out.
        """
        ...

    async def close(self) -> None:
        """Release threads and connections."""
        ...
