"""Starting and stopping, as a person at a terminal or an init system does it."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.faults import submitted
from tests.e2e.harness import START_GUARD_S, Server, served
from tests.selection import CI_ONLY, LONG, STORY
from tests.servers import fake_openai

pytestmark = pytest.mark.slow


def refused(data: Path, **settings: str) -> str:
    """Return what a start that can't work says: one line, exit code 2."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    environment |= {f"SLUICE_{key}": value for key, value in {"DATA": str(data), "PORT": "0", **settings}.items()}
    ran = subprocess.run(
        [sys.executable, "-m", "services.operator_cli", "serve"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2, ran.stderr
    [line] = [line for line in ran.stderr.splitlines() if not line.startswith("{")]
    return line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_signal_ends_it_and_its_children_without_a_traceback(tmp_path: Path, number: signal.Signals) -> None:
    server = Server(tmp_path / "data").start()
    family = server.family()

    code = server.stop(number)

    _, alive = psutil.wait_procs(family, timeout=10)
    assert code == 0
    assert alive == []
    assert "Traceback" not in server.log.read_text()
    assert not (server.data / "serve.json").exists()


TURNS = [{"role": "user", "content": "when does it open?"}]
STREAMS: dict[
    str, tuple[dict[str, Any], str]
] = {  # of each protocol: a request, and the end of what says that the answer broke off
    "/chat": ({"message": "when does it open?", "useRag": True}, "event: error"),
    "/v1/chat/completions": ({"model": "rag/gpt-4o-mini", "messages": TURNS}, "data: [DONE]"),
    "/v1/responses": ({"model": "rag/gpt-4o-mini", "input": "when does it open?"}, "event: error"),
    "/api/chat": ({"model": "rag/gpt-4o-mini", "messages": TURNS}, '{"error":"the server is stopping"}'),
}


EACH = 5  # streams of each protocol
UPLOADS = 20
ROUNDS = 10 if LONG else 1


class HalfSent:
    """An upload of which half has arrived, on a connection of its own."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._body = json.dumps(
            {"source": "uploads", "path": path, "text": f"The pier of {path} is lit at six."}
        ).encode()

    async def begin(self, server: Server) -> None:
        """Send the first half."""
        url = httpx.URL(server.url)
        self._reader, self._writer = await asyncio.open_connection(url.host, url.port)
        head = [
            "POST /rag/ingest HTTP/1.1",
            "Host: 127.0.0.1",
            "Prefer: wait=300",
            f"Content-Length: {len(self._body)}",
        ]
        self._writer.write("\r\n".join([*head, "", ""]).encode() + self._body[: len(self._body) // 2])
        await self._writer.drain()

    def finish(self) -> None:
        """Send the other half."""
        self._writer.write(self._body[len(self._body) // 2 :])

    async def reply(self) -> tuple[int, dict[str, Any]]:
        """Return status and body of the reply."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await self._reader.readexactly(int(head.split("content-length:")[1].split()[0]))
        self._writer.close()  # or the server reads on for a while
        return int(head.split()[1]), json.loads(body)


@CI_ONLY
@pytest.mark.timeout(120 * ROUNDS)
async def test_until_it_is_drained_it_answers_unready_and_then_all_that_is_under_way_ends_by_a_reply(
    tmp_path: Path,
) -> None:
    accepted: set[str] = set()
    async with fake_openai.fake_openai() as model, AsyncExitStack() as stack:
        model.fault = "stall"
        chat = f"openai+{model.base}/{fake_openai.CHAT_MODEL}"
        server = Server(tmp_path / "data", CHAT=chat, DRAIN="300", MIN_SCORE="0")
        for round_ in range(ROUNDS):
            await asyncio.to_thread(server.start)
            stack.callback(server.kill)
            accepted |= await stopped_under_load(server, [HalfSent(f"{round_}/{n}") for n in range(UPLOADS)])
            stack.pop_all()

    assert "Traceback" not in server.log.read_text()
    assert accepted - (await submitted(server.data)).keys() == set()  # test_kill.py sees that the next start reads them
    print(f"{ROUNDS} stops: {len(accepted)} uploads accepted, none lost")


async def stopped_under_load(server: Server, uploads: list[HalfSent]) -> set[str]:
    """Stop the server while it answers and takes documents; return the paths of those that it has accepted."""
    told: dict[tuple[str, int], str] = {}
    async with AsyncExitStack() as stack, asyncio.timeout(START_GUARD_S):
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=60, verify=False))
        written = {"source": "s", "path": "a.md", "text": "It opens at noon."}
        assert (await client.post("/rag/ingest", json=written)).json()["status"] in {"created", "unchanged"}

        async def read(path: str, number: int, begun: asyncio.Event) -> None:
            async with client.stream("POST", path, json=STREAMS[path][0] | {"stream": True}) as reply:
                told[path, number] = ""
                async for text in reply.aiter_text():
                    told[path, number] += text
                    if "Acc" in told[path, number]:
                        begun.set()

        async with asyncio.TaskGroup() as readers:
            for path in STREAMS:
                for number in range(EACH):
                    begun = asyncio.Event()
                    readers.create_task(read(path, number, begun))
                    await begun.wait()
            for each in uploads:
                await each.begin(server)
            os.kill(server.pid, signal.SIGTERM)
            while (ready := await client.get("/readyz")).status_code == 200:  # noqa: ASYNC110 - another process's
                await asyncio.sleep(0.01)
            found = await client.post("/rag/search", json={"query": "when does it open?"})
            for each in uploads[::2]:
                each.finish()
            os.kill(server.pid, signal.SIGINT)  # who presses Ctrl-C waits for nothing
            replies = [(each.path, *await each.reply()) for each in uploads]

    assert ready.json()["checks"]["server"] == "it is stopping"
    assert found.json()["results"]
    broken = {
        key for key, text in told.items() if "the server is stopping" not in text or STREAMS[key[0]][1] not in text
    }
    assert (len(told), broken) == (len(STREAMS) * EACH, set())
    refused = {path: body["detail"] for path, status, body in replies if status == 503}
    assert {status for _, status, _ in replies} <= {200, 202, 503}
    assert set(refused.values()) == {"the server is stopping"}
    assert {each.path for each in uploads[1::2]} <= refused.keys(), "half of a document was accepted"
    assert await asyncio.to_thread(server.stop) == 0
    return {path for path, _, _ in replies} - refused.keys()


def test_a_polite_signal_during_the_start_ends_it_without_an_error(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.launch()
    deadline = time.monotonic() + START_GUARD_S
    while not (server.data / "store").exists():
        assert time.monotonic() < deadline, f"the start has not reached the store: {server.tail()}"
        time.sleep(0.01)  # polling another process; there is nothing to await

    code = server.stop()

    assert code == 0
    assert server.log.read_text() == ""


def test_killing_the_main_process_takes_its_children_along(tmp_path: Path) -> None:
    server = Server(tmp_path / "data").start()
    assert len(server.family()) > 1

    server.kill(everything=False)  # waits until every child is gone, or fails


@pytest.mark.feature(260)
def test_a_second_start_finds_its_index_and_embeds_nothing(tmp_path: Path) -> None:
    body = {"source": "s", "path": "a.md", "text": "A lantern on the pier."}
    with served(tmp_path / "data") as server, server.client() as client:
        assert client.post("/rag/ingest", json=body).json()["status"] == "created"
    with served(tmp_path / "data") as server, server.client() as client:
        hits = client.post("/rag/search", json={"query": "lantern"}).json()["results"]
        again = client.post("/rag/ingest", json=body).json()

        assert [hit["text"] for hit in hits] == ["A lantern on the pier."]
        assert again["status"] == "unchanged"
        assert server.metric("sluice_embedded_texts_total") == 0


@pytest.mark.feature(83)
def test_samples_are_loaded_once_a_folder(tmp_path: Path) -> None:
    with served(tmp_path / "data", SAMPLES="on") as server, server.client() as client:
        client.post("/rag/ingest", json={"source": "mine", "path": "a", "text": "behind the samples"})
    first = (tmp_path / "data.log").read_text()
    with served(tmp_path / "data", SAMPLES="on"):
        pass
    both = (tmp_path / "data.log").read_text()

    assert both[len(first) :].count("sample ") == 0


@STORY
def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        line = refused(tmp_path / "data", PORT=str(port))

    assert str(port) in line
    assert "SLUICE_PORT" in line


def test_a_folder_in_use_is_one_line(tmp_path: Path) -> None:
    with served(tmp_path / "data"):
        line = refused(tmp_path / "data")

    assert "in use" in line


def test_a_store_that_is_away_is_one_line(tmp_path: Path) -> None:
    line = refused(tmp_path / "data", STORE="qdrant+http://127.0.0.1:1")

    assert "127.0.0.1:1" in line


def test_an_index_goes_on_with_the_settings_that_it_was_built_with(tmp_path: Path) -> None:
    with served(tmp_path / "data"):
        pass

    with served(tmp_path / "data", CHUNK_SIZE="400") as server, server.client() as client:
        state = client.get("/readyz").json()

    named = "SLUICE_CHUNK_SIZE=400 is not in force, the index was built with 800"
    assert named in json.dumps(state)
    assert named in server.log.read_text()


def test_a_wrong_setting_names_itself_and_its_value(tmp_path: Path) -> None:
    assert "SLUICE_CHUNK_SIZE=7" in refused(tmp_path / "data", CHUNK_SIZE="7")
    assert "SLUICE_HOST=0.0.0.0" in refused(tmp_path / "data", HOST="0.0.0.0")
