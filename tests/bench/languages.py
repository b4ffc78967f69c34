"""`python -m tests.bench.languages`: nDCG@10 by words, by meaning and by both, in ten languages, through HTTP.

Each language has 200 paragraphs and 50 questions (`relevance/languages.py`), in an index that has all of them; a search
is restricted to its language.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from rich.progress import track

from tests.bench.eval import DEPTH, ndcg
from tests.bench.relevance.languages import LANGUAGES, Text, paragraphs, questions
from tests.e2e.harness import Server

MODES = ("sparse", "dense", "hybrid")


def main() -> int:
    settings = {"EMBEDDER": sys.argv[1]} if len(sys.argv) > 1 else {}
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data", **settings).start()
        try:
            with server.client(headers={"Prefer": "wait=300"}) as client, ThreadPoolExecutor(32) as pool:
                items = [(name, paragraph) for name, each in LANGUAGES.items() for paragraph in paragraphs(each)]

                def send(item: tuple[str, Text]) -> None:
                    body = {"source": item[0], "path": item[1].path, "text": item[1].text}
                    client.post("/rag/ingest", json=body, timeout=330).raise_for_status()

                for _ in track(pool.map(send, items), "paragraphs", total=len(items)):
                    pass
                for name, language in LANGUAGES.items():
                    asked = list(questions(language))
                    gains = [sum(_gain(client, name, mode, each) for each in asked) / len(asked) for mode in MODES]
                    print(f"{name}: nDCG@{DEPTH} words {gains[0]:.3f}, dense {gains[1]:.3f}, hybrid {gains[2]:.3f}")
        finally:
            server.stop()
    return 0


def _gain(client: httpx.Client, name: str, mode: str, asked: Text) -> float:
    body = {"query": asked.text, "topK": DEPTH, "mode": mode, "filters": {"source": name}}
    reply = client.post("/rag/search", json=body).raise_for_status()
    return ndcg([hit["metadata"]["path"] for hit in reply.json()["results"]], {asked.path: 1.0})


if __name__ == "__main__":
    sys.exit(main())
