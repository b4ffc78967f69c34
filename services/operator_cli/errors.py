"""How a command fails: one sentence on stderr, and the exit code."""

import sys
from typing import NoReturn

from shared.errors import masked


class CommandError(Exception):
    """A command failed: one sentence for the terminal, and the exit code."""

    exit_code = 1

    def __init__(self, sentence: str) -> None:
        super().__init__(masked(sentence))


class RequestRefused(CommandError):  # noqa: N818 - reads as what happened to the request
    """The server refused one request; others may succeed. Sentence, code and document are as the server sent them."""

    def __init__(self, sentence: str, code: str = "", document_id: str | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.document_id = document_id


class Forbidden(RequestRefused):
    """The key may not send this request."""


class ServerAway(CommandError):  # noqa: N818 - reads as where the server is
    """No Sluice answered at the address."""

    exit_code = 2


class Misuse(CommandError):  # noqa: N818 - as above
    """The command's options contradict each other or are incomplete."""

    exit_code = 2


def remark(sentence: str) -> None:
    """Print the sentence to stderr."""
    print(f"sluice: {sentence}", file=sys.stderr)


def fail(sentence: str, code: int) -> NoReturn:
    """Print the sentence to stderr and exit with the code."""
    remark(sentence)
    sys.exit(code)
