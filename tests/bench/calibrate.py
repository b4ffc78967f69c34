"""`python -m tests.bench.calibrate DATA [CACHE [MODEL]]`: fit the features' weights in a score, and judge the fit.

DATA has folders of judged collections in the BEIR layout, as `tests.bench.eval` reads them; those in FITTED are fitted
on, those in JUDGED only reported. Vectors are kept in CACHE, so that a second run takes seconds. The coefficients go to
`calibrations.json` beside the code; none of the data does. With MODEL, only that model's coefficients change: those of
`words` are kept from a fit with 84,885 pairs, because a later one cost Greek of the ten languages 0.022 nDCG.
"""

import asyncio
import json
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.ingest_worker.chunk import version_chunks
from services.query_api.search.candidates import Candidate, Features, LegRank, fuse
from services.query_api.search.relevance import FILE, WORDS, Calibration, calibrations, question
from services.query_api.search.retrieval import DEPTH
from shared.embedder.minilm import MiniLm
from shared.store.bm25 import Bm25
from tests.bench.eval import judgments, lines, ndcg
from tests.builders import a_version
from tests.fakes.state import GENERATION
from tests.features import features


class Part(NamedTuple):
    """Judged queries of a collection."""

    folder: str
    queries: str
    qrels: str
    weight: float = 1.0  # of each query in the fit


FITTED = (
    Part("ir/scifact", "queries.train.jsonl", "qrels.train.tsv", weight=1.0),
    Part("ir/chunk-spans-dev", "queries.jsonl", "qrels.tsv", weight=2.0),
)
JUDGED = (Part("ir/scifact", "queries.jsonl", "qrels.tsv"),)
TERMS = ("1", "cosine", "coverage", "phrases")
WITHOUT_VECTORS = ("1", "coverage", "phrases")
# Judgements name one or two of the documents that answer a query: more hits are relevant than they say.
# Chosen on the train queries: half of the relevant hits score 0.5 or more, and the calibration error stays below 0.1.
UNJUDGED = 1.5  # added to the logarithm of the odds
RIDGE = 1.0
ROUNDS = 5
FOLDS = 5
FIRST = 10  # hits of each query that are judged
Array = NDArray[np.floating[Any]]


class Passage(NamedTuple):
    """A chunk of a judged document."""

    document: str
    title: str | None
    section: str | None
    text: str

    @property
    def headings(self) -> list[str]:
        return [value for value in (self.title, self.section) if value]


class Pair(NamedTuple):
    """A candidate of a query."""

    document: str
    compared: Features
    relevant: bool  # the document, or the passage itself where spans are judged


class Collection:
    """The passages of a collection with their vectors, searched as the product does."""

    def __init__(self, passages: Sequence[Passage], vectors: NDArray[np.float32]) -> None:
        self.passages = passages
        self._vectors = vectors
        self._bm25 = Bm25()
        postings: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, passage in enumerate(passages):
            sparse = self._bm25.document("\n".join([*passage.headings, passage.text]))
            for term, value in zip(sparse.indices, sparse.values, strict=True):
                postings[term].append((number, value))
        count = len(passages)
        self._postings = {
            term: (math.log(1 + (count - len(found) + 0.5) / (len(found) + 0.5)), found)
            for term, found in postings.items()
        }

    def pairs(self, query: str, vector: NDArray[np.float32], relevant: Callable[[Passage], bool]) -> list[Pair]:
        """Return the candidates of a query in the fused order."""
        cosines = self._vectors @ vector
        words: dict[int, float] = defaultdict(float)
        terms = self._bm25.query(query)
        for term, weight in zip(terms.indices, terms.values, strict=True):
            idf, found = self._postings.get(term, (0.0, ()))
            for number, value in found:
                words[number] += weight * idf * value
        dense = [(int(number), float(cosines[number])) for number in np.argsort(-cosines)[:DEPTH]]
        sparse = sorted(words.items(), key=lambda hit: -hit[1])[:DEPTH]
        candidates: dict[int, Candidate] = {}
        for leg, ranked in (("dense", dense), ("sparse", sparse)):
            for rank, (number, score) in enumerate(ranked, 1):
                candidate = candidates.setdefault(number, self._candidate(number, float(cosines[number])))
                candidate.ranks[leg] = LegRank(rank, score)
        asked = question(query)
        passages = [(self.passages[each.chunk_order], each) for each in fuse(list(candidates.values()))]
        return [Pair(of.document, features(asked, each), relevant(of)) for of, each in passages]

    def _candidate(self, number: int, cosine: float) -> Candidate:
        of = self.passages[number]
        return Candidate(of.text, of.headings, str(number), of.document, chunk_order=number, cosine=cosine)


async def read(folder: Path, cache: Path, model: MiniLm) -> Collection:
    """Return the collection of a folder; chunks and vectors come from the cache where they are in it."""
    names = [cache / f"{folder.name}{suffix}" for suffix in (".passages.json", ".npy")]
    if not names[0].exists():
        found = [
            (item["id"], item["title"] or None, chunk)
            for item in lines(folder / "corpus.jsonl")
            for chunk in version_chunks(
                a_version(path=item["id"], title=item["title"] or None, text_format="markdown"),
                item["text"],
                (),
                generation=msgspec.structs.replace(GENERATION, chunk_size=800),
                tokens=model.tokens,
            )
        ]
        passages = [Passage(name, title, chunk.section, chunk.text) for name, title, chunk in found]
        np.save(names[1], np.array(await model.embed_documents([chunk.embedded for _, _, chunk in found])))
        names[0].write_bytes(msgspec.json.encode(passages))
    passages = [Passage(*row) for row in json.loads(names[0].read_bytes())]
    return Collection(passages, np.load(names[1]))


class Judged(NamedTuple):
    """A query with its candidates and its judgements."""

    pairs: list[Pair]
    grades: Mapping[str, float]
    weight: float


async def judged(data: Path, cache: Path, model: MiniLm, parts: Sequence[Part]) -> list[Judged]:
    """Return each judged query."""
    found = []
    for part in parts:
        folder = data / part.folder
        collection = await read(folder, cache, model)
        spans: dict[str, list[tuple[str, str]]] = defaultdict(list)
        if (folder / "spans.jsonl").exists():
            for span in lines(folder / "spans.jsonl"):
                spans[span["query_id"]].append((span["corpus_id"], " ".join(span["text"].split())))
        grades = judgments(folder / part.qrels)
        for item in lines(folder / part.queries):
            grade = grades.get(item["id"])
            if grade is None:
                continue
            own = spans.get(item["id"])

            def relevant(
                passage: Passage,
                grade: Mapping[str, float] = grade,
                own: Sequence[tuple[str, str]] | None = own,
            ) -> bool:
                if own is None:
                    return grade.get(passage.document, 0) > 0
                text = " ".join(passage.text.split())
                return any(name == passage.document and (span in text or text in span) for name, span in own)

            pairs = collection.pairs(item["text"], await model.embed_query(item["text"]), relevant)
            if own is not None:  # each passage stands for itself
                pairs = [pair._replace(document=str(number)) for number, pair in enumerate(pairs)]
            found.append(Judged(pairs, grade, part.weight))
    return found


def design(pairs: Sequence[Pair], terms: Sequence[str]) -> Array:
    """Return one row a pair, one column a term."""
    fields = {name: np.array([getattr(pair.compared, name) for pair in pairs]) for name in Features._fields}
    fields["1"] = np.ones(len(pairs))
    columns = []
    for term in terms:
        column = np.ones(len(pairs))
        for name in term.split("*"):
            column = column * fields[name]
        columns.append(column)
    return np.stack(columns, axis=1)


def fit(queries: Sequence[Judged], terms: Sequence[str]) -> dict[str, float]:
    """Return the coefficients of the ridge-penalised maximum likelihood.

    A judgement is about a document, and most passages of a relevant one answer nothing. So each document counts by its
    best passage, by the coefficients found so far; a few rounds settle which one that is.
    """
    rows = [design(query.pairs, terms) for query in queries]
    documents = [np.unique([pair.document for pair in query.pairs], return_inverse=True)[1] for query in queries]
    truth = [np.array([pair.relevant for pair in query.pairs], dtype=float) for query in queries]
    found = np.array([float(term != "1") for term in terms])
    for _ in range(ROUNDS):
        chosen = [_best(each @ found, document) for each, document in zip(rows, documents, strict=True)]
        found = _logistic(
            np.concatenate([each[best] for each, best in zip(rows, chosen, strict=True)]),
            np.concatenate([each[best] for each, best in zip(truth, chosen, strict=True)]),
            np.concatenate([np.full(len(best), query.weight) for query, best in zip(queries, chosen, strict=True)]),
        )
    found[0] += UNJUDGED
    return {term: round(float(value), 4) for term, value in zip(terms, found, strict=True)}


def _best(scores: Array, documents: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return where each document's best passage stands."""
    order = np.lexsort((-scores, documents))
    return order[np.r_[True, documents[order][1:] != documents[order][:-1]]]


def _logistic(rows: Array, truth: Array, weights: Array) -> Array:
    """Return the coefficients, by Newton's method; the first column's isn't penalised."""
    penalty = RIDGE * np.diag([0.0] + [1.0] * (rows.shape[1] - 1))
    found = np.zeros(rows.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ found))
        hessian = (rows.T * (weights * chance * (1 - chance))) @ rows + penalty
        step: Array = np.linalg.solve(hessian, rows.T @ (weights * (truth - chance)) - penalty @ found)
        found += step
        if abs(step).max() < 1e-8:
            break
    return found


def expected_calibration_error(scores: Array, truth: Array, bins: int = 10) -> float:
    """Return the mean distance between score and share of relevant hits, over bins of equal width."""
    which = np.minimum((scores * bins).astype(int), bins - 1)
    return float(
        sum(
            abs(scores[which == each].mean() - truth[which == each].mean()) * (which == each).mean()
            for each in set(which)
        )
    )


def area_under_curve(scores: Array, truth: Array) -> float:
    """Return how often a relevant hit scores above an irrelevant one; ties count half."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    for value in np.unique(scores):
        ranks[scores == value] = ranks[scores == value].mean()
    relevant = truth.sum()
    return float((ranks[truth > 0].sum() - relevant * (relevant + 1) / 2) / (relevant * (len(truth) - relevant)))


def calibration(model: str, coefficients: Mapping[str, float], queries: Sequence[Judged]) -> Calibration:
    """Return the coefficients with where they come from."""
    return Calibration(
        model=model,
        fitted_on=", ".join(f"{Path(part.folder).name} {part.queries}" for part in FITTED),
        queries=len(queries),
        pairs=sum(len(query.pairs) for query in queries),
        intercept=coefficients["1"],
        cosine=coefficients.get("cosine", 0.0),
        coverage=coefficients["coverage"],
        phrases=coefficients["phrases"],
    )


def report(name: str, queries: Sequence[Judged], scorers: Sequence[Calibration]) -> str:
    """Return a line of measures; `scorers` holds each query's own, which wasn't fitted on it."""
    scores, truth, gains = [], [], []
    for query, scorer in zip(queries, scorers, strict=True):
        best: dict[str, tuple[float, bool]] = {}  # of each document
        for pair in query.pairs:
            value = scorer.score(*pair.compared)
            if value > best.get(pair.document, (-1.0, False))[0]:
                best[pair.document] = (value, pair.relevant)
        order = sorted(query.pairs, key=lambda pair: -scorer.score(*pair.compared))
        gains.append(ndcg(list(dict.fromkeys(pair.document for pair in order)), query.grades))
        first = list(dict.fromkeys(pair.document for pair in order))[:FIRST]
        scores += [best[document][0] for document in first]
        truth += [best[document][1] for document in first]
    told, true = np.array(scores), np.array(truth, dtype=float)
    return (
        f"{name}: nDCG@10 {sum(gains) / len(gains):.4f}, "
        f"calibration error {expected_calibration_error(told, true):.3f}, "
        f"AUC {area_under_curve(told, true):.3f}, relevant hits at 0.5 or more {(told[true > 0] >= 0.5).mean():.0%} "
        f"({len(queries)} queries)"
    )


async def main() -> int:
    if len(sys.argv) < 2:
        print("usage: python -m tests.bench.calibrate DATA [CACHE [MODEL]]", file=sys.stderr)
        return 2
    data = Path(sys.argv[1])
    cache = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp())
    cache.mkdir(exist_ok=True)
    model = MiniLm(precision="int8")  # the default of new folders
    await model.start()
    try:
        known = await judged(data, cache, model, FITTED)
        unseen = await judged(data, cache, model, JUDGED)
    finally:
        await model.close()
    fitted = calibrations().copy()
    models = {model.model.name: TERMS, WORDS: WITHOUT_VECTORS}
    for name, terms in models.items() if len(sys.argv) < 4 else [(sys.argv[3], models[sys.argv[3]])]:
        folds = [
            calibration(name, fit([query for at, query in enumerate(known) if at % FOLDS != fold], terms), known)
            for fold in range(FOLDS)
        ]
        own = [folds[at % FOLDS] for at in range(len(known))]
        whole = [query.weight == 1.0 for query in known]  # whose documents are judged, not their passages
        some = [query for query, yes in zip(known, whole, strict=True) if yes]
        print(report(f"{name}, cross-validated", some, [each for each, yes in zip(own, whole, strict=True) if yes]))
        fitted[name] = calibration(name, fit(known, terms), known)
        print(report(f"{name}, never fitted on", unseen, [fitted[name]] * len(unseen)))
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(list(fitted.values())), indent=2) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
