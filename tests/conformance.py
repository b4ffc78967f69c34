"""Whether replies are what `/openapi.json` says. Every client of the integration tests checks each of its replies."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import httpx
import jsonschema_rs
from litestar import Litestar
from litestar.routes import HTTPRoute

from services.query_api.http.openapi import described


class Conformance:
    """Checks replies against one description."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        # A path without parameters goes before one with them, as in the router.
        paths: list[str] = sorted(spec["paths"], key=lambda path: ("{" in path, path))
        self._paths = [(re.compile(re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(path))), path) for path in paths]
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    @staticmethod
    def of(app: Litestar) -> "Conformance":
        """Return the check of the app's own description, which is made once for all apps of the same routes."""
        routes = frozenset(
            (route.path_format, method, str(handler))
            for route in app.routes
            if isinstance(route, HTTPRoute)
            for method, (handler, _) in route.route_handler_map.items()
        )
        if routes not in _MADE:
            _MADE[routes] = Conformance(described(app))
        return _MADE[routes]

    async def check_reply(self, reply: httpx.Response) -> None:
        """Read and check a reply; fail by naming what is not declared. Streams are not read.

        A 500 is never declared, and a test that provokes one knows it.
        """
        if reply.status_code == 500:
            return
        kind = _essence(reply.headers.get("content-type", ""))
        if kind not in ("text/event-stream", "application/x-ndjson"):
            await reply.aread()
        self.check(reply.request.method, reply.request.url.path, reply)

    def check(self, method: str, path: str, reply: httpx.Response) -> None:
        """Fail if the reply is not what the description says of the route."""
        template = self._template(path)
        operation = self._spec["paths"].get(template, {}).get(method.lower())
        if operation is None:
            return  # a page of the console, or a 404 or 405 of no route
        told = f"{method} {path}: {reply.status_code}"
        declared = operation["responses"].get(str(reply.status_code))
        assert declared is not None, f"{told} is not declared: {_start(reply)}"
        where = declared.get("$ref", f"#/paths/{_escaped(template)}/{method.lower()}/responses/{reply.status_code}")
        declared = self._resolved(declared)
        for name, header in declared.get("headers", {}).items():
            assert not self._resolved(header).get("required") or name in reply.headers, f"{told} without {name}"
        if "content" not in declared:
            assert not reply.content, f"{told} has content: {_start(reply)}"
            return
        kind = reply.headers.get("content-type", "")
        found = _media_type(kind, declared["content"])
        assert found is not None, f"{told}: {kind} is not declared, only {', '.join(declared['content'])}"
        if _essence(found).endswith(("/json", "+json")):
            error = self._validator(f"{where}/content/{_escaped(found)}/schema").iter_errors(reply.json())
            said = [f"{'.'.join(map(str, each.instance_path))}: {each.message}" for each in error]
            assert not said, f"{told}: {said[:3]}"

    def _template(self, path: str) -> str:
        for candidate in (path, path.removeprefix("/api")):
            for pattern, template in self._paths:
                if pattern.fullmatch(candidate):
                    return template
        return ""

    def _resolved(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        reference = part.get("$ref")
        if reference is None:
            return part
        _, _, group, name = reference.split("/")
        found: Mapping[str, Any] = self._spec["components"][group][name]
        return found

    def _validator(self, pointer: str) -> jsonschema_rs.Validator:
        if pointer not in self._validators:
            self._validators[pointer] = jsonschema_rs.Draft202012Validator({"$ref": pointer, **self._spec})
        return self._validators[pointer]


_MADE: dict[frozenset[tuple[str, str, str]], Conformance] = {}  # by path, method and handler of their routes


def _media_type(given: str, declared: Mapping[str, Any]) -> str | None:
    return next((each for each in declared if each == given or fnmatchcase(_essence(given), _essence(each))), None)


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")


def _start(reply: httpx.Response) -> str:
    return str(reply.text)[:300] if reply.is_closed else ""
