"""`make eval DATA=…` on a folder of files: what comes out of them, through the real door of a server with the extras.

DATA holds files and either manifest.jsonl {"file", "outcome", "must_contain"?}: documents and what must be found in
them; or gold.jsonl {"file", and "text", or "with" and "without"}: pages and their main text, whole or in passages.
"""

import gzip
import json
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from rich.progress import track

from tests.e2e.harness import Server

_SHINGLE = 4  # words
_READ = "ok"
# The codes that fit an outcome; a file that is damaged or a bomb may end in any way that is an end.
_FITS = {
    "text": {_READ},
    "notext": {_READ, "empty", "invalid"},
    "image": {_READ, "empty", "unsupported"},
    "password": {_READ, "password"},
}
_ENDS = {_READ, "empty", "invalid", "unsupported", "password", "damaged", "too_large"}


def measure(data: Path) -> Iterator[str]:
    """Yield the scores, then a line for each file that falls short."""
    manifest, gold = data / "manifest.jsonl", data / "gold.jsonl"
    rows = [json.loads(line) for line in (manifest if manifest.exists() else gold).read_text().splitlines()]
    found = dict(_texts(data, rows))
    if manifest.exists():
        yield from documents(rows, found)
    elif "text" in rows[0]:
        yield f"main text: F1 {shingles(rows, found):.4f} over {len(rows)} pages"
    else:
        yield f"passages: F1 {passages(rows, found):.4f} over {len(rows)} pages"


def documents(rows: Iterable[Mapping[str, Any]], found: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    shares: list[float] = []
    fits: list[bool] = []
    misses: list[str] = []
    for row in rows:
        code, text = found[row["file"]]
        fits.append(code in _FITS.get(row["outcome"], _ENDS))
        if not fits[-1]:
            misses.append(f"{row['file']}: {code}, where {row['outcome']} was meant")
        wanted = row.get("must_contain")
        if row["outcome"] == "text" and wanted:
            words = _plain(text)
            lost = [phrase for phrase in wanted if _plain(phrase) not in words]
            shares.append(1 - len(lost) / len(wanted))
            misses += [f"{row['file']}: without {phrase!r}" for phrase in lost]
    yield f"phrases {sum(shares) / max(1, len(shares)):.4f} of {len(shares)} files"
    yield f"outcomes {sum(fits) / max(1, len(fits)):.4f} of {len(fits)} files"
    yield from misses


def shingles(rows: Iterable[Mapping[str, Any]], found: Mapping[str, tuple[str, str]]) -> float:
    """Return the F1 of four-word shingles, precision and recall averaged over the pages."""
    precisions: list[float] = []
    recalls: list[float] = []
    for row in rows:
        wanted, got = _shingles(row["text"]), _shingles(found[row["file"]][1])
        both = (wanted & got).total()
        precisions += [both / got.total()] if got else []
        recalls += [both / wanted.total()] if wanted else []
    precision, recall = sum(precisions) / max(1, len(precisions)), sum(recalls) / max(1, len(recalls))
    return 2 * precision * recall / ((precision + recall) or 1)


def passages(rows: Iterable[Mapping[str, Any]], found: Mapping[str, tuple[str, str]]) -> float:
    """Return the F1 of the passages that must come out, against those that must not."""
    right = wrong = missed = 0
    for row in rows:
        text = " ".join(found[row["file"]][1].split())
        right += (kept := sum(" ".join(each.split()) in text for each in row["with"]))
        missed += len(row["with"]) - kept
        wrong += sum(" ".join(each.split()) in text for each in row["without"])
    return 2 * right / ((2 * right + wrong + missed) or 1)


def _texts(data: Path, rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each file's code and plain text, as a sender gets them."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data").start()
        try:
            with server.client(headers={"Prefer": "wait=300"}, timeout=330) as client:
                for row in track(list(rows), "files"):
                    yield row["file"], _text(client, data / row["file"])
        finally:
            server.stop()


def _text(client: httpx.Client, path: Path) -> tuple[str, str]:
    body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    files = {"file": (path.name.removesuffix(".gz"), body)}
    reply = client.post("/rag/ingest/upload", files=files, data={"source": "eval"})
    said = reply.json()
    if reply.status_code != httpx.codes.OK:
        return str(said.get("type", reply.status_code)).rpartition(":")[2], ""
    text = client.get(f"/rag/documents/{said['documentId']}/text", headers={"Accept": "text/plain"})
    return _READ, text.raise_for_status().text


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[|*_#`\\]", " ", unicodedata.normalize("NFKC", text)).split()).casefold()


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", text)
    return Counter(tuple(words[at : at + _SHINGLE]) for at in range(max(1, len(words) - _SHINGLE + 1)) if words)
