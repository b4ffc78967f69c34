"""Compares the log's view of a document with the store's. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from services.embed_worker.points import head_of, payloads
from services.ingest_worker.history import accepted_of, entry_of
from services.operator_cli.verify.findings import IndexDifference, Invariant, JudgedDocument, Remedy
from shared.contracts import ERASED, REFUSED, TERMINAL, Chunk, DocumentVersion, LetterHead, LogPosition
from shared.ids import document_id
from shared.state.index import EMBEDDED, PREFIX, Head, vector_hash
from shared.state.ledger import Entry, Last, older
from shared.store import Filter, Ids, Match, Payload, Point, Sparse

_CHARACTERS: Final = 60  # characters of a value in a sentence
# The codes of outages. A record with a dead letter of such a code was given up too early.
TRANSIENT: Final = frozenset(
    {
        "unavailable",
        "log_unavailable",
        "log_timeout",
        "log_closed",
        "busy",
        "rebalance",
        "no_collection",
        "store_failed",
    }
)


class Expected(msgspec.Struct, frozen=True):
    """A version that must answer. Its points have no dense vector, because only the model can compute it."""

    document: DocumentVersion
    head: Head
    points: dict[str, Point]  # by id; their metadata lack `vectorHash`
    cut_here: bool = True  # False: another chunker cut the text, so neither the points nor their number are known


def expected_of(document: DocumentVersion, chunks: Sequence[Chunk] | None, sparse: Sequence[Sparse] = ()) -> Expected:
    """Return what the index contains when `document` answers; `sparse` has one vector per chunk.

    `chunks` is None if another chunker cut the text: then only the head is known, but for its number of chunks.
    """
    if chunks is None:
        return Expected(document, head_of(document, 0), {}, cut_here=False)
    made = zip(payloads(document, chunks, slice(0, len(chunks))), sparse, strict=True)
    points = {id_: Point(id=id_, payload=payload, sparse=vector) for (id_, payload), vector in made}
    return Expected(document, head_of(document, len(chunks)), points)


def misnamed(document: DocumentVersion, name: str, version: int) -> str | None:
    """Return the fault of a record of documents.extracted with the key of `name` and `version`; None if it is right."""
    if (document.document_id, document.version) != (name, version):
        return f"the record under {name}/{version} is about {document.document_id}/{document.version}"
    if document.raw_hash == ERASED:
        named = document.source or document.path or document.title
        return f"version {version} erases {name}, but still contains {named!r}" if named else None
    if document_id(document.tenant, document.source, document.path) != name:
        return f"{document.tenant}'s {document.source}/{document.path} has another id than {name}"
    return None


def index_judged(name: str, expected: Expected | None, head: Payload | None, points: Sequence[Point]) -> JudgedDocument:
    """Return the differences of a document's head and points. `expected` is None if no version should answer."""
    findings = _Findings(name, expected)
    if expected is None:
        if head is not None:
            findings.add("I2", f"a head of version {head.get('version')!r} of a document that is not on the log")
        for point in points:
            findings.add("I2", f"point {point.id} of a document that is not on the log")
        drop = None if head is None else _only(name, "version", head)
        remedy = Remedy(delete_points=tuple(point.id for point in points), drop_head=drop)
        return JudgedDocument(tuple(findings.all), remedy)
    drop_head, mend_head = _judge_head(findings, expected, head)
    if expected.cut_here:
        delete, mend = _judge_points(findings, expected, points)
    else:
        delete, mend = _judge_versions(findings, expected.document.version, head, points), list[Point]()
    remedy = Remedy(
        delete_points=tuple(delete),
        drop_head=drop_head,
        mend_points=tuple(mend),
        mend_head=mend_head,
        publish=bool(findings.all),
    )
    return JudgedDocument(tuple(findings.all), remedy)


class _Findings:
    def __init__(self, name: str, expected: Expected | None = None, tenant: str | None = None) -> None:
        self._name = name
        self._tenant = expected.document.tenant if expected else tenant
        self.all: list[IndexDifference] = []

    def add(self, invariant: Invariant, sentence: str) -> None:
        self.all.append(IndexDifference(invariant, sentence, self._name, self._tenant))


def _only(name: str, field: str, payload: Payload) -> Filter:
    """Return the filter of a document's point, restricted where possible to the state in which it was seen."""
    seen = payload.get(field)
    return Filter(must=(Ids((name,)), *((Match(field, (seen,)),) if isinstance(seen, int) else ())))


def _judge_head(findings: _Findings, expected: Expected, payload: Payload | None) -> tuple[Filter | None, Head | None]:
    """Return the head to delete, and the one that must replace it at once."""
    wanted = expected.head
    if payload is None:
        findings.add("I1", f"version {wanted.version} has no head")
        return None, None
    drop = _only(wanted.document_id, "version", payload)
    try:
        head = msgspec.convert(payload, Head)
    except msgspec.ValidationError as error:
        findings.add("I1", f"the head can't be read: {error}")
        return drop, None
    head = msgspec.structs.replace(head, withdrawals=(), withdrawal_rev=0)  # withdrawals of later versions that failed
    if not expected.cut_here:
        wanted = msgspec.structs.replace(wanted, chunk_count=head.chunk_count)
    if head == wanted:
        return None, None
    if head.tenant != wanted.tenant:
        findings.add("I8", f"the head has the tenant {head.tenant}, its document {wanted.tenant}")
    if head.version == wanted.version:
        findings.add("I1", f"the head of version {head.version}: {_unequal(head, wanted)}")
        return None, wanted
    findings.add("I1", f"the head is at version {head.version}, the log at {wanted.version}")
    # The workers replace a lower head. With a higher head, they would take the version for a late one.
    return drop if head.version > wanted.version else None, None


def _judge_versions(findings: _Findings, version: int, head: Payload | None, points: Sequence[Point]) -> list[str]:
    """Return the ids of the points to delete: those of other versions. Of this one, only the number is compared."""
    others = [point for point in points if metadata_of(point).get("version") != version]
    for point in others:
        findings.add("I2", f"point {point.id} {_surplus(point, version)}")
    if head is not None and head.get("version") == version:
        count, wanted = len(points) - len(others), head.get("chunkCount", 0)
        if count != wanted:
            findings.add("I1", f"version {version} has {count} points, and its head says {wanted}")
    return [point.id for point in others]


def _judge_points(findings: _Findings, expected: Expected, points: Sequence[Point]) -> tuple[list[str], list[Point]]:
    """Return the ids of the points to delete, and the points to overwrite."""
    version = expected.document.version
    delete, mend, seen = list[str](), list[Point](), set[str]()
    for point in points:
        wanted = expected.points.get(point.id)
        if wanted is None:
            findings.add("I2", f"point {point.id} {_surplus(point, version)}")
            delete.append(point.id)
            continue
        seen.add(point.id)
        faults = _faults(point, wanted, expected.document.tenant)
        for invariant, fault in faults:
            findings.add(invariant, f"point {point.id} (chunk {_order(wanted)}): {fault}")
        if not faults:
            continue
        if (mended := _mended(point, wanted)) is not None:
            mend.append(mended)
        else:
            delete.append(point.id)
    if expected.points and not seen:
        findings.add("I1", f"all {len(expected.points)} points of version {version} are missing")
    for point_id, wanted in expected.points.items():
        if seen and point_id not in seen:
            findings.add("I1", f"point {point_id} (chunk {_order(wanted)}) of version {version} is missing")
    return delete, mend


def _faults(point: Point, wanted: Point, tenant: str) -> list[tuple[Invariant, str]]:
    faults: list[tuple[Invariant, str]] = []
    metadata = metadata_of(point)
    for field, called in (("text", "text"), (EMBEDDED, "embedded text"), (PREFIX, "prefix")):
        found, text = point.payload.get(field), wanted.payload.get(field)
        if found != text:
            faults.append(("I1", f"the {called} is {_short(found)}, not {_short(text)}"))
    if metadata.get("tenant") != tenant:
        faults.append(("I8", f"its tenant is {_short(metadata.get('tenant'))}, its document's {tenant!r}"))
    rest = {key: value for key, value in metadata.items() if key not in ("tenant", "vectorHash")}
    others = {key: value for key, value in metadata_of(wanted).items() if key != "tenant"}
    if rest != others:
        faults.append(("I1", f"the metadata: {_unequal(rest, others)}"))
    if not sound(point):
        faults.append(
            ("I1", "the vector doesn't match its vectorHash" if point.dense is not None else "it has no vector")
        )
    if not alike(point.sparse, wanted.sparse):
        faults.append(("I1", "the sparse vector doesn't match the text"))
    return faults


def sound(point: Point) -> bool:
    """Return whether the point has a vector and it is the one that was written."""
    return point.dense is not None and metadata_of(point).get("vectorHash") == vector_hash(point.dense)


def _mended(point: Point, wanted: Point) -> Point | None:
    """Return the correct point with the found point's vector; None if that vector isn't the text's."""
    metadata = metadata_of(wanted)
    if not sound(point) or metadata_of(point).get("embeddedHash") != metadata["embeddedHash"]:
        return None
    payload = {**wanted.payload, "metadata": {**metadata, "vectorHash": metadata_of(point)["vectorHash"]}}
    return Point(id=point.id, payload=payload, dense=point.dense, sparse=wanted.sparse)


def _surplus(point: Point, version: int) -> str:
    found = metadata_of(point).get("version")
    if not isinstance(found, int) or found == version:
        return f"does not belong to version {version}"
    return f"of version {found} is {'stale' if found < version else 'ahead'}: version {version} answers"


def alike(a: Sparse | None, b: Sparse | None) -> bool:
    """Return whether two sparse vectors are equal, in any order of their terms."""
    return _weights(a) == _weights(b)


def _weights(vector: Sparse | None) -> dict[int, float]:
    if vector is None:
        return {}
    return dict(zip(vector.indices, np.asarray(vector.values, dtype=np.float32).tolist(), strict=True))


def metadata_of(point: Point) -> dict[str, Any]:
    """Return the point's metadata, empty if it has none that can be read."""
    found = point.payload.get("metadata")
    return found if isinstance(found, dict) else {}


def _order(point: Point) -> int:
    order: int = point.payload["metadata"]["chunkOrder"]
    return order


# The ledger


def ledger_judged(
    name: str,
    newest: DocumentVersion | None,
    *,
    failure: LetterHead | None,
    submitted: LogPosition | None,
    payload: Payload | None,
    lettered: bool,
    published: Iterable[int] = (),
) -> JudgedDocument:
    """Return the differences of a document's ledger entry.

    `newest` is the newest version that has an event, `failure` the reason why it can't answer, `published` all versions
    that have an event, and `submitted` the newest submission's place. `lettered` says whether the failure in the entry
    has or had a dead letter.
    """
    if newest is None:
        return _without_event(name, submitted, payload, lettered=lettered)
    findings = _Findings(name, tenant=newest.tenant)
    entry = _read(findings, payload)
    if entry is None:
        if payload is None:
            findings.add("I3", f"version {newest.version} was accepted, and the ledger has no entry")
    else:
        _judge_entry(findings, entry, newest, failure=failure, submitted=submitted, lettered=lettered)
    if not findings.all:
        return JudgedDocument()
    again = submitted if submitted is not None and older(newest.place, submitted) else None
    return JudgedDocument(
        tuple(findings.all),
        Remedy(
            drop_entry=_only(name, "rev", payload) if payload is not None and entry is None else None,
            entry=entry_of(newest, failure, published=tuple(sorted(published))),
            entry_rev=entry.rev if entry else None,
            publish=failure is None,
            resubmit=again,
        ),
    )


def _judge_entry(
    findings: _Findings,
    entry: Entry,
    newest: DocumentVersion,
    *,
    failure: LetterHead | None,
    submitted: LogPosition | None,
    lettered: bool,
) -> None:
    accepted, last = entry.accepted, entry.last
    if entry.tenant != newest.tenant:
        findings.add("I8", f"the ledger entry has the tenant {entry.tenant}, its document {newest.tenant}")
    if not _named_alike(entry, newest):
        findings.add("I3", f"the ledger's entry is of {entry.source}/{entry.path}, not {newest.source}/{newest.path}")
    # A version that failed before its event was published is in the ledger, but not in the truth.
    without_event = accepted.version > newest.version and accepted.version == last.version and last.status == "failed"
    if accepted.version != newest.version and not without_event:
        findings.add("I3", f"the ledger accepted version {accepted.version}, the log's newest is {newest.version}")
    elif not without_event:
        wanted = msgspec.structs.replace(accepted_of(newest), place=accepted.place)
        if not newest.deleted:
            # A later fetch of the same bytes may have brought other validators, and a later reader that gave the same
            # text another fingerprint. An unchanged submission may have sent the body again.
            wanted = msgspec.structs.replace(
                wanted, validators=accepted.validators, extractor=accepted.extractor, body=accepted.body
            )
        if accepted != wanted:
            findings.add("I3", f"the ledger's version {accepted.version}: {_unequal(accepted, wanted)}")
        if older(accepted.place, newest.place):
            findings.add("I3", f"the ledger has version {accepted.version} at a place before its own")
    _judge_end(findings, entry, newest, failure, lettered=lettered)
    _judge_description(findings, entry, newest)
    if submitted is not None and not entry.ended(submitted):
        findings.add("I3", f"the submission at {_at(submitted)} has not ended: {last.status} at {_at(last.place)}")


def _judge_description(findings: _Findings, entry: Entry, newest: DocumentVersion) -> None:
    if entry.last.version != newest.version or entry.last.status not in {"created", "updated", "unchanged"}:
        return
    for field in ("title", "url", "tags"):
        # A field that the entry lacks comes from the file itself: the entry gets it when the version ends.
        found, wanted = getattr(entry, field), getattr(newest, field)
        if found and found != wanted:
            findings.add("I3", f"the ledger's {field} is {_short(found)}, not {_short(wanted)}")


def _named_alike(entry: Entry, newest: DocumentVersion) -> bool:
    named = entry.source, entry.path
    if newest.raw_hash == ERASED and entry.last.version > newest.version and any(named):
        # It was submitted again and failed, so it has names, but no event with them.
        return document_id(entry.tenant, *named) == newest.document_id == entry.document_id
    return (entry.document_id, *named) == (newest.document_id, newest.source, newest.path)


def _judge_end(
    findings: _Findings, entry: Entry, newest: DocumentVersion, failure: LetterHead | None, *, lettered: bool
) -> None:
    last = entry.last
    if last.status in TERMINAL and (still := entry.open_versions):
        findings.add("I3", f"version {still[0]} has not ended, but a later submission has")
    if last.code in REFUSED or last.moved_to is not None:
        return  # such a submission changed nothing and has no dead letter
    if last.version == newest.version and last.status in TERMINAL:
        well = {newest.outcome} if newest.deleted else {newest.outcome, "unchanged"}
        if last.status == "failed" and failure is None:
            findings.add("I4", f"version {last.version} failed without a dead letter: {_short(last.error)}")
        elif last.status != "failed" and last.status not in well:
            findings.add("I3", f"version {last.version} is {last.status}, and was accepted as {newest.outcome}")
    elif last.status not in TERMINAL:
        findings.add("I3", f"version {last.version} has not ended: it is {last.status}")
    elif last.version < newest.version and last.status != "failed":  # an earlier one may end later
        findings.add("I3", f"the ledger ends at version {last.version}, the log's newest is {newest.version}")
    elif last.status != "failed":
        findings.add("I3", f"version {last.version} is {last.status}, but the log's newest version is {newest.version}")
    elif not lettered:
        findings.add("I4", f"the submission at {_at(last.place)} failed without a dead letter: {_short(last.error)}")


def _without_event(
    name: str, submitted: LogPosition | None, payload: Payload | None, *, lettered: bool
) -> JudgedDocument:
    findings = _Findings(name)
    entry = _read(findings, payload)
    if payload is None:
        if submitted is not None:
            findings.add("I3", f"the submission at {_at(submitted)} has neither an entry nor an event")
    elif entry is not None:
        failed = entry.last.status == "failed"
        if entry.accepted.version and not failed:
            findings.add("I3", f"the ledger accepted version {entry.accepted.version}, the log has no event of it")
        if failed and not lettered:
            findings.add("I4", f"the submission at {_at(entry.last.place)} failed without a dead letter")
        if submitted is not None and not entry.ended(submitted):
            findings.add("I3", f"the submission at {_at(submitted)} has not ended: {entry.last.status}")
    if not findings.all or submitted is None:  # without the submission, nothing can be decided again
        return JudgedDocument(tuple(findings.all))
    return JudgedDocument(
        tuple(findings.all),
        Remedy(drop_entry=None if payload is None else _only(name, "rev", payload), resubmit=submitted),
    )


def last_of(payload: Payload | None) -> Last | None:
    """Return the newest submission's status from an entry; None if there is no entry, or it can't be read."""
    try:
        return msgspec.convert(payload, Entry).last
    except msgspec.ValidationError:
        return None


def outage(letter: LetterHead) -> str | None:
    """Return the fault of a dead letter that was caused by an outage, else None."""
    if letter.code in TRANSIENT:
        return f"dead-lettered in {letter.stage} because of an outage: {letter.code}: {_short(letter.sentence)}"
    return None


def _read(findings: _Findings, payload: Payload | None) -> Entry | None:
    if payload is None:
        return None
    try:
        return msgspec.convert(payload, Entry)
    except msgspec.ValidationError as error:
        findings.add("I3", f"the ledger's entry can't be read: {error}")
        return None


# Words


def _unequal(one: Any, other: Any) -> str:
    """Return how the fields of two structs differ, or the values of two mappings."""
    found, wanted = msgspec.to_builtins((one, other))
    names = [
        name
        for name in sorted({*found, *wanted})
        if found.get(name) != wanted.get(name) or (name in found) != (name in wanted)
    ]
    shown = ", ".join(f"{name} is {_short(found.get(name))}, not {_short(wanted.get(name))}" for name in names[:3])
    return shown + (f", and {len(names) - 3} more" if len(names) > 3 else "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def _at(place: LogPosition) -> str:
    return f"{place.partition}@{place.offset}"
