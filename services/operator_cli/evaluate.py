"""Scores how well a server finds the documents and answers for the questions of a file."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from services.operator_cli.client import Client
from services.operator_cli.errors import CommandError
from shared.answers.ndcg import DEPTH, ndcg

HIT: Final = 5  # results among which a right one counts as a hit
CRITERIA: Final = ("relevance", "accuracy", "completeness")
_OBJECT: Final = re.compile(r"\{[^{}]*\}")
_JUDGE: Final = (
    "You judge an answer. Reply with one JSON object and nothing else: "
    '{"relevance": r, "accuracy": a, "completeness": c}, each a number from 0 (worst) to 1 (best). '
    "Relevance: it is about the question. Accuracy: it agrees with the expected answer. "
    "Completeness: nothing of the expected answer is missing."
)


class EvalQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the file: a question, the paths or ids of the documents that answer it, and optionally the answer."""

    question: str
    documents: tuple[str, ...] = ()  # empty: no document answers the question, so the server should refuse it
    answer: str | None = None


def questions(file: Path) -> list[EvalQuestion]:
    """Return the questions of a JSONL file.

    Raises:
        CommandError: a line isn't a question, or the file has none.
    """
    found = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        if line.strip():
            try:
                found.append(msgspec.json.decode(line, type=EvalQuestion))
            except (msgspec.DecodeError, UnicodeError) as error:
                raise CommandError(f"{file}, line {number}: {error}") from None
    if not found:
        raise CommandError(f"{file} has no question")
    return found


def evaluated(server: Client, asked: Sequence[EvalQuestion], *, judged: bool) -> Iterator[dict[str, Any]]:
    """Yield each question's scores, 0..1. With `judged`, the server's model also judges the answers."""
    for each in asked:
        ranked = _ranked(server.search(each.question, top_k=DEPTH, filters={})["results"], each.documents)
        scores: dict[str, Any] = {"question": each.question}
        if each.documents:
            scores |= {
                "hit": float(any(ranked[:HIT])),
                "mrr": next((1 / rank for rank, right in enumerate(ranked, start=1) if right), 0.0),
                "ndcg": ndcg(ranked, len(set(each.documents))),
            }
        reply = server.ask(each.question, top_k=HIT, filters={})
        if each.documents:
            cited = [citation["documentId"] for citation in reply["citations"]]
            right = {of["documentId"] for of in reply["ragSources"] if _is_one(of["metadata"], each.documents)}
            scores["citations"] = sum(id_ in right for id_ in cited) / len(cited) if cited else 0.0
        else:
            scores["refused"] = float(not reply["ragUsed"])
        if judged and each.answer:
            message = f"Question: {each.question}\nExpected answer: {each.answer}\nAnswer: {reply['response']}"
            scores |= verdict(str(server.send("/chat", {"message": message, "system": _JUDGE})["response"]))
        yield scores


def means(scores: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each score over the questions that have it."""
    names = dict.fromkeys(name for each in scores for name in each if name != "question")
    values = {name: [each[name] for each in scores if name in each] for name in names}
    return {name: round(sum(each) / len(each), 4) for name, each in values.items()}


def _ranked(results: Sequence[Mapping[str, Any]], documents: Sequence[str]) -> list[bool]:
    """Return for each document in the results, in the order of its best passage, whether it is one of `documents`."""
    metadata = {hit["metadata"]["documentId"]: hit["metadata"] for hit in reversed(results)}
    order = dict.fromkeys(hit["metadata"]["documentId"] for hit in results)
    return [_is_one(metadata[id_], documents) for id_ in order]


def _is_one(metadata: Mapping[str, Any], documents: Sequence[str]) -> bool:
    return metadata.get("path") in documents or metadata.get("documentId") in documents


def verdict(reply: str) -> dict[str, float]:
    """Return the scores, 0..1, in a judge's reply, by criterion. Criteria without a valid score are left out."""
    found = _OBJECT.search(reply)
    try:
        given = json.loads(found[0]) if found else {}
    except ValueError:
        return {}
    return {
        name: min(1.0, max(0.0, float(given[name])))
        for name in CRITERIA
        if isinstance(given.get(name), int | float) and not isinstance(given.get(name), bool)
    }
