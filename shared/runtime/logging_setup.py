"""Logs: one JSON object a line on stderr, or readable lines on a terminal; ours and the libraries' alike.

A line may contain names, numbers, states and reasons. Secrets are masked everywhere. An exception is logged with its
type, shortened message and call locations, but without source lines and local variables, which contain user data.
"""

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from itertools import islice
from socket import gethostname
from traceback import walk_tb
from typing import Any, Final, Literal, TextIO
from urllib.parse import quote

import structlog

from shared.errors import masked

LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]
EventDict = MutableMapping[str, Any]

MASK: Final = "[redacted]"
MESSAGE_LIMIT: Final = 200  # characters of an exception's message
FRAME_LIMIT: Final = 40  # innermost frames of each exception
CAUSE_LIMIT: Final = 8  # exceptions of one chain

# At INFO these libraries repeat what our events say, or log every record and request.
QUIET: Final = (
    "aiokafka",
    "asyncio",
    "docker",
    "faststream",
    "htmldate",
    "httpcore",
    "httpx",
    "litestar",
    "markdown_it",
    "pypdf",
    "sluice.log.broker",  # FastStream's messages, on the logger that shared.log gives it
    "trafilatura",
    "urllib3",
    "uvicorn",
)

_SECRET_NAME = re.compile(
    r"(?:.*[^a-z])?(?:authorization|api[-_ ]?keys?|access[-_]?token|secret|password|cookie)", re.IGNORECASE
)
_SECRET_TEXT = re.compile(
    r"(\b(?:bearer|basic)\s+|(?<![a-z])api[-_]?keys?[\"']?\s*[=:]\s*[\"']?)[^\s\"'&]+",
    re.IGNORECASE,
)


def configure_logging(
    log_format: LogFormat = "auto",
    level: LogLevel = "info",
    *,
    secrets: Iterable[str] = (),
    service: str = "",
    stream: TextIO | None = None,
) -> None:
    """Send structlog's and the standard library's events to `stream` (stderr), one line each.

    `auto` is `console` where the stream is a terminal, else `json`. Each of `secrets` is masked wherever it appears.
    With `service`, each line of JSON has it, and the machine's name and the process as `instance`.
    Calling it again replaces what was set before.
    """
    stream = stream or sys.stderr
    on_terminal = stream.isatty()
    readable = log_format == "console" or (log_format == "auto" and on_terminal)
    chain: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        brief_exception,
        Redact(secrets),
    ]
    renderer: structlog.typing.Processor
    if readable:
        renderer = structlog.dev.ConsoleRenderer(
            colors=on_terminal, timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
        )
    else:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
        if service:
            process = {"service": service, "instance": f"{gethostname()}/{os.getpid()}"}
            chain.append(lambda _logger, _method, event: {**process, **event})

    handler = logging.StreamHandler(stream)
    handler.addFilter(RateFilter())  # in an outage, each client complains ten times a second
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=chain,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    for name in QUIET:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *chain,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,  # loggers are made at import, before this is called
    )


class RateFilter(logging.Filter):
    """Passes each kind of warning or error of aiokafka once in `every_s` seconds, with the number of those dropped."""

    def __init__(self, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s = every_s
        self._clock = clock
        # By logger and message: when one was passed last, and how many were dropped since.
        self._last: dict[tuple[str, object], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record."""
        if record.levelno < logging.WARNING or not record.name.startswith("aiokafka"):
            return True
        what = (record.name, record.msg)
        now = self._clock()
        when, held_back = self._last.get(what, (float("-inf"), 0))
        if now - when < self._every_s:
            self._last[what] = (when, held_back + 1)
            return False
        if held_back:
            record.msg = f"{record.getMessage()} (and {held_back} more like it)"
            record.args = None
        self._last[what] = (now, 0)
        return True


class Redact:
    """Masks secrets: fields with a secret's name, credentials in texts and URLs, and the given values."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Longest first: if one secret is a prefix of another, the longer one must be masked completely.
        values = {form for secret in secrets if secret for form in (secret, quote(secret, safe=""))}
        known = sorted(values, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        """Return the event without secrets."""
        for name, value in event.items():
            event[name] = value if name.startswith("_") else self._of(name, value)
        return event

    def _of(self, name: str, value: Any) -> Any:
        if _SECRET_NAME.fullmatch(name) and value is not None:
            return MASK
        if isinstance(value, str):
            hidden = masked(_SECRET_TEXT.sub(rf"\1{MASK}", value))
            return self._known.sub(MASK, hidden) if self._known else hidden
        if isinstance(value, dict):
            return {key: self._of(str(key), each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._of("", each) for each in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return self._of("", str(value) if not isinstance(value, bytes) else f"<{len(value)} bytes>")


def brief_exception(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Return the event with `exc_info` replaced by `exception`: type, short message and locations, newest call last."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exception"] = "\n".join(_told(error))
    return event


def _told(error: BaseException) -> Sequence[str]:
    lines: list[str] = []
    for number, each in enumerate(islice(_chain(error), CAUSE_LIMIT)):
        message = str(each)
        short = message if len(message) <= MESSAGE_LIMIT else message[:MESSAGE_LIMIT] + "…"
        lines.append(f"{'from ' if number else ''}{type(each).__qualname__}: {short}")
        places = [(frame.f_code, line) for frame, line in walk_tb(each.__traceback__)][-FRAME_LIMIT:]
        lines += [f"  {code.co_filename}:{line} in {code.co_qualname}" for code, line in places]
        lines += getattr(each, "__notes__", ())
    return lines


def _chain(error: BaseException) -> Iterable[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        if each.__cause__ is not None:
            waiting.append(each.__cause__)
        elif each.__context__ is not None and not each.__suppress_context__:
            waiting.append(each.__context__)
