"""Records of every topic with some bits flipped: no worker stops, and no other document is touched."""

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.query_api.app import make_api
from shared.contracts import DeadLetter, DocumentSubmitted, decode
from shared.errors import Rejected
from shared.ids import document_id
from shared.log import Record
from shared.log.headers import HASH_HEADER
from shared.topics import DEAD_LETTERS, EXTRACTED, STATUS, SUBMITTED, chunks_topic
from tests.contract.logs import until
from tests.e2e.faults import rounds
from tests.e2e.load import new_seed
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Pipeline, running

MOST_BITS = 8
TOGETHER = 10  # mutated records between two good documents: far below what stops a stage


def mutated(record: Record, rng: random.Random) -> dict[str, Any]:
    """Return key, value and headers of the record with 1 to 8 bits flipped, wherever they are.

    Every other one without the hash that tells so: then it meets what decodes it.
    """
    headers = dict(record.headers)
    if rng.random() < 0.5:
        headers.pop(HASH_HEADER, None)
    parts = {"key": bytearray(record.key or b""), "value": bytearray(record.value or b"")}
    parts |= {f"header {name}": bytearray(value or b"") for name, value in headers.items()}
    weights = [len(part) for part in parts.values()]
    for _ in range(rng.randint(1, MOST_BITS)):
        [name] = rng.choices(list(parts), weights)
        parts[name][rng.randrange(len(parts[name]))] ^= 1 << rng.randrange(8)
    return {
        "key": bytes(parts["key"]),
        "value": bytes(parts["value"]) if record.value is not None else None,
        # As text, as our own producers write them; a foreign one's bytes are tests/unit/shared/log's matter.
        "headers": {name: parts[f"header {name}"].decode(errors="replace") for name in headers},
    }


def good(number: int) -> DocumentSubmitted:
    """Return a document of the bystanders'."""
    return DocumentSubmitted(source="good", path=f"{number}.md", text="\n\n".join(paragraphs(1000 + number, 2)))


@pytest.mark.timeout(900)  # a long run's 2,000 beside others
async def test_mutated_records_of_every_topic_stop_nobody(tmp_path: Path) -> None:
    seed = new_seed()
    rng = random.Random(seed)
    count = rounds(ci=300)
    async with running(tmp_path / "data", partitions=2) as pipeline:
        originals = await _of_every_topic(pipeline)
        for number in range(0, count, TOGETHER):
            for _ in range(min(TOGETHER, count - number)):
                topic = rng.choice(sorted(originals))
                record = mutated(rng.choice(originals[topic]), rng)
                # Beside where it came from, so that it meets the stage in the middle of its work.
                await pipeline.parts.publish(topic, record.pop("value"), **record)
            ended = await pipeline.send(good(number))
            assert ended.last.status == "created", ended
        for number in range(0, count, TOGETHER):
            document = good(number)
            name = document_id("default", document.source, document.path)
            assert "\n\n".join(await pipeline.texts(name)) == document.text
        await until(lambda: _is_at_rest(pipeline))  # what was sent for another tenant may end after the last good one
        letters = await _letters(pipeline)
        bugs = await _bugs(pipeline)

    print(f"{count} mutated records, {letters} dead letters")
    assert bugs == []
    assert letters > 0


async def _of_every_topic(pipeline: Pipeline) -> dict[str, list[Record]]:
    """Return the records of documents of all kinds, of every topic that they cross."""
    sent = [
        DocumentSubmitted(source="s", path="a.md", text="\n\n".join(paragraphs(1, 3)), tags=("t",), metadata={"k": 1}),
        DocumentSubmitted(source="s", path="a.md", text="\n\n".join(paragraphs(2, 2)), title="A title"),
        DocumentSubmitted(source="s", path="b.html", content=b"<h1>Bells</h1><p>Three of them ring.</p>"),
        DocumentSubmitted(source="s", path="empty.md", text=" "),
        DocumentSubmitted(source="s", path="long.md", text="\n\n".join(paragraphs(3, 3)) * 400),
        DocumentSubmitted(source="s", path="b.html", deleted=True),
    ]
    for document in sent:
        await pipeline.send(document)
    topics = (SUBMITTED, EXTRACTED, chunks_topic(pipeline.parts.index.generation.id), STATUS, DEAD_LETTERS)
    found = {topic: await pipeline.records(topic) for topic in topics}
    assert all(found.values()), {topic: len(records) for topic, records in found.items()}
    return found


async def _letters(pipeline: Pipeline) -> int:
    """Return how many dead letters the operator is shown; what they hold was mutated as well."""
    transport = httpx.ASGITransport(make_api(pipeline.parts))  # type: ignore[arg-type]  # Litestar's are narrower
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as http:
        reply = await http.get("/ops/dead-letters", params={"limit": 100})
    assert reply.status_code == 200, reply.text
    return int(reply.json()["total"])


async def _bugs(pipeline: Pipeline) -> list[str]:
    """Return what is said in letters of records that our own code stumbled over, rather than refused."""
    found = []
    for record in await pipeline.records(DEAD_LETTERS):
        with suppress(Rejected):  # letters were mutated, too
            letter = decode(record.value, DeadLetter)
            found += [f"{letter.stage}: {letter.sentence}"] if letter.traceback_digest is not None else []
    return found


async def _is_at_rest(pipeline: Pipeline) -> bool:
    """Return whether no stage, store or log says that anything is wrong, or waits."""
    return not any((await pipeline.parts.readiness()).values())
