"""`sluice mcp`: sends an agent's messages from stdin to the server's `/mcp`, and writes the replies to stdout.

The protocol's library isn't needed here. In the stateless protocol (2026-07-28), each message names its version; in
older ones, `initialize` negotiates it. Over HTTP, a header must name it in both cases.
"""

import base64
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final

from services.operator_cli.errors import CommandError

if TYPE_CHECKING:
    from services.operator_cli.client import Client

AT_ONCE: Final = 8
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PARSE_ERROR, _INTERNAL_ERROR = -32700, -32603
_PLAIN: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def pipe(client: "Client", lines: IO[bytes], out: IO[bytes]) -> None:
    """Answer the message on each line, several concurrently, until the lines end."""
    writing, agreed = Lock(), None  # the version negotiated by `initialize`

    def write(answer: bytes) -> None:
        with writing:
            out.write(answer.replace(b"\n", b" ").strip() + b"\n")
            out.flush()

    def answer(line: bytes, message: Mapping[str, Any]) -> bytes:
        try:
            found = client.mcp(line, headers_of(message, agreed))
        except CommandError as error:
            found = _error(message.get("id"), _INTERNAL_ERROR, str(error))
        if found and "id" in message:
            write(found)
        return found

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for line in filter(bytes.strip, lines):
            try:
                message = json.loads(line)
            except ValueError as error:
                write(_error(None, _PARSE_ERROR, f"the line is no JSON: {error}"))
                continue
            if isinstance(message, dict) and message.get("method") == "initialize":
                found = answer(line, message)  # later messages need the version
                agreed = (json.loads(found or b"{}").get("result") or {}).get("protocolVersion")
            else:
                pool.submit(answer, line, message if isinstance(message, dict) else {})


def headers_of(message: Mapping[str, Any], agreed: str | None) -> dict[str, str]:
    """Return the message's HTTP headers. `agreed` is the version of the handshake, None without a handshake."""
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    method = message.get("method")
    if not isinstance(version, str) or not isinstance(method, str):
        return {"MCP-Protocol-Version": agreed} if agreed else {}
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    name = params.get(_NAMED_BY.get(method, ""))
    if isinstance(name, str):
        encoded = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
        headers["Mcp-Name"] = name if _PLAIN.fullmatch(name) else encoded
    return headers


def _error(id_: Any, code: int, sentence: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": sentence}}).encode()
