"""An S3 server on loopback, in a thread: moto's, behind a gate that can fail, stall and cut as real ones do."""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import timedelta
from http.client import HTTPConnection
from typing import Any, Literal
from uuid import uuid4

import pytest

Fault = Literal[
    "hang",  # takes the request and doesn't answer before `release`
    "500",
    "503",
    "403",
    "cut",  # half of the body, then the connection closes
    "page",  # a proxy's page with status 200
    "gone",  # 404 for each object, though the list names it
]
REFUSED = (
    b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>No such key here</Message>"
    b"<RequestId>1</RequestId></Error>"
)
GONE = b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"
PAGE = b"<html><body>Please log in</body></html>"
STATUS = {
    "500": "500 Internal Server Error",
    "503": "503 Slow Down",
    "403": "403 Forbidden",
    "page": "200 OK",
    "gone": "404 Not Found",
}
HANG_S = 30.0  # a guard; tests release


class Bucket:
    """A bucket of a test's own."""

    def __init__(self, server: "S3Server", name: str) -> None:
        self.server = server
        self.name = name

    @property
    def setting(self) -> str:
        return f"s3://{self.name}/kept/here?endpoint={self.server.url}"

    def objects(self) -> dict[str, Any]:
        """Return moto's own objects, by key."""
        from moto.core.models import DEFAULT_ACCOUNT_ID  # half a second, for those that ask for it
        from moto.s3.models import s3_backends

        return dict(s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.name].keys.items())

    def age(self, seconds: float) -> None:
        """Make everything that is in it older."""
        for each in self.objects().values():
            each.last_modified -= timedelta(seconds=seconds)

    def damage(self, data: bytes) -> None:
        """Give everything that is in it other bytes."""
        for each in self.objects().values():
            each.value = data


class S3Server:
    """The server; tests set what fails, and read the requests."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import (
            DomainDispatcherApplication,
            MotoRequestHandler,
            create_backend_app,
        )
        from werkzeug.serving import make_server

        class Quiet(MotoRequestHandler):  # type: ignore[misc]
            def log(self, *arguments: object) -> None:
                """Leave the test's output alone."""

        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._fault: Fault | None = None
        self._method: str | None = None
        self._after = self._times = 0
        self.requests: list[tuple[str, str]] = []  # method, path
        self.arrived = threading.Event()  # a request that hangs
        self.release = threading.Event()

    def fail(self, fault: Fault, *, method: str | None = None, after: int = 0, times: int = 1000) -> None:
        """Let `times` requests fail, of `method` alone if given, but not the next `after`."""
        self._fault, self._method, self._after, self._times = fault, method, after, times
        self.arrived.clear()
        self.release.clear()

    def mend(self) -> None:
        """Answer as it should, also what hangs."""
        self._fault = None
        self.release.set()

    def bucket(self) -> Bucket:
        name = f"test-{uuid4().hex[:12]}"
        asking = HTTPConnection("127.0.0.1", self._server.server_port, timeout=HANG_S)
        with closing(asking):
            asking.request("PUT", f"/{name}")
            assert asking.getresponse().status == 200
        self.requests.clear()
        return Bucket(self, name)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        self.mend()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].reset()

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        self.requests.append((method, environ["PATH_INFO"]))
        fault = self._fault if self._method in {None, method} and self._times > 0 else None
        if fault == "gone" and "list-type" in environ["QUERY_STRING"]:
            fault = None
        if fault is not None and self._after:
            self._after -= 1
            fault = None
        if fault is None:
            return self._moto(environ, start_response)
        self._times -= 1
        if fault == "hang":
            self.arrived.set()
            self.release.wait(HANG_S)
            return self._moto(environ, start_response)
        if fault == "cut":
            return self._cut(environ, start_response)
        # Read to its end, or the rest would be taken for the next request.
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = {"403": REFUSED, "page": PAGE, "gone": GONE}.get(fault, b"")
        start_response(STATUS[fault], [("Content-Length", str(len(body)))])
        return [body]

    def _moto(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        answer: Iterable[bytes] = self._app(environ, start_response)
        return answer

    def _cut(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        def last(status: str, headers: list[tuple[str, str]], *rest: object) -> object:
            return start_response(status, [*headers, ("Connection", "close")], *rest)

        whole = b"".join(self._moto(environ, last))
        return [whole[: len(whole) // 2]]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    server.start()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def s3_bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Yield an empty bucket, with credentials for it in the environment and no other variable of Amazon's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    try:
        yield s3_server.bucket()
    finally:
        s3_server.mend()
