"""When the Python client sends a request again, and that it stands on nothing of ours."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sluice_client import Sluice, SluiceError
from sluice_client.errors import SluiceUnreachableError

PACKAGE = Path(__file__).resolve().parents[3] / "clients/python"
DOCUMENT = {"documentId": "d", "source": "s", "path": "p", "status": "created", "state": "ready"}
SHOWN = DOCUMENT | {"version": 1, "stateVersion": 1}


def client(replies: Iterator[httpx.Response | Exception], patience_s: float = 30) -> tuple[Sluice, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return Sluice("http://s", patience_s=patience_s, http=httpx.Client(transport=httpx.MockTransport(answer))), seen


def busy(status: int = 503, after: str = "0") -> httpx.Response:
    return httpx.Response(status, json={"detail": "come again", "code": "BUSY"}, headers={"Retry-After": after})


def test_it_comes_again_as_the_server_says() -> None:
    sluice, seen = client(iter([busy(429), busy(503), httpx.Response(200, json=SHOWN)]))

    assert sluice.document("d").document_id == "d"
    assert len(seen) == 3


def test_a_broken_connection_is_tried_again() -> None:
    sluice, seen = client(iter([httpx.ConnectError("refused"), httpx.Response(200, json=SHOWN)]))

    assert sluice.document("d").state == "ready"
    assert len(seen) == 2


def test_patience_ends_with_the_servers_own_sentence() -> None:
    sluice, seen = client(iter([busy(after="60")]), patience_s=1)

    with pytest.raises(SluiceUnreachableError, match="come again") as error:
        sluice.document("d")

    assert (error.value.status, error.value.code, len(seen)) == (503, "BUSY", 1)


@pytest.mark.parametrize("status", [400, 401, 404, 409, 413, 422, 500])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    sluice, seen = client(iter([httpx.Response(status, json={"detail": "no", "code": "NO"})]))

    with pytest.raises(SluiceError, match="no"):
        sluice.document("d")

    assert len(seen) == 1


def test_a_reply_that_is_late_is_not_asked_for_twice() -> None:
    sluice, seen = client(iter([httpx.ReadTimeout("late")]))

    with pytest.raises(SluiceUnreachableError, match="does not reply"):
        sluice.ask("What?")

    assert len(seen) == 1


def test_the_package_imports_only_what_it_declares() -> None:
    declared = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [each.partition(">")[0] for each in declared["dependencies"]] == ["httpx", "msgspec"]
    adapters = {"langchain.py": {"langchain_core", "pydantic"}, "llama_index.py": {"llama_index"}}

    for file in (PACKAGE / "sluice_client").glob("*.py"):
        allowed = {"httpx", "msgspec", "sluice_client"} | adapters.get(file.name, set())
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.partition(".")[0]
                assert top in allowed or top in sys.stdlib_module_names, f"{file.name} imports {name}"
