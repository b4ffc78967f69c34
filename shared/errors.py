"""The expected errors of a step: the input is at fault, or a service is away. Any other exception is a bug.

Their sentences hold no passwords: they reach logs, dead letters and replies.
"""

import re

_OPTION = re.compile(r"([?&][a-z_]*(?:password|secret|token|key)=)[^&\s,]*", re.IGNORECASE)


def masked(text: str) -> str:
    """Return a text with `***` for the user and password of each address, and for secrets among its options."""
    text = re.sub(r"\S+", lambda word: _without_users(word[0]), text) if "@" in text else text
    return _OPTION.sub(r"\1***", text)


def _without_users(word: str) -> str:
    first, *rest = word.split("://")
    if rest:
        return "://".join([first, *map(_without_user, rest)])
    name, equals, value = first.rpartition("=")
    return f"{name}{equals}{_without_user(value)}" if ":" in value.partition("@")[0] else word


def _without_user(address: str) -> str:
    """Return `user:password@host/path` without the part before the host. A slash may stand in a wrong password."""
    authority = address.partition("/")[0]
    user, at, host = (address if ":" in authority else authority).rpartition("@")
    return f"***{address[len(user) :]}" if at and not host.startswith("…") else address  # …: an example


class PipelineError(Exception):
    """An expected failure: `sentence` is for people, `code` for programs."""

    def __init__(self, sentence: str, code: str) -> None:
        self.sentence = masked(sentence)
        super().__init__(self.sentence)
        self.code = code


class Rejected(PipelineError):  # noqa: N818 - reads as what happened to the input
    """The input is at fault: dead-letter the record, commit, continue."""

    def __init__(self, sentence: str, code: str = "invalid") -> None:
        super().__init__(sentence, code)


class Unavailable(PipelineError):  # noqa: N818 - reads as what happened to the world
    """The log, store, embedder or blob service is away: retry until it is back, commit nothing."""

    def __init__(self, sentence: str, code: str = "unavailable") -> None:
        super().__init__(sentence, code)


class RetryLater(Unavailable):
    """The input is probably at fault: retry it a few times without holding up other records.

    `after_s` is the pause before the next try. After `tries` tries the input is rejected with this sentence and
    code. If `tries` is None, the code that raises this must raise Rejected to end the retries.
    """

    def __init__(self, sentence: str, code: str, *, after_s: float, tries: int | None = None) -> None:
        super().__init__(sentence, code)
        self.after_s = after_s
        self.tries = tries
