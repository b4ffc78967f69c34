import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.embed_worker.points import chunk_points, head_of, sparse_text
from shared.contracts import Chunk, DocumentVersion, with_header
from shared.embedder import unit
from shared.embedder.half_precision import half_precision
from shared.ids import chunk_id, point_id, text_hash
from shared.state.index import embedded_text, vector_hash
from shared.store import Sparse
from tests.builders import a_version, chunks_of
from tests.unit.services.embed_worker import expected_points


def points_of(document: DocumentVersion, *texts: str, slice_: slice = slice(0, 99)) -> list[dict[str, object]]:
    chunks = chunks_of(*texts)
    part = chunks[slice_]
    vectors = [np.array([n, 1], np.float32) for n in range(len(part))]
    points = chunk_points(document, chunks, slice_, vectors, [Sparse([1], [1.0])] * len(part))
    assert [point.id for point in points] == [point_id("d", 5, chunk.order) for chunk in part]
    return [point.payload["metadata"] for point in points]


def test_a_callers_metadata_rides_along_and_covers_nothing_of_ours() -> None:
    [metadata] = points_of(a_version(metadata={"tenant": "victim", "version": 9, "chunkId": "x", "colour": "red"}), "a")

    assert metadata["colour"] == "red"
    assert (metadata["tenant"], metadata["version"]) == ("t", 5)
    assert metadata["chunkId"] == chunk_id("d", text_hash("a"), 0)


def test_equal_chunks_have_ids_of_their_own_whichever_slice_they_come_in() -> None:
    whole = [m["chunkId"] for m in points_of(a_version(), "a", "b", "a")]
    last = [m["chunkId"] for m in points_of(a_version(), "a", "b", "a", slice_=slice(2, 4))]

    assert len(set(whole)) == 3
    assert last == whole[2:]


def test_a_point_tells_where_it_comes_from_and_what_its_vector_was() -> None:
    [metadata] = points_of(a_version(), "a")

    assert metadata["origin"] == {"topic": "documents.submitted", "partition": 3, "offset": 7}
    assert metadata["vectorHash"] == vector_hash(np.array([0, 1], np.float32))
    assert metadata["updatedAt"] == "2023-11-14T22:13:20.001Z"


def test_a_vector_in_half_precision_is_what_the_store_gets_and_the_hash_is_of() -> None:
    [chunk], vector = chunks_of("a"), unit(np.random.default_rng(1).standard_normal(384))
    sparse = [Sparse([1], [1.0])]

    [half] = chunk_points(a_version(), [chunk], slice(0, 1), [vector], sparse, precision="half")
    [full] = chunk_points(a_version(), [chunk], slice(0, 1), [vector], sparse)

    assert full.dense is vector
    assert half.dense is not None
    assert half.dense.tobytes() == half_precision([vector])[0].tobytes() != vector.tobytes()
    assert half.payload["metadata"]["vectorHash"] == vector_hash(half.dense)


def test_what_stands_before_a_chunk_rides_along_and_changes_neither_id_nor_text() -> None:
    [chunk] = chunks_of("a")
    with_context = msgspec.structs.replace(chunk, context_before="before")
    vector = [np.array([0, 1], np.float32)]
    plain, more = (
        chunk_points(a_version(), [each], slice(0, 1), vector, [Sparse([1], [1.0])])[0]
        for each in (chunk, with_context)
    )

    assert more.payload["metadata"]["contextBefore"] == "before"
    assert "contextBefore" not in plain.payload["metadata"]
    assert (more.id, more.payload["text"]) == (plain.id, plain.payload["text"])


def test_the_header_of_a_table_is_shown_and_searched_by_words() -> None:
    chunk = msgspec.structs.replace(chunks_of("| 8081 |")[0], table_header="| Port |")

    [point] = chunk_points(a_version(), [chunk], slice(0, 1), [np.array([0, 1], np.float32)], [Sparse([1], [1.0])])

    assert point.payload["text"] == "| 8081 |"
    assert point.payload["metadata"]["tableHeader"] == "| Port |"
    assert embedded_text(point.payload) == chunk.embedded == "| Port |\n| 8081 |"
    assert "| Port |" in sparse_text(a_version(), chunk)


def test_a_prefix_is_embedded_and_kept_and_changes_neither_text_nor_ids() -> None:
    [chunk] = chunks_of("a")
    prefixed = msgspec.structs.replace(chunk, prefix="Title > Tea")
    vector = [np.array([0, 1], np.float32)]

    plain, more = (
        chunk_points(a_version(), [each], slice(0, 1), vector, [Sparse([1], [1.0])])[0] for each in (chunk, prefixed)
    )

    assert embedded_text(more.payload) == prefixed.embedded == "Title > Tea\na"
    assert more.payload["metadata"].pop("embeddedHash") == text_hash("Title > Tea\na")
    assert plain.payload["metadata"].pop("embeddedHash") == text_hash("a") == chunk.hash
    assert {name: each for name, each in more.payload.items() if name != "prefix"} == plain.payload


def test_the_title_is_searched_by_words() -> None:
    [chunk] = chunks_of("a")

    assert sparse_text(a_version(title="Title"), chunk) == "Title\na"
    assert sparse_text(a_version(), chunk) == "a"


def test_a_section_and_an_embedded_text_are_searched_by_words_beside_what_is_shown() -> None:
    [chunk] = chunks_of("a")

    more = msgspec.structs.replace(chunk, section="Tea > Green", embedding="b")

    assert sparse_text(a_version(title="Title"), more) == "Title\nTea > Green\na\nb"


def test_a_description_is_searched_once_and_shown_by_every_chunk() -> None:
    document, made = a_version(description="D" * 2_000), chunks_of("a", "b")
    variants = msgspec.structs.replace(made[1], metadata={"languageVariants": {"de": {"text": "ä"}, "fr": "é", "x": 1}})

    points = chunk_points(document, made, slice(0, 2), [np.ones(2, np.float32)] * 2, [Sparse([1], [1.0])] * 2)

    assert sparse_text(document, made[0]) == "a\n" + "D" * 2_000
    assert sparse_text(document, made[1]) == "b"
    assert sparse_text(document, variants) == "b\nä\né"
    assert [len(point.payload["metadata"]["description"]) for point in points] == [1_000, 1_000]


def test_a_ready_made_chunks_own_metadata_go_before_the_documents_and_cover_nothing_of_ours() -> None:
    [chunk] = chunks_of("a")
    own = msgspec.structs.replace(chunk, embedding="b", tags=("x", "y"), metadata={"mood": "warm", "tenant": "victim"})
    vector = [np.array([0, 1], np.float32)]

    [point] = chunk_points(
        a_version(metadata={"mood": "cool"}, tags=("x",)), [own], slice(0, 1), vector, [Sparse([1], [1.0])]
    )

    metadata = point.payload["metadata"]
    assert (metadata["mood"], metadata["tenant"], metadata["tags"]) == ("warm", "t", ["x", "y"])
    assert (point.payload["text"], point.payload["embeddingText"]) == ("a", "b")


def test_a_deletions_head_says_so() -> None:
    head = head_of(a_version(outcome="deleted"), 0)

    assert (head.deleted, head.chunk_count, head.version) == (True, 0, 5)


words = st.text(max_size=6)
variants = st.dictionaries(words, words | st.fixed_dictionaries({"text": words | st.none()}), max_size=2)
versions = st.builds(
    a_version,
    title=st.none() | words,
    description=st.none() | words | st.just("long " * 300),
    url=st.none() | words,
    filename=st.none() | words,
    tags=st.lists(words, max_size=2).map(tuple),
    metadata=st.dictionaries(
        st.sampled_from(["colour", "tenant", "version", "text", "description", "file"]), st.integers() | words
    ),
    file=st.dictionaries(words, words | st.lists(words, max_size=2), max_size=2),
    language=st.none() | words,
    created_at=st.integers(0, 4_000_000_000_000),
    updated_at=st.integers(0, 4_000_000_000_000),
)
chunks = st.lists(
    st.builds(
        lambda text, section, page, before, header, embedding, more: Chunk(
            order=0,
            text=text,
            hash=text_hash(embedding or with_header(text, header)),
            embedding=embedding,
            tags=("own", "red"),
            metadata=more,
            semantic_score=0.5,
            start=0,
            end=len(text),
            tokens=3,
            section=section,
            page=page,
            context_before=before,
            table_header=header,
        ),
        st.sampled_from(["one", "two", "naïve"]),
        st.none() | words,
        st.none() | st.integers(1, 9),
        st.none() | words,
        st.none() | words,
        st.none() | st.just("meant"),
        st.dictionaries(
            st.sampled_from(["colour", "tenant", "tags", "phase", "tableHeader", "languageVariants"]), words | variants
        ),
    ),
    max_size=4,
).map(lambda made: tuple(msgspec.structs.replace(chunk, order=order) for order, chunk in enumerate(made)))


@given(document=versions, made=chunks)
def test_what_the_worker_writes_is_what_the_oracle_expects(document: DocumentVersion, made: tuple[Chunk, ...]) -> None:
    dense = [np.array([n, 1], np.float32) for n in range(len(made))]

    written = chunk_points(document, made, slice(0, len(made)), dense, [Sparse([1], [1.0])] * len(made))

    for point in written:
        del point.payload["metadata"]["vectorHash"]
    assert {point.id: point.payload for point in written} == expected_points.points(document, made)
    assert head_of(document, len(made)) == expected_points.head(document, len(made))
    assert [sparse_text(document, chunk) for chunk in made] == expected_points.texts(document, made)
