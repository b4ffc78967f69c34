"""No output has a secret of the settings: not the commands', not a start's, not a log's; nor where a form is wrong."""

import asyncio
import logging
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import structlog
from pydantic import SecretStr

from services.operator_cli.main import main
from services.query_api.app import ApiParts
from shared.answers.open import open_models
from shared.blobs.open import open_blobs
from shared.embedder.open import open_embedder
from shared.errors import Unavailable
from shared.log.open import open_log
from shared.reranker.served import rerank_address
from shared.runtime.logging_setup import configure_logging
from shared.runtime.resources import embedder_troubles
from shared.settings import ConfigurationError, load_settings
from shared.store.open import open_store
from tests.integration.api import a_client, an_app
from tests.selection import CI_ONLY
from tests.unit.services.operator_cli.conftest import free_port

_ONE, _TWO = "Hush4711", "Hush4712"  # a password of two parts, which a slash may separate
_FORMS = (
    "{scheme}://me:{secret}@127.0.0.1:{port}{path}",
    "{scheme}://me:{secret}@127.0.0.1:port{path}",
    "{scheme}://me:{secret}@127.0.0.1:99999{path}",
    "{scheme}://{secret}@127.0.0.1:{port}{path}",
    "{scheme}://me:{secret}@[::1{path}",
    "nosuch+{scheme}://me:{secret}@127.0.0.1{path}",
    "me:{secret}@127.0.0.1:{port}{path}",
)
_ADDRESSES = {
    "LOG": ("kafka", ""),
    "STORE": ("qdrant+http", ""),
    "EMBEDDER": ("openai+http", "/v1/model"),
    "CHAT": ("ollama", "/model"),
    "RERANK": ("http", "/rerank"),
    "BLOBS": ("s3", "/prefix"),
    "PUBLIC_URL": ("http", " "),
    "CORS_ORIGINS": ("http", "/"),
}
_OTHERS = (
    ("API_KEYS", "acme:admin:{secret}"),
    ("API_KEYS", "acme:{secret}!:query"),
    ("API_KEYS", "{secret}"),
    ("OPENAI_API_KEY", "{secret}é"),
    ("RERANK_API_KEY", "{secret}é"),
    ("QDRANT_API_KEY", "{secret}é"),
    ("SECRET", "{secret}"),
    ("SECRET_FILE", "{secret}"),
    ("LOG", "kafka://127.0.0.1:1?ssl_password={secret}&nosuch=1"),
    ("BLOBS", "s3://bucket?endpoint=http://me:{secret}@127.0.0.1"),
)
_CASES = [
    (name, form.format(scheme=scheme, secret=secret, port=1, path=path))
    for name, (scheme, path) in _ADDRESSES.items()
    for form in _FORMS
    for secret in (_ONE, f"{_ONE}/{_TWO}", f"{_ONE}@{_TWO}")
    if ":{secret}" in form or secret == _ONE  # a path may have an @, as models of Cloudflare do
] + [(name, value.format(secret=_ONE)) for name, value in _OTHERS]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_EMBEDDER", "ollama://127.0.0.1:1/model")  # doctor loads the built-in model's weights
    monkeypatch.setenv("SLUICE_URL", f"http://127.0.0.1:{free_port()}")  # no server answers
    handlers = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = handlers
    structlog.reset_defaults()


@pytest.mark.parametrize("name", ["PUBLIC_URL", "CORS_ORIGINS"])
def test_an_address_that_callers_see_has_no_password(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"SLUICE_{name}", f"http://me:{_ONE}@docs.example")

    with pytest.raises(ConfigurationError, match=f"SLUICE_{name}") as refused:
        load_settings()

    assert _ONE not in str(refused.value)


@pytest.mark.asyncio(loop_scope="session")
async def test_no_reply_of_a_running_server_has_a_secret_of_the_settings(parts: ApiParts) -> None:
    addresses = {name.lower(): f"{scheme}://me:{_ONE}@127.0.0.1:1{path}" for name, (scheme, path) in _ADDRESSES.items()}
    secrets = dict.fromkeys(("openai_api_key", "qdrant_api_key", "rerank_api_key", "secret"), SecretStr(_ONE))
    others = {"public_url": "", "cors_origins": "", "embedder": "openai+http://127.0.0.1:1/v1/model"}
    settings = parts.settings.model_copy(update=addresses | secrets | others)
    embedder = open_embedder(settings.embedder, settings.openai_api_key)

    async def troubles() -> dict[str, str | None]:
        return {"log": None, **await embedder_troubles(embedder)}

    app = an_app(parts, settings=settings, readiness=troubles)
    async with a_client(app) as client:
        client.headers["X-API-Key"] = "key-operator"
        replies = {
            path: await client.get(path) for path in ("/readyz", "/ops/config", "/metrics", "/openapi.json", "/")
        }
    await embedder.close()

    assert replies["/readyz"].status_code == 503
    assert "SLUICE_EMBEDDER" in replies["/ops/config"].text
    assert [path for path, reply in replies.items() if "Hush" in reply.text] == []


@CI_ONLY
@pytest.mark.parametrize(("name", "value"), _CASES, ids=[f"{name} {value}" for name, value in _CASES])
def test_no_output_has_a_secret_of_the_settings(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"SLUICE_{name}", value)
    log, said = StringIO(), list[str]()

    for command in (["doctor", "--json"], ["config", "show", "--json"]):
        with pytest.raises(SystemExit):
            main(command)
    configure_logging("json", "debug", stream=log)
    for start in (_settings, _log, _store, _embedder, _models, _blobs, _reranker):
        try:
            start()
        except (ConfigurationError, Unavailable) as error:
            said.append(str(error))
            structlog.get_logger().exception("not_started", reason=str(error))

    output = "".join((*capfd.readouterr(), log.getvalue(), *said))
    assert "SLUICE_" in output
    assert "Hush" not in output


def _settings() -> None:
    load_settings()


def _log() -> None:
    open_log(load_settings().log, Path("data"))


def _store() -> None:
    open_store(load_settings())


def _embedder() -> None:
    settings = load_settings()
    open_embedder(settings.embedder, settings.openai_api_key)


def _models() -> None:
    settings = load_settings()
    asyncio.run(open_models(settings.chat, openai_api_key=settings.openai_api_key))


def _blobs() -> None:
    open_blobs(load_settings().blobs, Path("data"))


def _reranker() -> None:
    rerank_address("SLUICE_RERANK", load_settings().rerank)
