"""What the routes of other products' APIs reply, as `/openapi.json` declares it.

The handlers build plain objects, as those products document them. Every reply in the tests is checked against these
types.
"""

from typing import Any, Literal, NotRequired, TypedDict


class OpenAIModel(TypedDict):
    """A model, as OpenAI's API shows it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    context_length: int | None  # tokens of a conversation and its answer, or of a text to embed


class OpenAIModels(TypedDict):
    """OpenAI's list of models."""

    object: Literal["list"]
    data: list[OpenAIModel]


class CompletionMessage(TypedDict):
    """The answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None  # instead of `content`, where JSON is wanted and nothing was found
    annotations: list[dict[str, Any]]  # `url_citation`s
    tool_calls: NotRequired[list[dict[str, Any]]]


class CompletionChoice(TypedDict):
    """The one choice."""

    index: int
    finish_reason: str
    logprobs: None
    message: CompletionMessage


class CompletionUsage(TypedDict):
    """Tokens, counted or estimated."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(TypedDict):
    """OpenAI's chat completion; the fields from `citations` on are ours."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage
    citations: list[str]
    ragUsed: bool
    ragSources: list[dict[str, Any]]


class EmbeddingItem(TypedDict):
    """A text's vector: numbers, or base64 of 32-bit floats."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(TypedDict):
    """Tokens."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(TypedDict):
    """OpenAI's list of embeddings."""

    object: Literal["list"]
    model: str
    data: list[EmbeddingItem]
    usage: EmbeddingUsage


class ResponseObject(TypedDict):
    """OpenAI's response; it has more fields than these."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any]
    incomplete_details: dict[str, Any] | None
    citations: list[str]
    ragUsed: bool
    ragSources: list[dict[str, Any]]


class VectorStoreCard(TypedDict):
    """The vector store, as OpenAI's API shows it."""

    id: str
    object: Literal["vector_store"]
    created_at: int
    name: str
    status: Literal["completed", "in_progress"]
    usage_bytes: int
    file_counts: dict[str, int]
    metadata: dict[str, Any]
    last_active_at: int | None


class VectorStoreList(TypedDict):
    """OpenAI's list of vector stores."""

    object: Literal["list"]
    data: list[VectorStoreCard]
    first_id: str
    last_id: str
    has_more: bool


class VectorStoreResult(TypedDict):
    """A passage."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | int | float | bool]
    content: list[dict[str, str]]


class VectorStoreResults(TypedDict):
    """OpenAI's page of results."""

    object: Literal["vector_store.search_results.page"]
    search_query: list[str]
    data: list[VectorStoreResult]
    has_more: bool
    next_page: str | None


class DifyRecord(TypedDict):
    """A passage, as Dify reads it."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]


class DifyRecords(TypedDict):
    """The passages for Dify."""

    records: list[DifyRecord]


class WebResult(TypedDict):
    """A result of Open WebUI's web search."""

    link: str
    title: str
    snippet: str


class ProcessedFile(TypedDict):
    """A file's text, as Open WebUI's document loader reads it."""

    page_content: str
    metadata: dict[str, Any]


class OllamaVersion(TypedDict):
    """The version of Ollama's API."""

    version: str


class OllamaListedModel(TypedDict):
    """A model, as Ollama lists it; the last three fields are those of loaded models."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: dict[str, Any]
    expires_at: NotRequired[str]
    size_vram: NotRequired[int]
    context_length: NotRequired[int]


class OllamaModels(TypedDict):
    """Ollama's list of models."""

    models: list[OllamaListedModel]


class OllamaModelShown(TypedDict):
    """A model in detail."""

    license: str
    modelfile: str
    parameters: str
    template: str
    modified_at: str
    details: dict[str, Any]
    model_info: dict[str, Any]
    capabilities: list[str]


class OllamaAnswer(TypedDict):
    """Ollama's whole answer: `message` of a chat, `response` of a prompt. Without a question there are no figures."""

    model: str
    created_at: str
    done: Literal[True]
    done_reason: str
    message: NotRequired[dict[str, Any]]
    response: NotRequired[str]
    total_duration: NotRequired[int]  # nanoseconds, as the others
    load_duration: NotRequired[int]
    prompt_eval_count: NotRequired[int]
    prompt_eval_duration: NotRequired[int]
    eval_count: NotRequired[int]
    eval_duration: NotRequired[int]
    citations: NotRequired[list[str]]
    ragUsed: NotRequired[bool]
    ragSources: NotRequired[list[dict[str, Any]]]


class OllamaEmbeddings(TypedDict):
    """A vector for each text."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaEmbedding(TypedDict):
    """The vector of a text."""

    embedding: list[float]
