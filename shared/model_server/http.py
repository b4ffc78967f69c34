"""What servers of models have in common, whoever made them: their ways to fail, and how they say 'too long'."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx
import msgspec

from shared.errors import Unavailable

CONNECT_S: Final = 5.0

# Not the text's fault, nor anything's that was asked: the server, or the way to it, is busy or away.
_BUSY: Final = frozenset({408, 429, 502, 503, 504})
# Ollama: "the input length exceeds the context length"; vLLM, OpenAI: "This model's maximum context length is 512
# tokens. However, …", "max 300000 tokens per request"; llama.cpp: "input is too large to process", with status 500;
# text-embeddings-inference: "`inputs` must have less than 512 tokens".
_INPUT_TOO_LONG = r"(?:input|prompt|text|sequence)\b.*\btoo (?:long|large)"
_TOO_LONG: Final = {
    400: re.compile(
        rf"exceed\w*\b.*\b(?:context|tokens)|context[ _](?:length|size|window)|{_INPUT_TOO_LONG}"
        r"|(?:less than|max\w*|at most) \d+ tokens",
        re.IGNORECASE | re.DOTALL,
    ),
    500: re.compile(_INPUT_TOO_LONG, re.IGNORECASE | re.DOTALL),
}
_TOO_LONG[422] = _TOO_LONG[400]


# A server that stumbles over one text says one of these, or gives a damaged vector. Others, such as 401, 403, 404 and
# 405, are never a text's fault.
_PERHAPS_THE_TEXT: Final = frozenset({None, 400, 422, 500})


class TooLong(Exception):  # noqa: N818 - reads as what the server said
    """The server takes less than was sent. Adapters catch it; it never reaches their callers."""


class BadAnswer(Unavailable):
    """The server works, and answered something else than what was asked for, perhaps because of one text of many.

    `status` is HTTP's, or None where the answer looked well and wasn't. `perhaps_the_text`: one of the texts may be
    the reason, and not the server.
    """

    def __init__(self, sentence: str, status: int | None = None, *, perhaps_the_text: bool = True) -> None:
        super().__init__(sentence)
        self.status = status
        self.perhaps_the_text = perhaps_the_text and status in _PERHAPS_THE_TEXT


def refusal(server: str, status: int, reason: str) -> Exception:
    """Return what an answer of an error status means: TooLong, BadAnswer, or Unavailable where nobody is at fault."""
    sentence = f"{server} answered {status}: {short(reason)}"
    if status == 413 or (status in _TOO_LONG and _TOO_LONG[status].search(reason)):
        return TooLong(sentence)
    return Unavailable(sentence) if status in _BUSY else BadAnswer(sentence, status)


@contextmanager
def transport_named(server: str) -> Iterator[None]:
    """Turn what HTTP and a body's reader raise into `Unavailable`, with a sentence that begins with `server`."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException) as error:
        raise Unavailable(f"{server} gave no answer in time") from error
    except (ConnectionError, httpx.HTTPError) as error:
        raise Unavailable(f"{server} can't be reached: {short(error)}") from error
    # A body that is no JSON, no object, or has other fields.
    except (ValueError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise BadAnswer(f"{server} answered nonsense: {short(error)}") from error


def short(reason: object) -> str:
    """Return a reason on one line, at most 200 characters of it."""
    return " ".join(str(reason).split())[:200] or (
        "no reason given" if isinstance(reason, str) else type(reason).__name__
    )
