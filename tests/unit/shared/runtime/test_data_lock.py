import os
import stat
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from litestar.types import Receive, Scope, Send

from shared.errors import Unavailable
from shared.runtime.connections import Connections
from shared.runtime.data_lock import STATE_FILE, lock_data_folder, made_folder, owner_of, socket_in
from shared.runtime.listening import answered, bound, url_of
from shared.settings import ConfigurationError


@pytest.mark.parametrize("error", [ConfigurationError("no"), Unavailable("away")])
def test_a_failed_start_leaves_no_folder_and_takes_none_that_was_there(tmp_path: Path, error: Exception) -> None:
    def failed(folder: Path, *, kept: bool, with_store: bool = True) -> bool:
        def start() -> None:
            with made_folder(folder, with_store=with_store) as keep:
                (folder / "log.sqlite").touch()
                if kept:
                    keep()
                raise error

        with pytest.raises(type(error)):
            start()
        return folder.exists()

    (tmp_path / "old").mkdir()

    assert not failed(tmp_path / "new", kept=False)
    assert failed(tmp_path / "served", kept=True)
    assert failed(tmp_path / "old", kept=False)
    assert failed(tmp_path / "log alone", kept=False, with_store=False), "a remote store may be paired with it"


def test_who_made_the_folder_and_is_refused_leaves_it_to_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    with ExitStack() as other:

        def start() -> None:
            with made_folder(folder, with_store=True):
                other.enter_context(lock_data_folder(folder))
                with lock_data_folder(folder):
                    pass

        with pytest.raises(ConfigurationError, match="in use by another Sluice"):
            start()
        assert folder.exists()


def test_a_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with ExitStack() as first:
        first.enter_context(lock_data_folder(tmp_path))
        named = f"in use by another Sluice, process {os.getpid()}$"
        with pytest.raises(ConfigurationError, match=named), lock_data_folder(tmp_path):
            pass

    with lock_data_folder(tmp_path):
        pass


async def where(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the address at which the request came in, which tells the folder's socket from a port."""
    del receive
    assert scope["server"] is not None
    body = scope["server"][0].encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def test_only_requests_through_the_folders_socket_are_the_folders(tmp_path: Path) -> None:
    (tmp_path / "serve.sock").touch()  # as one that a killed server left
    assert owner_of(tmp_path) is None
    with bound("127.0.0.1", 0) as port, socket_in(tmp_path) as own:
        assert stat.S_IMODE((tmp_path / "serve.sock").stat().st_mode) == 0o600
        async with answered(where, port, Connections(10), *own):
            assert owner_of(tmp_path) is None, "nobody knows its address yet"
            (tmp_path / STATE_FILE).write_text(f'{{"url": "{url_of(port)}"}}')
            uds, url = owner_of(tmp_path) or ("", "")
            transport = httpx.AsyncHTTPTransport(uds=uds)
            async with (
                httpx.AsyncClient(transport=transport, base_url=url) as through,
                httpx.AsyncClient(base_url=url) as client,
            ):
                assert ((await through.get("/")).text, (await client.get("/")).text) == (
                    str(tmp_path / "serve.sock"),
                    "127.0.0.1",
                )
    assert owner_of(tmp_path) is None
    assert not (tmp_path / "serve.sock").exists()


def test_a_folder_that_can_have_no_socket_is_served_without(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 200)
    long.mkdir()
    (tmp_path / "serve.sock").mkdir()

    for folder in (long, tmp_path):
        with socket_in(folder) as own:
            assert own == []
        assert owner_of(folder) is None
