"""A real Ollama server for tests, built from its Go module, with an embedding model and a scripted chat model.

`SLUICE_TEST_OLLAMA` (a URL; both models are put onto it), else our own build, else a container, else none.
"""

import hashlib
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from tests.servers import minilm_for_ollama, tiny_chat_gguf
from tests.servers.cache import Recipe, Say, run
from tests.servers.choice import chosen, own
from tests.servers.ports import free_port
from tests.servers.process import ServerProcess

VERSION = "v0.17.4"
HEADER_VERSION = "v0.6.5"  # the last whose module zip holds nlohmann's JSON
IMAGE = "ollama/ollama:0.17.4"
MODULE = "github.com/ollama/ollama"
EMBEDDING_MODEL, CHAT_MODEL = "minilm", "tiny-chat"

CHAT_TEMPLATE = (
    "{{- range .Messages }}<|{{ .Role }}|>{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}"
    "{{ .Content }}<|end|>{{ end }}{{ if and .IsThinkSet .Think }}<|think|>{{ else }}<|assistant|>{{ end }}"
)
ONE_THREAD = {"num_thread": 1}  # its default spins on a busy machine: 3.6 s for an answer of 5 ms

# Module zips leave out folders named vendor, and with them three headers. Decoding sound and pictures is
# not needed here, so those two only have to compile.
_SOUND = """\
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
typedef int ma_result;
typedef uint64_t ma_uint64;
enum { MA_SUCCESS = 0, ma_format_f32 = 5 };
struct ma_decoder_config {};
struct ma_decoder {};
template <class... T> static ma_decoder_config ma_decoder_config_init(T...) { return {}; }
template <class... T> static ma_result ma_decoder_init_memory(T...) { return -1; }
template <class... T> static ma_result ma_decoder_get_length_in_pcm_frames(T...) { return -1; }
template <class... T> static ma_result ma_decoder_read_pcm_frames(T...) { return -1; }
template <class... T> static ma_result ma_decoder_uninit(T...) { return -1; }
"""
_PICTURES = """\
template <class... T> static unsigned char *stbi_load_from_memory(T...) { return nullptr; }
static void stbi_image_free(void *) {}
"""

# Only ggml computes. llama.cpp around it loads models and splits text, and optimising it takes most of the time.
_COMPILER = """\
#!/bin/sh
case "$PWD" in
*/ggml/*) exec g++ "$@" ;;
*) exec g++ "$@" -O0 ;;
esac
"""


def _build(folder: Path, say: Say) -> None:
    say(f"Ollama {VERSION}: compiling, some minutes the first time")
    _compile(folder)
    say("Ollama: adding its models")
    with OllamaServer(folder, folder / "building") as server:
        create_models(server.url)
    shutil.rmtree(folder / "building")


def _compile(folder: Path) -> None:
    older = json.loads(run(["go", "mod", "download", "-json", f"{MODULE}@{HEADER_VERSION}"], cwd=folder))
    # Go keeps what it compiled under the flags, this path among them, so it lies outside the recipe's own folder.
    include = folder.parent / f"ollama-{VERSION}-include"
    for name, text in {
        "miniaudio/miniaudio.h": _SOUND,
        "stb/stb_image.h": _PICTURES,
        "nlohmann/json_fwd.hpp": '#include "json.hpp"\n',
        "nlohmann/json.hpp": Path(older["Dir"], "llama/llama.cpp/common/json.hpp").read_text("utf-8"),
    }.items():
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        (include / name).write_text(text, "utf-8")
    compiler = include.with_name(f"{include.name}-g++")
    compiler.write_text(_COMPILER, "utf-8")
    compiler.chmod(0o755)
    optimise = f"-O2{_march()}"
    run(
        [
            "go",
            "install",
            "-ldflags",
            f"-s -w -X={MODULE}/version.Version={VERSION.removeprefix('v')}",
            f"{MODULE}@{VERSION}",
        ],
        cwd=folder,
        env=os.environ
        | {
            "CGO_ENABLED": "1",
            "CXX": str(compiler),
            "CGO_CPPFLAGS": f"-I{include}",
            "CGO_CFLAGS": optimise,
            "CGO_CXXFLAGS": optimise,
            "GOBIN": str(folder),
        },
    )


def _march() -> str:
    flags = Path("/proc/cpuinfo")
    text = flags.read_text("utf-8") if flags.exists() else ""
    fast = all(f" {name}" in text for name in ("avx2", "fma", "f16c", "bmi2", "movbe"))
    return " -march=x86-64-v3" if fast else ""


RECIPE = Recipe(
    "ollama",
    [
        VERSION,
        HEADER_VERSION,
        _SOUND,
        _PICTURES,
        _COMPILER,
        CHAT_TEMPLATE,
        _march(),
        Path(tiny_chat_gguf.__file__).read_bytes(),
        Path(minilm_for_ollama.__file__).read_bytes(),
    ],
    _build,
)


def missing() -> str | None:
    """Return what a build would lack, or None."""
    for tool, name in (("go", "Go 1.24 or newer"), ("g++", "a C++ compiler")):
        if shutil.which(tool) is None:
            return f"{name} is not installed ({tool})"
    return None


class OllamaServer:
    """A server in a folder of its own, with the models that were built. Its runners are of its group: one outlives a
    server that is killed alone.
    """

    def __init__(self, built: Path, folder: Path, **settings: str) -> None:
        """Take what was built, an empty folder, and settings by their variables, as in OLLAMA_MAX_QUEUE="2"."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._binary = built / "ollama"
        self._folder = folder
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OLLAMA_HOST": f"127.0.0.1:{port}",
            "OLLAMA_MODELS": str(built / "models"),
            "OLLAMA_FLASH_ATTENTION": "0",
            "OLLAMA_NO_CLOUD": "1",
            "OLLAMA_NOPRUNE": "1",
            "OLLAMA_KEEP_ALIVE": "-1",
            **settings,
        }
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, within_s: float = 30) -> None:
        """Return when it answers, at the same address each time."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._process = ServerProcess(
            [self._binary, "serve"], self._folder / "ollama.log", cwd=self._folder, env=self._environment
        )
        deadline = time.monotonic() + within_s
        while not self._process.ended and time.monotonic() < deadline:
            with suppress(OSError):
                if call(self.url, "GET", "/api/version", timeout_s=2)[0] == 200:
                    return
            time.sleep(0.02)
        self._process.kill()
        raise RuntimeError(f"Ollama did not start; its last words:\n{self._process.last_words()}")

    def kill(self) -> None:
        """End it at once (kill -9)."""
        if self._process is not None:
            self._process.kill()

    @property
    def pid(self) -> int:
        return self._running.pid

    def pause(self) -> None:
        self._running.pause()

    def resume(self) -> None:
        self._running.resume()

    @property
    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("Ollama was not started")
        return self._process


def call(
    url: str, method: str, path: str, body: bytes | dict[str, object] | None = None, timeout_s: float = 120
) -> tuple[int, bytes]:
    """Return status and body of the server's answer."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    request = urllib.request.Request(url + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def create_models(url: str) -> None:
    """Put both models onto a server."""
    embedding = {name: _upload(url, path.read_bytes()) for name, path in minilm_for_ollama.files().items()}
    _create(url, EMBEDDING_MODEL, embedding, ONE_THREAD)
    # At temperature 0 it always says the same.
    settings = {**ONE_THREAD, "num_ctx": 8192, "num_predict": 600, "temperature": 0}
    _create(url, CHAT_MODEL, {"tiny.gguf": _upload(url, tiny_chat_gguf.model())}, settings, CHAT_TEMPLATE)


def _upload(url: str, data: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    # It doesn't read the body of a blob that it has, and the connection breaks.
    if call(url, "HEAD", f"/api/blobs/{digest}")[0] != 200:
        status, answer = call(url, "POST", f"/api/blobs/{digest}", data)
        if status != 201:
            raise RuntimeError(f"Ollama took no blob: {status} {answer!r}")
    return digest


def _create(url: str, name: str, files: dict[str, str], parameters: dict[str, int], template: str = "") -> None:
    wanted = {"model": name, "files": files, "parameters": parameters, "template": template, "stream": False}
    status, answer = call(url, "POST", "/api/create", wanted)
    if status != 200 or b"success" not in answer:
        raise RuntimeError(f"Ollama made no model {name}: {status} {answer!r}")


def _container() -> Iterator[str]:
    from testcontainers.community.ollama import OllamaContainer  # only where Docker answers

    with OllamaContainer(IMAGE) as container:
        url: str = container.get_endpoint()  # type: ignore[no-untyped-call]  # it has no types
        create_models(url)
        yield url


@pytest.fixture(scope="session")
def ollama_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a server that tests share, both models on it, or skip where there is none; in CI, fail."""
    given = os.environ.get("SLUICE_TEST_OLLAMA")
    if given:
        create_models(given)
        yield given
        return
    built = chosen("Ollama", RECIPE, missing(), "SLUICE_TEST_OLLAMA")
    if built is None:
        yield from _container()
        return
    with OllamaServer(built, tmp_path_factory.mktemp("ollama")) as server:
        yield server.url


@pytest.fixture
def ollama_server(tmp_path: Path) -> Iterator[OllamaServer]:
    """Yield a server of the test's own, to be killed and paused, or skip where none was built; in CI, fail."""
    with OllamaServer(own("Ollama", RECIPE, missing()), tmp_path / "ollama") as server:
        yield server
