"""`make eval DATA=…`: retrieval quality of the standalone default on a judged collection, or what is read of files.

DATA holds corpus.jsonl[.gz] {"id", "title", "text"}, queries.jsonl {"id", "text"} and qrels.tsv (query, document,
grade, with a header): the BEIR layout. A document scores as its best passage. For files see `extraction`.
"""

import gzip
import json
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.progress import track

from tests.bench import extraction
from tests.e2e.harness import Server

DEPTH = 10


def ndcg(ranked: Sequence[str], grades: Mapping[str, float], depth: int = DEPTH) -> float:
    """Return nDCG at `depth` with linear gain, as trec_eval computes it: 0..1."""
    gained = sum(grades.get(name, 0) / math.log2(rank + 2) for rank, name in enumerate(ranked[:depth]))
    ideal = sorted(grades.values(), reverse=True)[:depth]
    best = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ideal))
    return gained / best if best else 0.0


def lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            yield json.loads(line)


def judgments(path: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for line in path.read_text().splitlines()[1:]:
        query, name, grade = line.split("\t")[:3]
        found[query][name] = float(grade)
    return {query: grades for query, grades in found.items() if any(grade > 0 for grade in grades.values())}


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: make eval DATA=folder [MODE=hybrid|dense|sparse|all] [EMBEDDER=minilm:]", file=sys.stderr)
        return 2
    data = Path(sys.argv[1])
    if any((data / name).exists() for name in ("manifest.jsonl", "gold.jsonl")):
        for line in extraction.measure(data):
            print(line)
        return 0
    mode = sys.argv[2] if len(sys.argv) > 2 else "hybrid"
    settings = {"EMBEDDER": sys.argv[3]} if len(sys.argv) > 3 else {}
    grades = judgments(data / "qrels.tsv")
    corpus = list(lines(data / "corpus.jsonl"))
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data", **settings).start()
        try:
            with server.client(headers={"Prefer": "wait=300"}) as client, ThreadPoolExecutor(32) as pool:

                def send(item: dict[str, Any]) -> None:
                    body = {"source": "eval", "path": item["id"], "title": item["title"] or None, "text": item["text"]}
                    reply = client.post("/rag/ingest", json=body, timeout=330)
                    if reply.status_code != 200:
                        print(f"{item['id']}: {reply.text[:200]}", file=sys.stderr)

                for _ in track(pool.map(send, corpus), "documents", total=len(corpus)):
                    pass
                modes = ["hybrid", "dense", "sparse"] if mode == "all" else [mode]
                queries = [item for item in lines(data / "queries.jsonl") if item["id"] in grades]
                for each in modes:

                    def score(item: dict[str, Any], each: str = each) -> float:
                        body = {"query": item["text"], "topK": 100, "mode": each}
                        reply = client.post("/rag/search", json=body).raise_for_status()
                        ranked = list(dict.fromkeys(hit["metadata"]["path"] for hit in reply.json()["results"]))
                        return ndcg(ranked, grades[item["id"]])

                    scores = list(pool.map(score, queries))
                    print(f"{each}: nDCG@{DEPTH} {sum(scores) / len(scores):.4f} over {len(scores)} queries")
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
