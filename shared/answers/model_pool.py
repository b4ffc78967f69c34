"""The configured chat models. The first is the default; others are chosen by name or used when it fails."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from shared.answers import Answers

Server = Literal["ollama", "openai", "extractive"]


class UnknownModel(ValueError):  # noqa: N818 - reads as what happened
    """No configured model has that name. The message lists the names; `field` is the request's field."""

    def __init__(self, field: Literal["model", "target"], sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class ChatModel(msgspec.Struct, frozen=True, kw_only=True):
    """A configured model."""

    name: str  # by which clients choose it: its alias, else the model's own name
    server: Server
    answers: Answers
    stands_in: bool = True  # is tried when the models before it fail


class ChatModels:
    """The models of one API, at least one."""

    def __init__(self, models: Sequence[ChatModel]) -> None:
        """Take the models, the default first. Where two share a name, the first one has it."""
        if not models:
            raise ValueError("there must be a model")
        self.all = tuple(models)
        self.default = self.all[0]  # answers when the caller names none

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names by which clients choose, each once, the default first."""
        return tuple(dict.fromkeys(model.name for model in self.all))

    def chosen(self, model: str | None = None, target: str | None = None) -> tuple[ChatModel, ...]:
        """Return the models to try, in this order. A caller who names a model gets that one or an error.

        `target` is a server's kind or a model's name. `ollama` is what AgentX clients always send: where no Ollama
        model is configured it means the default.

        Raises:
            UnknownModel: nothing of that name is configured.
        """
        candidates = self.all
        if target:
            candidates = tuple(each for each in candidates if each.server == target) or self._named(target)
            if not candidates and target == "ollama":
                candidates = self.all
            if not candidates:
                targets = dict.fromkeys(("ollama", *(each.server for each in self.all), *self.names))
                raise UnknownModel(
                    "target", f"{target!r} is not a configured server or model; allowed are: {', '.join(targets)}"
                )
        if not model:
            first, *others = candidates
            return (first, *(each for each in others if each.stands_in))
        named = [each for each in self._named(model) if each in candidates]
        if not named:
            allowed = dict.fromkeys(each.name for each in candidates)
            raise UnknownModel("model", f"{model!r} is not allowed here; allowed are: {', '.join(allowed)}")
        return (named[0],)

    def _named(self, name: str) -> tuple[ChatModel, ...]:
        wanted = _untagged(name)
        return tuple(each for each in self.all if wanted in (_untagged(each.name), _untagged(each.answers.name)))


def _untagged(name: str) -> str:
    """Return the name as Ollama compares it: without a tag it means `latest`."""
    return name.strip().casefold().removesuffix(":latest")
