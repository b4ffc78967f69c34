"""Reads the log up to a cut and the whole store, compares them, and checks documents that changed meanwhile again."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import xxhash
from aiokafka import TopicPartition

from services.embed_worker.points import sparse_text
from services.ingest_worker.chunk import CHUNKER, from_prepared, version_chunks
from services.ingest_worker.history import History
from services.operator_cli.terminal import CommandProgress
from services.operator_cli.verify import compare
from services.operator_cli.verify.compare import Expected, expected_of, metadata_of, misnamed
from services.operator_cli.verify.findings import IndexDifference, JudgedDocument, Remedy, Tally, VerifyReport
from shared.blobs import Blobs
from shared.claim_check import blob_of_text, prepared_chunks_of, text_of
from shared.contracts import Chunk, DocumentExtracted, DocumentVersion, LetterHead, LogPosition, decode
from shared.embedder import Embedder
from shared.errors import Rejected, Unavailable
from shared.log import Log, Record
from shared.log.headers import check_intact
from shared.log.read import Span, in_batches, records
from shared.state import ledger
from shared.state.generations import AsOf, registry_of
from shared.state.index import Generation, embedded_text
from shared.state.ledger import Last
from shared.store import NO_COLLECTION, Filter, Match, Payload, Point, Store, pages, retrieved
from shared.store.bm25 import Bm25
from shared.topics import DAY, DEAD_LETTERS, EXTRACTED, SUBMITTED, chunks_topic, readers

BATCH: Final = 32  # documents; a record of one has at most a claim check's bytes
SAME: Final = 0.9999  # least cosine of equal vectors, because machines and batch sizes round differently
_FIRST_REST_S, _LONGEST_REST_S = 0.25, 5.0


@dataclass(frozen=True, kw_only=True)
class VerifierParts:
    """The parts to compare, started; the caller stops them."""

    log: Log
    store: Store
    blobs: Blobs
    embedder: Embedder
    bm25: Bm25
    generation: Generation
    as_of: AsOf | None = None  # the past moment that the generation shows; None: the present
    before: tuple[str, ...] = ()  # lost generations in whose place it is


class Cut(NamedTuple):
    """The state of the log at one moment. Committed offsets are read first, so that they are below the ends."""

    committed: dict[TopicPartition, int]  # by the stage that reads the topic; 0 if it never began
    ends: dict[TopicPartition, int]

    def lag(self) -> dict[str, int]:
        """Return the number of unfinished records of each topic that a stage reads."""
        lag: dict[str, int] = {}
        for tp, committed in self.committed.items():
            lag[tp.topic] = lag.get(tp.topic, 0) + max(0, self.ends[tp] - committed)
        return lag


async def cut(log: Log, groups: Mapping[str, str], more: Iterable[str] = ()) -> Cut:
    """Return the log's state. `groups` maps topics to the groups that read them; of `more` topics, only ends are read.

    Raises:
        Unavailable: the log is away, or has no such topic.
    """
    committed = {
        tp: offset or 0 for topic, group in groups.items() for tp, offset in (await log.committed(group, topic)).items()
    }
    ends = {tp: end for topic in (*groups, *more) for tp, end in (await log.end_offsets(topic)).items()}
    return Cut(committed={tp: committed.get(tp, 0) for tp in ends if tp.topic in groups}, ends=ends)


class _Decided(NamedTuple):
    """The version of a document that must answer, and why the newest one doesn't."""

    newest: int | None
    answers: int | None
    failure: LetterHead | None
    lettered: bool  # whether the last submission's dead letter, if any, would still be on the log


@dataclass(kw_only=True)
class _Subject:
    """A document in the check, with the records of the versions that may answer."""

    name: str
    wanted: tuple[int, ...]  # versions, newest first
    records: dict[int, Record] = field(default_factory=dict)


@dataclass(kw_only=True)
class SeenDocument:
    """The result for one document."""

    name: str
    judged: JudgedDocument
    record: Record | None  # of the version that answers


@dataclass
class Verifier:
    """One generation's oracle.

    `sample` is the number of points that are embedded again, None for all. A document that differs while records of it
    are unfinished is checked again for up to `patience_s`, so that a late document isn't reported as wrong. In an index
    of another chunker or tokenizer, documents are compared without their chunks.
    """

    parts: VerifierParts
    watch: CommandProgress
    sample: int | None = 32
    patience_s: float = 30.0

    def __post_init__(self) -> None:
        generation = self.parts.generation
        ours = {generation.bm25: self.parts.bm25.fingerprint, generation.chunker: CHUNKER}
        self._made_by = next((its for its, our in ours.items() if its != our), None)  # code of another release
        self.groups = readers(generation.id)  # by topic, in pipeline order
        self.truth = History(generation.id, self.parts.as_of, self.parts.before)
        self.cut = Cut(committed={}, ends={})
        self._tail: list[tuple[TopicPartition, int, str]] = []  # unfinished records and their documents
        self._rate = 2**64
        self._salt = time.time_ns()
        self._points = self._embedded = 0

    async def verify(self) -> VerifyReport:
        """Return the differences.

        Raises:
            Unavailable: the log, the store, the blobs or the model is away, or there is nothing to read.
        """
        tally = Tally()
        self._points = self._embedded = 0
        await self.read_on()
        on_log = self.truth.documents
        if on_log and await registry_of(self.parts.store) is None:
            tally.add(IndexDifference("I1", f"the store has no generation, and the log has {len(on_log)} documents"))
        in_store = await self._in_store(tally)
        self._rate = await self._sampling()
        unsettled = await self._compare(on_log | in_store, "comparing", tally)
        points, deadline, rest_s = self._points, time.monotonic() + self.patience_s, _FIRST_REST_S
        while unsettled and time.monotonic() < deadline:
            await asyncio.sleep(rest_s)
            rest_s = min(2 * rest_s, _LONGEST_REST_S)
            await self.read_on()
            unsettled = await self._compare(unsettled, "checking again", tally)
        self._judge_log(tally)
        return VerifyReport(
            documents=len(on_log),
            points=points,
            embedded=self._embedded,
            counts={name: count for name, count in tally.counts.items() if count},
            first={name: tuple(differences) for name, differences in tally.first.items() if differences},
            unsettled=tuple(sorted(unsettled)),
            lag={topic: lag for topic, lag in self.cut.lag().items() if lag},
            wrong=tuple(tally.wrong),
            strays=tuple(tally.strays),
            made_by=self._made_by,
        )

    async def _compare(self, names: set[str], what: str, tally: Tally) -> set[str]:
        """Return the documents that differ or have unfinished records; add the differences of the others.

        Everything that the stages had committed when the log was read is in the store that is read now. If no record
        was added meanwhile, the store can't contain anything else.
        """
        busy = self.busy()
        found: dict[str, tuple[IndexDifference, ...]] = {}
        async with aclosing(self.look(names, what)) as looked:
            async for some in looked:
                found |= {each.name: each.judged.differences for each in some if each.judged.differences}
        changing = busy | await self.read_on()
        for name in sorted(found.keys() - changing):
            for difference in found[name]:
                tally.add(difference)
        return found.keys() & changing

    # The log

    async def read_on(self) -> set[str]:
        """Read the log up to its current end; return the documents of the new records."""
        before = self.cut
        now = self.cut = await cut(self.parts.log, self.groups, (DEAD_LETTERS,))
        unfinished = {tp: now.committed.get(tp, end) for tp, end in now.ends.items()}
        # Of the chunked versions only the unfinished ones matter: their content follows from the truth.
        chunks = chunks_topic(self.parts.generation.id)
        begins = {tp: offset if tp.topic == chunks else 0 for tp, offset in unfinished.items()} | before.ends
        spans = {tp: (begins[tp], end) for tp, end in now.ends.items()}
        self._tail = [each for each in self._tail if each[1] >= unfinished[each[0]]]
        about: set[str] = set()
        async with aclosing(records(self.parts.log, spans)) as new:
            async for record in new:
                name = self.truth.see(record)
                tp = TopicPartition(record.topic, record.partition)
                if name is not None:
                    about.add(name)
                    if record.offset >= unfinished[tp]:
                        self._tail.append((tp, record.offset, name))
        return about

    def busy(self) -> set[str]:
        """Return the documents with unfinished records."""
        return {name for _, _, name in self._tail}

    def _judge_log(self, tally: Tally) -> None:
        for sentence in (*self.truth.letters.oddities, *self.truth.versions.oddities):
            tally.add(IndexDifference("I4", sentence))
        for (partition, offset), place in self.truth.unreadable.items():
            tp = TopicPartition(SUBMITTED, partition)
            if offset < self.cut.committed.get(tp, 0) and not self._lettered(place, place.time):
                sentence = f"{SUBMITTED}/{partition}@{offset} can't be read, and is not in the dead letters"
                tally.add(IndexDifference("I4", sentence))
        for letter in self.truth.letters.open.values():
            if (sentence_ := compare.outage(letter)) is not None:
                tally.add(IndexDifference("I4", sentence_))
        for tp, committed in self.cut.committed.items():
            if committed > self.cut.ends[tp]:
                sentence = f"{tp.topic}/{tp.partition} ends at {self.cut.ends[tp]}, and {committed} is committed"
                tally.add(IndexDifference("I5", sentence))

    def _lettered(self, place: LogPosition, since: int) -> bool:
        """Return whether a stage dead-lettered the submission at `place`, or may have; `since` is the failure's time.

        A settled letter leaves a null record, which compaction removes after a day, so after that an absent letter
        proves nothing.
        """
        return self.truth.letters.lettered(place) or int(time.time() * 1000) - since > DAY

    # The store

    async def _in_store(self, tally: Tally) -> set[str]:
        """Return the documents that the store knows; report points that name no document."""
        names = set[str]()
        generation = self.parts.generation
        self.watch.begin("listing", 0)
        # The ledger is of the present: it says nothing about a past moment.
        past = self.parts.as_of is not None
        for collection in (generation.heads,) if past else (ledger.COLLECTION, generation.heads):
            async for point in self._scroll(collection, fields=("documentId",)):
                names.add(point.id)
        async for point in self._scroll(generation.chunks, fields=("metadata.documentId",)):
            self.watch.step(1)
            name = _document(point)
            if name is None:
                tally.add(IndexDifference("I2", f"point {point.id} names no document"))
                tally.strays.append(point.id)
            else:
                names.add(name)
        return names

    async def _scroll(self, collection: str, where: Filter = Filter(), **how: Any) -> AsyncGenerator[Point]:  # noqa: B008 - frozen
        try:
            async for page in pages(self.parts.store, collection, where, **how):
                for point in page:
                    yield point
        except Unavailable as error:
            if error.code != NO_COLLECTION:  # an emptied store has no points
                raise

    async def _payloads(self, collection: str, names: Sequence[str]) -> dict[str, Payload]:
        return {point.id: point.payload for point in await retrieved(self.parts.store, collection, names)}

    async def _sampling(self) -> int:
        """Return the 64-bit bound: points whose number is below it are embedded again."""
        if self.sample is None:
            return 2**64
        chunks = self.parts.generation.chunks
        points = await self.parts.store.count(chunks) if chunks in await self.parts.store.collections() else 0
        return 2**64 * self.sample // max(points, self.sample, 1)

    # Documents

    async def look(self, names: Iterable[str], what: str) -> AsyncGenerator[list[SeenDocument]]:
        """Yield the results of the documents, some at a time, in the log's order, by the log as last read."""
        chosen = set(names)
        self.watch.begin(what, len(chosen))
        async with aclosing(in_batches(self._subjects(chosen), BATCH)) as batches:
            async for batch in batches:
                yield await self._judged(batch)
                self.watch.step(len(batch))

    async def _subjects(self, names: set[str]) -> AsyncGenerator[_Subject]:
        waiting: dict[tuple[int, int], tuple[_Subject, int]] = {}
        without: list[_Subject] = []
        spans: dict[TopicPartition, Span] = {}
        for name in sorted(names):
            subject = _Subject(name=name, wanted=tuple(self.truth.versions.candidates(name, settled=True)))
            for version in subject.wanted:
                at = self.truth.versions.documents[name][version]
                waiting[at.partition, at.offset] = subject, version
                tp = TopicPartition(EXTRACTED, at.partition)
                low, high = spans.get(tp, (at.offset, at.offset + 1))
                spans[tp] = min(low, at.offset), max(high, at.offset + 1)
            if not subject.wanted:
                without.append(subject)
        async with aclosing(records(self.parts.log, spans)) as found:
            async for record in found:
                subject_of = waiting.pop((record.partition, record.offset), None)
                if subject_of is None:
                    continue
                subject, version = subject_of
                subject.records[version] = record
                if len(subject.records) == len(subject.wanted):
                    yield subject
        # If compaction removed a record while we read, a later one exists, which the next round finds.
        gone = {subject.name: subject for subject, _ in waiting.values()}
        for subject in (*without, *gone.values()):
            yield subject

    async def _judged(self, batch: Sequence[_Subject]) -> list[SeenDocument]:
        names = [subject.name for subject in batch]
        generation = self.parts.generation
        # Version 0 isn't a head. It marks a version that was withdrawn before any version had answered.
        found = await self._payloads(generation.heads, names)
        heads = {name: payload for name, payload in found.items() if payload.get("version") != 0}
        entries = {} if self.parts.as_of is not None else await self._payloads(ledger.COLLECTION, names)
        points: dict[str, list[Point]] = defaultdict(list)
        where = Filter(must=(Match("metadata.documentId", tuple(names)),))
        async for point in self._scroll(generation.chunks, where, vectors=True):
            name = _document(point)
            if name is not None:
                points[name].append(point)
        self._points += sum(map(len, points.values()))
        judging = (
            self._judge(subject, heads.get(subject.name), entries.get(subject.name), points[subject.name])
            for subject in batch
        )
        return await asyncio.gather(*judging)  # concurrently, because a bucket answers slowly

    async def _judge(
        self, subject: _Subject, head: Payload | None, entry: Payload | None, points: list[Point]
    ) -> SeenDocument:
        """Return a document's result: read its records, decide which version answers, compare with the store."""
        name = subject.name
        events, faults = self._events(subject)
        if faults:
            return SeenDocument(name=name, judged=JudgedDocument(tuple(faults)), record=None)
        decided = self._decide(name, events, head, entry, points)
        in_ledger = JudgedDocument()
        if self.parts.as_of is None:
            submission = self.truth.newest.get(name)
            in_ledger = compare.ledger_judged(
                name,
                None if decided.newest is None else events[decided.newest].document,
                failure=decided.failure,
                submitted=None if submission is None else submission.place,
                payload=entry,
                lettered=decided.lettered,
                published=self.truth.versions.documents.get(name, ()),
            )
        answering = None if decided.answers is None else events[decided.answers]
        try:
            wanted = None if answering is None else await self._expected(answering)
        except Rejected as error:
            fault = IndexDifference("I1", f"the content of version {decided.answers} is unknown: {error}", name)
            return SeenDocument(name=name, judged=JudgedDocument((*in_ledger.differences, fault)), record=None)
        in_index = compare.index_judged(name, wanted, head, points)
        record = None if decided.answers is None else subject.records[decided.answers]
        judged = _both(_both(in_index, in_ledger), await self._text_kept(answering))
        if wanted is not None:
            judged = _both(judged, await self._embedded_alike(wanted, points))
        return SeenDocument(name=name, judged=judged, record=record)

    def _events(self, subject: _Subject) -> tuple[dict[int, DocumentExtracted], list[IndexDifference]]:
        """Return the readable events of a document by version, and the faults of its records."""
        name = subject.name
        events: dict[int, DocumentExtracted] = {}
        faults: list[IndexDifference] = []
        for version, record in subject.records.items():
            try:
                check_intact(record)
                event = decode(record.value, DocumentExtracted)
            except Rejected as error:
                # An unreadable record is dead-lettered, and a dead-lettered version can't answer.
                if self.truth.versions.failure(name, version, settled=True) is None:
                    faults.append(IndexDifference("I4", f"version {version}: {error}", name))
                continue
            if (wrong := misnamed(event.document, name, version)) is not None:
                faults.append(IndexDifference("I8", wrong, name))
            events[version] = event
        faults += [
            IndexDifference("I1", f"the record of version {version} is missing", name)
            for version in subject.wanted
            if version not in subject.records
        ]
        return events, faults

    def _decide(
        self,
        name: str,
        events: Mapping[int, DocumentExtracted],
        head: Payload | None,
        entry: Payload | None,
        points: Sequence[Point],
    ) -> _Decided:
        """Return which version must answer: the newest one that didn't fail."""
        last = compare.last_of(entry)
        lettered = last is None or self._lettered(last.place, last.at)
        newest = max(events, default=None)
        failure = None if newest is None else self._failure(name, newest, head, last, lettered=lettered)
        retried = last is not None and last.version == newest and last.status in {"created", "updated", "deleted"}
        on = (
            head is not None
            and head.get("version") == newest
            and newest in (metadata_of(point).get("version") for point in points)
        )
        if failure is None or retried or on:  # a retry ended well, or it failed after its switch
            answers = newest
        else:
            failed = self.truth.versions.failure
            older = (v for v in sorted(events, reverse=True) if v != newest and failed(name, v, settled=True) is None)
            answers = next(older, None)
        return _Decided(newest, answers, None if retried else failure, lettered)

    def _failure(
        self, name: str, version: int, head: Payload | None, last: Last | None, *, lettered: bool
    ) -> LetterHead | None:
        """Return why a version can't answer: from its dead letter, or from the ledger if that was settled since."""
        failure = self.truth.versions.failure(name, version, settled=True)
        if failure is not None or last is None or not lettered or (head or {}).get("version") == version:
            return failure
        if (last.version, last.status) != (version, "failed"):
            return None
        return LetterHead(
            stage="",
            code=last.code or "",
            sentence=last.error or "",
            topic="",
            partition=last.place.partition,
            offset=last.place.offset,
            time=last.at,
            place=last.place,
            last_seen=last.at,
        )

    async def _expected(self, event: DocumentExtracted) -> Expected:
        document = event.document
        made: tuple[Chunk, ...] | None = ()
        if event.prepared:
            ready = await prepared_chunks_of(event, self.parts.blobs)
            made = await asyncio.to_thread(from_prepared, ready, self.parts.embedder.tokens)
        elif not document.deleted:
            text = await text_of(event, self.parts.blobs)
            how: dict[str, Any] = {"generation": self.parts.generation, "tokens": self.parts.embedder.tokens}
            split = partial(version_chunks, document, text, event.pages, event.parts, **how)
            made = await asyncio.to_thread(split) if self._made_by is None else None
        if made is None or self._made_by == self.parts.generation.bm25:
            return expected_of(document, None)
        texts = [sparse_text(document, chunk) for chunk in made]
        return expected_of(document, made, await self.parts.bm25.documents(texts))

    async def _text_kept(self, event: DocumentExtracted | None) -> JudgedDocument:
        """Return the fault of a text's blob if the truth has the text itself; else the blob has been read already."""
        if event is None or event.document.text_sha256 is None or not (event.text or event.prepared):
            return JudgedDocument()
        document = event.document
        try:
            await blob_of_text(document, self.parts.blobs)
        except Rejected as error:
            fault = _fault(document, f"the text of version {document.version} can't be shown: {error}")
            return JudgedDocument((fault,), Remedy(text=event.text is not None))
        return JudgedDocument()

    async def _embedded_alike(self, wanted: Expected, points: Sequence[Point]) -> JudgedDocument:
        """Return the chosen points whose vector isn't the model's for their text."""
        chosen = [
            point
            for point in points
            if point.id in wanted.points
            and compare.sound(point)
            and xxhash.xxh3_64_intdigest(point.id.encode(), seed=self._salt) < self._rate
        ]
        if not chosen:
            return JudgedDocument()
        vectors = await self.parts.embedder.embed_documents(
            [embedded_text(wanted.points[point.id].payload) for point in chosen]
        )
        self._embedded += len(chosen)
        wrong = [
            (point.id, cosine)
            for point, vector in zip(chosen, vectors, strict=True)
            if not (cosine := float(np.dot(_dense(point), vector))) >= SAME
        ]
        differs = "the vector differs from the model's for its text"
        faults = (_fault(wanted.document, f"point {point}: {differs} (cosine {cosine:.4f})") for point, cosine in wrong)
        return JudgedDocument(
            tuple(faults), Remedy(delete_points=tuple(point for point, _ in wrong), publish=bool(wrong))
        )


def _fault(document: DocumentVersion, sentence: str) -> IndexDifference:
    return IndexDifference("I1", sentence, document.document_id, document.tenant)


def _document(point: Point) -> str | None:
    name = metadata_of(point).get("documentId")
    return name if isinstance(name, str) else None


def _dense(point: Point) -> np.ndarray[Any, np.dtype[np.float32]]:
    assert point.dense is not None, point.id
    return point.dense


def _both(a: JudgedDocument, b: JudgedDocument) -> JudgedDocument:
    one, other = a.remedy, b.remedy
    either = {name: getattr(one, name) or getattr(other, name) for name in Remedy.__struct_fields__}
    delete = tuple(dict.fromkeys((*one.delete_points, *other.delete_points)))
    mend = tuple(point for point in (*one.mend_points, *other.mend_points) if point.id not in delete)
    remedy = Remedy(**(either | {"delete_points": delete, "mend_points": mend}))
    return JudgedDocument((*a.differences, *b.differences), remedy)
