"""Answers questions. All protocols (AgentX, OpenAI, Ollama, MCP) call this module and only translate."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog
from litestar import Response
from litestar.response import ServerSentEvent, ServerSentEventMessage

from services.query_api.answer import passage_choice
from services.query_api.answer.citing import Citation, citations
from services.query_api.answer.passage_choice import MOST_FOUND, asks_of_the_whole, chooses, spread
from services.query_api.http.admission import AnswerRate
from services.query_api.http.auth import Caller
from services.query_api.http.circuit_breaker import CircuitBreaker
from services.query_api.http.problems import Problem, body, broken_off, invalid, path_of
from services.query_api.http.reply_warnings import warned
from services.query_api.http.request import ApiRequest
from services.query_api.http.stopping import Stopping
from services.query_api.search.arranging import GateMode, RelevanceGate, usable
from services.query_api.search.retrieval import Retriever, Score, ScoredText, TopK, of_documents
from services.query_api.search.search import filters_of
from shared import tracing
from shared.answers import Called, Conversation, Event, Finished, FinishReason, Passage, Prompted, ToolCall, Usage
from shared.answers.citations import InertLinks, filtered
from shared.answers.extractive import MOST_QUOTED, focus
from shared.answers.follow_up import readings, spelled_out
from shared.answers.model_pool import ChatModel, ChatModels, UnknownModel
from shared.answers.prompt import check_length, shown
from shared.errors import PipelineError, Rejected, Unavailable
from shared.inputs.metadata import text_in
from shared.settings import Settings
from shared.state.index import Head
from shared.store import EVERYTHING, Filter

NOTHING_FOUND: Final = "I found nothing in the documents that answers this question."
GENERAL: Final = "This answer comes from general knowledge, not from the documents: "
MOST_COMPARED_DOCUMENTS: Final = 8  # further documents of the list are not compared
LEAST_OF_EACH: Final = 3  # passages of each compared document
MOST_CHOSEN: Final = 50  # chosen documents that a model reads without a search
MOST_READ: Final = 1_000  # chunks of them, to find out whether they fit and where sections begin
PASSAGE_TOKENS: Final = 480  # twice those of a usual passage, because passages get half of the context
DEEPER: Final = 12  # passages that extractive answers read
_LEFT_OUT: Final = "with the passages, the conversation is longer than SLUICE_CHAT_CONTEXT or SLUICE_HISTORY allows"
TRIES: Final = 2  # of each model, if it fails before its first word

log = structlog.get_logger(__name__)


class RagOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the found passages a model is given: fields that all routes with answers share."""

    min_score: Score | None = msgspec.field(default=None, name="minScore")  # None: as the settings say
    gate: GateMode | None = None  # None: as the settings say
    language: str | None = None  # of the texts to read, if ready-made chunks have several

    def retrieval(self, where: Filter = EVERYTHING, top_k: int | None = None) -> "Retrieval":
        """Return the search for the passages."""
        return Retrieval(top_k=top_k, where=where, min_score=self.min_score, gate=self.gate, language=self.language)


class Retrieval(RagOptions, frozen=True, kw_only=True):
    """How the passages for an answer are searched."""

    top_k: int | None = None  # None: as many as the scores and the model's context have room for
    where: Filter = EVERYTHING
    compared: tuple[str, ...] = ()  # documents to compare: each is searched separately


class RagBody(RagOptions, frozen=True, kw_only=True):
    """What bodies of OpenAI's clients say of the search; they send these fields as `extra_body`."""

    use_rag: bool | None = msgspec.field(default=None, name="useRag")
    rag_top_k: TopK | None = msgspec.field(default=None, name="ragTopK")
    rag_filters: dict[str, Any] | str | None = msgspec.field(default=None, name="ragFilters")

    @property
    def searched(self) -> Retrieval:
        """Return the search for the passages. Raises a 400 or 422 for a filter that can't be."""
        return self.retrieval(filters_of(self.rag_filters, "ragFilters"), self.rag_top_k)


class AnswerRequest(Conversation, frozen=True, kw_only=True):
    """A question with its options. Without `retrieval`, the model answers without documents.

    The passages, and what the prompt says of them, are added when it is prepared.
    """

    caller: Caller
    retrieval: Retrieval | None = None
    model: str | None = None  # a configured name; None: the default, and the others when it fails
    target: str | None = None  # a server's kind or a configured name, as AgentX sends it


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request with its passages and the models to ask."""

    conversation: Conversation
    models: tuple[ChatModel, ...]  # to try, in this order
    refusal: str | None = None  # the whole answer if no model is to be asked
    otherwise: tuple[AnswerRequest, ...] = ()  # answered instead, in turn, if a model that quotes finds no answer
    only_calls: bool = False  # nothing was found: the model may call tools, but its text is replaced by a refusal
    warnings: tuple[str, ...] = ()

    @property
    def refuses_json(self) -> bool:
        """Return whether the answer will be a refusal in a sentence though JSON is wanted."""
        return (self.refusal is not None or self.only_calls) and self.conversation.json_format is not None


class Sources(msgspec.Struct, frozen=True):
    """The passages that the answer may cite. They come before the first word; `Answer` has them as well."""

    model: str
    passages: tuple[Passage, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer."""

    text: str
    model: str  # the configured name of the model that answered
    passages: tuple[Passage, ...] = ()  # passages that the model read, or that were quoted
    citations: tuple[Citation, ...] = ()  # in the order of their first mention
    finish_reason: FinishReason = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()  # `total_ns` is always set
    general: bool = False  # from general knowledge, because no document had anything relevant
    warnings: tuple[str, ...] = ()

    @property
    def rag_used(self) -> bool:
        """Return whether a passage entered the prompt."""
        return bool(self.passages)


Progress = Sources | str | Answer  # a str is a piece of the text
_Found = tuple[tuple[Passage, ...], tuple[str, ...]]  # passages, and warnings about the search


@dataclass
class Answering:
    """Answers questions from one index by the configured models."""

    retriever: Retriever
    models: ChatModels
    rate: AnswerRate  # each prepared request counts for it
    settings: Settings
    stopping: Stopping = field(default_factory=Stopping)  # the stop of the server, which ends answers

    def __post_init__(self) -> None:
        self._breakers = {model.name: CircuitBreaker(f"the model {model.name}") for model in self.models.all}

    async def finish(self, prepared: Prepared) -> Answer:
        """Return the complete answer to a prepared request. Raises as `stream` does."""
        async with aclosing(self.stream(prepared)) as progress:
            async for step in progress:
                if isinstance(step, Answer):
                    return step
        raise RuntimeError("the stream ended without an Answer")

    async def prepare(self, request: AnswerRequest) -> Prepared:
        """Return the request with its passages, ready to be streamed.

        Raises:
            Problem: 400, the model or target isn't configured, or can't see images; 429, the caller has used up its
                answers; 501, no model can chat without passages.
            Rejected: the conversation has more tokens than the model takes.
            Unavailable: the search is unavailable, and no setting allows answers without it.
        """
        try:
            models = self.models.chosen(request.model, request.target)
        except UnknownModel as error:
            raise invalid(error.field, str(error)) from None
        self.rate.take(request.caller.key)
        answerable = tuple(model for model in models if not model.answers.needs_passages)
        if not answerable and any(turn.images for turn in request.turns):
            raise invalid("messages", f"has an image, and {models[0].name} only quotes documents")
        if request.retrieval is None:
            if not answerable:
                raise Problem(
                    501,
                    f"plain chat needs a language model, and {models[0].name} only quotes documents: "
                    "set SLUICE_CHAT to a model, or send useRag: true",
                    code="NO_MODEL",
                )
            return await self._prepared(request, answerable)
        if greeting := passage_choice.greeting_for(request.turns[-1].content):
            if answerable[:1] == models[:1]:
                return await self._prepared(request, answerable)
            return await self._prepared(request, models, refusal=greeting)
        conversations = readings(request.turns, quotes=models[0].answers.needs_passages)
        requests = tuple(msgspec.structs.replace(request, turns=turns) for turns in conversations)
        return await self._from_documents(requests, models, answerable)

    async def _from_documents(
        self,
        requests: tuple[AnswerRequest, ...],
        models: tuple[ChatModel, ...],
        answerable: tuple[ChatModel, ...],
    ) -> Prepared:
        """Return the first of the requests, which are readings of one, that has passages; if none has, the longest.

        A model that doesn't only quote gets the whole conversation with the passages of the reading that has some.
        """
        request, quotes = max(requests, key=lambda each: len(each.turns)), models[0].answers.needs_passages
        retrieval = request.retrieval or Retrieval()
        try:
            for reading in requests:
                passages, warnings = await self._found(reading, retrieval, models[0])
                if passages:
                    break
        except Unavailable as error:
            if self.settings.chat_without_store == "off" or not answerable:
                raise
            log.warning("answered_without_search", reason=error.sentence)
            warnings = ("the search is unavailable; this answer was made without the documents",)
            return await self._prepared(request, answerable, warnings=warnings)
        if passages:
            asked, otherwise = (reading, requests[requests.index(reading) + 1 :]) if quotes else (request, ())
            return await self._prepared(asked, models, passages, warnings=warnings, otherwise=otherwise)
        if self.settings.general_knowledge == "on" and answerable:
            return await self._prepared(request, answerable, general=True, warnings=warnings)
        if request.tools and answerable:
            # What the model says about a tool's result comes from there, not from general knowledge.
            only_calls = request.turns[-1].role != "tool"
            return await self._prepared(request, answerable, warnings=warnings, only_calls=only_calls)
        return await self._prepared(request, models, warnings=warnings, refusal=NOTHING_FOUND)

    async def stream(self, prepared: Prepared) -> AsyncGenerator[Progress, None]:
        """Yield `Sources`, the pieces of the text, then the `Answer`; closing the generator stops the model.

        Raises:
            Unavailable: every model failed twice before its first word, one failed after it, or the server is stopping.
            Rejected: the question is longer than the model takes, or it refuses what was sent.
        """
        while True:
            async with aclosing(self._attempts(prepared)) as progress:
                async for step in progress:
                    if prepared.otherwise and isinstance(step, Sources) and not step.passages:
                        break
                    yield step
                else:
                    return
            prepared = await self._from_documents(prepared.otherwise, prepared.models, ())

    async def _attempts(self, prepared: Prepared) -> AsyncGenerator[Progress, None]:
        """Yield the refusal, or the steps of the first attempt that begins. Raises as `stream` does."""
        if prepared.refusal is not None:
            name = prepared.models[0].name
            yield Sources(name, ())
            yield prepared.refusal
            yield Answer(text=prepared.refusal, model=name, usage=Usage(total_ns=0), warnings=prepared.warnings)
            return
        attempts = [model for model in prepared.models for _ in range(TRIES)]
        while True:
            model, *attempts = attempts
            begun = False
            answered = _answered(model, prepared, inert_links=self.settings.answer_links == "inert")
            try:
                with tracing.step("answer", current=False), self._breakers[model.name].guarded():
                    async with aclosing(answered) as progress:
                        while True:
                            step = await self.stopping.limited(anext(progress, None))
                            if step is None:
                                break
                            begun = True
                            yield step
            except PipelineError as error:
                if isinstance(error, Rejected):  # it would refuse again
                    attempts = [each for each in attempts if each is not model]
                if begun or not attempts:
                    raise
                log.warning("answer_retried", model=model.name, reason=error.sentence)
            else:
                return

    async def _passages(self, request: AnswerRequest, retrieval: Retrieval, *, quotes: bool) -> _Found:
        """Return the passages that may be used for an answer, best first: those that pass the relevance gate.

        A model that only quotes reads more passages than it quotes, because reading costs no tokens.
        """
        question = spelled_out(request.turns)
        if quotes and self._takes_chosen(retrieval):
            retrieval = msgspec.structs.replace(retrieval, min_score=0.0)  # each quote is looked at anyway
        if retrieval.compared:
            return await self._of_each(request.caller.tenant, question, retrieval)
        if not quotes:
            return await self.passages(request.caller.tenant, question, retrieval)
        top_k = retrieval.top_k or DEEPER
        top_k = max(top_k, DEEPER) if top_k >= MOST_QUOTED else top_k
        found = await self._searched(request.caller.tenant, question, retrieval, retrieval.where, top_k)
        if ids := focus(question, found[0]):
            where = retrieval.where & of_documents(*ids)
            return await self._searched(request.caller.tenant, question, retrieval, where, top_k)
        return found

    async def passages(self, tenant: str, question: str, retrieval: Retrieval) -> _Found:
        """Return the relevant passages, best first: as many as were asked for, else the supported ones, joined."""
        count = retrieval.top_k or MOST_FOUND
        passages, warnings = await self._searched(tenant, question, retrieval, retrieval.where, count)
        return passages if retrieval.top_k else passage_choice.together(passage_choice.supported(passages)), warnings

    async def _found(self, request: AnswerRequest, retrieval: Retrieval, model: ChatModel) -> _Found:
        """Return the passages for the model, and warnings."""
        quotes = model.answers.needs_passages
        if self._takes_chosen(retrieval) and (not quotes or asks_of_the_whole(request.turns[-1].content)):
            return await self._of_chosen(request, retrieval, model)
        return await self._passages(request, retrieval, quotes=quotes)

    def _takes_chosen(self, retrieval: Retrieval) -> bool:
        """Return whether the documents that the caller chose are read whatever their scores."""
        named = retrieval.min_score is not None or retrieval.gate is not None
        return not (named or {"min_score", "gate"} & self.settings.model_fields_set) and chooses(retrieval.where)

    async def _of_chosen(self, request: AnswerRequest, retrieval: Retrieval, model: ChatModel) -> _Found:
        """Return passages of the documents that the caller chose, and warnings.

        All of them in reading order, if they fit the model; otherwise those found, if the question isn't about the
        whole; otherwise the beginnings of sections and an even spread of the rest.
        """
        tenant, context = request.caller.tenant, await model.answers.context()
        heads = await self.retriever.documents(tenant, retrieval.where, MOST_CHOSEN)
        total = sum(head.chunk_count for head in heads)
        warnings = tuple(await self.retriever.unmatched(tenant, retrieval.where, {head.document_id for head in heads}))
        if total <= MOST_READ:
            whole = _numbered(
                [chunk for head in heads for chunk in await self.retriever.chunks(head, 0, head.chunk_count)], retrieval
            )
            if len(shown(whole, context=context)) == len(whole):
                return whole, warnings
        if not asks_of_the_whole(request.turns[-1].content):
            found = await self._passages(request, retrieval, quotes=False)
            if found[0]:
                return found
        share = max(1, context // PASSAGE_TOKENS // max(1, len(heads)))
        passages = _numbered([chunk for head in heads for chunk in await self._spread(head, share)], retrieval)
        kept = tuple(shown(passages, context=context))
        read = f"the model read {len(kept)} of {total} passages of the chosen documents, evenly spread"
        return kept, (*warnings, read)

    async def _spread(self, head: Head, count: int) -> list[ScoredText]:
        """Return at most `count` chunks of the document, in reading order."""
        if head.chunk_count > MOST_READ:  # its headings aren't read
            return [
                chunk
                for number in range(count)
                for chunk in await self.retriever.chunks(head, number * head.chunk_count // count, 1)
            ]
        chunks = await self.retriever.chunks(head, 0, head.chunk_count)
        return [chunks[at] for at in spread([metadata.get("sectionTitle") for _, metadata, _ in chunks], count)]

    async def _of_each(self, tenant: str, question: str, retrieval: Retrieval) -> _Found:
        """Return passages of every compared document, grouped by document and numbered consecutively."""
        documents = retrieval.compared[:MOST_COMPARED_DOCUMENTS]
        share = max(LEAST_OF_EACH, (retrieval.top_k or MOST_FOUND) // len(documents))
        found, warnings = list[Passage](), dict[str, None]()
        for document in documents:
            where = retrieval.where & of_documents(document)
            passages, doubts = await self._searched(tenant, question, retrieval, where, share)
            found += passages
            warnings |= dict.fromkeys(doubts)
        numbered = (msgspec.structs.replace(each, number=number) for number, each in enumerate(found, start=1))
        return tuple(numbered), tuple(warnings)

    async def _searched(self, tenant: str, question: str, retrieval: Retrieval, where: Filter, top_k: int) -> _Found:
        found = await self.retriever.search(tenant, question, top_k=top_k, where=where)
        least = self.settings.min_score if retrieval.min_score is None else retrieval.min_score
        gate = RelevanceGate(least, retrieval.gate or self.settings.gate)
        hits = [(hit.text, hit.metadata, hit.score) for hit in usable(found.hits, gate)]
        return _numbered(hits, retrieval), tuple(found.warnings)

    async def _prepared(
        self,
        request: AnswerRequest,
        models: tuple[ChatModel, ...],
        passages: tuple[Passage, ...] = (),
        *,
        general: bool = False,
        **more: Any,
    ) -> Prepared:
        """Return the request with its passages; `more` are other fields of `Prepared`."""
        wanted = request.retrieval
        conversation = msgspec.structs.replace(
            request,
            passages=passages,
            compare=bool(wanted and wanted.compared),
            whole=bool(wanted and self._takes_chosen(wanted) and asks_of_the_whole(request.turns[-1].content)),
            general=general,
            from_documents=wanted is not None,
        )
        models = await _that_take(conversation, models)
        return Prepared(conversation=conversation, models=models, **more)


def _numbered(found: Sequence[ScoredText], retrieval: Retrieval) -> tuple[Passage, ...]:
    """Return texts with their metadata and scores as passages, in this order."""
    return tuple(
        Passage(
            number=number,
            text=text_in(retrieval.language, text, metadata),
            title=metadata.get("title") or metadata["path"],
            score=score,
            metadata=metadata,
        )
        for number, (text, metadata, score) in enumerate(found, start=1)
    )


async def _that_take(conversation: Conversation, models: Sequence[ChatModel]) -> tuple[ChatModel, ...]:
    """Return the models whose context has room for the conversation. Raises Rejected if there is none."""
    taking, refusals = [], list[Rejected]()
    contexts = await asyncio.gather(*(model.answers.context() for model in models))
    for model, context in zip(models, contexts, strict=True):
        try:
            if not model.answers.needs_passages:
                check_length(conversation, context)
        except Rejected as error:
            refusals = refusals or [error]
        else:
            taking.append(model)
    if refusals and not taking:
        raise refusals.pop()  # a name for it would keep the conversation until the next full collection
    return tuple(taking)


async def _answered(
    model: ChatModel, prepared: Prepared, *, inert_links: bool = False
) -> AsyncGenerator[Progress, None]:
    """Yield the result of one attempt with one model."""
    began = time.perf_counter_ns()
    conversation = prepared.conversation
    pieces: list[str] = []
    passages: tuple[Passage, ...] = ()
    warnings = prepared.warnings
    calls: tuple[ToolCall, ...] = ()
    stream = model.answers.stream(conversation)
    if inert_links and conversation.passages:
        stream = filtered(stream, InertLinks())
    if prepared.only_calls:
        stream = _only_calls(stream)
    # Closed here, so that a client that goes away stops the model.
    async with aclosing(stream) as events:  # type: ignore[type-var]  # adapters are generators
        async for event in events:
            if isinstance(event, Prompted):
                passages = event.passages
                if event.left_out:
                    warnings += (f"the model didn't read the first {event.left_out} messages: {_LEFT_OUT}",)
                yield Sources(model.name, passages)
                if conversation.general and conversation.json_format is None:
                    pieces.append(GENERAL)
                    yield GENERAL
            elif isinstance(event, str):
                pieces.append(event)
                yield event
            elif isinstance(event, Called):
                calls = event.calls
            else:
                text = "".join(pieces)
                usage = event.usage
                if usage.total_ns is None:
                    usage = msgspec.structs.replace(usage, total_ns=time.perf_counter_ns() - began)
                yield Answer(
                    text=text,
                    model=model.name,
                    passages=passages,
                    citations=() if conversation.json_format else citations(text, passages),  # [1] may be a list
                    finish_reason=event.reason,
                    tool_calls=calls,
                    usage=usage,
                    general=conversation.general,
                    warnings=warnings,
                )


async def _only_calls(events: AsyncIterator[Event]) -> AsyncGenerator[Event, None]:
    """Yield the events without text; the refusal, if no tool is called."""
    called = False
    async with aclosing(events):  # type: ignore[type-var]  # adapters are generators
        async for event in events:
            called = called or isinstance(event, Called)
            if isinstance(event, Finished) and not called:
                yield NOTHING_FOUND
            if not isinstance(event, str):
                yield event


async def replied(
    answering: Answering,
    asked: AnswerRequest,
    request: ApiRequest,
    done: Callable[[Answer], Any],
    *,
    sources: Callable[[Sources], Mapping[str, Any]] | None,
    problem: Callable[[Exception], Problem] | None = None,
) -> Response[Any] | ServerSentEvent:
    """Return the reply that `done` makes of the answer; with `sources`, a stream of events, of which it is the last.

    `sources` makes the first event, and `problem` the error that the caller gets of one of the pipeline.
    """
    prepared = await answering.prepare(asked)
    if sources is not None:
        prepared = msgspec.structs.replace(prepared, warnings=(*prepared.warnings, *warned(request)))
        path = path_of(request.scope)
        return ServerSentEvent(_events(answering.stream(prepared), path, sources, done, problem or broken_off))
    try:
        return Response(done(await answering.finish(prepared)))
    except PipelineError as error:
        if problem is None:
            raise
        raise problem(error) from error


async def _events(
    answered: AsyncGenerator[Progress, None],
    path: str,
    sources: Callable[[Sources], Mapping[str, Any]],
    done: Callable[[Answer], Any],
    problem: Callable[[Exception], Problem],
) -> AsyncIterator[ServerSentEventMessage]:
    """Yield the events. When the client disconnects, this generator is closed, which stops the model."""
    try:
        async with aclosing(answered) as progress:
            async for step in progress:
                if isinstance(step, Sources):
                    yield _event("sources", sources(step))
                elif isinstance(step, str):
                    yield _event("token", {"content": step})
                else:
                    yield _event("done", done(step))
    except Exception as error:  # noqa: BLE001 - the status is already sent; only an event can report the error
        yield _event("error", body(problem(error), path))


def _event(name: str, data: Any) -> ServerSentEventMessage:
    return ServerSentEventMessage(event=name, data=msgspec.json.encode(data))
