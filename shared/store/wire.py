"""The messages on the store's socket, and the socket's place.

A frame is a length (4 bytes, little endian) and that many bytes of MessagePack. A call has a number, a method and its
arguments. Its reply carries the same number, so one connection can have many calls under way. The port's own structs
are encoded as they are, dense vectors as raw little-endian float32.
"""

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from shared.store import StoreHit

MAX_FRAME = 256 * 1024 * 1024  # bytes; a larger frame means that the other end speaks another protocol
_MAX_SOCKET_PATH = 103  # bytes: macOS allows 104 with the final zero, Linux 108
_HEADER = 4


class Request(NamedTuple):
    """A method of the port or of the engine, and its arguments in their order."""

    method: str
    arguments: Sequence[Any]


# What the caller gets. value: ValueError; settings: ConfigurationError; unavailable, missing: Unavailable.
FailureKind = Literal["value", "settings", "unavailable", "missing"]


class SearchFound(msgspec.Struct, frozen=True, array_like=True):
    """What a search found. A point that several legs found is sent once."""

    rankings: list[list[tuple[str, float]]]  # by leg: id and score
    points: dict[str, tuple[msgspec.Raw, float | None]]  # payload, encoded as `Payload`, and cosine

    def hits(self) -> list[list[StoreHit]]:
        """Return the hits of each leg."""
        points = self.points
        return [[StoreHit(id_, score, *points[id_]) for id_, score in ranking] for ranking in self.rankings]


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A request. Its arguments are decoded in a second step, with the types that the engine's method asks for."""

    number: int
    method: str
    arguments: msgspec.Raw


class CallDone(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """An answer; the caller knows its type and decodes it."""

    number: int
    body: msgspec.Raw


class CallFailed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Why there is no answer."""

    number: int
    kind: FailureKind
    sentence: str


Reply = CallDone | CallFailed


def _encode_vector(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return value.astype("<f4", copy=False).tobytes()
    raise NotImplementedError(f"{type(value).__name__} can't be sent")


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_vector)
CALLS: "msgspec.msgpack.Decoder[Call]" = msgspec.msgpack.Decoder(Call)
REPLIES: "msgspec.msgpack.Decoder[Reply]" = msgspec.msgpack.Decoder(Reply)


def call_frame(number: int, request: Request) -> bytes:
    """Return the frame of a call.

    Raises:
        ValueError: it would be larger than MAX_FRAME.
    """
    return _frame(Call(number, request.method, msgspec.Raw(_encoder.encode(request.arguments))))


def done_frame(number: int, body: Any) -> bytes:
    """Return the frame of an answer. Raises ValueError as `call_frame`."""
    return _frame(CallDone(number, msgspec.Raw(_encoder.encode(body))))


def failed_frame(number: int, kind: FailureKind, sentence: str) -> bytes:
    """Return the frame of a refusal."""
    return _frame(CallFailed(number, kind, sentence))


def _frame(message: Call | Reply) -> bytes:
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME:
        raise ValueError(f"a message of {len(body)} bytes is larger than {MAX_FRAME}")
    return len(body).to_bytes(_HEADER, "little") + body


def body_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return a decoder of answers, or of the arguments of a call, of this type."""
    return msgspec.msgpack.Decoder(kind, dec_hook=lambda _, value: np.frombuffer(value, dtype="<f4"))


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bodies of the frames that `data` completes, in order.

        Raises:
            ValueError: a frame's length is above the limit.
        """
        buffer = self._buffer
        buffer += data
        frames, position = [], 0
        while len(buffer) - position >= _HEADER:
            start = position + _HEADER
            end = start + int.from_bytes(buffer[position:start], "little")
            if end - start > MAX_FRAME:
                raise ValueError(f"a frame of {end - start} bytes is larger than {MAX_FRAME}")
            if end > len(buffer):
                break
            with memoryview(buffer) as view:  # a slice of the buffer itself would be a second copy
                frames.append(bytes(view[start:end]))
            position = end
        del buffer[:position]
        return frames


# What helps if the files of the store can't be read; without the folder's name, because replies have it.
DAMAGED: Final = "if this goes on, stop Sluice, move the store's folder away and start it: the log fills a new one"
IN_FOLDER: Final = "store.sock"  # name of the socket in the store's folder
COLLECTIONS: Final = "collections"  # folder in the store's folder, with a folder for each collection


def socket_paths(folder: Path) -> list[Path]:
    """Return where the store of `folder` may have its socket, the best place first; the same for every process.

    In the folder, so that a command with another temporary folder finds it (systemd's PrivateTmp). In the temporary
    folder, under a hash, if that path is too long, or if the folder's file system has no sockets.
    """
    whole = folder.resolve()
    name = hashlib.sha256(os.fsencode(whole)).hexdigest()[:32] + ".sock"
    place = f"sluice-{os.getuid()}"
    temporary = Path(tempfile.gettempdir()) / place / name
    if len(os.fsencode(temporary)) > _MAX_SOCKET_PATH:
        temporary = Path("/tmp") / place / name  # noqa: S108 - its users check it
    own = whole / IN_FOLDER
    return [own, temporary] if len(os.fsencode(own)) <= _MAX_SOCKET_PATH else [temporary]


def check_private(path: Path) -> None:
    """Raise PermissionError if others may enter the socket's folder; in the store's own, its mode keeps them out."""
    if path.name == IN_FOLDER:
        return
    status = path.parent.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(errno.EACCES, f"{path.parent} must be a folder of this user alone (mode 0700)")
