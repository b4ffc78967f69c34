import itertools
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.store import Filter, Ids, Leg, Match, Order, Point, Range, Sparse, wire
from shared.store.edge_engine import arguments_of

VECTOR = np.array([0.25, -1.5, 3e-38], np.float32)


@given(bodies=st.lists(st.binary(max_size=40)), cuts=st.lists(st.integers(0, 400)))
def test_frames_come_out_whole_however_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(body).to_bytes(4, "little") + body for body in bodies)
    borders = [0, *sorted(cut for cut in cuts if cut <= len(stream)), len(stream)]
    frames = wire.Frames()

    out = [frame for start, end in itertools.pairwise(borders) for frame in frames.feed(stream[start:end])]

    assert out == bodies


def test_an_absurd_length_is_refused_before_it_is_waited_for() -> None:
    with pytest.raises(ValueError, match=str(2**32 - 1)):
        wire.Frames().feed(b"\xff\xff\xff\xff")


WHERE = Filter(
    must=(Match("a", ("x", 1, True)), Range("b", gt=1, lte=2**53)),
    must_not=(Ids(("i",)), Match("c", ())),
)


@pytest.mark.parametrize(
    "request_",
    [
        wire.Request("create_collection", ("n", 3, True, {"a": "tenant"}, False)),
        wire.Request("collections", ()),
        wire.Request("set_payload", ("n", {"a": [None, {"ü": 1.5}]}, WHERE)),
        wire.Request("scroll", ("n", WHERE, 5, None, True, ["a.b"], None)),
        wire.Request("scroll", ("n", WHERE, 3, None, False, None, Order("v", True))),
        wire.Request("flush", ()),
    ],
)
def test_a_request_arrives_as_it_was_sent(request_: wire.Request) -> None:
    (frame,) = wire.Frames().feed(wire.call_frame(7, request_))

    call = wire.CALLS.decode(frame)

    assert (call.number, call.method) == (7, request_.method)
    assert arguments_of(call.method).decode(call.arguments) == request_.arguments


def test_vectors_arrive_to_the_bit() -> None:
    point = Point(id="i", payload={}, dense=VECTOR, sparse=Sparse([2**31], [0.1]))
    upsert = wire.Request("upsert", ("n", [point], None))
    search = wire.Request("search", ("n", [Leg(dense=VECTOR), Leg(sparse=point.sparse)], WHERE, 5, "h"))

    (_, [written], _), (_, [dense_leg, sparse_leg], *_) = (
        arguments_of(call.method).decode(call.arguments)
        for call in map(wire.CALLS.decode, wire.Frames().feed(wire.call_frame(0, upsert) + wire.call_frame(1, search)))
    )

    assert written.dense.tobytes() == dense_leg.dense.tobytes() == VECTOR.tobytes()
    assert written.sparse == sparse_leg.sparse == point.sparse


def test_answers_and_refusals_arrive() -> None:
    done, failed = wire.Frames().feed(
        wire.done_frame(3, [Point(id="i", payload={"a": 2**63 - 1}, dense=VECTOR)])
        + wire.failed_frame(4, "missing", "no such thing")
    )

    reply = wire.REPLIES.decode(done)
    assert isinstance(reply, wire.CallDone)
    (point,) = wire.body_decoder(list[Point]).decode(reply.body)
    assert point.payload == {"a": 2**63 - 1}
    assert point.dense.tobytes() == VECTOR.tobytes()
    assert wire.REPLIES.decode(failed) == wire.CallFailed(4, "missing", "no such thing")


@pytest.mark.parametrize("method", ["sing", "answer", "close", "_make", "__init__", "load"])
def test_only_what_the_engine_answers_can_be_asked_for(method: str) -> None:
    with pytest.raises(ValueError, match=method):
        arguments_of(method)


def test_arguments_that_a_method_does_not_take_are_refused() -> None:
    call = wire.CALLS.decode(msgspec.msgpack.encode([9, "count", ["n"]]))

    assert call.number == 9
    with pytest.raises(msgspec.DecodeError, match="length 2"):
        arguments_of(call.method).decode(call.arguments)


@given(parts=st.lists(st.sampled_from(["a", "ü" * 60, "d" * 200, " "]), max_size=12))
def test_a_socket_is_found_from_any_folder(parts: list[str]) -> None:
    folder = Path("/data", *parts)

    paths = wire.socket_paths(folder)

    assert paths
    assert all(len(os.fsencode(path)) < 104 for path in paths)
    assert paths == wire.socket_paths(folder / "x" / "..")
    assert not set(paths) & set(wire.socket_paths(folder / "x"))


def test_a_socket_is_found_below_a_long_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/" + "t" * 150)

    assert all(len(os.fsencode(path)) < 104 for path in wire.socket_paths(Path("/data" * 40)))


@pytest.mark.parametrize(("mode", "private"), [(0o700, True), (0o750, False), (0o701, False), (0o777, False)])
def test_only_a_folder_of_ours_alone_is_private(tmp_path: Path, mode: int, private: bool) -> None:
    folder = tmp_path / "sockets"
    folder.mkdir()
    folder.chmod(mode)
    link = tmp_path / "link"
    link.symlink_to(folder)

    with nullcontext() if private else pytest.raises(PermissionError, match="this user alone"):
        wire.check_private(folder / "a.sock")
    with pytest.raises(PermissionError, match="this user alone"):
        wire.check_private(link / "a.sock")
