"""The model names that clients of other protocols see and send.

`rag/<model>` answers from the documents, `rag/<model>@<source>` from those of one source, `<model>` alone chats without
them. With `:inline` at the end, the answer's text ends with its sources, for clients that show no citations.
"""

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from services.query_api.http.problems import Problem, invalid
from shared.answers.model_pool import ChatModel, ChatModels, UnknownModel
from shared.embedder import Embedder

RAG: Final = "rag/"
INLINE: Final = ":inline"
_AT_ONCE: Final = 8
_LATEST: Final = ":latest"  # added by Ollama to a name without a tag


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a model name."""

    model: str  # a configured name
    rag: bool
    only_quotes: bool  # it only quotes documents, so it can't chat without them
    inline: bool = False
    source: str | None = None  # the only one to search


@dataclass(frozen=True)
class Models:
    """The model names of this server."""

    models: ChatModels
    embeds_with: Embedder
    # Requests of a tenant whose texts are embedded at once: others' queries wait for these at most.
    turns: defaultdict[str, asyncio.Semaphore] = field(
        default_factory=lambda: defaultdict(lambda: asyncio.Semaphore(_AT_ONCE))
    )

    @property
    def embedding(self) -> str:
        """Return the embedding model's name."""
        return self.embeds_with.model.name

    def chatting(self) -> list[str]:
        """Return the names for chat, the best choice first. A model that only quotes is only listed with `rag/`."""
        names: dict[str, None] = {}
        for model in self.models.all:
            names |= dict.fromkeys((RAG + model.name, RAG + model.name + INLINE))
            if not model.answers.needs_passages:
                names[model.name] = None
        return list(names)

    async def context(self, name: str) -> int:
        """Return the tokens of a conversation with its answer, or of a text. Raises a 404 for an unknown name."""
        if self.embeds(name):
            return self.embeds_with.model.max_tokens
        [model] = self.models.chosen(self.choice(name).model)
        return await model.answers.context()

    async def contexts(self) -> dict[str, int]:
        """Return `context` of every name."""
        names = self.listed()
        return dict(zip(names, await asyncio.gather(*map(self.context, names)), strict=True))

    def listed(self) -> list[str]:
        """Return every name."""
        return [*self.chatting(), self.embedding]

    def choice(self, name: str) -> Choice:
        """Return the meaning of the name.

        Raises:
            Problem: 404, the name is unknown; the sentence lists the known ones.
        """
        inline = name.removesuffix(_LATEST).endswith(INLINE)
        plain = name.removesuffix(_LATEST).removesuffix(INLINE) if inline else name
        rag = plain.startswith(RAG)
        model, source = self._parted(plain.removeprefix(RAG), sourced=rag)
        if model is None or source == "":
            raise unknown(name, self.chatting())
        return Choice(model=model.name, rag=rag, inline=inline, only_quotes=model.answers.needs_passages, source=source)

    def _parted(self, name: str, *, sourced: bool) -> tuple[ChatModel | None, str | None]:
        """Return the model and the source after its name; a model's own name may have an @, too."""
        parts = name.split("@", 8)
        for end in range(len(parts), 0, -1) if sourced else (len(parts),):
            with suppress(UnknownModel):
                [model] = self.models.chosen("@".join(parts[:end]) or " ")
                return model, "@".join(parts[end:]).removesuffix(_LATEST) if end < len(parts) else None
        return None, None

    def embedder(self, name: str, dimension: int | None = None) -> Embedder:
        """Return the embedding model. Raises a 404 if the name isn't its, a 400 if it has another dimension."""
        if not self.embeds(name):
            raise unknown(name, [self.embedding])
        own = self.embeds_with.model
        if dimension not in (None, own.dimension):
            raise invalid("dimensions", f"is {dimension}; {own.name} makes vectors of {own.dimension}")
        return self.embeds_with

    def embeds(self, name: str) -> bool:
        """Return whether the name is the embedding model's."""
        return name.removesuffix(_LATEST) == self.embedding.removesuffix(_LATEST)


def unknown(name: str, there: list[str]) -> Problem:
    """Return the 404 for an unknown model name."""
    return Problem(
        404,
        f"model {name!r} not found; this server has {', '.join(there)}",
        code="MODEL_NOT_FOUND",
        details={"field": "model", "models": there},
    )
