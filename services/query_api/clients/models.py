"""The model names that clients of other protocols see and send.

`rag/<model>` answers from the documents, `<model>` alone chats without them, and `:inline` after either puts the
sources at the end of the text, for clients that show no citations.
"""

from typing import Final

import msgspec

from services.query_api.http.problems import Problem
from shared.answers.models import ChatModels, UnknownModel
from shared.embedder import Embedder

RAG: Final = "rag/"
INLINE: Final = ":inline"
_LATEST: Final = ":latest"  # what Ollama adds to a name without a tag


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a model name asks for."""

    model: str  # a configured name
    rag: bool
    only_quotes: bool  # it answers nothing that no document says
    inline: bool = False


class Models:
    """The names that this server answers to."""

    def __init__(self, models: ChatModels, embedder: Embedder) -> None:
        self._models = models
        self._embedder = embedder

    @property
    def embedding(self) -> str:
        """Return the embedding model's name."""
        return self._embedder.model.name

    def chatting(self) -> list[str]:
        """Return the names that can be asked, the best choice first; a model that only quotes can't chat alone."""
        names: dict[str, None] = {}
        for model in self._models.all:
            names |= dict.fromkeys((RAG + model.name, RAG + model.name + INLINE))
            if not model.answers.needs_passages:
                names[model.name] = None
        return list(names)

    def listed(self) -> list[str]:
        """Return every name."""
        return [*self.chatting(), self.embedding]

    def choice(self, name: str) -> Choice:
        """Return what the name asks for.

        Raises:
            Problem: 404, nothing here has that name; the sentence lists what has.
        """
        inline = name.removesuffix(_LATEST).endswith(INLINE)
        plain = name.removesuffix(_LATEST).removesuffix(INLINE) if inline else name
        rag = plain.startswith(RAG)
        try:
            [model] = self._models.chosen(plain.removeprefix(RAG) or " ")
        except UnknownModel:
            raise unknown(name, self.chatting()) from None
        return Choice(model=model.name, rag=rag, inline=inline, only_quotes=model.answers.needs_passages)

    def check_embedding(self, name: str) -> None:
        """Raise the 404 of a name that isn't the embedding model's."""
        if not self.embeds(name):
            raise unknown(name, [self.embedding])

    def embeds(self, name: str) -> bool:
        """Return whether the name is the embedding model's."""
        return _same(name, self.embedding)

    def check(self, name: str) -> None:
        """Raise the 404 of a name that nothing here has."""
        if not self.embeds(name):
            self.choice(name)


def unknown(name: str, there: list[str]) -> Problem:
    """Return the 404 of a model name."""
    return Problem(
        404,
        f"model {name!r} not found; this server has {', '.join(there)}",
        code="MODEL_NOT_FOUND",
        details={"field": "model", "models": there},
    )


def _same(name: str, model: str) -> bool:
    return name.removesuffix(_LATEST) == model.removesuffix(_LATEST)
