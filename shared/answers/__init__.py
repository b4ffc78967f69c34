"""Port: an answer to a question, streamed. Extractive sentences or a language model."""

from collections.abc import AsyncIterator
from typing import Any, Final, Literal, Protocol

import msgspec

from shared.contracts import with_header

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls"]
MORE_SAMPLING: Final = (  # options that a server may refuse or ignore
    "top_k",
    "min_p",
    "typical_p",
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "logit_bias",
)
SAMPLING: Final = ("temperature", "top_p", "max_tokens", "stop", "seed", *MORE_SAMPLING)  # by OpenAI's names


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A retrieved chunk as an answer cites it."""

    number: int  # the n of [n], from 1
    text: str
    title: str
    score: float  # 0..1
    metadata: dict[str, Any]

    @property
    def shown(self) -> str:
        """Return the text below the header of the table that it continues."""
        return with_header(self.text, self.metadata.get("tableHeader"))


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model asks the client to make."""

    id: str
    name: str
    arguments: str  # a JSON object

    @property
    def in_openai(self) -> dict[str, Any]:
        """Return the call as OpenAI's protocol has it."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}

    @property
    def in_ollama(self) -> dict[str, Any]:
        """Return the call as Ollama's protocol has it: its arguments are parsed."""
        return {"function": {"name": self.name, "arguments": msgspec.json.decode(self.arguments or "{}")}}


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the conversation."""

    role: Role
    content: str
    images: tuple[str, ...] = ()  # addresses, most often data:image/png;base64,…
    tool_calls: tuple[ToolCall, ...] = ()  # of an assistant
    tool_call_id: str | None = None  # of a tool's result: the call that it answers
    name: str | None = None  # of the tool


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """How the user wants to be answered, in the user's own words."""

    persona: str | None = None
    style: str | None = None
    language: str | None = None
    instructions: str | None = None  # number and format of what is wanted


class JsonFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON that the whole answer must be, for a program to read: any object, or what a schema allows."""

    schema: dict[str, Any] | None = None  # JSON Schema; None: any object
    name: str = "answer"  # of the schema; OpenAI's protocol needs one
    description: str | None = None
    strict: bool | None = None


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. `turns` ends with the question, or with the results of tools that the model asked for."""

    turns: tuple[Turn, ...]
    passages: tuple[Passage, ...] = ()
    system: str | None = None
    preferences: Preferences = Preferences()
    sampling: dict[str, Any] = {}  # what was given of `SAMPLING`; without a temperature, with passages it is 0
    tools: tuple[dict[str, Any], ...] = ()  # as OpenAI's clients describe them; Ollama takes the same
    tool_choice: str | dict[str, Any] | None = None
    json_format: JsonFormat | None = None  # None: prose, with citations
    compare: bool = False  # several documents, told apart
    whole: bool = False  # chosen documents, asked about as wholes; `passages` are in reading order
    from_documents: bool = False  # passages were searched, so the history may be shortened; otherwise it goes whole
    general: bool = False  # retrieval found nothing relevant: answer from general knowledge and say so


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer cost, as far as the model's server says it."""

    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    total_ns: int | None = None
    load_ns: int | None = None
    prompt_ns: int | None = None
    answer_ns: int | None = None


class Prompted(msgspec.Struct, frozen=True):
    """The passages that the model reads. The answer cites no others."""

    passages: tuple[Passage, ...]
    left_out: int = 0  # earlier messages that the model doesn't read


class Called(msgspec.Struct, frozen=True):
    """The tools that the model asks for."""

    calls: tuple[ToolCall, ...]


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an answer."""

    reason: FinishReason = "stop"
    usage: Usage = Usage()


Event = Prompted | str | Called | Finished  # a str is a piece of the answer, never empty


class Answers(Protocol):
    """Something that answers."""

    needs_passages: bool  # whether it can't answer without passages (so plain chat is refused: NO_MODEL)
    name: str  # the model's, as replies show it, e.g. `extractive`

    async def context(self) -> int:
        """Return how many tokens a conversation and its answer may have together."""

    def stream(self, conversation: Conversation) -> AsyncIterator[Event]:
        """Yield `Prompted`, the answer's pieces, perhaps `Called`, and `Finished`; closing the iterator stops the work.

        `Prompted` comes when the model has accepted the prompt, so an error before it can be followed by another try.

        Raises:
            Unavailable: the model is away, or its stream ended without a proper end.
            Rejected: the question is longer than the model takes.
        """
