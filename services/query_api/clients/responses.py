"""OpenAI's newer API, `/v1/responses`, without stored state. Some clients use it by default."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal
from uuid import uuid4

import msgspec
from litestar import Response
from litestar.params import JSONBody
from litestar.response import Stream

from services.query_api.answer.answering import Answer, AnswerRequest, RagBody, Retrieval
from services.query_api.answer.conversation_formats import ChatMessage, objects, sampling, turns_of
from services.query_api.clients.asking import AnswerSources, ClientReply
from services.query_api.clients.json_formats import openai_format
from services.query_api.clients.links import SourceLink
from services.query_api.clients.openai import annotations
from services.query_api.clients.vector_stores import ID, MaxResults, RankingOptions, attributes_of, check_store, file_of
from services.query_api.clients.vector_stores import filters_of as conditions_of
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.request import ApiRequest, body_of
from services.query_api.http.route_decorator import EVENT_STREAM, JSON, StreamEvent, answers
from services.query_api.search.filters import filter_of
from shared.answers import Passage, Turn
from shared.answers.follow_up import spelled_out

RESULTS: Final = "file_search_call.results"  # in `include`: the call shows what it found
_TYPE: Final = "file_search"


class FileSearchTool(msgspec.Struct, frozen=True, kw_only=True):
    """The tool as clients send it."""

    vector_store_ids: tuple[str, ...] = (ID,)
    max_num_results: MaxResults | None = None
    filters: dict[str, Any] | None = None
    ranking_options: RankingOptions | None = None


def retrieval_of(tools: Sequence[Mapping[str, Any]], own: Retrieval) -> Retrieval | None:
    """Return the search that the tools ask for, or None. `own` is the request's, which narrows and overrules it.

    Raises:
        Problem: 400, there are two such tools, or one has an invalid field; 404, another vector store is named;
            422, a filter isn't supported.
    """
    asked = [(number, tool) for number, tool in enumerate(tools) if tool.get("type") == _TYPE]
    if not asked:
        return None
    if len(asked) > 1:
        raise invalid(f"tools[{asked[1][0]}]", f"is a second {_TYPE}; one searches all documents")
    [(number, given)] = asked
    tool = body_of(given, FileSearchTool, f"tools[{number}]")
    for id_ in tool.vector_store_ids:
        check_store(id_, f"tools[{number}].vector_store_ids")
    field = f"tools[{number}].filters"
    where = filter_of(conditions_of(tool.filters, field) if tool.filters else None, field)
    least = tool.ranking_options.score_threshold if tool.ranking_options else None
    return msgspec.structs.replace(
        own,
        top_k=own.top_k or tool.max_num_results,
        where=own.where & where,
        # Clients send 0 for "as the server likes".
        min_score=(least or None) if own.min_score is None else own.min_score,
        gate=own.gate or ("each" if least else None),
    )


def call_item(query: str, passages: Sequence[Passage], include: Sequence[Any]) -> dict[str, Any]:
    """Return the search as an item of a response's output; with its results if the client includes them."""
    results = [
        {**file_of(of := each.metadata), "score": each.score, "attributes": attributes_of(of), "text": each.shown}
        for each in passages
    ]
    return {
        "type": "file_search_call",
        "id": f"fs_{uuid4().hex}",
        "status": "completed",
        "queries": [query],
        "results": results if RESULTS in include else None,
    }


def file_citations(answer: Answer) -> list[dict[str, Any]]:
    """Return an annotation for each mark in the answer, in the order of the text.

    `index` is the mark's offset in characters.
    """
    marks = sorted(
        ((start, citation.passage) for citation in answer.citations for start, _ in citation.spans),
        key=lambda mark: (mark[0], mark[1].number),
    )
    return [{"type": "file_citation", "index": start, **file_of(passage.metadata)} for start, passage in marks]


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the text is written."""

    format: Any = None


class ResponsesBody(RagBody, frozen=True, kw_only=True):
    """The request of a response."""

    model: str
    input: Any
    instructions: str | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    text: TextOptions | None = None
    tools: Any = None
    include: list[Any] | None = None
    tool_choice: str | dict[str, Any] | None = None


class ResponseObject(AnswerSources):
    """OpenAI's response; it has more fields than these."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any]
    incomplete_details: dict[str, Any] | None


@answers("/v1/responses", ok={JSON: ResponseObject, EVENT_STREAM: StreamEvent})
async def openai_responses(data: JSONBody[ResponsesBody], request: ApiRequest) -> Response[dict[str, Any]] | Stream:
    """Answer a conversation, whole or as a stream of events."""
    for field in ("previous_response_id", "conversation"):
        if getattr(data, field) is not None:
            raise invalid(field, "nothing is kept between requests; send the whole conversation as input")
    tools = [] if data.tool_choice == "none" else objects(data.tools, "tools")
    own = data.searched
    searched = retrieval_of(tools, own)
    made = _Made(request, data, searches=searched is not None)
    turns = turns_of(messages_of(data.input), "input")
    if data.instructions:
        turns.insert(0, Turn(role="system", content=data.instructions))
    # In the form of chat completions; OpenAI's built-in tools are left out.
    called = (each for each in tools if each.get("type") == "function")
    functions = ({name: value for name, value in each.items() if name not in ("type", "strict")} for each in called)
    asked = AnswerRequest(
        caller=request.user,
        turns=tuple(turns),
        retrieval=searched or own,
        sampling=sampling(data, data.max_output_tokens),
        tools=tuple({"type": "function", "function": each} for each in functions),
        tool_choice=tool_choice_of(data.tool_choice),
        json_format=openai_format(data.text.format if data.text else None, made.choice, "text.format"),
    )
    return await made.reply(asked, stream=bool(data.stream))


def messages_of(given: Any) -> list[ChatMessage]:
    """Return the input as messages: a text, or a list of messages, function calls and their results."""
    if isinstance(given, str):
        return [ChatMessage(role="user", content=given)]
    messages = []
    for number, item in enumerate(objects(given, "input")):
        match item.get("type", "message"):
            case "message":
                messages.append(body_of(item, ChatMessage, f"input[{number}]"))
            case "function_call":
                function = {"name": item.get("name"), "arguments": item.get("arguments")}
                # Of one turn, with its text and its other calls: servers want each turn's calls before any result.
                turn = ChatMessage(role="assistant")
                if messages and messages[-1].role == "assistant":
                    turn = messages.pop()
                calls = [*objects(turn.tool_calls, "input"), {"id": item.get("call_id"), "function": function}]
                messages.append(msgspec.structs.replace(turn, tool_calls=calls))
            case "function_call_output":
                output = item.get("output")
                text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
                messages.append(ChatMessage(role="tool", content=text, tool_call_id=item.get("call_id")))
            case _:  # reasoning and references to stored items, which contain no message
                continue
    return messages


def tool_choice_of(given: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    """Return the choice in the form of chat completions; that of a built-in tool leaves it to the model."""
    if not isinstance(given, dict):
        return given
    return {"type": "function", "function": {"name": given.get("name")}} if given.get("type") == "function" else "auto"


class _Made(ClientReply):
    """A response in the forms of a reply: whole, or as the events of a stream."""

    field = "input"

    def __init__(self, request: ApiRequest, data: ResponsesBody, *, searches: bool) -> None:
        super().__init__(request, data.model, rag=(searches or None) if data.use_rag is None else data.use_rag)
        self._id, self._message = f"resp_{uuid4().hex}", f"msg_{uuid4().hex}"
        self._index = int(searches and self.choice.rag)  # of the message in the output
        self._created = int(time.time())
        self._data = data
        self._sent = 0

    @property
    def _refuses(self) -> bool:
        return self._prepared.refuses_json

    @cached_property
    def _searches(self) -> list[dict[str, Any]]:
        """Return the search as an item of the output, if the tool was asked for."""
        asked = self._prepared.conversation
        call = call_item(spelled_out(asked.turns), asked.passages, self._data.include or ())
        return [call] if self._index else []

    def whole(self, answer: Answer, sources: list[SourceLink]) -> dict[str, Any]:
        asked, answered = self._tokens(answer)
        cut = answer.finish_reason == "length"
        usage = {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answered,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked + answered,
        }
        return {
            **self._head("incomplete" if cut else "completed"),
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": self._output(answer, sources),
            "usage": usage,
            **self._sources(answer, sources),
        }

    def start(self) -> Iterator[bytes]:
        started = {**self._head("in_progress"), "output": [], "usage": None}
        yield self._event("response.created", response=started)
        yield self._event("response.in_progress", response=started)
        yield from self._searched()
        yield self._event("response.output_item.added", output_index=self._index, item=self._item("in_progress", []))
        yield self._event("response.content_part.added", **self._place(), part=self._part("", []))

    def broken(self, problem: Problem) -> Iterator[bytes]:
        yield self._event("error", code=problem.code.lower(), message=problem.sentence, param=None)

    def _searched(self) -> Iterator[bytes]:
        for number, call in enumerate(self._searches):
            begun = {**call, "status": "in_progress", "results": None}
            yield self._event("response.output_item.added", output_index=number, item=begun)
            for step in ("in_progress", "searching", "completed"):
                yield self._event(f"response.file_search_call.{step}", item_id=call["id"], output_index=number)
            yield self._event("response.output_item.done", output_index=number, item=call)

    def end(self, answer: Answer, sources: list[SourceLink]) -> Iterator[bytes]:
        whole = self.whole(answer, sources)
        message, *calls = whole["output"][self._index :]
        [part] = message["content"]
        for number, annotation in enumerate(part.get("annotations", ())):
            yield self._event(
                "response.output_text.annotation.added",
                **self._place(),
                annotation_index=number,
                annotation=annotation,
            )
        if self._refuses:
            yield self._event("response.refusal.done", **self._place(), refusal=part["refusal"])
        else:
            yield self._event("response.output_text.done", **self._place(), text=part["text"], logprobs=[])
        yield self._event("response.content_part.done", **self._place(), part=part)
        yield self._event("response.output_item.done", output_index=self._index, item=message)
        for number, call in enumerate(calls, start=self._index + 1):
            yield self._event("response.output_item.added", output_index=number, item={**call, "arguments": ""})
            done = {"item_id": call["id"], "output_index": number, "name": call["name"], "arguments": call["arguments"]}
            yield self._event("response.function_call_arguments.done", **done)
            yield self._event("response.output_item.done", output_index=number, item=call)
        yield self._event(f"response.{whole['status']}", response=whole)

    def delta(self, piece: str) -> bytes:
        if self._refuses:
            return self._event("response.refusal.delta", **self._place(), delta=piece)
        return self._event("response.output_text.delta", **self._place(), delta=piece, logprobs=[])

    def _output(self, answer: Answer, sources: list[SourceLink]) -> list[dict[str, Any]]:
        urls = [{"type": "url_citation", **each["url_citation"]} for each in annotations(sources)]
        cited = file_citations(answer) if self._searches else urls
        calls = [
            {
                "type": "function_call",
                "id": f"fc_{uuid4().hex}",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
            for call in answer.tool_calls
        ]
        message = self._item("completed", [self._part(answer.text + self._tail(sources), cited)])
        return [*self._searches, message, *calls]

    def _item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "message", "id": self._message, "role": "assistant", "status": status, "content": content}

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._message, "output_index": self._index, "content_index": 0}

    def _head(self, status: str) -> dict[str, Any]:
        data = self._data
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._model,
            "instructions": data.instructions,
            "error": None,
            "incomplete_details": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": data.temperature,
            "top_p": data.top_p,
            "tool_choice": data.tool_choice or "auto",
            "tools": data.tools or [],
            "text": {"format": (data.text and data.text.format) or {"type": "text"}},
            "store": False,
        }

    def _event(self, kind: str, **content: Any) -> bytes:
        data: Mapping[str, Any] = {"type": kind, "sequence_number": self._sent, **content}
        self._sent += 1
        return f"event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"

    def _part(self, text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
        if self._refuses:
            return {"type": "refusal", "refusal": text}
        return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}
